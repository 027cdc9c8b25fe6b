"""Files of an unfinished run that are no part of its result: what it has worked out and will need again."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from engine.checkpoint.safetensors_file import SafetensorsFile
from engine.checkpoint.writer import Piece, open_shard
from engine.errors import ConfigError, WeightsError

PREFIX = "quantising"
"""What their names begin with."""


class KeptTensors:
    """Tensors by the name of a file, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Keep ``tensors``: all of them, or none. Raises ``OSError``."""
        with open_shard(self._path(name), [Piece.of(key, tensor) for key, tensor in tensors.items()]) as writer:
            for key, tensor in tensors.items():
                writer.write(key, tensor)

    def get(self, name: str) -> dict[str, Tensor] | None:
        """What was kept, views of the file; None if nothing was. Raises ``ConfigError`` if it is damaged."""
        path = self._path(name)
        if not path.exists():
            return None
        try:
            file = SafetensorsFile(path)
        except WeightsError as error:
            raise ConfigError(f"{error}; delete it and run the same command again") from error
        return {key: file.tensor(key) for key in file.entries}

    def _path(self, name: str) -> Path:
        return self._folder / f"{PREFIX}.{name}.safetensors"
