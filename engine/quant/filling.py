"""A decoder with room for quantised matrices, filled from a checkpoint tensor by tensor."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from engine.model.decoder import Decoder
from engine.model.linear import Linear
from engine.quant.integer import IntegerMatrix
from engine.quant.modules import COMPONENTS, QuantisedExperts, QuantisedLinear, Stack

Layout = Callable[[Decoder], "dict[str, Put]"]
Put = Callable[[Tensor], None]


class Filler:
    """Puts matrices where they belong among the rows that a decoder joins.

    Quantising works row by row, so codes, scales and offsets are joined just as weights are: ``layout`` (tensor name to
    the way into a decoder) is asked once for each, of a decoder whose weights they are.
    """

    def __init__(self, decoder: Decoder, layout: Layout) -> None:
        self._puts = {component: layout(_decoder_of(component, decoder)) for component in COMPONENTS}

    def put(self, name: str, matrix: IntegerMatrix) -> None:
        """Copy a matrix of the checkpoint into the decoder."""
        for component, tensor in matrix.tensors().items():
            self._puts[component][name](tensor)


def _decoder_of(component: str, decoder: Decoder) -> Decoder:
    """A decoder without numbers whose weights are, where ``decoder`` is quantised, the ``component`` there."""
    with torch.device("meta"):
        twin = Decoder(decoder.config)
    for path, module in decoder.named_modules():
        if isinstance(module, QuantisedLinear):
            plain = twin.get_submodule(path)
            assert isinstance(plain, Linear)
            _replace(plain, "weight", module.weight, component)
        elif isinstance(module, QuantisedExperts):
            for name in ("gate_up", "down"):
                _replace(twin.get_submodule(path), name, module.get_submodule(name), component)
    return twin


def _replace(plain: nn.Module, name: str, stack: nn.Module | None, component: str) -> None:
    assert isinstance(stack, Stack)
    tensor = getattr(stack, component)
    if tensor is not None:
        setattr(plain, name, nn.Parameter(tensor, requires_grad=False))
