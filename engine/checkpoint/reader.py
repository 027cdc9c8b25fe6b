"""``CheckpointReader``: the tensors of a checkpoint folder by the names of the original release.

What the folder holds is compared with what its ``config.json`` asks for when it is opened: names, shapes and dtypes
of everything. Numbers are checked when they are read.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.checkpoint.gguf import GgufFile, GgufForm
from engine.checkpoint.names import tensor_shapes
from engine.checkpoint.packed import Packed
from engine.checkpoint.quantisation import Quantisation, ignored_keys, read_quantisation
from engine.checkpoint.safetensors_file import SafetensorsFile
from engine.checkpoint.stored import Described, PlainForm, Stored
from engine.config import CONFIG_FILE, ModelConfig, read_json, unknown_keys
from engine.errors import UnsupportedFormatError, WeightsError

INDEX_FILE = "model.safetensors.index.json"
SINGLE_FILE = "model.safetensors"
_TOWER_FILE = "mmproj"
"""What names of llama.cpp's files for tower and codec begin with."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shard:
    """One file of a checkpoint, with the tensors of the model that (mostly) lie in it."""

    path: Path
    nbytes: int
    names: tuple[str, ...]


class TensorFile(Protocol):
    """A file of named tensors."""

    path: Path
    nbytes: int

    @property
    def entries(self) -> Mapping[str, Described]:
        """What it holds."""

    def tensor(self, name: str) -> Tensor:
        """One of them."""

    def release(self) -> None:
        """Let go of the memory of those read last."""


class CheckpointReader:
    """Tensors of a checkpoint. Use ``open_checkpoint``; close it, or use it as a context manager.

    Tensors read stay valid after that.
    """

    def __init__(self, config: ModelConfig, quantisation: Quantisation | None, files: list[TensorFile]) -> None:
        """Raises ``WeightsError`` naming the first tensor that is missing, unexpected, or unfit."""
        self.config, self.quantisation = config, quantisation
        self._shapes = tensor_shapes(config)
        self._files = files
        self._place: dict[str, TensorFile] = {}
        headers: dict[str, Described] = {}
        for file in files:
            for name, entry in file.entries.items():
                if name in headers:
                    raise WeightsError(f"{file.path}: tensor {name} is in {self._place[name].path.name}, too")
                headers[name], self._place[name] = entry, file
        plain, gguf = PlainForm(), GgufForm()
        self._stored: dict[str, Stored] = {}
        for name, shape in self._shapes.items():
            form = quantisation.form(name) if quantisation else plain
            ways = (gguf, form, plain)
            stored = next((found for way in ways if (found := way.find(name, shape, headers)) is not None), None)
            if stored is None:
                missing = [other for other in self._shapes if other not in headers]
                where = files[0].path if len(files) == 1 else files[0].path.parent
                raise WeightsError(f"{where}: tensor {name} is missing ({len(missing)} in all)")
            self._stored[name] = stored
        known = {part for stored in self._stored.values() for part in stored.parts}
        if unexpected := sorted(set(headers) - known):
            path = self._place[unexpected[0]].path
            raise WeightsError(f"{path}: unexpected tensor {unexpected[0]} ({len(unexpected)} in all)")
        self._touched: list[TensorFile] = []

    def __enter__(self) -> "CheckpointReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files; tensors that were read keep what they need of them."""
        self._release()
        self._files, self._place = [], {}

    def names(self) -> Iterator[str]:
        """Every tensor, in the order of storage: a single pass reads each file once."""
        for shard in self.shards:
            yield from shard.names

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The files. A tensor of several parts counts where its largest part lies."""
        names: dict[Path, list[str]] = {file.path: [] for file in self._files}
        for name, stored in self._stored.items():
            names[self._place[stored.parts[0]].path].append(name)
        return tuple(Shard(file.path, file.nbytes, tuple(names[file.path])) for file in self._files)

    @property
    def form(self) -> str:
        """How it is stored, in a word."""
        if any(isinstance(file, GgufFile) for file in self._files):
            return "GGUF"
        return self.quantisation.method if self.quantisation else "plain"

    @property
    def largest_shard_bytes(self) -> int:
        """Size of the largest file."""
        return max(file.nbytes for file in self._files)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor, packed or not."""
        return self._shapes[name]

    def stored_bytes(self, name: str) -> int:
        """Bytes that a tensor takes in the files."""
        return sum(self._place[part].entries[part].nbytes for part in self._stored[name].parts)

    def read(self, name: str) -> Tensor | Packed:
        """A tensor as stored; plain ones, and the tensors of packed ones, are views of the file: copy before writing.

        Raises ``WeightsError`` naming it if its numbers cannot be right.
        """
        self._release()
        return self._stored[name].read(name, self._get)

    def dense(self, name: str, dtype: torch.dtype) -> Tensor:
        """A tensor in ``dtype``; see ``read``."""
        tensor = self.read(name)
        return tensor.dequantise(dtype) if isinstance(tensor, Packed) else tensor.to(dtype)

    def _get(self, part: str) -> Tensor:
        file = self._place[part]
        self._touched.append(file)
        return file.tensor(part)

    def _release(self) -> None:
        for file in self._touched:
            file.release()
        self._touched = []


def open_checkpoint(folder: Path) -> CheckpointReader:
    """A reader for a checkpoint folder.

    Raises ``ConfigError`` for its configuration, ``UnsupportedFormatError`` for a form that is not read, and
    ``WeightsError`` naming the first file or tensor that does not fit.
    """
    values = read_json(folder / CONFIG_FILE)
    config = ModelConfig.from_dict(values)
    stored_as = values.get("quantization_config")
    if unknown := (*unknown_keys(values), *ignored_keys(stored_as)):
        _log.warning("%s asks for what is not known here, and not done: %s", folder / CONFIG_FILE, ", ".join(unknown))
    quantisation = read_quantisation(stored_as)
    if paths := sorted(folder.glob("*.gguf")):
        return CheckpointReader(config, quantisation, _open_gguf(folder, paths, config))
    return CheckpointReader(config, quantisation, _open_files(folder))


def _open_gguf(folder: Path, paths: list[Path], config: ModelConfig) -> list[TensorFile]:
    """GGUF files, and of the safetensors files beside them the tensors that those do not have."""
    ggufs = [GgufFile(path, config) for path in paths if not path.name.startswith(_TOWER_FILE)]
    held = {name for file in ggufs for name in file.entries}
    rest = [SafetensorsFile(path) for path in sorted(folder.glob("model*.safetensors"))]
    for file in rest:
        file.entries = {name: entry for name, entry in file.entries.items() if not _is_of(name, held)}
    if not any(name.startswith("audio_decoder") for file in rest for name in file.entries):
        raise UnsupportedFormatError(
            f"{folder} has no codebook tower: of GGUF, the backbone is read; put those of the original's "
            "model-*.safetensors files beside it that hold audio_decoder tensors"
        )
    return [*ggufs, *(file for file in rest if file.entries)]


def _is_of(name: str, held: set[str]) -> bool:
    """Whether a stored tensor is one of ``held``, or its scales."""
    return name in held or name.removesuffix("_scale_inv") in held


def _open_files(folder: Path) -> list[TensorFile]:
    """Files of the checkpoint: those of the index, each holding what the index promises, or the single one."""
    index_path = folder / INDEX_FILE
    if not index_path.exists():
        if not (folder / SINGLE_FILE).exists() and (shards := sorted(folder.glob("model-*.safetensors"))):
            raise WeightsError(f"{index_path} is missing, which says what {shards[0].name} and the others hold")
        return [SafetensorsFile(folder / SINGLE_FILE)]
    promised: dict[str, set[str]] = {}
    for name, file_name in _read_index(index_path).items():
        if Path(file_name).name != file_name:
            raise WeightsError(f"{index_path} names a file outside its folder: {file_name}")
        promised.setdefault(file_name, set()).add(name)
    files: list[TensorFile] = []
    for file_name, names in sorted(promised.items()):
        file = SafetensorsFile(folder / file_name)
        if missing := sorted(names - set(file.entries)):
            raise WeightsError(f"{file.path}: tensor {missing[0]} is missing ({len(missing)} in all)")
        if unexpected := sorted(set(file.entries) - names):
            raise WeightsError(
                f"{file.path}: unexpected tensor {unexpected[0]} ({len(unexpected)} in all): not in the index"
            )
        files.append(file)
    return files


def _read_index(path: Path) -> dict[str, str]:
    try:
        values: Any = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        return {str(name): str(file) for name, file in values.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WeightsError(f"{path} is no index of a checkpoint: {error!r}") from error
