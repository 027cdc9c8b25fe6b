"""A decoder's large matrices as ``IntegerMatrix``: a linear layer and stacked experts.

They are filled as storage holds them (buffers ``codes``, ``scales``, ``offsets``, ``gains``) and multiply by the
reference until ``prepare`` turns them into what the machine they lie on multiplies with.

Axes: E experts, O outputs, I inputs, G groups of inputs.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from engine.model.decoder import Decoder
from engine.model.feed_forward import swiglu
from engine.model.linear import Leaf, Linear
from engine.model.moe import ExpertMixture, Experts
from engine.quant.integer import IntegerMatrix
from engine.quant.products import Product, ReferenceProduct, product
from engine.quant.scheme import PartScheme, Scheme

COMPONENTS = ("codes", "scales", "offsets")
"""Those that have a row for each output."""


class Stack(nn.Module):
    """Quantised matrices of one shape [.., O, I], their components stacked along the leading axes."""

    def __init__(self, shape: Sequence[int], bits: int, group: int, has_gains: bool = False) -> None:
        super().__init__()
        *lead, inputs = shape
        gains = torch.ones(*lead[:-1], inputs, dtype=torch.bfloat16) if has_gains else None
        scales = torch.empty(*lead, inputs // group, dtype=torch.bfloat16)
        self.codes: Tensor
        self.scales: Tensor
        self.offsets: Tensor | None
        self.gains: Tensor | None
        if bits == 8:
            self.register_buffer("codes", torch.empty(*lead, inputs, dtype=torch.int8))
        else:
            self.register_buffer("codes", torch.empty(*lead, inputs // 2, dtype=torch.uint8))
        self.register_buffer("scales", scales)
        self.register_buffer("offsets", None if bits == 8 else torch.empty_like(scales))
        self.register_buffer("gains", gains)

    def matrix(self, *index: int) -> IntegerMatrix:
        """The matrix at ``index`` of the leading axes: views of the stack."""
        more = (None if tensor is None else tensor[index] for tensor in (self.offsets, self.gains))
        return IntegerMatrix(self.codes[index], self.scales[index], *more)


class QuantisedLinear(Leaf):
    """A ``Linear`` with a quantised weight; a bias stays as it is."""

    def __init__(self, weight: Stack, bias: nn.Parameter | None = None) -> None:
        super().__init__()
        self.weight: Stack | None = weight
        self.bias = bias
        self._product: Product | None = None

    def forward(self, x: Tensor) -> Tensor:
        """``x`` [..., I] -> [..., O]."""
        out = self._weights()(x)
        return out if self.bias is None else out + self.bias.to(out.dtype)

    def _weights(self) -> Product:
        if self._product is not None:
            return self._product
        assert self.weight is not None
        return ReferenceProduct(self.weight.matrix())

    def prepare(self) -> None:
        """Multiply fast from now on; the matrix as stored is let go."""
        assert self.weight is not None, "prepared twice"
        self._product, self.weight = product(self.weight.matrix()), None

    @property
    def nbytes(self) -> int:
        """Bytes of the quantised weight."""
        return self._weights().nbytes


class FewRows:
    """All chosen experts of a few rows in two launches, without asking the device which they are."""

    def __init__(self, gate_up: Stack, down: Stack) -> None:
        from engine.quant import kernels  # see TritonProduct

        self.most_rows, self._kernels = kernels.MOST_ROWS, kernels
        self._gate_up = (gate_up.codes, gate_up.scales, gate_up.offsets, gate_up.gains)
        self._down = (down.codes, down.scales, down.offsets, down.gains)

    def __call__(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """See ``ExpertMixture.forward``."""
        return self._kernels.experts(x, chosen, weights, self._gate_up, self._down)


class QuantisedExperts(ExpertMixture):
    """Quantised experts: stacks ``gate_up`` [E, 2I, H] and ``down`` [E, H, I]."""

    def __init__(self, gate_up: Stack, down: Stack) -> None:
        super().__init__()
        self._count = gate_up.codes.shape[0]
        self.gate_up: Stack | None = gate_up
        self.down: Stack | None = down
        self._products: list[tuple[Product, Product]] | None = None
        self._launch: FewRows | None = None

    def forward(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """See ``ExpertMixture``."""
        if self._launch is not None and x.shape[0] <= self._launch.most_rows:
            return self._launch(x, chosen, weights)
        return super().forward(x, chosen, weights)

    @property
    def count(self) -> int:
        """E."""
        return self._count

    def single(self, expert: int, x: Tensor, weight: float) -> Tensor:
        """``weight`` times what one expert makes of ``x`` [1, H]."""
        gate_up, down = self._expert(expert)
        return down(swiglu(gate_up(x)) * weight)

    def grouped(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """What each expert makes of its part [n, H]; those without rows are left out."""
        out = []
        for expert, part in enumerate(parts):
            if part.shape[0]:
                gate_up, down = self._expert(expert)
                out.append(down(swiglu(gate_up(part))))
        return out

    def prepare(self) -> None:
        """Multiply fast from now on; the stacks are let go."""
        assert self.gate_up is not None
        assert self.down is not None
        gate_up, down = self.gate_up, self.down
        if gate_up.codes.device.type == "cuda":
            self._launch = FewRows(gate_up, down)
        self._products = [(product(gate_up.matrix(e)), product(down.matrix(e))) for e in range(self.count)]
        self.gate_up = self.down = None

    @property
    def nbytes(self) -> int:
        """Bytes of the quantised weights of all experts."""
        return sum(sum(product.nbytes for product in self._expert(expert)) for expert in range(self.count))

    def _expert(self, expert: int) -> tuple[Product, Product]:
        if self._products is not None:
            return self._products[expert]
        assert self.gate_up is not None
        assert self.down is not None
        return ReferenceProduct(self.gate_up.matrix(expert)), ReferenceProduct(self.down.matrix(expert))


def install(decoder: Decoder, scheme: Scheme) -> None:
    """Replace what ``scheme`` quantises by modules with room for it.

    Raises ``ConfigError`` for a width that is unfit.
    """
    for path, module in list(decoder.named_modules()):
        part = scheme.of_module(path)
        if not part.is_packed:
            continue
        replacement: nn.Module
        if isinstance(module, Linear):
            replacement = QuantisedLinear(_stack(path, module.weight, part), module.bias)
        else:
            assert isinstance(module, Experts), path
            replacement = QuantisedExperts(*(_stack(path, weight, part) for weight in (module.gate_up, module.down)))
        parent, _, name = path.rpartition(".")
        setattr(decoder.get_submodule(parent), name, replacement)


def prepare(decoder: Decoder) -> Decoder:
    """``decoder``, whose quantised modules multiply fast from now on, where they lie: they cannot be moved any more."""
    for module in quantised(decoder):
        module.prepare()
    return decoder


def quantised(decoder: nn.Module) -> Iterator[QuantisedLinear | QuantisedExperts]:
    """Its quantised modules."""
    for module in decoder.modules():
        if isinstance(module, QuantisedLinear | QuantisedExperts):
            yield module


def _stack(path: str, weight: Tensor, part: PartScheme) -> Stack:
    return Stack(weight.shape, part.bits, part.group_for(path, weight.shape[-1]), part.has_gains)
