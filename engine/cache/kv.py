"""Keys and values of attention layers: rows are appended, may be forgotten from the end.

Axes: L layers, B sequences, T rows of a block, G KV heads, D head dimension.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from engine.cache.base import Memory, pair_rows
from engine.errors import StateError

_SMALLEST_CAPACITY = 64


@dataclass(frozen=True)
class Span:
    """Where the rows of one right-padded [B, T] block lie in a KV memory; made once, used by every layer.

    ``end`` is the longest length afterwards. A uniform span has no padding and one ``start`` for all sequences;
    otherwise the index tensors [N] name the real rows, and ``positions`` [B, T] the place of every row.
    ``mask`` (bool, broadcastable to [B, 1, T, end]) says which rows each row may see; None: plain causal order from
    an empty memory, or a single row that sees everything.
    """

    counts: tuple[int, ...]
    start: int
    end: int
    is_full: bool = True
    """Whether every row of the block is real (no padding, nobody sits out)."""
    positions: Tensor | None = None
    sequence_index: Tensor | None = None
    row_index: Tensor | None = None
    position_index: Tensor | None = None
    mask: Tensor | None = None

    @property
    def is_uniform(self) -> bool:
        """Whether all sequences append the same rows at the same place."""
        return self.positions is None


class KVMemory(Memory):
    """Keys and values [L, B, G, capacity, D] of a stack of attention layers, with one length per sequence."""

    def __init__(self, keys: Tensor, values: Tensor, lengths: list[int]) -> None:
        self.lengths = lengths
        """Rows each sequence holds."""
        self._set(keys, values)

    def _set(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values
        # Views by layer, because selecting one costs as much as a small kernel.
        self._keys, self._values = keys.unbind(0), values.unbind(0)

    @classmethod
    def allocate(
        cls,
        layers: int,
        batch_size: int,
        heads: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        capacity: int = _SMALLEST_CAPACITY,
    ) -> Self:
        """Empty memory; it grows by doubling when ``capacity`` rows are not enough."""
        shape = (layers, batch_size, heads, capacity, head_dim)
        keys = torch.zeros(shape, dtype=dtype, device=device)
        return cls(keys, torch.zeros_like(keys), [0] * batch_size)

    @property
    def batch_size(self) -> int:
        """B."""
        return len(self.lengths)

    @property
    def capacity(self) -> int:
        """Rows there is room for before the next growth."""
        return self.keys.shape[3]

    @property
    def nbytes(self) -> int:
        """Bytes held, unused capacity included."""
        return self.keys.nbytes + self.values.nbytes

    def reserve(self, rows: int) -> None:
        """Make room for ``rows`` rows per sequence."""
        if rows > self.capacity:
            capacity = max(rows, 2 * self.capacity, _SMALLEST_CAPACITY)
            grown = [
                torch.zeros(*t.shape[:3], capacity, t.shape[4], dtype=t.dtype, device=t.device)
                for t in (self.keys, self.values)
            ]
            used = max(self.lengths, default=0)
            grown[0][:, :, :, :used] = self.keys[:, :, :, :used]
            grown[1][:, :, :, :used] = self.values[:, :, :, :used]
            self._set(*grown)

    def span(self, rows: int, counts: Sequence[int] | None = None) -> Span:
        """Plan to append a right-padded block of ``rows`` rows, of which ``counts[b]`` are real (None: all)."""
        counts = (rows,) * self.batch_size if counts is None else tuple(counts)
        assert len(counts) == self.batch_size, (counts, self.batch_size)
        assert all(0 <= count <= rows for count in counts), (counts, rows)
        start, end = self.lengths[0], max(n + c for n, c in zip(self.lengths, counts, strict=True))
        self.reserve(end)
        device = self.keys.device
        if all(n == start for n in self.lengths) and all(c == rows for c in counts):
            mask = None
            if rows > 1 and start:
                mask = torch.ones(rows, end, dtype=torch.bool, device=device).tril(start)
            return Span(counts, start, end, mask=mask)
        positions = torch.tensor(self.lengths, device=device)[:, None] + torch.arange(rows, device=device)
        real = torch.arange(rows, device=device) < torch.tensor(counts, device=device)[:, None]
        sequence_index, row_index = real.nonzero(as_tuple=True)
        return Span(
            counts,
            start,
            end,
            is_full=all(c == rows for c in counts),
            positions=positions,
            sequence_index=sequence_index,
            row_index=row_index,
            position_index=positions[sequence_index, row_index],
            mask=(torch.arange(end, device=device) <= positions[:, :, None])[:, None],
        )

    def append(self, layer: int, keys: Tensor, values: Tensor, span: Span) -> tuple[Tensor, Tensor]:
        """Write keys and values [B, T, G, D] of one layer; returns all up to the span's end, each [B, G, end, D]."""
        all_keys, all_values = self._keys[layer], self._values[layer]
        if span.is_uniform:
            rows = span.end - span.start
            all_keys.narrow(2, span.start, rows).copy_(keys.transpose(1, 2))
            all_values.narrow(2, span.start, rows).copy_(values.transpose(1, 2))
        else:
            place = (span.sequence_index, slice(None), span.position_index)
            all_keys[place] = keys[span.sequence_index, span.row_index]
            all_values[place] = values[span.sequence_index, span.row_index]
        return all_keys.narrow(2, 0, span.end), all_values.narrow(2, 0, span.end)

    def append_each(self, layer: int, keys: Tensor, values: Tensor, span: Span) -> list[tuple[Tensor, Tensor]]:
        """Write a row [B, 1, G, D] of each sequence that has one; returns what each holds then, [1, G, its end, D]."""
        own = []
        for b, count in enumerate(span.counts):
            end = self.lengths[b] + count
            own_keys, own_values = self._keys[layer].narrow(0, b, 1), self._values[layer].narrow(0, b, 1)
            if count:
                own_keys.select(2, end - 1).copy_(keys[b])
                own_values.select(2, end - 1).copy_(values[b])
            own.append((own_keys.narrow(2, 0, end), own_values.narrow(2, 0, end)))
        return own

    def advance(self, span: Span) -> None:
        """Count the span's rows as held, once every layer has written them."""
        self.lengths = [n + c for n, c in zip(self.lengths, span.counts, strict=True)]

    def reset(self, mask: Tensor) -> None:
        """Make the sequences where ``mask`` [B] (bool) is true as new."""
        self.lengths = [0 if new else n for n, new in zip(self.lengths, mask.tolist(), strict=True)]

    def truncate(self, lengths: Sequence[int]) -> None:
        """Forget all rows of sequence b after the first ``lengths[b]``; ``StateError`` if it holds fewer."""
        if any(new > old or new < 0 for new, old in zip(lengths, self.lengths, strict=True)):
            raise StateError(f"cannot truncate lengths {self.lengths} to {list(lengths)}")
        self.lengths = list(lengths)

    def extract(self, rows: Sequence[int]) -> Self:
        """A memory of its own, without spare capacity, holding copies of the sequences ``rows``."""
        lengths = [self.lengths[row] for row in rows]
        index = torch.tensor(list(rows), dtype=torch.int64, device=self.keys.device)
        used = max(lengths, default=0)
        keys = self.keys[:, :, :, :used].index_select(1, index)
        return type(self)(keys, self.values[:, :, :, :used].index_select(1, index), lengths)

    def restore(self, snapshot: Self, rows: Sequence[int] | None = None) -> None:
        """Overwrite the sequences ``rows`` (all when None) with those of ``snapshot``."""
        self.reserve(max(snapshot.lengths, default=0))
        for target, source in pair_rows(self.batch_size, snapshot.batch_size, rows):
            used = snapshot.lengths[source]
            self.keys[:, target, :, :used] = snapshot.keys[:, source, :, :used]
            self.values[:, target, :, :used] = snapshot.values[:, source, :, :used]
            self.lengths[target] = used

    @classmethod
    def merge(cls, memories: Sequence[Self]) -> Self:
        """One memory with the sequences of all ``memories``, in order (copies)."""
        first = memories[0].keys
        lengths = [n for memory in memories for n in memory.lengths]
        capacity = max(_SMALLEST_CAPACITY, *(memory.capacity for memory in memories))
        merged = cls.allocate(
            first.shape[0], len(lengths), first.shape[2], first.shape[4], first.dtype, first.device, capacity
        )
        merged.lengths, start = lengths, 0
        for memory in memories:
            used, stop = max(memory.lengths, default=0), start + memory.batch_size
            merged.keys[:, start:stop, :, :used] = memory.keys[:, :, :, :used]
            merged.values[:, start:stop, :, :used] = memory.values[:, :, :, :used]
            start = stop
        return merged
