"""Filters, repetition-aware choice and the trailing-click rule against stored cases."""

from collections import deque
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.config import ModelConfig
from engine.core import SamplingParams
from engine.sampler import Sampler, TrailingClick, rank_candidates

Sampling = tuple[dict[str, Any], dict[str, Tensor]]


@pytest.fixture(scope="module")
def sampler(checkpoint: Path) -> Sampler:
    return Sampler(ModelConfig.from_file(checkpoint / "config.json"))


@pytest.mark.parametrize("case", range(12))
def test_filters(sampling: Sampling, case: int) -> None:
    cases, tensors = sampling
    entry = cases["filters"][case]
    logits, expected = tensors[f"{case}.logits"], tensors[f"{case}.probabilities"]
    params = SamplingParams(entry["temperature"], entry["top_p"], entry["top_k"])
    ranked = rank_candidates(logits[None], [params], entry["keep_crossing"])
    probabilities = ranked.probabilities(len(logits))[0]
    assert ranked.kept == (entry["kept"],)
    assert torch.equal(probabilities > 0, expected > 0)
    torch.testing.assert_close(probabilities, expected, atol=1e-6, rtol=1e-5)


def test_filters_of_a_batch_are_those_of_its_rows(sampling: Sampling) -> None:
    cases, tensors = sampling
    for keeps_crossing in (True, False):
        entries = [e for e in cases["filters"] if e["keep_crossing"] == keeps_crossing and e["case"] not in (2, 3, 11)]
        width = 65 if keeps_crossing else 64
        entries = [e for e in entries if len(tensors[f"{e['case']}.logits"]) == width]
        logits = torch.stack([tensors[f"{e['case']}.logits"] for e in entries])
        params = [SamplingParams(e["temperature"], e["top_p"], e["top_k"]) for e in entries]
        ranked = rank_candidates(logits, params, keeps_crossing)
        assert list(ranked.kept) == [e["kept"] for e in entries]


def test_repetition(sampling: Sampling, sampler: Sampler) -> None:
    for case in sampling[0]["ras"]:
        recent = deque(case["window"], maxlen=16)
        is_repetition = sampler.is_repetition(case["first_draw"], recent)
        assert case["second_draw" if is_repetition else "first_draw"] == case["main"]


def test_trailing_click(rules: dict[str, Any]) -> None:
    for case in rules["trailing_semantic_zero"]:
        rule: TrailingClick[int] = TrailingClick()
        heard: list[int] = []
        for token in case["sampled_main_tokens"][: case["frame_cap"]]:
            if token == rules["eos"]:
                rule.end()
                break
            heard += rule.push(token, token - rules["semantic_zero"])
        heard += rule.stop()
        assert heard == case["emitted_main_tokens"]
