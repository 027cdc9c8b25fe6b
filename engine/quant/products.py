"""Multiplying with an ``IntegerMatrix``: the reference, and the fast ways of this machine.

All take ``x`` [.., I] of any float type and give [.., O] in it. The fast ones round ``x`` and the result to bfloat16;
what one row gives does not depend on the rows beside it, to the bit, as long as all go the same way.

Axes: N rows, O outputs, I inputs, G groups of inputs.
"""

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.quant.integer import IntegerMatrix, unpack_nibbles

MOST_PACKED_ROWS = 32
"""Rows up to which torch's int8 kernel, whose time grows with each row, is faster than unpacking the weights."""
_INT8_INPUTS = 16
"""torch's int8 kernel reads beyond the end of rows that are no multiple of this."""
_INT4_OUTPUTS = 16
"""Outputs of torch's int4 kernel come in multiples of this."""


LARGE = 1 << 20
"""Weights from which on reading them takes longer than preparing the input."""


def multiplies_bytes() -> bool:
    """Whether this processor sums products of bytes without cutting them off."""
    capabilities = torch.cpu.get_capabilities()
    has_sums = capabilities.get("avx512_vnni") or capabilities.get("avx_vnni")
    return bool(has_sums) and torch.backends.quantized.engine in ("x86", "fbgemm")


class Product(ABC):
    """Multiplies rows with the transpose of a quantised matrix."""

    @abstractmethod
    def __call__(self, x: Tensor) -> Tensor:
        """``x`` [.., I] -> [.., O]."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of weights that it keeps, and reads for one row."""


class ReferenceProduct(Product):
    """Dequantises, then multiplies in float32."""

    def __init__(self, matrix: IntegerMatrix) -> None:
        self.matrix = matrix

    def __call__(self, x: Tensor) -> Tensor:
        """``x`` [.., I] -> [.., O]."""
        return F.linear(x.float(), self.matrix.dequantise()).to(x.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of weights."""
        return self.matrix.nbytes


class Int8Product(Product):
    """torch's weight-only int8 kernel for few rows; many rows unpack the weights to bfloat16 first."""

    def __init__(self, matrix: IntegerMatrix) -> None:
        self._codes = matrix.codes.contiguous()
        self._scales = matrix.scales[:, 0].contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        """``x`` [.., I] -> [.., O]."""
        rows = x.reshape(-1, x.shape[-1]).to(torch.bfloat16)
        if rows.shape[0] <= MOST_PACKED_ROWS:
            out = torch._weight_int8pack_mm(rows, self._codes, self._scales)
        else:
            out = F.linear(rows, self._codes.to(torch.bfloat16)) * self._scales
        return out.to(x.dtype).view(*x.shape[:-1], -1)

    @property
    def nbytes(self) -> int:
        """Bytes of weights."""
        return self._codes.nbytes + self._scales.nbytes


class LargeInt8Product(Product):
    """Large matrices of 8 bits: exact integer arithmetic on activations of 16 bits, at the speed of the memory.

    FBGEMM multiplies bytes, and reads weights twice as fast as the kernel above. So each row of ``x`` is taken apart
    into two rows of whole numbers, ``largest / 127 * (high + low / 254)``, and one more row sets the range from -128 to
    127, which makes the operator's own rounding of its input exact. What a row gives does not depend on the rows beside
    it, to the bit.
    """

    def __init__(self, matrix: IntegerMatrix) -> None:
        outputs, inputs = matrix.shape
        with warnings.catch_warnings():
            # Marked as deprecated in favour of a library of its own; torch's version is pinned.
            warnings.simplefilter("ignore", UserWarning)
            quantised = torch._make_per_channel_quantized_tensor(
                matrix.codes, matrix.scales[:, 0].double() / 127, torch.zeros(outputs, dtype=torch.int64), 0
            )
            self._packed = torch.ops.quantized.linear_prepack(quantised, None)
        self._range = torch.zeros(1, inputs)
        self._range[0, 0], self._range[0, 1] = -128, 127
        self._nbytes = matrix.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        """``x`` [.., I] -> [.., O]."""
        rows = x.reshape(-1, x.shape[-1]).float()
        largest = torch.linalg.vector_norm(rows, math.inf, -1, keepdim=True).clamp_(min=1e-30)
        rows = rows.div(largest).mul_(127)
        high = rows.round()
        low = rows.sub_(high).mul_(254)
        out = torch.ops.quantized.linear_dynamic(torch.cat((high, low, self._range)), self._packed)
        high, low = out[:-1].chunk(2)
        total: Tensor = torch.add(high, low, alpha=1 / 254).mul_(largest)
        return total.to(x.dtype).view(*x.shape[:-1], -1)

    @property
    def nbytes(self) -> int:
        """Bytes of weights."""
        return self._nbytes


class Int4Product(Product):
    """torch's weight-only int4 kernel. Keeps the codes in the kernel's order alone."""

    def __init__(self, matrix: IntegerMatrix) -> None:
        assert matrix.offsets is not None, "4-bit matrices have offsets"
        self._outputs, self._group = matrix.shape[0], matrix.group
        padding = -self._outputs % _INT4_OUTPUTS
        outputs, inputs = self._outputs + padding, matrix.shape[1]
        # What stays is allocated before what is let go, or the holes between thousands of experts outweigh them.
        self._packed = torch.empty(outputs, inputs // 2, dtype=torch.uint8)
        self._grid = torch.empty(matrix.scales.shape[1], outputs, 2, dtype=torch.bfloat16)
        codes = F.pad(unpack_nibbles(matrix.codes), (0, 0, 0, padding)).to(torch.int32)
        self._packed.copy_(torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1))
        grid = torch.stack((matrix.scales, matrix.offsets), -1).transpose(0, 1)
        self._grid.copy_(F.pad(grid, (0, 0, 0, padding)))

    def __call__(self, x: Tensor) -> Tensor:
        """``x`` [.., I] -> [.., O]."""
        rows = x.reshape(-1, x.shape[-1]).to(torch.bfloat16)
        out: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self._packed, self._group, self._grid)
        return out[:, : self._outputs].to(x.dtype).view(*x.shape[:-1], -1)

    @property
    def nbytes(self) -> int:
        """Bytes of weights."""
        return self._packed.nbytes + self._grid.nbytes


class GainProduct(Product):
    """Multiplies the input with gains [I], then goes on with another way."""

    def __init__(self, rest: Product, gains: Tensor) -> None:
        self._rest, self._gains = rest, gains.float()

    def __call__(self, x: Tensor) -> Tensor:
        """``x`` [.., I] -> [.., O]."""
        return self._rest(x * self._gains).to(x.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of weights and gains."""
        return self._rest.nbytes + self._gains.nbytes


class TritonProduct(Product):
    """Our kernel for few rows; many rows unpack the weights into ``x``'s type first."""

    def __init__(self, matrix: IntegerMatrix) -> None:
        from engine.quant import kernels  # Triton comes with torch where there is a GPU, not elsewhere

        self._matrix, self._kernels = matrix, kernels

    def __call__(self, x: Tensor) -> Tensor:
        """``x`` [.., I] -> [.., O]."""
        rows, m = x.reshape(-1, x.shape[-1]), self._matrix
        if rows.shape[0] <= self._kernels.MOST_ROWS:
            out = self._kernels.linear(rows, m.codes, m.scales, m.offsets)
        else:
            out = F.linear(rows, m.dequantise(x.dtype))
        return out.view(*x.shape[:-1], -1)

    @property
    def nbytes(self) -> int:
        """Bytes of weights."""
        return self._matrix.nbytes


def product(matrix: IntegerMatrix) -> Product:
    """The fastest way to multiply with ``matrix`` where it lies."""
    if matrix.gains is not None:
        return GainProduct(product(replace(matrix, gains=None)), matrix.gains)
    if matrix.codes.device.type == "cuda":
        return TritonProduct(matrix)
    if matrix.codes.device.type == "cpu":
        if matrix.bits == 4:
            return Int4Product(matrix)
        if matrix.shape[0] * matrix.shape[1] >= LARGE and multiplies_bytes():
            return LargeInt8Product(matrix)
        if matrix.shape[1] % _INT8_INPUTS == 0:
            return Int8Product(matrix)
    return ReferenceProduct(matrix)
