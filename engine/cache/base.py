"""The interface every kind of decoder memory has, so that its holder never asks which kind it is.

Axes: L layers, B sequences. Modules hold weights only; a memory is passed in and changed in place.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

from torch import Tensor


class Memory(ABC):
    """What B sequences remember. Each class has an ``allocate`` that makes an empty one for its own shapes."""

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """B."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held, unused capacity included."""

    @abstractmethod
    def reset(self, mask: Tensor) -> None:
        """Make the sequences where ``mask`` [B] (bool) is true as new."""

    @abstractmethod
    def truncate(self, lengths: Sequence[int]) -> None:
        """Forget all rows of sequence b after the first ``lengths[b]``.

        Raises ``StateError`` where rows cannot be taken back (recurrent memory): restore a snapshot there.
        """

    @abstractmethod
    def extract(self, rows: Sequence[int]) -> Self:
        """A memory of its own, without spare capacity, holding copies of the sequences ``rows`` in that order."""

    @abstractmethod
    def restore(self, snapshot: Self, rows: Sequence[int] | None = None) -> None:
        """Overwrite the sequences ``rows`` (all of them when None) with those of ``snapshot``, one for one.

        A snapshot of one sequence fills any number of rows. The snapshot stays as it is and may be restored again.
        """

    @classmethod
    @abstractmethod
    def merge(cls, memories: Sequence[Self]) -> Self:
        """One memory with the sequences of all ``memories``, in order (copies)."""

    def snapshot(self) -> Self:
        """A copy of everything, without spare capacity, for ``restore``."""
        return self.extract(range(self.batch_size))


def pair_rows(target_batch: int, snapshot_batch: int, rows: Sequence[int] | None) -> list[tuple[int, int]]:
    """Pairs (row of the target, row of the snapshot) that ``Memory.restore`` copies."""
    targets = list(range(target_batch)) if rows is None else list(rows)
    sources = [0] * len(targets) if snapshot_batch == 1 else list(range(snapshot_batch))
    assert len(targets) == len(sources), f"{snapshot_batch} sequences for rows {targets}"
    return list(zip(targets, sources, strict=True))
