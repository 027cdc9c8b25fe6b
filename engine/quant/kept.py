"""What a run has worked out and will need again, on disk: of no use once it has ended well."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from engine.checkpoint.safetensors_file import SafetensorsFile
from engine.checkpoint.writer import Piece, open_shard
from engine.errors import ConfigError, WeightsError

PREFIX = "quantising"
"""What names of files begin with that are in a folder of something else."""


class KeptTensors:
    """Tensors by the name of a file, in one folder."""

    def __init__(self, folder: Path, prefix: str = PREFIX) -> None:
        self._folder, self._prefix = folder, prefix

    def make_folder(self) -> None:
        """For one that may not be there yet. Raises ``OSError``."""
        self._folder.mkdir(parents=True, exist_ok=True)

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
        return self._folder / f"{self._prefix}.{name}.safetensors"
