"""Prompts, text rules and turns shown again against stored cases, exactly."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.config import ModelConfig
from engine.errors import TextError
from engine.prompt import (
    PromptBuilder,
    Reference,
    load_tokenizer,
    reference_transcript,
    validate_text,
    with_speaker_tag,
)
from engine.recall import Recalled
from engine.streams.base import SpokenTurn


@pytest.fixture(scope="module")
def builder(checkpoint: Path) -> PromptBuilder:
    return PromptBuilder(
        load_tokenizer(checkpoint / "tokenizer.json"), ModelConfig.from_file(checkpoint / "config.json")
    )


def references(case: dict[str, Any], prompts: dict[str, Tensor]) -> list[Reference]:
    name = case["name"]
    return [Reference(text, prompts[f"{name}.reference_codes.{i}"]) for i, text in enumerate(case["references"])]


def test_prompts(builder: PromptBuilder, text_cases: dict[str, Any], prompts: dict[str, Tensor]) -> None:
    for case in text_cases["prompts"]:
        name = case["name"]
        history = [(text, prompts[f"{name}.history_codes.{i}"]) for i, text in enumerate(case["history"])]
        rows = builder.prompt(case["text"], references(case, prompts), history)
        assert torch.equal(rows, prompts[f"{name}.frames"]), name


def test_system_blocks_are_prefixes(
    builder: PromptBuilder, text_cases: dict[str, Any], prompts: dict[str, Tensor]
) -> None:
    for case in text_cases["prompts"]:
        block = builder.system_block(references(case, prompts))
        assert len(block) == case["system_rows"], case["name"]
        assert torch.equal(block, prompts[f"{case['name']}.frames"][: len(block)])


def test_validation(text_cases: dict[str, Any]) -> None:
    for case in text_cases["validate_text"]:
        if case["ok"]:
            validate_text(case["text"])
        else:
            with pytest.raises(TextError):
                validate_text(case["text"])


def test_speaker_tags(text_cases: dict[str, Any]) -> None:
    for case in text_cases["speaker_tag"]:
        assert with_speaker_tag(case["text"]) == case["with_speaker_tag"]
        assert reference_transcript(case["text"]) == case["reference_transcript"]


def test_turns_recalled_are_the_history_of_the_prompt(
    builder: PromptBuilder, text_cases: dict[str, Any], prompts: dict[str, Tensor]
) -> None:
    cases = [case for case in text_cases["prompts"] if case["history"]]
    assert cases
    for case in cases:
        name = case["name"]
        codes = [prompts[f"{name}.history_codes.{i}"].t().tolist() for i in range(len(case["history"]))]
        turns = [
            SpokenTurn(text, tuple(map(tuple, each)), (None,) * (len(each) + 1))
            for text, each in zip(case["history"], codes, strict=True)
        ]
        recalled = Recalled.joined([Recalled.of(turn, builder) for turn in turns])
        assert recalled is not None
        rest = prompts[f"{name}.frames"][case["system_rows"] :]
        assert torch.equal(recalled.rows, rest[: len(recalled.rows)]), name
        assert torch.equal(builder.turn(case["text"]), rest[len(recalled.rows) :]), name
