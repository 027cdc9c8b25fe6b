"""A safetensors file, mapped into memory: its header checked, its tensors views of the mapping.

The library's own reader gives tensors, too, but neither says which tensor a cut file lacks nor lets go of pages: with
``release`` a walk through a file of any size holds one tensor of it in memory.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.checkpoint.mapped import MappedFile
from engine.errors import WeightsError

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
"""Element types by their name in the header."""

_MOST_HEADER_BYTES = 100_000_000


@dataclass(frozen=True)
class Entry:
    """One tensor of a file: what it is, and where its bytes lie (from the start of the file)."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def nbytes(self) -> int:
        """Bytes of its values."""
        return self.stop - self.start


class SafetensorsFile(MappedFile):
    """The tensors of one file, by name. Raises ``WeightsError`` for anything but a whole, well-formed file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.entries, self.metadata = _read_header(self)

    def tensor(self, name: str) -> Tensor:
        """A tensor as stored: a view of the mapping, not to be written to."""
        entry = self.entries[name]
        return self.view(entry.start, entry.stop, entry.dtype, entry.shape)


def _read_header(file: MappedFile) -> tuple[dict[str, Entry], dict[str, str]]:
    path, head = file.path, file.bytes_at(0, 8)
    length = int.from_bytes(head, "little")
    if len(head) < 8 or length > min(_MOST_HEADER_BYTES, file.nbytes - 8):
        raise WeightsError(f"{path} cannot be read: it is cut off in its header, or is no safetensors file")
    try:
        header = json.loads(file.bytes_at(8, length), object_pairs_hook=_without_duplicates)
        metadata = header.pop("__metadata__", {})
        entries = {name: _entry(values, 8 + length) for name, values in header.items()}
        metadata = {str(key): str(value) for key, value in metadata.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WeightsError(f"{path} cannot be read: its header makes no sense: {error}") from error
    position = 8 + length
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)):
        if entry.start != position:
            raise WeightsError(f"{path} cannot be read: {name} starts at byte {entry.start}, not at {position}")
        position = entry.stop
        if position > file.nbytes:
            missing = position - file.nbytes
            raise WeightsError(f"{path} cannot be read: it is cut off, {name} ends {missing} bytes after the file")
    if position != file.nbytes:
        raise WeightsError(f"{path} cannot be read: {file.nbytes - position} bytes follow its last tensor")
    return entries, metadata


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key stands in it twice")
    return values


def _entry(values: dict[str, Any], base: int) -> Entry:
    shape, (start, stop) = tuple(values["shape"]), values["data_offsets"]
    if not all(type(number) is int and number >= 0 for number in (*shape, start, stop)):
        raise ValueError("sizes and offsets must be natural numbers")
    if values["dtype"] not in DTYPES:
        raise ValueError(f"unknown dtype {values['dtype']!r}")
    dtype = DTYPES[values["dtype"]]
    if stop - start != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{stop - start} bytes are not a {values['dtype']} tensor of shape {list(shape)}")
    return Entry(dtype, shape, base + start, base + stop)
