"""``codec.pth``, the published form, to plain tensors: nothing in the file is ever executed.

A pickle is a program. Torch's restricted reader builds tensors and containers of them, and refuses the rest before it
runs. Weight-normalised convolutions come in two spellings (direction and length apart) and are folded into one weight.
"""

import warnings
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from engine.errors import WeightsError

NORM_SPELLINGS = (
    (".parametrizations.weight.original0", ".parametrizations.weight.original1"),
    (".weight_g", ".weight_v"),
)
"""How a weight-normalised layer calls its lengths [out, 1, ..] and its directions [out, ..]."""
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def read_checkpoint(path: Path, transformers: Iterable[str]) -> dict[str, Tensor]:
    """The tensors of ``codec.pth`` by their names in our modules, folded, float32.

    ``transformers`` are the names of modules whose own tables (masks, rotations) are left out. Raises
    ``WeightsError`` for a file that is no dictionary of tensors, one with code in it above all.
    """
    tables, stored = tuple(f"{name}." for name in transformers), unwrap(_load(path), path)
    weights: dict[str, Tensor] = {}
    for name, tensor in stored.items():
        prefix = next((table for table in tables if name.startswith(table)), None)
        if prefix is not None and "." not in name.removeprefix(prefix):
            continue
        if tensor.dtype not in _FLOATS:
            raise WeightsError(f"{path}: {name} is {tensor.dtype}, which no weight of a codec is")
        weights[name] = tensor
    return {name: tensor.float().contiguous() for name, tensor in fold(weights, path).items()}


def _load(path: Path) -> Any:
    try:
        # Mapped, so that the tables (a fifth of the published file) are never read; only the newer form allows it.
        with warnings.catch_warnings():
            # That the file uses a newer pickle protocol; it is read or refused all the same.
            warnings.simplefilter("ignore", UserWarning)
            return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except UnpicklingError as error:
        reason = str(error).partition("\n")[0]
        raise WeightsError(
            f"{path} is not a plain dictionary of tensors; it was not run, and must not be: {reason}"
        ) from error
    except Exception as error:
        # What a damaged pickle or archive raises depends on where it is damaged.
        raise WeightsError(f"{path} cannot be read as weights: {error}") from error


def unwrap(loaded: Any, path: Path) -> dict[str, Tensor]:
    """The state dictionary in what was ``loaded``: some training exports wrap it and prefix its names."""
    if isinstance(loaded, Mapping) and isinstance(loaded.get("state_dict"), Mapping):
        loaded = loaded["state_dict"]
    if not isinstance(loaded, Mapping) or not all(isinstance(name, str) for name in loaded):
        raise WeightsError(f"{path} holds no dictionary of tensors by name")
    generator = {n.removeprefix("generator."): value for n, value in loaded.items() if n.startswith("generator.")}
    tensors = generator or dict(loaded)
    if wrong := next((name for name, value in tensors.items() if not isinstance(value, Tensor)), None):
        raise WeightsError(f"{path}: {wrong} is no tensor")
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided or tensor.is_meta or tensor.is_nested:
            raise WeightsError(f"{path}: {name} is no plain tensor")
        # A view may repeat the few values that are stored; a copy of it would not be few any more.
        if tensor.numel() * tensor.itemsize > tensor.untyped_storage().nbytes():
            raise WeightsError(f"{path}: {name} claims more values than the file has of it")
    return tensors


def fold(tensors: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """``weight = length * direction / |direction|`` for every weight-normalised layer; the rest as it is."""
    folded = dict(tensors)
    for length_end, direction_end in NORM_SPELLINGS:
        for name in tensors:
            if not name.endswith((length_end, direction_end)):
                continue
            base = name.removesuffix(length_end).removesuffix(direction_end)
            length, direction = folded.pop(base + length_end, None), folded.pop(base + direction_end, None)
            if length is None and direction is None:
                continue
            if length is None or direction is None:
                raise WeightsError(f"{path}: {base} has only half of a normalised weight ({name})")
            if f"{base}.weight" in folded:
                raise WeightsError(f"{path}: {base} has a weight and a normalised one")
            ends = [1] * (direction.dim() - 1)
            if not ends or not direction.numel() or length.shape != (direction.shape[0], *ends):
                shapes = f"{list(length.shape)} and {list(direction.shape)}"
                raise WeightsError(f"{path}: {base} has a normalised weight of shapes {shapes}")
            direction = direction.float()
            norm = direction.flatten(1).norm(dim=1).view(length.shape)
            folded[f"{base}.weight"] = direction * (length.float() / norm)
    return folded
