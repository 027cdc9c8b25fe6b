"""Which model a voice was made for: a fingerprint that costs milliseconds, not the reading of a whole checkpoint."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.config import read_json
from engine.errors import ConfigError
from engine.manifest import KEY
from engine.voices.files import Label

_SUFFIXES = (".safetensors", ".gguf")
_CODEC = "codec."
_BLOCK_BYTES = 4096
_BLOCKS = 32


@dataclass(frozen=True)
class ModelMark:
    """What voices of a model are labelled with: its fingerprint, its name, and the type its memory has."""

    identity: str
    name: str
    dtype: torch.dtype

    @property
    def dtype_name(self) -> str:
        """As labels have it."""
        return str(self.dtype).removeprefix("torch.")

    def problem(self, label: Label) -> str | None:
        """Why a voice of that label cannot be used as it is; None if it can."""
        if label.model != self.identity:
            return f"it was made for another model ({label.model_name}), not for this {self.name}"
        if label.dtype != self.dtype_name:
            return f"it was made for {self.name} in {label.dtype}, which computes in {self.dtype_name} here"
        return None


def model_identity(folder: Path) -> str:
    """Hexadecimal fingerprint of what decides a decoder's memory: configuration and weights.

    Weights are sampled, by size and by blocks spread evenly over each file, so that another revision or quantisation
    is told apart. A checkpoint's name, licence and voices do not count, nor does its codec. Raises ``ConfigError``.
    """
    digest = hashlib.sha256()
    try:
        values = {key: value for key, value in read_json(folder / "config.json").items() if key != KEY}
        digest.update(json.dumps(values, sort_keys=True).encode())
        for path in sorted(folder.iterdir()):
            if path.suffix in _SUFFIXES and not path.name.startswith(_CODEC):
                for block in _samples(path):
                    digest.update(block)
    except OSError as error:
        raise ConfigError(f"cannot read the checkpoint {folder}: {error}") from error
    return digest.hexdigest()[:32]


def _samples(path: Path) -> Iterator[bytes]:
    """Size and evenly spread blocks of a file, its first and last among them."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        yield size.to_bytes(8, "little")
        last = max(0, size - _BLOCK_BYTES)
        for i in range(_BLOCKS):
            file.seek(last * i // (_BLOCKS - 1))
            yield file.read(_BLOCK_BYTES)
