"""Packed half-precision weights: near the reference, rows independent to the bit, and what takes their place."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from engine.model.moe import Experts
from engine.quant import half
from engine.quant.half import (
    MOST_SINGLE_ROWS,
    DoubleLinear,
    HalfExperts,
    HalfLinear,
    pack,
    steady_linear,
)

needs_kernel = pytest.mark.skipif(not half.is_supported(), reason="x86 only")


def random_linear(inputs: int, outputs: int, has_bias: bool) -> nn.Linear:
    torch.manual_seed(inputs + outputs)
    return nn.Linear(inputs, outputs, bias=has_bias)


@needs_kernel
@pytest.mark.parametrize(("inputs", "outputs"), [(256, 768), (384, 1152), (1152, 384), (32, 17), (96, 1)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_fast_path_equals_reference(inputs: int, outputs: int, has_bias: bool) -> None:
    linear, x = random_linear(inputs, outputs, has_bias), torch.randn(3, 5, inputs)
    expected = F.linear(x, linear.weight.half().float(), linear.bias)
    torch.testing.assert_close(HalfLinear(linear)(x), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("inputs", [256, 384, 1152])
def test_a_row_computes_the_same_whatever_lies_beside_it(inputs: int) -> None:
    layer, x = steady_linear(random_linear(inputs, 256, True)), torch.randn(9, inputs)
    together = layer(x)
    for count in (1, 2, 3, 5, 8):
        for first in range(9 - count):
            assert torch.equal(layer(x[first : first + count]), together[first : first + count]), (first, count)


def test_without_the_kernel_double_precision_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half, "is_supported", lambda: False)
    linear, x = random_linear(256, 64, True), torch.randn(2, 256)
    layer = steady_linear(linear)
    assert isinstance(layer, DoubleLinear)
    torch.testing.assert_close(layer(x), linear(x), atol=1e-5, rtol=1e-5)


@needs_kernel
def test_bfloat16_weights_lose_nothing() -> None:
    weight = torch.randn(64, 256).bfloat16()
    assert torch.equal(weight.half().float(), weight.float())
    torch.testing.assert_close(
        half.half_linear(torch.eye(256), pack(weight)), weight.float().T.contiguous(), atol=0, rtol=0
    )


@needs_kernel
def test_packed_experts_equal_plain_ones() -> None:
    torch.manual_seed(0)
    plain = Experts(4, 32, 16)
    for parameter in plain.parameters():
        nn.init.normal_(parameter, std=0.2)
    packed = HalfExperts(plain)
    for rows in (1, 5, MOST_SINGLE_ROWS + 5):
        x, weights = torch.randn(rows, 32), torch.rand(rows, 2)
        chosen = torch.stack([torch.randperm(4)[:2] for _ in range(rows)])
        with torch.inference_mode():
            together = packed(x, chosen, weights)
            torch.testing.assert_close(together, plain(x, chosen, weights), atol=4e-3, rtol=4e-3)
            for i in range(rows):
                alone = packed(x[i : i + 1], chosen[i : i + 1], weights[i : i + 1])[0]
                if rows <= MOST_SINGLE_ROWS:
                    assert torch.equal(alone, together[i])
                else:
                    torch.testing.assert_close(alone, together[i], atol=1e-6, rtol=1e-6)
