"""Which model a voice was made for: a fingerprint that costs milliseconds, not the reading of a whole checkpoint."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from engine.config import read_json
from engine.errors import ConfigError
from engine.manifest import KEY

_SUFFIXES = (".safetensors", ".gguf")
_CODEC = "codec."
_BLOCK_BYTES = 4096
_BLOCKS = 32


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
