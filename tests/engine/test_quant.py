"""Quantised matrices: what codes stand for; fast products against the reference, a decoder against the exact one."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.cache.decoder import DecoderState
from engine.errors import ConfigError
from engine.model.decoder import Decoder
from engine.model.linear import Linear
from engine.quant import rounding
from engine.quant.integer import Grid, IntegerMatrix, pack_nibbles, round_to_nearest, unpack_nibbles
from engine.quant.modules import QuantisedExperts, QuantisedLinear, prepare
from engine.quant.products import (
    MOST_PACKED_ROWS,
    GainProduct,
    Int4Product,
    Int8Product,
    LargeInt8Product,
    ReferenceProduct,
    multiplies_bytes,
    product,
)
from engine.quant.rounding import to_nearest
from engine.quant.scheme import KEPT, PartScheme, Scheme
from engine.quant.shrink import shrink
from engine.weights import load_decoder

GOLDEN = Path(__file__).parents[1] / "golden" / "drama3-tiny"
EIGHT, FOUR = PartScheme(8), PartScheme(4, 64)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def exact() -> Decoder:
    return load_decoder(GOLDEN / "checkpoint-bf16")[0]


def quantised_as(scheme: Scheme, is_fast: bool = True) -> Decoder:
    decoder = load_decoder(GOLDEN / "checkpoint-bf16")[0]
    shrink(decoder, scheme)
    if is_fast:
        prepare(decoder)
    return decoder


@pytest.fixture(scope="module")
def eight() -> Decoder:
    return quantised_as(Scheme(EIGHT, EIGHT, EIGHT, EIGHT))


@pytest.fixture(scope="module")
def rows() -> Tensor:
    return load_file(GOLDEN / "inputs.safetensors")["prompt_frames"].long()[None]


def greedy(logits: Tensor, codebook: int) -> Tensor:
    return logits.argmax(-1)


# Numbers


def test_nibbles_come_back() -> None:
    codes = torch.randint(0, 16, (3, 5, 64), dtype=torch.uint8)
    packed = pack_nibbles(codes)
    assert packed.shape == (3, 5, 32)
    assert int(packed[0, 0, 0]) == int(codes[0, 0, 0]) + 16 * int(codes[0, 0, 1])
    assert torch.equal(unpack_nibbles(packed), codes)


def test_eight_bits_are_within_a_step() -> None:
    weight = torch.randn(40, 64) * torch.logspace(-6, 3, 40)[:, None]
    matrix = round_to_nearest(weight, 8, 64)
    assert matrix.bits == 8
    assert matrix.shape == (40, 64)
    # A scale is rounded to 8 bits, so the largest weight of a row may lie up to half a step further out.
    error = (matrix.dequantise() - weight).abs() / matrix.scales.float()
    assert float(error.max()) <= 1.0
    assert float(error.median()) < 0.3


@pytest.mark.parametrize("group", [32, 64, 128])
def test_four_bits_are_within_a_step_of_their_group(group: int) -> None:
    weight = torch.randn(16, 256) * torch.logspace(-3, 1, 256)
    matrix = round_to_nearest(weight, 4, group)
    assert matrix.bits == 4
    assert matrix.group == group
    assert matrix.nbytes == 16 * (128 + 4 * 256 // group)
    step = matrix.scales.float().repeat_interleave(group, 1)
    assert float(((matrix.dequantise() - weight).abs() / step).max()) <= 1.0
    assert float(((matrix.dequantise() - weight).abs() / step).median()) < 0.3


def test_groups_that_lie_on_one_side_of_zero_use_all_codes() -> None:
    weight = torch.rand(4, 64) + 10
    matrix = round_to_nearest(weight, 4, 64)
    assert len(set(unpack_nibbles(matrix.codes).flatten().tolist())) >= 14
    assert float((matrix.dequantise() - weight).abs().max()) < 0.11


@pytest.mark.parametrize(("bits", "group"), [(8, 64), (4, 32)])
def test_values_on_the_grid_are_exact(bits: int, group: int) -> None:
    grid = Grid.of(torch.randn(8, 64), bits, group)
    codes = torch.randint(0, 16, (8, 64)).float()
    values = grid.values(codes)
    assert torch.equal(grid.codes(values), codes)
    assert torch.equal(grid.pack(codes).dequantise(), values)


@pytest.mark.parametrize(("bits", "group"), [(8, 64), (4, 32)])
def test_zeros_stay_zeros(bits: int, group: int) -> None:
    assert not round_to_nearest(torch.zeros(2, 64), bits, group).dequantise().abs().gt(1e-10).any()


@pytest.mark.parametrize(("bits", "group"), [(8, 64), (4, 32)])
def test_large_matrices_are_quantised_piece_by_piece(bits: int, group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    weight, part = torch.randn(10, 64), PartScheme(bits, 32)
    whole = round_to_nearest(weight, bits, group)
    monkeypatch.setattr(rounding, "MOST_OUTPUTS", 4)
    pieces = to_nearest("weight", weight, part)
    assert all(torch.equal(pieces.tensors()[name], tensor) for name, tensor in whole.tensors().items())


def test_a_scale_that_is_no_number_is_a_problem() -> None:
    matrix = round_to_nearest(torch.randn(4, 64), 4, 32)
    assert matrix.problem() is None
    for name in ("scales", "offsets"):
        broken = {**matrix.tensors(), name: torch.full_like(matrix.scales, torch.nan)}
        assert name in (IntegerMatrix(**broken).problem() or "")


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 0.0, -1.0])
def test_a_gain_that_is_not_positive_is_a_problem(value: float) -> None:
    gains = torch.ones(64, dtype=torch.bfloat16)
    matrix = replace(round_to_nearest(torch.randn(4, 64), 4, 32), gains=gains)
    assert matrix.problem() is None
    gains[5] = value
    assert "gains" in (matrix.problem() or "")


# Products


@pytest.mark.parametrize("count", [1, 2, 7, MOST_PACKED_ROWS, MOST_PACKED_ROWS + 1, 90])
@pytest.mark.parametrize(("bits", "group"), [(8, 192), (4, 32), (4, 64)])
@pytest.mark.parametrize("outputs", [48, 65])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fast_products_equal_the_reference(count: int, bits: int, group: int, outputs: int, dtype: torch.dtype) -> None:
    matrix = round_to_nearest(torch.randn(outputs, 192), bits, group)
    x = torch.randn(2, count, 192).to(torch.bfloat16)[:1]
    fast = product(matrix)
    assert isinstance(fast, Int8Product if bits == 8 else Int4Product)
    out, expected = fast(x.to(dtype)), ReferenceProduct(matrix)(x.float())
    assert out.dtype == dtype
    assert out.shape == (1, count, outputs)
    # The result is rounded to bfloat16, an eighth of a thousandth of the largest; so are weights of many rows.
    torch.testing.assert_close(out.float(), expected, atol=4e-3 * float(expected.std()), rtol=1.2e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [1, 90])
def test_gains_meet_the_input(count: int, dtype: torch.dtype) -> None:
    gains = torch.logspace(-0.5, 0.5, 192)[torch.randperm(192)].bfloat16()
    matrix = replace(round_to_nearest(torch.randn(65, 192) / gains.float(), 4, 32), gains=gains)
    x = torch.randn(1, count, 192).to(torch.bfloat16)
    fast = product(matrix)
    assert isinstance(fast, GainProduct)
    out, expected = fast(x.to(dtype)), ReferenceProduct(matrix)(x.float())
    plain = ReferenceProduct(replace(matrix, gains=None))(x.float() * gains.float())
    torch.testing.assert_close(expected, plain, atol=1e-3, rtol=1e-4)
    assert out.dtype == dtype
    # Behind the gains the input is rounded to bfloat16, too.
    torch.testing.assert_close(out.float(), expected, atol=1e-2 * float(expected.std()), rtol=1.2e-2)
    assert fast.nbytes == product(replace(matrix, gains=None)).nbytes + 4 * 192


@pytest.mark.skipif(not multiplies_bytes(), reason="this processor has no sums of byte products")
@pytest.mark.parametrize("count", [1, 3, 40])
def test_large_matrices_keep_float32_activations(count: int) -> None:
    matrix = round_to_nearest(torch.randn(65, 192), 8, 192)
    fast = LargeInt8Product(matrix)
    x = torch.randn(count, 192) * torch.logspace(-6, 5, count)[:, None]
    x[-1] = 0
    out, expected = fast(x), ReferenceProduct(matrix)(x)
    scale = expected.std(-1, keepdim=True).clamp(min=1e-20)
    assert float(((out - expected) / scale).abs().max()) < 5e-4
    assert all(torch.equal(fast(x[i : i + 1])[0], out[i]) for i in range(count))
    assert fast(x.bfloat16()).dtype == torch.bfloat16


@pytest.mark.skipif(not multiplies_bytes(), reason="this processor has no sums of byte products")
def test_large_matrices_are_those_that_take_long_to_read() -> None:
    assert isinstance(product(round_to_nearest(torch.randn(1024, 1024), 8, 1024)), LargeInt8Product)


@pytest.mark.parametrize(("bits", "group"), [(8, 192), (4, 64)])
def test_a_row_does_not_depend_on_its_neighbours(bits: int, group: int) -> None:
    fast = product(round_to_nearest(torch.randn(48, 192), bits, group))
    x = torch.randn(MOST_PACKED_ROWS, 192)
    together = fast(x)
    assert all(torch.equal(fast(x[i : i + 1])[0], together[i]) for i in range(len(x)))


def test_rows_the_int8_kernel_would_read_beyond_use_the_reference() -> None:
    assert isinstance(product(round_to_nearest(torch.randn(48, 40), 8, 40)), ReferenceProduct)


# Schemes


def test_a_scheme_survives_its_file_form() -> None:
    scheme = Scheme(PartScheme(4, 32, "gptq"), EIGHT, KEPT, PartScheme(4, 64, "awq"))
    assert Scheme.from_dict(scheme.to_dict()) == scheme


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"attention": {"bits": 4}}, "attention"),
        ({"dense": {"bits": 3}}, "dense: bits 3"),
        ({"dense": {"bits": 4, "group_size": 48}}, "group 48"),
        ({"dense": {"bits": 4, "method": "magic"}}, "magic"),
        ({"dense": 4}, "dense must be an object"),
        ({"dense": {"group_size": 64}}, "dense must be an object"),
        ({"dense": {"bits": [4]}}, "dense: bits"),
    ],
)
def test_a_scheme_that_makes_no_sense_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("[", r"\[")):
        Scheme.from_dict(values)


def test_the_group_is_the_next_one_that_fits() -> None:
    part = PartScheme(4, 128)
    assert [part.group_for("w", inputs) for inputs in (256, 192, 96)] == [128, 64, 32]
    with pytest.raises(ConfigError, match="w has 40 inputs"):
        part.group_for("w", 40)
    assert EIGHT.group_for("w", 40) == 40


# Decoders


def test_what_is_quantised_and_what_is_not(exact: Decoder, eight: Decoder) -> None:
    kinds = {name: type(module) for name, module in eight.named_modules()}
    assert kinds["main_head"] is QuantisedLinear
    assert kinds["tower.heads.0"] is QuantisedLinear
    assert kinds["layers.0.mixer.in_proj"] is QuantisedLinear
    assert kinds["layers.0.mixer.ba_proj"] is Linear
    assert kinds["layers.0.moe.experts"] is QuantisedExperts
    assert kinds["layers.0.moe.shared.down"] is QuantisedLinear
    assert kinds["tower.residual.2.joint_proj"] is QuantisedLinear
    assert isinstance(eight.layers[0].get_parameter("moe.router"), Tensor)
    left = {name for name, module in eight.named_modules() if isinstance(module, Linear)}
    assert left == {name for name in kinds if name.endswith("ba_proj")}


def test_parts_are_chosen_apart() -> None:
    decoder = quantised_as(Scheme(experts=FOUR, heads=EIGHT))
    kinds = {name: type(module) for name, module in decoder.named_modules()}
    assert kinds["layers.1.moe.experts"] is QuantisedExperts
    assert kinds["main_head"] is QuantisedLinear
    assert kinds["layers.1.mixer.in_proj"] is Linear
    assert kinds["tower.shared.0.joint_proj"] is Linear


@torch.inference_mode()
def test_quantised_decoder_stays_close(exact: Decoder, eight: Decoder, rows: Tensor) -> None:
    """Random weights make the hardest case: routers flip. Plain bfloat16 is off by 0.02, and agrees on 92 %."""
    expected, out = (model.prefill(rows, model.allocate(1)) for model in (exact, eight))
    assert float((out - expected).abs().median()) < 0.06 * float(expected.std())
    agreement = (eight.main_logits(out).argmax(-1) == exact.main_logits(expected).argmax(-1)).float().mean()
    assert float(agreement) > 0.88


@torch.inference_mode()
def test_fast_decoder_equals_reference_decoder(rows: Tensor) -> None:
    scheme = Scheme(FOUR, EIGHT, EIGHT, EIGHT)
    slow, fast = quantised_as(scheme, is_fast=False), quantised_as(scheme)
    expected, out = (model.prefill(rows, model.allocate(1)) for model in (slow, fast))
    assert float((out - expected).abs().median()) < 0.03 * float(expected.std())


@torch.inference_mode()
def test_quantised_steps_of_a_batch_equal_each_alone_but_for_rounding(eight: Decoder, rows: Tensor) -> None:
    states, pending = [], []
    for length in (20, 50, 33):
        states.append(eight.allocate(1))
        eight.prefill(rows[:, : length + 1], states[-1])
        pending.append(rows[:, length : length + 1])
    together = eight.backbone(eight.embed(torch.cat(pending)), DecoderState.merge(states))
    for b, (state, row) in enumerate(zip(states, pending, strict=True)):
        alone = eight.backbone(eight.embed(row), state)[0]
        # What rounds to the next bfloat16 differs by 1/256.
        torch.testing.assert_close(alone, together[b], atol=0.05, rtol=0.02)


@torch.inference_mode()
def test_the_reference_of_a_batch_equals_each_alone(rows: Tensor) -> None:
    decoder = quantised_as(Scheme(FOUR, EIGHT, EIGHT, EIGHT), is_fast=False)
    states = [decoder.allocate(1) for _ in range(2)]
    for state, length in zip(states, (20, 33), strict=True):
        decoder.prefill(rows[:, : length + 1], state)
    pending = rows[:, [20, 33]].transpose(0, 1)
    together = decoder.backbone(decoder.embed(pending), DecoderState.merge(states))
    for b, state in enumerate(states):
        alone = decoder.backbone(decoder.embed(pending[b : b + 1]), state)[0]
        torch.testing.assert_close(alone, together[b], atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_quantised_tower_makes_frames(eight: Decoder, exact: Decoder, rows: Tensor) -> None:
    same = []
    for start in range(10, 110, 10):
        frames = []
        for model in (eight, exact):
            state = model.allocate(1)
            hidden = exact.prefill(rows[:, : start + 1], exact.allocate(1))
            model.tower_prefill(rows[:, : start + 1], hidden, state)
            chosen = rows[:, start, 0].clamp(min=model.config.semantic_start_token_id)
            frames.append(model.tower_step(rows[:, start : start + 1], hidden[:, -1:], chosen, state, greedy))
        same.append(frames[0] == frames[1])
    assert float(torch.cat(same).float().mean()) > 0.8
