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
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.checkpoint.packed import Packed
from engine.checkpoint.reader import INDEX_FILE, CheckpointReader, Shard, open_checkpoint
from engine.checkpoint.writer import Piece, open_shard, write_index
from engine.config import CONFIG_FILE, read_json
from engine.errors import FootlightsError
from engine.quant.integer import IntegerMatrix, round_to_nearest
from engine.quant.scheme import QUANT_METHOD, PartScheme, Scheme
from engine.quant.stored import component_names

PROGRESS_FILE = "quantising.json"
"""In the new folder until it is whole."""
WORK_PREFIX = "quantising"
"""Files of an unfinished run that are no part of the result begin with it."""
SPARE_BYTES = 64 << 20
"""Free space asked for beyond what will be written."""


class QuantiseError(FootlightsError):
    """A checkpoint cannot be quantised into this folder; says what to do."""

    code = "cannot_quantise"


class Rounding(Protocol):
    """How the codes of a matrix are chosen."""

    def __call__(self, name: str, weight: Tensor, part: PartScheme) -> IntegerMatrix:
        """Quantise tensor ``name``, ``weight`` [O, I] of any floating type."""


def to_nearest(name: str, weight: Tensor, part: PartScheme) -> IntegerMatrix:
    """Every value to the nearest of its grid."""
    return round_to_nearest(weight, part.bits, part.group_for(name, weight.shape[1]))


@dataclass(frozen=True)
class Size:
    """Bytes of tensors before and after."""

    source: int
    quantised: int


def quantise(
    source: Path,
    destination: Path,
    scheme: Scheme,
    make_rounding: Callable[[Path], Rounding] = lambda folder: to_nearest,
    advance: Callable[[], None] = lambda: None,
    sentences: int = 0,
) -> Size:
    """Write ``source`` to ``destination`` as ``scheme`` says; one tensor at a time is in memory.

    ``make_rounding`` is called with ``destination``, where it may keep files that begin with ``WORK_PREFIX``;
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
        others = _other_files(source, reader)
        progress = _Progress.begin(destination, _identity(source, reader, scheme, sentences))
        needed = sum(p.nbytes for shard in pieces.values() for p in shard) + sum(f.stat().st_size for f in others)
        _require_space(destination, needed - progress.written_bytes)
        names = _file_names(reader.shards)
        try:
            rounding = make_rounding(destination)
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
        before = sum(reader.stored_bytes(name) for name in reader.names())
    progress.end()
    return Size(before, sum(piece.nbytes for shard in pieces.values() for piece in shard))


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


def _other_files(source: Path, reader: CheckpointReader) -> list[Path]:
    """Files of the folder beside weights and configuration: tokenizer, codec, voices, licence."""
    weights = {shard.path for shard in reader.shards} | {source / INDEX_FILE, source / CONFIG_FILE}
    files = (path for path in sorted(source.rglob("*")) if path.is_file() and path not in weights)
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
    free = shutil.disk_usage(destination).free
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

    @classmethod
    def begin(cls, destination: Path, identity: str) -> "_Progress":
        """Of a new folder, or of this very run, interrupted. Raises ``QuantiseError`` for any other content."""
        path = destination / PROGRESS_FILE
        try:
            destination.mkdir(parents=True, exist_ok=True)
            if path.exists():
                values = json.loads(path.read_text(encoding="utf-8"))
                if values["identity"] != identity:
                    raise QuantiseError(
                        f"{destination} holds an unfinished run from another source or with other options; "
                        "repeat that command, or choose another folder"
                    )
                finished = [str(name) for name in values["finished"]]
                return cls(destination, identity, [name for name in finished if (destination / name).is_file()])
            if any(destination.iterdir()):
                raise QuantiseError(f"{destination} is not empty; choose another folder")
            progress = cls(destination, identity, [])
            progress._save()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise QuantiseError(f"{destination} cannot be used: {error}") from error
        return progress

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
        for path in self._path.parent.glob(f"{WORK_PREFIX}*"):
            path.unlink()

    def _save(self) -> None:
        _write_json(self._path, {"identity": self._identity, "finished": self.finished})
