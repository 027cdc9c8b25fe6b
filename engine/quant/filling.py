"""A decoder with room for quantised matrices, filled from a checkpoint tensor by tensor."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from engine.errors import WeightsError
from engine.model.decoder import Decoder
from engine.model.linear import Linear
from engine.quant.integer import IntegerMatrix
from engine.quant.modules import COMPONENTS, QuantisedExperts, QuantisedLinear, Stack
from engine.quant.places import expert_of, input_name

Layout = Callable[[Decoder], "dict[str, Put]"]
Put = Callable[[Tensor], None]


class Filler:
    """Puts matrices where they belong among the rows that a decoder joins.

    Quantising works row by row, so codes, scales and offsets are joined just as weights are: ``layout`` (tensor name to
    the way into a decoder) is asked once for each, of a decoder whose weights they are. Gains are of inputs, so what is
    joined has the same ones.
    """

    def __init__(self, decoder: Decoder, layout: Layout) -> None:
        self._decoder = decoder
        self._filled: set[str] = set()
        """Matrices of the decoder, by ``input_name``, that have their gains."""
        self._puts = {component: layout(_decoder_of(component, decoder)) for component in COMPONENTS}

    def put(self, name: str, matrix: IntegerMatrix) -> None:
        """Copy a matrix of the checkpoint into the decoder. Raises ``WeightsError`` if its gains contradict others."""
        tensors = matrix.tensors()
        gains = tensors.pop("gains", None)
        for component, tensor in tensors.items():
            self._puts[component][name](tensor)
        if gains is not None:
            self._put_gains(name, gains)

    def _put_gains(self, name: str, gains: Tensor) -> None:
        place = input_name(name)
        at = _gains_at(self._decoder, place)
        if place not in self._filled:
            self._filled.add(place)
            at.copy_(gains)
        elif not torch.equal(at, gains):
            raise WeightsError(f"{name} has other gains than the matrices with the same inputs")


def _gains_at(decoder: Decoder, place: str) -> Tensor:
    """Where the gains of a matrix belong, given its ``input_name``."""
    found = expert_of(place)
    stack = decoder.get_submodule(f"{place}.weight" if found is None else f"{found[0]}.{found[2]}")
    assert isinstance(stack, Stack)
    gains = (stack.matrix() if found is None else stack.matrix(found[1])).gains
    assert gains is not None, place
    return gains


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
