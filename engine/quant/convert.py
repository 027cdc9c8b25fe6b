"""A checkpoint folder quantised into another, file by file; an interrupted run goes on where it was.

Of the new folder ``config.json`` comes last: until then nothing loads it. What is finished is listed in a file of its
own, which goes in the end.
"""

import errno
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.checkpoint.packed import Packed
from engine.checkpoint.reader import INDEX_FILE, CheckpointReader, Shard, open_checkpoint
from engine.checkpoint.writer import Piece, open_shard, write_index
from engine.config import CONFIG_FILE, read_json
from engine.errors import FootlightsError
from engine.quant.kept import PREFIX
from engine.quant.rounding import Rounding, to_nearest
from engine.quant.scheme import QUANT_METHOD, Scheme
from engine.quant.stored import component_names
from engine.voices.folder import VoiceFolder
from engine.voices.opening import VOICES_FOLDER

PROGRESS_FILE = f"{PREFIX}.json"
"""In the new folder until it is whole."""
SPARE_BYTES = 64 << 20
"""Free space asked for beyond what will be written."""


class QuantiseError(FootlightsError):
    """A checkpoint cannot be quantised into this folder; says what to do."""

    code = "cannot_quantise"


@dataclass(frozen=True)
class Result:
    """Bytes of tensors before and after, and what was not taken along."""

    source: int
    quantised: int
    voices: tuple[str, ...]
    """From recordings: what is stored of them is the original's memory, which the copy's is not."""


def quantise(
    source: Path,
    destination: Path,
    scheme: Scheme,
    make_rounding: Callable[[CheckpointReader, Path], Rounding] = lambda reader, folder: to_nearest,
    advance: Callable[[], None] = lambda: None,
    sentences: int = 0,
) -> Result:
    """Write ``source`` to ``destination`` as ``scheme`` says; one tensor at a time is in memory.

    ``make_rounding`` is called with the source and ``destination``, where it may keep files (see ``KeptTensors``);
    ``advance`` after each tensor, also of those that an earlier run has written. ``sentences``: how many it is
    calibrated with, which makes it another run.

    Raises ``QuantiseError`` for a destination that is not empty (unless it is this very run, interrupted), lies in the
    source or lacks space, ``ConfigError`` for a width that is unfit and what ``open_checkpoint`` raises.
    """
    if source.resolve() in destination.resolve().parents:
        raise QuantiseError(f"{destination} lies in {source}; choose a folder outside")
    with open_checkpoint(source) as reader:
        if reader.quantisation is not None and reader.quantisation.method == QUANT_METHOD:
            raise QuantiseError(f"{source} is quantised by footlights already; quantise the original")
        pieces = {shard.path: list(_pieces(reader, shard, scheme)) for shard in reader.shards}
        voices = tuple(VoiceFolder(source / VOICES_FOLDER).entries())
        others = _other_files(source, reader, voices)
        progress = _Progress.find(destination, _identity(source, reader, scheme, sentences))
        needed = sum(p.nbytes for shard in pieces.values() for p in shard) + sum(f.stat().st_size for f in others)
        _require_space(destination, needed - progress.written_bytes)
        progress.begin()
        names = _file_names(reader.shards)
        try:
            rounding = make_rounding(reader, destination)
            for shard in reader.shards:
                if names[shard.path] in progress.finished:
                    for _ in shard.names:
                        advance()
                    continue
                _write_shard(
                    reader, shard, destination / names[shard.path], pieces[shard.path], scheme, rounding, advance
                )
                progress.add(names[shard.path])
            for file in others:
                _copy(source / file.relative_to(source), destination / file.relative_to(source))
            if len(reader.shards) > 1:
                write_index(destination, {names[path]: shard for path, shard in pieces.items()})
            _write_config(source, destination, scheme)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise QuantiseError(
                    f"no space left for {destination}; free {_size(needed)} and run the same command again"
                ) from error
            raise QuantiseError(f"{destination} cannot be written: {error}") from error
        except FootlightsError:
            progress.take_back()
            raise
        before = sum(reader.stored_bytes(name) for name in reader.names())
    progress.end()
    return Result(before, sum(piece.nbytes for shard in pieces.values() for piece in shard), voices)


def tensor_count(source: Path) -> int:
    """How often ``quantise`` will call ``advance``."""
    with open_checkpoint(source) as reader:
        return sum(1 for _ in reader.names())


def _pieces(reader: CheckpointReader, shard: Shard, scheme: Scheme) -> Iterator[Piece]:
    """What will be written for a shard, in order."""
    for name in shard.names:
        part, shape = scheme.of_tensor(name), reader.shape(name)
        if part.is_packed:
            outputs, inputs = shape
            grid = (outputs, inputs // part.group_for(name, inputs))
            codes, scales, offsets, gains = component_names(name)
            if part.bits == 8:
                yield Piece(codes, torch.int8, (outputs, inputs))
                yield Piece(scales, torch.bfloat16, grid)
            else:
                yield Piece(codes, torch.uint8, (outputs, inputs // 2))
                yield Piece(scales, torch.bfloat16, grid)
                yield Piece(offsets, torch.bfloat16, grid)
                if part.has_gains:
                    yield Piece(gains, torch.bfloat16, (inputs,))
        else:
            yield Piece(name, _kept(reader.read(name)).dtype, shape)


def _kept(tensor: Tensor | Packed) -> Tensor:
    """A tensor that is not quantised here; what the source holds packed becomes bfloat16."""
    return tensor.dequantise(torch.bfloat16) if isinstance(tensor, Packed) else tensor


def _write_shard(
    reader: CheckpointReader,
    shard: Shard,
    path: Path,
    pieces: Sequence[Piece],
    scheme: Scheme,
    rounding: Rounding,
    advance: Callable[[], None],
) -> None:
    with open_shard(path, pieces) as writer:
        for name in shard.names:
            part = scheme.of_tensor(name)
            if part.is_packed:
                weight = reader.read(name)
                matrix = rounding(name, weight.dequantise() if isinstance(weight, Packed) else weight, part)
                for piece, tensor in zip(component_names(name), matrix.tensors().values(), strict=False):
                    writer.write(piece, tensor)
            else:
                writer.write(name, _kept(reader.read(name)))
            advance()


def _file_names(shards: Sequence[Shard]) -> dict[Path, str]:
    """Names of the new files by the old ones."""
    if len(shards) == 1:
        return {shards[0].path: "model.safetensors"}
    return {shard.path: f"model-{i:05}-of-{len(shards):05}.safetensors" for i, shard in enumerate(shards, 1)}


def _other_files(source: Path, reader: CheckpointReader, voices: Sequence[str]) -> list[Path]:
    """Files of the folder that are neither weights, read or not, nor configuration: tokenizer, codec, licence."""
    left_out = {shard.path for shard in reader.shards} | {source / INDEX_FILE, source / CONFIG_FILE}
    for pattern in ("*.gguf", "model*.safetensors"):
        left_out.update(source.glob(pattern))
    left_out.update(source / VOICES_FOLDER / f"{name}.safetensors" for name in voices)
    files = (path for path in sorted(source.rglob("*")) if path.is_file() and path not in left_out)
    return [path for path in files if not any(part.startswith(".") for part in path.relative_to(source).parts)]


def _copy(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    partial = to.with_name(f"{to.name}.partial")
    try:
        shutil.copyfile(file, partial)
        partial.replace(to)
    finally:
        partial.unlink(missing_ok=True)


def _write_config(source: Path, destination: Path, scheme: Scheme) -> None:
    values = {**read_json(source / CONFIG_FILE), "quantization_config": scheme.to_dict()}
    _write_json(destination / CONFIG_FILE, values)


def _write_json(path: Path, values: Any) -> None:
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _identity(source: Path, reader: CheckpointReader, scheme: Scheme, sentences: int) -> str:
    """Changes whenever the result would: another source, scheme or calibration."""
    files = [(shard.path.name, shard.nbytes, shard.path.stat().st_mtime_ns) for shard in reader.shards]
    values = [(source / CONFIG_FILE).read_text(encoding="utf-8"), files, scheme.to_dict(), sentences]
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def _require_space(destination: Path, needed: int) -> None:
    there = next(path for path in (destination, *destination.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free < needed + SPARE_BYTES:
        raise QuantiseError(
            f"{destination} needs {_size(needed + SPARE_BYTES)}, {_size(free)} are free there; free some"
        )


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e9:,.1f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:,.1f} MB"


class _Progress:
    """Which files of the new folder are finished, on disk after each."""

    def __init__(self, destination: Path, identity: str, finished: list[str]) -> None:
        self._path = destination / PROGRESS_FILE
        self._identity, self.finished = identity, finished
        self._made: list[Path] = []
        """Folders that were not there before, the innermost first."""

    @classmethod
    def find(cls, destination: Path, identity: str) -> "_Progress":
        """Of a folder to be, or of this very run, interrupted. Raises ``QuantiseError`` for any other content."""
        path = destination / PROGRESS_FILE
        try:
            if path.exists():
                values = json.loads(path.read_text(encoding="utf-8"))
                if values["identity"] != identity:
                    raise QuantiseError(
                        f"{destination} holds an unfinished run from another source or with other options; "
                        "repeat that command, or choose another folder"
                    )
                finished = [str(name) for name in values["finished"]]
                return cls(destination, identity, [name for name in finished if (destination / name).is_file()])
            if destination.exists() and any(destination.iterdir()):
                raise QuantiseError(f"{destination} is not empty; choose another folder")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise QuantiseError(f"{destination} cannot be used: {error}") from error
        return cls(destination, identity, [])

    def begin(self) -> None:
        """Make the folder, and say in it what it will be. Raises ``QuantiseError``."""
        folder = self._path.parent
        self._made = [path for path in (folder, *folder.parents) if not path.exists()]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._save()
        except OSError as error:
            raise QuantiseError(f"{folder} cannot be used: {error}") from error

    def take_back(self) -> None:
        """Leave nothing of a run in which nothing was made that a repetition could use."""
        if [path.name for path in self._path.parent.iterdir()] == [PROGRESS_FILE] and not self.finished:
            self._path.unlink()
            for folder in self._made:
                folder.rmdir()

    @property
    def written_bytes(self) -> int:
        """Bytes of the finished files."""
        return sum((self._path.parent / name).stat().st_size for name in self.finished)

    def add(self, name: str) -> None:
        """One more is finished."""
        self.finished.append(name)
        self._save()

    def end(self) -> None:
        """All is."""
        for path in self._path.parent.glob(f"{PREFIX}*"):
            path.unlink()

    def _save(self) -> None:
        _write_json(self._path, {"identity": self._identity, "finished": self.finished})
