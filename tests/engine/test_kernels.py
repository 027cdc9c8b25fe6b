"""Triton kernels against the reference, in Triton's interpreter, and their translation for sm_121.

Triton comes with torch where torch was built for a GPU; elsewhere ``pip install --no-deps triton`` brings it.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.model.moe import ExpertMixture
from engine.quant.integer import IntegerMatrix, round_to_nearest
from engine.quant.modules import FewRows, QuantisedExperts, Stack
from engine.quant.products import ReferenceProduct, TritonProduct

ROOT = Path(__file__).parents[2]
SHAPES = [(8, 96, 19), (4, 32, 16), (4, 64, 17), (4, 128, 3)]
"""Bits, group, outputs."""

kernels = pytest.importorskip("engine.quant.kernels", exc_type=ImportError)


def matrix_of(bits: int, group: int, outputs: int) -> IntegerMatrix:
    torch.manual_seed(outputs)
    inputs = group if bits == 8 else 3 * group if group < 128 else 256
    return round_to_nearest(torch.randn(outputs, inputs), bits, group)


def stack_of(bits: int, group: int, shape: tuple[int, int, int]) -> Stack:
    stack = Stack(shape, bits, group)
    for i, weight in enumerate(torch.randn(shape)):
        for name, tensor in round_to_nearest(weight, bits, group).tensors().items():
            stack.matrix(i).tensors()[name].copy_(tensor)
    return stack


def random_gains(*shape: int) -> Tensor:
    return torch.logspace(-0.5, 0.5, torch.Size(shape).numel()).view(shape)[..., torch.randperm(shape[-1])].bfloat16()


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(("bits", "group", "outputs"), SHAPES)
def test_linear_equals_the_reference(bits: int, group: int, outputs: int, rows: int) -> None:
    matrix = matrix_of(bits, group, outputs)
    x = torch.randn(1, rows, matrix.shape[1])
    torch.testing.assert_close(TritonProduct(matrix)(x), ReferenceProduct(matrix)(x), atol=1e-4, rtol=1e-5)


def test_linear_in_bfloat16_rounds_the_result_alone() -> None:
    matrix = matrix_of(4, 64, 48)
    x = torch.randn(2, matrix.shape[1]).to(torch.bfloat16)
    out = TritonProduct(matrix)(x)
    assert out.dtype == torch.bfloat16
    # The interpreter cuts off what a GPU rounds.
    torch.testing.assert_close(out.float(), ReferenceProduct(matrix)(x.float()), atol=1e-5, rtol=2**-7)


def test_many_rows_are_multiplied_with_unpacked_weights() -> None:
    matrix = matrix_of(4, 64, 48)
    x = torch.randn(kernels.MOST_ROWS + 1, matrix.shape[1])
    torch.testing.assert_close(TritonProduct(matrix)(x), ReferenceProduct(matrix)(x))


@pytest.mark.parametrize(("bits", "groups"), [(8, (64, 96)), (4, (32, 32)), (4, (64, 32))])
def test_experts_equal_one_after_the_other(bits: int, groups: tuple[int, int]) -> None:
    torch.manual_seed(bits)
    gate_up, down = stack_of(bits, groups[0], (5, 192, 64)), stack_of(bits, groups[1], (5, 64, 96))
    x, weights = torch.randn(3, 64), torch.rand(3, 2)
    chosen = torch.tensor([[0, 4], [3, 1], [4, 4]])
    expected = ExpertMixture.forward(QuantisedExperts(gate_up, down), x, chosen, weights)
    torch.testing.assert_close(FewRows(gate_up, down)(x, chosen, weights), expected, atol=1e-4, rtol=1e-4)


def test_experts_have_gains_of_their_own() -> None:
    gate_up, down = stack_of(4, 32, (5, 192, 64)), stack_of(4, 32, (5, 64, 96))
    gate_up.gains, down.gains = random_gains(5, 64), random_gains(5, 96)
    x, weights = torch.randn(3, 64), torch.rand(3, 2)
    chosen = torch.tensor([[0, 4], [3, 1], [4, 4]])
    expected = ExpertMixture.forward(QuantisedExperts(gate_up, down), x, chosen, weights)
    out = FewRows(gate_up, down)(x, chosen, weights)
    torch.testing.assert_close(out, expected, atol=1e-4 * float(expected.std()), rtol=1e-4)


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    gate_up, down = stack_of(4, 32, (4, 64, 64)), stack_of(4, 32, (4, 64, 32))
    x, weights, chosen = torch.randn(3, 64), torch.rand(3, 2), torch.tensor([[0, 1], [3, 2], [1, 3]])
    few = FewRows(gate_up, down)
    alone: list[Tensor] = [few(x[i : i + 1], chosen[i : i + 1], weights[i : i + 1])[0] for i in range(3)]
    assert torch.equal(torch.stack(alone), few(x, chosen, weights))


TRANSLATE = """
from inspect import signature
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from engine.quant import kernels

for kernel in (kernels._linear, kernels._experts_in, kernels._experts_out):
    for bits in (4, 8):
        fixed = {"group": 64}
        pointers = {
            "x": "fp32" if kernel is kernels._experts_out else "bf16",
            "out": "fp32" if kernel is kernels._experts_in else "bf16",
            "chosen": "i64", "weights": "fp32", "codes": "u8" if bits == 4 else "i8", "scales": "bf16",
            "offsets": "bf16",
        }
        names = list(signature(kernel.fn).parameters)
        kinds = {n: "constexpr" if n in fixed else f"*{pointers[n]}" if n in pointers else "i32" for n in names}
        source = ASTSource(kernel, kinds, constexprs={(names.index(n),): value for n, value in fixed.items()})
        made = triton.compile(source, target=GPUTarget("cuda", 121, 32))
        print("sm_121" in made.asm["ptx"] and len(made.asm["cubin"]) > 0 and made.metadata.shared <= 99 * 1024)
"""


def test_kernels_translate_for_sm_121(tmp_path: Path) -> None:
    """Down to machine code, by Triton's own assembler: no GPU is needed, and nothing is said of their speed."""
    environment = {"TRITON_CACHE_DIR": str(tmp_path), "TRITON_DEFAULT_FP_FUSION": "1", "PYTHONPATH": str(ROOT)}
    run = [sys.executable, "-c", TRANSLATE]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.split() == ["True"] * 6, done.stderr
