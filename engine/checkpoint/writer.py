"""Checkpoints written tensor by tensor: only one of them is in memory, and a half-written file is never found.

A ``ShardWriter`` is told beforehand what will come, because a safetensors file begins with its table of contents.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from engine.checkpoint.reader import INDEX_FILE
from engine.checkpoint.safetensors_file import DTYPES

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class Piece:
    """A tensor that will be written."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of its values."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize

    @classmethod
    def of(cls, name: str, tensor: Tensor) -> "Piece":
        """The description of a tensor."""
        return cls(name, tensor.dtype, tuple(tensor.shape))


class ShardWriter:
    """One file. Pieces are written in the order in which they were announced."""

    def __init__(self, file: BinaryIO, pieces: Sequence[Piece]) -> None:
        header: dict[str, object] = {"__metadata__": {"format": "pt"}}
        position = 0
        for piece in pieces:
            offsets = [position, position + piece.nbytes]
            header[piece.name] = {"dtype": _NAMES[piece.dtype], "shape": list(piece.shape), "data_offsets": offsets}
            position += piece.nbytes
        text = json.dumps(header, separators=(",", ":")).encode()
        # Padded with spaces, so that tensors start at a multiple of 8.
        text += b" " * (-len(text) % 8)
        file.write(len(text).to_bytes(8, "little") + text)
        self._file, self._pieces = file, list(reversed(pieces))

    def write(self, name: str, tensor: Tensor) -> None:
        """Write the next piece."""
        piece = self._pieces.pop()
        assert piece == Piece.of(name, tensor), (piece, name, tensor.dtype, tensor.shape)
        if piece.nbytes:
            self._file.write(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)

    @property
    def is_complete(self) -> bool:
        """Whether all pieces are written."""
        return not self._pieces


@contextmanager
def open_shard(path: Path, pieces: Sequence[Piece]) -> Iterator[ShardWriter]:
    """Write a file under another name; it gets its own when the block ends well, and goes when it does not."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            writer = ShardWriter(file, pieces)
            yield writer
            assert writer.is_complete, path
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def plan_shards(pieces: Sequence[Piece], shard_bytes: int) -> dict[str, list[Piece]]:
    """Cut ``pieces`` into files of about ``shard_bytes``, wherever that falls, by the usual names of shards."""
    shards: list[list[Piece]] = [[]]
    held = 0
    for piece in pieces:
        if shards[-1] and held + piece.nbytes > shard_bytes:
            shards.append([])
            held = 0
        shards[-1].append(piece)
        held += piece.nbytes
    return {f"model-{i:05}-of-{len(shards):05}.safetensors": shard for i, shard in enumerate(shards, 1)}


def write_index(folder: Path, shards: dict[str, list[Piece]]) -> None:
    """Write the index of ``shards``. Last, because a folder with an index claims to be whole."""
    values = {
        "metadata": {"total_size": sum(piece.nbytes for shard in shards.values() for piece in shard)},
        "weight_map": {piece.name: file for file, shard in shards.items() for piece in shard},
    }
    (folder / INDEX_FILE).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
