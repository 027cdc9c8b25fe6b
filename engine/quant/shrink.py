"""A decoder in memory, quantised in place by rounding to the nearest (gains stay 1): for trials and measurements.

Checkpoints are quantised file by file by ``engine/quant/convert.py``.
"""

from torch import Tensor, nn

from engine.model.decoder import Decoder
from engine.model.linear import Linear
from engine.model.moe import Experts
from engine.quant.integer import round_to_nearest
from engine.quant.modules import QuantisedExperts, QuantisedLinear, Stack, install
from engine.quant.scheme import Scheme


def shrink(decoder: Decoder, scheme: Scheme) -> None:
    """Replace the matrices that ``scheme`` quantises. Raises ``ConfigError`` for a width that is unfit."""
    plain = {path: module for path, module in decoder.named_modules() if isinstance(module, Linear | Experts)}
    install(decoder, scheme)
    for path, module in decoder.named_modules():
        if isinstance(module, QuantisedLinear):
            _fill(module.weight, plain[path].get_parameter("weight")[None])
        elif isinstance(module, QuantisedExperts):
            for name in ("gate_up", "down"):
                _fill(module.get_submodule(name), plain[path].get_parameter(name))


def _fill(stack: nn.Module | None, weights: Tensor) -> None:
    """Put the matrices of ``weights`` [E, O, I] into a stack of E, or of one without an axis for it."""
    assert isinstance(stack, Stack)
    inputs = weights.shape[-1]
    bits = 8 if stack.offsets is None else 4
    for index, weight in enumerate(weights.detach()):
        place = stack.matrix(index) if stack.codes.dim() == 3 else stack.matrix()
        for name, tensor in round_to_nearest(weight, bits, inputs // stack.scales.shape[-1]).tensors().items():
            place.tensors()[name].copy_(tensor)
