"""How one tensor of the model lies in the files of a checkpoint: under its own name, or as parts of a packed one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.checkpoint.packed import Packed
from engine.checkpoint.plausible import packed_problem, plain_problem
from engine.errors import WeightsError

FLOATS = (torch.bfloat16, torch.float32, torch.float16)

Get = Callable[[str], Tensor]
"""A tensor of the files, by its name there."""


class Described(Protocol):
    """What a header says of a tensor."""

    @property
    def dtype(self) -> torch.dtype:
        """Type of its elements."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""

    @property
    def nbytes(self) -> int:
        """Its size."""


Headers = Mapping[str, Described]
"""Every tensor of the files, by its name there."""


class Stored(ABC):
    """Where one tensor of the model is."""

    @property
    @abstractmethod
    def parts(self) -> tuple[str, ...]:
        """Names in the files that belong to it, the largest first."""

    @abstractmethod
    def read(self, name: str, get: Get) -> Tensor | Packed:
        """The tensor itself. Raises ``WeightsError`` with ``name`` if its numbers cannot be right."""


class Form(Protocol):
    """A way of storing matrices."""

    def find(self, name: str, shape: tuple[int, ...], headers: Headers) -> Stored | None:
        """Where tensor ``name`` is, if it lies in this form. Raises ``WeightsError`` if it does so wrongly."""


@dataclass(frozen=True)
class Plain(Stored):
    """A tensor under its own name, in floating point."""

    name: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The name."""
        return (self.name,)

    def read(self, name: str, get: Get) -> Tensor:
        """The tensor, a view of the file."""
        tensor = get(self.name)
        if (problem := plain_problem(name, tensor)) is not None:
            raise WeightsError(f"{name} {problem}")
        return tensor


class PlainForm:
    """Every tensor under its own name."""

    def find(self, name: str, shape: tuple[int, ...], headers: Headers) -> Stored | None:
        """Where tensor ``name`` is, if it is there."""
        if name not in headers:
            return None
        check(name, headers, shape, FLOATS)
        return Plain(name)


def checked(name: str, packed: Packed) -> Packed:
    """``packed``, unless there is something wrong with it: then ``WeightsError``."""
    if (problem := packed_problem(packed)) is not None:
        raise WeightsError(f"{name} {problem}")
    return packed


def check(name: str, headers: Headers, shape: tuple[int, ...], dtypes: tuple[torch.dtype, ...]) -> None:
    """Raise ``WeightsError`` unless the files have a tensor ``name`` of that shape and one of those dtypes."""
    if name not in headers:
        raise WeightsError(f"tensor {name} is missing")
    header = headers[name]
    if header.dtype not in dtypes:
        raise WeightsError(f"{name} is {_spell(header.dtype)}, not {' or '.join(_spell(dtype) for dtype in dtypes)}")
    if header.shape != shape:
        raise WeightsError(f"{name} has shape {list(header.shape)}, not {list(shape)}")


def _spell(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
