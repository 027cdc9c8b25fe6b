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


@triton.jit
def _dot_rows(
    x,
    codes,
    scales,
    offsets,
    output,
    live,
    inputs,
    groups,
    group: tl.constexpr,
    is_4_bit: tl.constexpr,
    tile_o: tl.constexpr,
    tile_i: tl.constexpr,
):
    """Sums [tile_o] in float32 of the rows ``output`` of one matrix with ``x``; pointers are to their beginnings."""
    total = tl.zeros((tile_o,), tl.float32)
    mask_o = live[:, None]
    if is_4_bit:
        half = tl.arange(0, tile_i // 2)
        for start in range(0, inputs, tile_i):
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
        column = tl.arange(0, tile_i)
        for start in range(0, inputs, tile_i):
            at = start + column
            inside = at < inputs
            mask = mask_o & inside[None, :]
            code = tl.load(codes + output[:, None] * inputs + at[None, :], mask=mask, other=0).to(tl.float32)
            value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
            total += tl.sum(code * value[None, :], 1)
        total *= tl.load(scales + output, mask=live, other=0.0).to(tl.float32)
    return total


@triton.jit
def _linear(
    x,
    codes,
    scales,
    offsets,
    out,
    outputs,
    inputs,
    groups,
    group: tl.constexpr,
    is_4_bit: tl.constexpr,
    tile_o: tl.constexpr,
    tile_i: tl.constexpr,
):
    """``out`` [N, O]: program (tile of outputs, row)."""
    output = tl.program_id(0) * tile_o + tl.arange(0, tile_o)
    row = tl.program_id(1)
    live = output < outputs
    total = _dot_rows(
        x + row * inputs, codes, scales, offsets, output, live, inputs, groups, group, is_4_bit, tile_o, tile_i
    )
    tl.store(out + row * outputs + output, total.to(out.dtype.element_ty), mask=live)


@triton.jit
def _experts_in(
    x,
    chosen,
    codes,
    scales,
    offsets,
    out,
    per_row,
    inner,
    inputs,
    groups,
    group: tl.constexpr,
    is_4_bit: tl.constexpr,
    tile_o: tl.constexpr,
    tile_i: tl.constexpr,
):
    """``out`` [P, inner] (float32): ``silu(gate x) * up x`` of each pair; program (tile of the inner width, pair)."""
    unit = tl.program_id(0) * tile_o + tl.arange(0, tile_o)
    pair = tl.program_id(1)
    live = unit < inner
    expert = tl.load(chosen + pair)
    width = inputs // 2 if is_4_bit else inputs
    codes += expert * 2 * inner * width
    scales += expert * 2 * inner * groups
    offsets += expert * 2 * inner * groups
    row = x + pair // per_row * inputs
    gate = _dot_rows(row, codes, scales, offsets, unit, live, inputs, groups, group, is_4_bit, tile_o, tile_i)
    up = _dot_rows(row, codes, scales, offsets, unit + inner, live, inputs, groups, group, is_4_bit, tile_o, tile_i)
    tl.store(out + pair * inner + unit, gate / (1.0 + tl.exp(-gate)) * up, mask=live)


@triton.jit
def _experts_out(
    inner_rows,
    chosen,
    weights,
    codes,
    scales,
    offsets,
    out,
    per_row,
    outputs,
    inner,
    groups,
    group: tl.constexpr,
    is_4_bit: tl.constexpr,
    tile_o: tl.constexpr,
    tile_i: tl.constexpr,
):
    """``out`` [N, O]: the weighted sum over a row's experts, in their order; program (tile of outputs, row)."""
    output = tl.program_id(0) * tile_o + tl.arange(0, tile_o)
    row = tl.program_id(1)
    live = output < outputs
    width = inner // 2 if is_4_bit else inner
    total = tl.zeros((tile_o,), tl.float32)
    for k in range(0, per_row):
        pair = row * per_row + k
        expert = tl.load(chosen + pair)
        made = _dot_rows(
            inner_rows + pair * inner,
            codes + expert * outputs * width,
            scales + expert * outputs * groups,
            offsets + expert * outputs * groups,
            output,
            live,
            inner,
            groups,
            group,
            is_4_bit,
            tile_o,
            tile_i,
        )
        total += made * tl.load(weights + pair).to(tl.float32)
    tl.store(out + row * outputs + output, total.to(out.dtype.element_ty), mask=live)


def linear(x: Tensor, codes: Tensor, scales: Tensor, offsets: Tensor | None) -> Tensor:
    """``x`` [N, I] times the transpose of an ``IntegerMatrix``, given by its components -> [N, O] in ``x``'s type."""
    rows, inputs = x.shape
    outputs, groups = scales.shape
    out = torch.empty(rows, outputs, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(outputs, TILE_OUTPUTS), rows)
    _linear[grid](
        x.contiguous(),
        codes,
        scales,
        _or(offsets, scales),
        out,
        outputs,
        inputs,
        groups,
        **_shape(codes, inputs, groups),
    )
    return out


def experts(
    x: Tensor,
    chosen: Tensor,
    weights: Tensor,
    gate_up: tuple[Tensor, Tensor, Tensor | None, Tensor | None],
    down: tuple[Tensor, Tensor, Tensor | None, Tensor | None],
) -> Tensor:
    """Weighted sum over the ``chosen`` [N, K] experts of each row of ``x`` [N, H] -> [N, H] in ``x``'s type.

    ``weights`` [N, K]; ``gate_up`` and ``down``: codes, scales, offsets and gains of the stacks [E, 2I, H] and
    [E, H, I].
    """
    (rows, hidden), per_row = x.shape, chosen.shape[1]
    inner = gate_up[1].shape[1] // 2
    middle = torch.empty(rows * per_row, inner, dtype=torch.float32, device=x.device)
    out = torch.empty_like(x)
    chosen, weights = chosen.contiguous(), weights.contiguous()
    codes, scales, offsets, gains = gate_up
    # With gains of their own, experts see rows of their own: one for each pair.
    seen = x if gains is None else (x[:, None] * gains.float()[chosen]).view(-1, hidden)
    _experts_in[triton.cdiv(inner, TILE_OUTPUTS), rows * per_row](
        seen.contiguous(),
        chosen,
        codes,
        scales,
        _or(offsets, scales),
        middle,
        rows * per_row // seen.shape[0],
        inner,
        hidden,
        scales.shape[2],
        **_shape(codes, hidden, scales.shape[2]),
    )
    codes, scales, offsets, gains = down
    if gains is not None:
        middle *= gains[chosen].view_as(middle)
    _experts_out[triton.cdiv(hidden, TILE_OUTPUTS), rows](
        middle,
        chosen,
        weights,
        codes,
        scales,
        _or(offsets, scales),
        out,
        per_row,
        hidden,
        inner,
        scales.shape[2],
        **_shape(codes, inner, scales.shape[2]),
    )
    return out


def _shape(codes: Tensor, inputs: int, groups: int) -> dict[str, int | bool]:
    is_4_bit = codes.dtype is torch.uint8
    return {"group": inputs // groups, "is_4_bit": is_4_bit, "tile_o": TILE_OUTPUTS, "tile_i": TILE_INPUTS}


def _or(offsets: Tensor | None, scales: Tensor) -> Tensor:
    """Something to point at where there are no offsets; it is not read."""
    return scales if offsets is None else offsets
