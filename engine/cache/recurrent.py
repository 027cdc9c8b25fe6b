"""Memory of Gated-DeltaNet layers: one matrix per value head and the last rows before the convolution.

Axes: L layers, B sequences, K convolution kernel, N convolution channels, H value heads, DV x DK a head's matrix.
"""

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from engine.cache.base import Memory, pair_rows
from engine.errors import StateError


class RecurrentMemory(Memory):
    """``window`` [L, B, K - 1, N], oldest row first, and ``matrix`` [L, B, H, DV, DK] in float32."""

    def __init__(self, window: Tensor, matrix: Tensor) -> None:
        self.window, self.matrix = window, matrix
        # Views by layer, because selecting one costs as much as a small kernel.
        self.windows, self.matrices = window.unbind(0), matrix.unbind(0)

    @classmethod
    def allocate(
        cls,
        layers: int,
        batch_size: int,
        window: tuple[int, int],
        matrix: tuple[int, int, int],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Self:
        """Memory of sequences without rows: ``window`` is (K - 1, N), ``matrix`` (H, DV, DK)."""
        return cls(
            torch.zeros(layers, batch_size, *window, dtype=dtype, device=device),
            torch.zeros(layers, batch_size, *matrix, dtype=torch.float32, device=device),
        )

    @property
    def batch_size(self) -> int:
        """B."""
        return self.window.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.window.nbytes + self.matrix.nbytes

    def reset(self, mask: Tensor) -> None:
        """Make the sequences where ``mask`` [B] (bool) is true as new."""
        self.window[:, mask] = 0
        self.matrix[:, mask] = 0

    def truncate(self, lengths: Sequence[int]) -> None:
        """Raise ``StateError``: what a row has written cannot be taken out again."""
        raise StateError("recurrent memory cannot be truncated; restore a snapshot taken at that row")

    def extract(self, rows: Sequence[int]) -> Self:
        """A memory of its own holding copies of the sequences ``rows``."""
        index = torch.tensor(list(rows), dtype=torch.int64, device=self.window.device)
        return type(self)(self.window.index_select(1, index), self.matrix.index_select(1, index))

    def restore(self, snapshot: Self, rows: Sequence[int] | None = None) -> None:
        """Overwrite the sequences ``rows`` (all when None) with those of ``snapshot``."""
        for target, source in pair_rows(self.batch_size, snapshot.batch_size, rows):
            self.window[:, target] = snapshot.window[:, source]
            self.matrix[:, target] = snapshot.matrix[:, source]

    @classmethod
    def merge(cls, memories: Sequence[Self]) -> Self:
        """One memory with the sequences of all ``memories``, in order (copies)."""
        return cls(
            torch.cat([memory.window for memory in memories], 1), torch.cat([memory.matrix for memory in memories], 1)
        )
