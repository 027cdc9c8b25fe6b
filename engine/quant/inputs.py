"""What the matrices of a decoder are multiplied with, written down while takes go through it.

Axes: N rows, E experts, O outputs, I inputs.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.model.decoder import Decoder
from engine.model.feed_forward import swiglu
from engine.model.linear import Leaf, Linear
from engine.model.moe import ExpertMixture, Experts
from engine.quant.takes import Recorded

MOST_ROWS = 4096
"""Rows that are kept for each matrix."""

Inputs = dict[str, Tensor]
"""[N, I] (bfloat16) by ``input_name``."""


class _Keeper:
    """Rows by name, up to ``MOST_ROWS`` of each."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[Tensor]] = {}

    def keep(self, name: str, x: Tensor) -> None:
        pieces = self._pieces.setdefault(name, [])
        room = MOST_ROWS - sum(len(piece) for piece in pieces)
        if room > 0:
            pieces.append(x.detach().reshape(-1, x.shape[-1])[:room].to(torch.bfloat16))

    def inputs(self) -> Inputs:
        return {name: torch.cat(pieces) for name, pieces in self._pieces.items()}


class _RecordingLinear(Leaf):
    def __init__(self, path: str, linear: Linear, keeper: _Keeper) -> None:
        super().__init__()
        self._path, self._linear, self._keeper = path, linear, keeper

    def forward(self, x: Tensor) -> Tensor:
        self._keeper.keep(self._path, x)
        return self._linear(x)


class _RecordingExperts(ExpertMixture):
    def __init__(self, path: str, experts: Experts, keeper: _Keeper) -> None:
        super().__init__()
        self._path, self._experts, self._keeper = path, experts, keeper

    @property
    def count(self) -> int:
        return self._experts.count

    def single(self, expert: int, x: Tensor, weight: float) -> Tensor:
        return self._compute(expert, x) * weight

    def grouped(self, parts: Sequence[Tensor]) -> list[Tensor]:
        return [self._compute(expert, part) for expert, part in enumerate(parts) if part.shape[0]]

    def _compute(self, expert: int, x: Tensor) -> Tensor:
        self._keeper.keep(f"{self._path}.{expert}.gate_up", x)
        inner = swiglu(F.linear(x, self._experts.gate_up[expert]))
        self._keeper.keep(f"{self._path}.{expert}.down", inner)
        return F.linear(inner, self._experts.down[expert])


@contextmanager
def _recording(decoder: Decoder, wants: Callable[[str], bool]) -> Iterator[_Keeper]:
    """While the block runs, the inputs of modules whose path is wanted are kept."""
    keeper = _Keeper()
    wanted = {path: module for path, module in decoder.named_modules() if wants(path)}
    originals = {path: module for path, module in wanted.items() if isinstance(module, Linear | Experts)}
    assert wanted == originals, "only plain matrices can be watched"
    try:
        for path, module in originals.items():
            if isinstance(module, Linear):
                _set(decoder, path, _RecordingLinear(path, module, keeper))
            else:
                _set(decoder, path, _RecordingExperts(path, module, keeper))
        yield keeper
    finally:
        for path, module in originals.items():
            _set(decoder, path, module)


@torch.inference_mode()
def record_inputs(decoder: Decoder, takes: Sequence[Recorded], wants: Callable[[str], bool]) -> Inputs:
    """Inputs of the modules whose path is wanted while ``decoder`` hears ``takes``."""
    with _recording(decoder, wants) as keeper:
        for take in takes:
            decoder.forward_train(take.rows[None], take.aligned)
    return keeper.inputs()


def _set(decoder: Decoder, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(decoder.get_submodule(parent), name, module)
