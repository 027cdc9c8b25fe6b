"""A checkpoint folder to a ``DacCodec``; ``codec.pth`` is converted to safetensors once.

The converted file lies beside the original or, where the folder cannot be written, in the user's cache. It carries
the dimensions and the size and date of what it was made from, so that a new ``codec.pth`` is converted anew.
"""

import hashlib
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from engine.checkpoint.plausible import plain_problem
from engine.codec.dac.attention import Transformer
from engine.codec.dac.codec import DacCodec
from engine.codec.dac.config import CONFIG_FILE, DacConfig
from engine.codec.dac.convert import read_checkpoint
from engine.errors import ConfigError, WeightsError

SOURCE_FILE = "codec.pth"
CONVERTED_FILE = "codec.safetensors"
KIND = "modified-dac"
"""Says in a file's metadata, under ``codec``, whose weights it holds."""

_log = logging.getLogger(__name__)


def has_dac(folder: Path) -> bool:
    """Whether the codec of a checkpoint folder is a ModifiedDAC."""
    converted = folder / CONVERTED_FILE
    if converted.is_file() and (metadata := _metadata(converted)) is not None:
        return metadata.get("codec") == KIND
    return (folder / SOURCE_FILE).is_file()


def dac_config(folder: Path) -> DacConfig:
    """Dimensions of the codec of a checkpoint folder; those of the published one if there is none."""
    converted = folder / CONVERTED_FILE
    if not (folder / SOURCE_FILE).is_file() and converted.is_file() and (found := _metadata(converted)) is not None:
        return DacConfig.from_json(found["config"], f"{converted}, config")
    return DacConfig.from_folder(folder)


def load_dac(folder: Path, device: str = "cpu", keeps_converted: bool = True) -> DacCodec:
    """The codec of a checkpoint folder with ``codec.pth`` or its converted form, in float32, ready to run.

    On a CPU the weights are those of the file, mapped. ``keeps_converted`` False: nothing is written. Raises
    ``ConfigError``, and ``WeightsError`` naming the first tensor that does not fit.
    """
    source, beside = folder / SOURCE_FILE, folder / CONVERTED_FILE
    if not source.is_file():
        if not beside.is_file():
            raise ConfigError(f"{folder} has neither {SOURCE_FILE} nor {CONVERTED_FILE}")
        return _load_converted(beside, device)
    config, stamp = DacConfig.from_folder(folder), _stamp(source)
    places = [place for place in (beside, _cache_file(source)) if _is_ours_to_write(place)]
    wanted = {"codec": KIND, "config": config.to_json(), "source": stamp}
    for place in places:
        if place.is_file() and _metadata(place) == {"format": "pt", **wanted}:
            return _load_converted(place, device)
    codec = _meta_codec(config)
    tensors = read_checkpoint(source, [n for n, m in codec.named_modules() if isinstance(m, Transformer)])
    _check(codec, tensors, source)
    if not keeps_converted:
        return _fill(codec, tensors, device)
    for place in places:
        try:
            _write(tensors, {"format": "pt", **wanted}, place)
        except (OSError, SafetensorError) as error:
            _log.info("%s cannot be written: %s", place, error)
        else:
            _log.info("converted %s to %s", source, place)
            return _load_converted(place, device)
    _log.warning("%s was converted in memory: neither its folder nor the cache can be written", source)
    return _fill(codec, tensors, device)


def _is_ours_to_write(place: Path) -> bool:
    """Whether ``place`` is free, or holds a conversion: another codec's weights there stay."""
    return not place.exists() or (_metadata(place) or {}).get("codec") == KIND


def _cache_file(source: Path) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = hashlib.sha256(str(source.resolve()).encode()).hexdigest()[:16]
    return root / "footlights" / "codecs" / f"{name}.safetensors"


def _stamp(source: Path) -> str:
    facts = source.stat()
    return f"{facts.st_size} bytes, {facts.st_mtime_ns}"


def _metadata(path: Path) -> dict[str, str] | None:
    """Metadata of a safetensors file; None when it cannot be read."""
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError):
        return None


def _write(tensors: dict[str, Tensor], metadata: dict[str, str], place: Path) -> None:
    """All or nothing: whoever looks at ``place`` meanwhile sees no file or a whole one."""
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".codec-", suffix=".part", dir=place.parent)
    part = Path(name)
    try:
        os.close(handle)
        save_file(tensors, part, metadata)
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.chmod(0o644)
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)


def _load_converted(path: Path, device: str) -> DacCodec:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{path} cannot be read: {error}; delete it if {SOURCE_FILE} is still there") from error
    if metadata.get("codec") != KIND or "config" not in metadata:
        raise WeightsError(f"{path} holds no {KIND} weights")
    codec = _meta_codec(DacConfig.from_json(metadata["config"], f"{path}, config"))
    _check(codec, tensors, path)
    return _fill(codec, tensors, device)


def _meta_codec(config: DacConfig) -> DacCodec:
    with torch.device("meta"):
        return DacCodec(config)


def _check(codec: DacCodec, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raise ``WeightsError`` for the first tensor that is missing, unknown, misshapen or has impossible numbers."""
    wanted = codec.state_dict()
    hint = f" (dimensions other than the published ones need {CONFIG_FILE})"
    if missing := [name for name in wanted if name not in tensors]:
        raise WeightsError(f"{path}: tensor {missing[0]} is missing ({len(missing)} in all){hint}")
    if unexpected := sorted(tensors.keys() - wanted.keys()):
        raise WeightsError(f"{path}: unexpected tensor {unexpected[0]} ({len(unexpected)} in all){hint}")
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            raise WeightsError(f"{path}: {name} is {list(tensor.shape)}, not {list(wanted[name].shape)}{hint}")
        if tensor.dtype != torch.float32:
            raise WeightsError(f"{path}: {name} is {tensor.dtype}, not float32")
        if (problem := plain_problem(name, tensor)) is not None:
            raise WeightsError(f"{path}: {name} {problem}")


def _fill(codec: DacCodec, tensors: Mapping[str, Tensor], device: str) -> DacCodec:
    codec.load_state_dict({name: tensor.to(device) for name, tensor in tensors.items()}, assign=True)
    return codec.eval().requires_grad_(False)
