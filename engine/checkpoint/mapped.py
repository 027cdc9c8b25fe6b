"""A file mapped into memory, read-only, whose pages can be let go."""

import mmap
import warnings
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import WeightsError


class MappedFile:
    """Bytes of a file as tensors. Raises ``WeightsError`` if there is no such file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise WeightsError(f"{path} is missing")
        try:
            self.nbytes = path.stat().st_size
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: there is nothing in it
            raise WeightsError(f"{path} cannot be read: {error}") from error
        self._held: list[tuple[int, int]] = []

    def bytes_at(self, start: int, count: int) -> bytes:
        """A copy of some bytes; fewer where the file ends."""
        return self._map[start : start + count]

    def view(self, start: int, stop: int, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        """Bytes ``start`` to ``stop`` as a tensor: a view of the mapping. Writing to it ends the process."""
        if stop == start:
            return torch.empty(shape, dtype=dtype)
        self._held.append((start, stop))
        with warnings.catch_warnings():
            # It warns that the mapping cannot be written to, which is the point of it.
            warnings.simplefilter("ignore", UserWarning)
            raw = torch.frombuffer(self._map, dtype=torch.uint8, count=stop - start, offset=start)
        if start % dtype.itemsize:
            raw = raw.clone()
        return raw.view(dtype).view(shape)

    def release(self) -> None:
        """Let go of the pages viewed since the last call. They come back by themselves where a view is still in use."""
        for start, stop in self._held if hasattr(mmap, "MADV_DONTNEED") else ():
            first = start // mmap.PAGESIZE * mmap.PAGESIZE
            self._map.madvise(mmap.MADV_DONTNEED, first, stop - first)
        self._held = []
