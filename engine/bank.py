"""Whose memory lies where: sequences own their memories, a batch is lent out as one."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from engine.cache.base import Memory

M = TypeVar("M", bound=Memory)


class MemoryBank(Generic[M]):
    """Memories of sequences by key, each in one place: on its own, or as a row of the current batch.

    While the same sequences are asked for, the batch stays as it is and nothing is copied; a sequence asked for alone
    is not copied either.
    """

    def __init__(self) -> None:
        self._alone: dict[int, M] = {}
        self._batch: M | None = None
        self._batch_keys: list[int] = []

    def __contains__(self, key: int) -> bool:
        return key in self._alone or key in self._batch_keys

    def __len__(self) -> int:
        return len(self._alone) + len(self._batch_keys)

    @property
    def nbytes(self) -> int:
        """Bytes held for all sequences."""
        return sum(m.nbytes for m in self._alone.values()) + (self._batch.nbytes if self._batch is not None else 0)

    def put(self, key: int, memory: M) -> None:
        """Take in the memory (of one sequence) of a new ``key``."""
        assert key not in self, key
        assert memory.batch_size == 1, memory.batch_size
        self._alone[key] = memory

    def drop(self, key: int) -> None:
        """Forget a sequence."""
        if key in self._batch_keys:
            self._split()
        del self._alone[key]

    def locate(self, key: int) -> tuple[M, int]:
        """The memory a sequence lies in, and its row there."""
        if key in self._batch_keys:
            assert self._batch is not None
            return self._batch, self._batch_keys.index(key)
        return self._alone[key], 0

    def snapshot(self, key: int) -> M:
        """A copy of one sequence's memory."""
        memory, row = self.locate(key)
        return memory.extract([row])

    def restore(self, key: int, snapshot: M) -> None:
        """Overwrite one sequence's memory with a snapshot, which stays as it is."""
        memory, row = self.locate(key)
        memory.restore(snapshot, [row])

    def gather(self, keys: Sequence[int]) -> M:
        """One memory with the sequences ``keys`` as its rows, in that order; changes made to it are theirs."""
        if len(keys) == 1 and keys[0] in self._alone:
            return self._alone[keys[0]]
        if list(keys) != self._batch_keys:
            self._split()
            if len(keys) == 1:
                return self._alone[keys[0]]
            members = [self._alone[key] for key in keys]
            self._batch, self._batch_keys = type(members[0]).merge(members), list(keys)
            for key in keys:
                del self._alone[key]
        assert self._batch is not None
        return self._batch

    def _split(self) -> None:
        """Give every member of the batch its own memory back."""
        if self._batch is not None:
            self._alone.update((key, self._batch.extract([row])) for row, key in enumerate(self._batch_keys))
        self._batch, self._batch_keys = None, []
