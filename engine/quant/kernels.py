"""Triton kernels for few rows: a row times a quantised matrix, and all chosen experts of a row in two launches.

At one row a step is bound by the bytes of the weights, so each kernel reads every code once, in the order of storage,
and unpacks in registers: 16-bit activations, 8- or 4-bit weights (W8A16, W4A16), sums in float32. Programs are small
enough (a tile of at most 64 x 64 codes) for the 99 KB of shared memory of an sm_121 block and need no
matrix unit; which tile is best there has to be measured. Off a GPU they run in Triton's interpreter
(``TRITON_INTERPRET=1``), which is how the tests check them against the reference.

Axes: N rows, P pairs of a row and one of its experts, O outputs, I inputs, G groups of inputs.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE_OUTPUTS = 16
TILE_INPUTS = 64
"""Inputs a program reads at a time; 4-bit groups are halves, wholes or doubles of it."""
MOST_ROWS = 8
"""Rows up to which reading the weights once for each of them is cheap enough (they stay in the cache)."""
_TILE_O, _TILE_I = tl.constexpr(TILE_OUTPUTS), tl.constexpr(TILE_INPUTS)

Components = tuple[Tensor, Tensor, Tensor | None, Tensor | None]
"""Codes, scales, offsets and gains of a matrix, or of a stack of them."""

# In all kernels ``codes``, ``scales`` and ``offsets`` are a matrix, or a stack of them; codes of type uint8 say
# that it has 4 bits, others 8 (its offsets are not read then). ``group`` inputs share a scale.


@triton.jit
def _dot_rows(x, codes, scales, offsets, output, live, inputs, group: tl.constexpr):
    """Sums [tile] in float32 of the rows ``output`` of one matrix with ``x``; pointers are to their beginnings."""
    total = tl.zeros((_TILE_O,), tl.float32)
    mask_o = live[:, None]
    if codes.dtype.element_ty == tl.uint8:
        groups = inputs // group
        half = tl.arange(0, _TILE_I // 2)
        for start in range(0, inputs, _TILE_I):
            pair = start // 2 + half
            inside = pair < inputs // 2
            mask = mask_o & inside[None, :]
            packed = tl.load(codes + output[:, None] * (inputs // 2) + pair[None, :], mask=mask, other=0)
            where = output[:, None] * groups + (2 * pair // group)[None, :]
            scale = tl.load(scales + where, mask=mask, other=0.0).to(tl.float32)
            offset = tl.load(offsets + where, mask=mask, other=0.0).to(tl.float32)
            even = tl.load(x + 2 * pair, mask=inside, other=0.0).to(tl.float32)[None, :]
            odd = tl.load(x + 2 * pair + 1, mask=inside, other=0.0).to(tl.float32)[None, :]
            low = (packed & 15).to(tl.float32) - 8.0
            high = (packed >> 4).to(tl.float32) - 8.0
            total += tl.sum((low * even + high * odd) * scale + (even + odd) * offset, 1)
    else:
        column = tl.arange(0, _TILE_I)
        for start in range(0, inputs, _TILE_I):
            at = start + column
            inside = at < inputs
            mask = mask_o & inside[None, :]
            code = tl.load(codes + output[:, None] * inputs + at[None, :], mask=mask, other=0).to(tl.float32)
            value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
            total += tl.sum(code * value[None, :], 1)
        total *= tl.load(scales + output, mask=live, other=0.0).to(tl.float32)
    return total


@triton.jit
def _dot_expert_rows(x, expert, codes, scales, offsets, output, live, outputs, inputs, group: tl.constexpr):
    """``_dot_rows`` with matrix ``expert`` [outputs, inputs] of a stack."""
    width = inputs // 2 if codes.dtype.element_ty == tl.uint8 else inputs
    grid = expert * outputs * (inputs // group)
    codes += expert * outputs * width
    return _dot_rows(x, codes, scales + grid, offsets + grid, output, live, inputs, group)


@triton.jit
def _linear(x, codes, scales, offsets, out, outputs, inputs, group: tl.constexpr):
    """``out`` [N, O]: program (tile of outputs, row)."""
    output = tl.program_id(0) * _TILE_O + tl.arange(0, _TILE_O)
    row = tl.program_id(1)
    live = output < outputs
    total = _dot_rows(x + row * inputs, codes, scales, offsets, output, live, inputs, group)
    tl.store(out + row * outputs + output, total.to(out.dtype.element_ty), mask=live)


@triton.jit
def _experts_in(x, chosen, codes, scales, offsets, out, per_row, inner, inputs, group: tl.constexpr):
    """``out`` [P, inner] (float32): ``silu(gate x) * up x`` of each pair; program (tile of the inner width, pair)."""
    unit = tl.program_id(0) * _TILE_O + tl.arange(0, _TILE_O)
    pair = tl.program_id(1)
    live = unit < inner
    expert = tl.load(chosen + pair)
    row = x + pair // per_row * inputs
    gate = _dot_expert_rows(row, expert, codes, scales, offsets, unit, live, 2 * inner, inputs, group)
    up = _dot_expert_rows(row, expert, codes, scales, offsets, unit + inner, live, 2 * inner, inputs, group)
    tl.store(out + pair * inner + unit, gate / (1.0 + tl.exp(-gate)) * up, mask=live)


@triton.jit
def _experts_out(x, chosen, weights, codes, scales, offsets, out, per_row, outputs, inputs, group: tl.constexpr):
    """``out`` [N, O]: the weighted sum over a row's experts, in their order; program (tile of outputs, row).

    ``x`` [P, I] has a row for each pair.
    """
    output = tl.program_id(0) * _TILE_O + tl.arange(0, _TILE_O)
    row = tl.program_id(1)
    live = output < outputs
    total = tl.zeros((_TILE_O,), tl.float32)
    for k in range(0, per_row):
        pair = row * per_row + k
        expert = tl.load(chosen + pair)
        at = x + pair * inputs
        made = _dot_expert_rows(at, expert, codes, scales, offsets, output, live, outputs, inputs, group)
        total += made * tl.load(weights + pair).to(tl.float32)
    tl.store(out + row * outputs + output, total.to(out.dtype.element_ty), mask=live)


def linear(x: Tensor, codes: Tensor, scales: Tensor, offsets: Tensor | None) -> Tensor:
    """``x`` [N, I] times the transpose of an ``IntegerMatrix``, given by its components -> [N, O] in ``x``'s type."""
    rows, inputs = x.shape
    outputs = len(scales)
    out = torch.empty(rows, outputs, dtype=x.dtype, device=x.device)
    matrix, group = _matrix((codes, scales, offsets, None), inputs)
    _linear[triton.cdiv(outputs, TILE_OUTPUTS), rows](x.contiguous(), *matrix, out, outputs, inputs, group)
    return out


def experts(x: Tensor, chosen: Tensor, weights: Tensor, gate_up: Components, down: Components) -> Tensor:
    """Weighted sum over the ``chosen`` [N, K] experts of each row of ``x`` [N, H] -> [N, H] in ``x``'s type.

    ``weights`` [N, K]; ``gate_up`` and ``down``: the stacks [E, 2I, H] and [E, H, I].
    """
    (rows, hidden), per_row = x.shape, chosen.shape[1]
    inner, pairs = gate_up[1].shape[1] // 2, rows * per_row
    middle = torch.empty(pairs, inner, dtype=torch.float32, device=x.device)
    out = torch.empty_like(x)
    chosen, weights = chosen.contiguous(), weights.contiguous()
    # With gains of their own, experts see rows of their own: one for each pair.
    seen = x if gate_up[3] is None else (x[:, None] * gate_up[3].float()[chosen]).view(-1, hidden)
    matrix, group = _matrix(gate_up, hidden)
    _experts_in[triton.cdiv(inner, TILE_OUTPUTS), pairs](
        seen.contiguous(), chosen, *matrix, middle, pairs // len(seen), inner, hidden, group
    )
    if down[3] is not None:
        middle *= down[3][chosen].view_as(middle)
    matrix, group = _matrix(down, inner)
    _experts_out[triton.cdiv(hidden, TILE_OUTPUTS), rows](
        middle, chosen, weights, *matrix, out, per_row, hidden, inner, group
    )
    return out


def _matrix(components: Components, inputs: int) -> tuple[tuple[Tensor, Tensor, Tensor], int]:
    """What kernels take of a matrix, and its group. Without offsets something else is pointed at; it is not read."""
    codes, scales, offsets, _ = components
    return (codes, scales, scales if offsets is None else offsets), inputs // scales.shape[-1]
