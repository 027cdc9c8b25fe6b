"""Everything a decoder remembers of its sequences, as one memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from engine.cache.base import Memory
from engine.cache.kv import KVMemory
from engine.cache.recurrent import RecurrentMemory
from engine.config import ModelConfig


@dataclass(frozen=True)
class DecoderPoint:
    """Where one sequence stood: ``rows`` and ``tower_rows`` of the KV parts, a copy of the recurrent part."""

    rows: int
    tower_rows: int
    recurrent: RecurrentMemory

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.recurrent.nbytes


@dataclass
class DecoderState(Memory):
    """Memory of B sequences: the backbone's KV and recurrent parts, and the tower's KV, which trails by one row."""

    kv: KVMemory
    recurrent: RecurrentMemory
    tower: KVMemory

    @classmethod
    def allocate(
        cls,
        config: ModelConfig,
        batch_size: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Self:
        """Memory of ``batch_size`` sequences without rows; ``dtype`` is that of the activations."""
        b, t = config.backbone, config.tower
        return cls(
            kv=KVMemory.allocate(b.num_full_layers, batch_size, b.num_key_value_heads, b.head_dim, dtype, device),
            recurrent=RecurrentMemory.allocate(
                b.num_linear_layers,
                batch_size,
                (b.linear_conv_kernel_dim - 1, b.conv_dim),
                (b.linear_num_value_heads, b.linear_value_head_dim, b.linear_key_head_dim),
                dtype,
                device,
            ),
            tower=KVMemory.allocate(t.num_layers, batch_size, t.n_local_heads, t.head_dim, dtype, device),
        )

    @property
    def lengths(self) -> list[int]:
        """Rows the backbone has seen of each sequence."""
        return self.kv.lengths

    @property
    def batch_size(self) -> int:
        """B."""
        return self.kv.batch_size

    @property
    def nbytes(self) -> int:
        """Bytes held, unused capacity included."""
        return self.kv.nbytes + self.recurrent.nbytes + self.tower.nbytes

    def reset(self, mask: Tensor) -> None:
        """Make the sequences where ``mask`` [B] (bool) is true as new."""
        for part in (self.kv, self.recurrent, self.tower):
            part.reset(mask)

    def truncate(self, lengths: Sequence[int]) -> None:
        """Raise ``StateError``: the recurrent part cannot be truncated, and the parts must stay in step."""
        self.recurrent.truncate(lengths)

    def point(self, row: int) -> DecoderPoint:
        """Where sequence ``row`` stands, to go back to while its older rows stay as they are."""
        return DecoderPoint(self.kv.lengths[row], self.tower.lengths[row], self.recurrent.extract([row]))

    def go_back(self, row: int, point: DecoderPoint) -> None:
        """Forget what came to sequence ``row`` after ``point``. Raises ``StateError`` if it holds fewer rows."""
        self.kv.truncate([*self.kv.lengths[:row], point.rows, *self.kv.lengths[row + 1 :]])
        self.tower.truncate([*self.tower.lengths[:row], point.tower_rows, *self.tower.lengths[row + 1 :]])
        self.recurrent.restore(point.recurrent, [row])

    def extract(self, rows: Sequence[int]) -> Self:
        """A memory of its own, without spare capacity, holding copies of the sequences ``rows``."""
        return type(self)(self.kv.extract(rows), self.recurrent.extract(rows), self.tower.extract(rows))

    def restore(self, snapshot: Self, rows: Sequence[int] | None = None) -> None:
        """Overwrite the sequences ``rows`` (all when None) with those of ``snapshot``."""
        self.kv.restore(snapshot.kv, rows)
        self.recurrent.restore(snapshot.recurrent, rows)
        self.tower.restore(snapshot.tower, rows)

    @classmethod
    def merge(cls, memories: Sequence[Self]) -> Self:
        """One memory with the sequences of all ``memories``, in order (copies)."""
        return cls(
            KVMemory.merge([memory.kv for memory in memories]),
            RecurrentMemory.merge([memory.recurrent for memory in memories]),
            KVMemory.merge([memory.tower for memory in memories]),
        )
