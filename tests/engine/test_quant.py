"""Weight-only int8: the fast path against the reference, and a quantised decoder against the exact one."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.cache.decoder import DecoderState
from engine.model.decoder import Decoder
from engine.model.linear import Linear
from engine.quant.int8 import (
    MOST_PACKED_ROWS,
    Int8Experts,
    Int8Linear,
    int8_linear,
    int8_linear_reference,
    quantise_int8,
    quantise_rows,
)
from engine.weights import load_decoder, save_decoder

GOLDEN = Path(__file__).parents[1] / "golden" / "drama3-tiny"


@pytest.fixture(scope="module")
def exact() -> Decoder:
    return load_decoder(GOLDEN / "checkpoint-bf16")[0]


@pytest.fixture(scope="module")
def quantised() -> Decoder:
    return quantise_int8(load_decoder(GOLDEN / "checkpoint-bf16")[0])


@pytest.fixture(scope="module")
def rows() -> Tensor:
    return load_file(GOLDEN / "inputs.safetensors")["prompt_frames"].long()[None]


def greedy(logits: Tensor, codebook: int) -> Tensor:
    return logits.argmax(-1)


def test_quantised_rows_are_within_half_a_step() -> None:
    weight = torch.randn(3, 40, 64) * torch.logspace(-6, 3, 40)[:, None]
    packed, scale = quantise_rows(weight)
    assert packed.dtype == torch.int8
    # A scale is rounded to 8 bits, so the largest weight of a row may lie up to half a step further out.
    error = (packed.float() * scale.float()[..., None] - weight).abs() / scale.float()[..., None]
    assert float(error.max()) <= 1.0
    assert float(error.median()) < 0.3
    assert not quantise_rows(torch.zeros(2, 4))[0].any()


@pytest.mark.parametrize("count", [1, 2, 7, MOST_PACKED_ROWS, MOST_PACKED_ROWS + 1, 90])
def test_fast_path_equals_reference(count: int) -> None:
    weight, scale = quantise_rows(torch.randn(48, 96))
    x = torch.randn(count, 96)
    out, expected = int8_linear(x, weight, scale), int8_linear_reference(x, weight, scale)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, expected, atol=2e-2 * float(expected.std()), rtol=1e-2)


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    weight, scale = quantise_rows(torch.randn(48, 96))
    x = torch.randn(MOST_PACKED_ROWS, 96)
    together = int8_linear(x, weight, scale)
    assert all(torch.equal(int8_linear(x[i : i + 1], weight, scale)[0], together[i]) for i in range(len(x)))


def test_what_is_quantised_and_what_is_not(exact: Decoder, quantised: Decoder) -> None:
    kinds = {name: type(module) for name, module in quantised.named_modules()}
    assert kinds["main_head"] is Int8Linear
    assert kinds["layers.0.mixer.in_proj"] is Int8Linear
    assert kinds["layers.0.mixer.ba_proj"] is Linear
    assert kinds["layers.0.moe.experts"] is Int8Experts
    assert kinds["tower.residual.2.joint_proj"] is Int8Linear
    assert isinstance(quantised.layers[0].get_parameter("moe.router"), Tensor)
    size = sum(t.nbytes for t in [*quantised.parameters(), *quantised.buffers()])
    assert size < 0.45 * sum(p.nbytes for p in exact.parameters())


@torch.inference_mode()
def test_quantised_decoder_stays_close(exact: Decoder, quantised: Decoder, rows: Tensor) -> None:
    """Random weights make the hardest case: routers flip. Plain bfloat16 is off by 0.02, and agrees on 92 %."""
    expected, out = (model.prefill(rows, model.allocate(1)) for model in (exact, quantised))
    assert float((out - expected).abs().median()) < 0.06 * float(expected.std())
    logits, exact_logits = quantised.main_logits(out), exact.main_logits(expected)
    agreement = (logits.argmax(-1) == exact_logits.argmax(-1)).float().mean()
    assert float(agreement) > 0.88


@torch.inference_mode()
def test_quantised_steps_of_a_batch_equal_each_alone_but_for_rounding(quantised: Decoder, rows: Tensor) -> None:
    states, pending = [], []
    for length in (20, 50, 33):
        states.append(quantised.allocate(1))
        quantised.prefill(rows[:, : length + 1], states[-1])
        pending.append(rows[:, length : length + 1])
    together = quantised.backbone(quantised.embed(torch.cat(pending)), DecoderState.merge(states))
    for b, (state, row) in enumerate(zip(states, pending, strict=True)):
        alone = quantised.backbone(quantised.embed(row), state)[0]
        # What rounds to the next bfloat16 differs by 1/256.
        torch.testing.assert_close(alone, together[b], atol=0.05, rtol=0.02)


@torch.inference_mode()
def test_quantised_tower_makes_frames(quantised: Decoder, exact: Decoder, rows: Tensor) -> None:
    same = []
    for start in range(10, 110, 10):
        frames = []
        for model in (quantised, exact):
            state = model.allocate(1)
            hidden = exact.prefill(rows[:, : start + 1], exact.allocate(1))
            model.tower_prefill(rows[:, : start + 1], hidden, state)
            chosen = rows[:, start, 0].clamp(min=model.config.semantic_start_token_id)
            frames.append(model.tower_step(rows[:, start : start + 1], hidden[:, -1:], chosen, state, greedy))
        same.append(frames[0] == frames[1])
    assert float(torch.cat(same).float().mean()) > 0.8


def test_a_quantised_decoder_has_no_checkpoint(quantised: Decoder, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="plain"):
        save_decoder(tmp_path, quantised, quantised.config)
