"""What a stream of the codec remembers, and how layers find their part of it.

Axes: B streams.
"""

from collections.abc import Iterable, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from engine.cache.base import Memory, pair_rows
from engine.errors import StateError


class StreamMemory(Memory):
    """One tensor [B, ...] per layer that remembers. All zeros: a stream that has heard nothing."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors

    @property
    def batch_size(self) -> int:
        """B."""
        return self.tensors[0].shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(tensor.nbytes for tensor in self.tensors)

    def reset(self, mask: Tensor) -> None:
        """Make the streams where ``mask`` [B] (bool) is true as new."""
        for tensor in self.tensors:
            tensor[mask] = 0

    def truncate(self, lengths: Sequence[int]) -> None:
        """Raise ``StateError``: convolutions have overwritten what came before."""
        raise StateError("codec memory cannot be truncated; restore a snapshot taken at that frame")

    def extract(self, rows: Sequence[int]) -> Self:
        """A memory of its own holding copies of the streams ``rows``."""
        index = torch.tensor(list(rows), dtype=torch.int64, device=self.tensors[0].device)
        return type(self)([tensor.index_select(0, index) for tensor in self.tensors])

    def restore(self, snapshot: Self, rows: Sequence[int] | None = None) -> None:
        """Overwrite the streams ``rows`` with those of ``snapshot``."""
        for target, source in pair_rows(self.batch_size, snapshot.batch_size, rows):
            for mine, theirs in zip(self.tensors, snapshot.tensors, strict=True):
                mine[target] = theirs[source]

    @classmethod
    def merge(cls, memories: Sequence[Self]) -> Self:
        """One memory with the streams of all ``memories``, in order."""
        return cls([torch.cat(parts) for parts in zip(*(memory.tensors for memory in memories), strict=True)])


class Remembering(nn.Module):
    """A layer with memory. It owns ``memory.tensors[slot]`` once ``number_slots`` has told it which that is."""

    slot = -1

    def empty(self, batch_size: int) -> Tensor:
        """Zeros [B, ...]: the memory of streams that have heard nothing."""
        raise NotImplementedError

    def recall(self, memory: StreamMemory) -> Tensor:
        """This layer's part of ``memory``; what is written into it is carried to the next call."""
        return memory.tensors[self.slot]


def number_slots(modules: Iterable[nn.Module]) -> list[Remembering]:
    """Give every remembering layer inside ``modules`` its slot; returns them in that order."""
    layers = [layer for module in modules for layer in module.modules() if isinstance(layer, Remembering)]
    for slot, layer in enumerate(layers):
        layer.slot = slot
    return layers


def allocate(layers: Sequence[Remembering], batch_size: int) -> StreamMemory:
    """Memory of ``batch_size`` streams that have heard nothing, for ``layers`` as ``number_slots`` gave them."""
    return StreamMemory([layer.empty(batch_size) for layer in layers])
