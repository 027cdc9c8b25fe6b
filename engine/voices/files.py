"""A voice as one safetensors file: what it was made from, for whom, and the decoder's memory, ready to be copied.

Tensors: ``references.N.codes`` [C, F] (int16), ``rows`` [T, 1 + C] (int32, the prompt up to the text), ``probe`` [S]
(what the codec makes of a fixed pattern, so that codes of another codec are told apart) and the memory after all rows
but the last: ``kv.keys``, ``kv.values``, ``recurrent.window``, ``recurrent.matrix``, ``tower.keys``, ``tower.values``.

Axes: C codebooks, F frames, T rows, S samples.
"""

import contextlib
import hashlib
import json
import math
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from engine.cache.decoder import DecoderState
from engine.cache.kv import KVMemory
from engine.cache.recurrent import RecurrentMemory
from engine.errors import VoiceError
from engine.prompt import Reference

FORMAT = "footlights-voice-1"
MOST_BYTES = 4 * 1024**3
_HASH = "content_hash"
_UNREADABLE = (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError)
"""What files raise that were made to be no voices; torch's errors and Python's of deep nesting are ``RuntimeError``."""
_MEMORY = ("kv.keys", "kv.values", "recurrent.window", "recurrent.matrix", "tower.keys", "tower.values")


@dataclass(frozen=True)
class Label:
    """What a voice's file says of itself."""

    model: str
    """Identity of the model it was made for (``engine/voices/identity.py``)."""
    model_name: str
    dtype: str
    """Of the memory: that which the model computes in."""
    transcripts: tuple[str, ...]
    durations_s: tuple[float, ...]
    """Lengths of the recordings."""

    @property
    def duration_s(self) -> float:
        """Of all recordings."""
        return sum(self.durations_s)


@dataclass(frozen=True)
class StoredVoice:
    """All that a file holds."""

    label: Label
    codes: tuple[Tensor, ...]
    """Of each recording, [C, F] (int64)."""
    rows: Tensor
    """[T, 1 + C] (int64)."""
    memory: DecoderState
    probe: Tensor

    @property
    def references(self) -> tuple[Reference, ...]:
        """What the voice was made from."""
        pairs = zip(self.label.transcripts, self.codes, strict=True)
        return tuple(Reference(transcript, codes) for transcript, codes in pairs)


def read_label(path: Path) -> Label:
    """What the file at ``path`` says of itself, without reading its tensors. Raises ``VoiceError``."""
    try:
        with safe_open(path, framework="pt") as file:
            return _label(file.metadata() or {})
    except _UNREADABLE as error:
        raise VoiceError(f"{path.name} is no voice of format {FORMAT}: {error}") from error


def load_voice(path: Path) -> StoredVoice:
    """Read a voice and check its hash. Raises ``VoiceError``."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise VoiceError(f"{path.name} has more than {MOST_BYTES} bytes, which no voice has")
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
            # Copies: what lies in the file may change under us.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - not a mapping
        label = _label(metadata)
        if metadata.get(_HASH) != _content_hash(tensors, metadata):
            raise VoiceError(f"{path.name} is damaged: its content is not what its hash says; add the voice again")
        return _assemble(label, tensors)
    except _UNREADABLE as error:
        raise VoiceError(f"{path.name} is no voice of format {FORMAT}: {error}") from error


def save_voice(path: Path, voice: StoredVoice) -> None:
    """Write a voice; the file is there whole or not at all. Raises ``VoiceError``."""
    label, memory = voice.label, voice.memory
    tensors = {
        **{f"references.{i}.codes": codes.to(torch.int16) for i, codes in enumerate(voice.codes)},
        "rows": voice.rows.to(torch.int32),
        "probe": voice.probe,
        **dict(zip(_MEMORY, _parts(memory), strict=True)),
    }
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {
        "format": FORMAT,
        "model": label.model,
        "model_name": label.model_name,
        "dtype": label.dtype,
        "transcripts": json.dumps(label.transcripts, ensure_ascii=False),
        "durations_s": json.dumps(label.durations_s),
    }
    metadata[_HASH] = _content_hash(tensors, metadata)
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, part, metadata)
        os.replace(part, path)
    except (SafetensorError, OSError) as error:
        raise VoiceError(f"the voice cannot be written to {path.parent}: {error}") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def _label(metadata: Mapping[str, str]) -> Label:
    if metadata.get("format") != FORMAT:
        raise ValueError(f"its format is {metadata.get('format')!r}")
    transcripts, durations_s = json.loads(metadata["transcripts"]), json.loads(metadata["durations_s"])
    if not transcripts or len(transcripts) != len(durations_s) or not all(isinstance(t, str) for t in transcripts):
        raise ValueError("it has no transcript for each recording")
    durations_s = tuple(float(duration_s) for duration_s in durations_s)
    if not all(math.isfinite(duration_s) for duration_s in durations_s):
        raise ValueError("its recordings have no length")
    return Label(metadata["model"], metadata["model_name"], metadata["dtype"], tuple(transcripts), durations_s)


def _assemble(label: Label, tensors: dict[str, Tensor]) -> StoredVoice:
    codes = tuple(tensors.pop(f"references.{i}.codes").long() for i in range(len(label.transcripts)))
    rows, probe = tensors.pop("rows").long(), tensors.pop("probe")
    parts = [tensors.pop(name) for name in _MEMORY]
    if tensors:
        raise ValueError(f"unexpected tensor {min(tensors)}")
    if rows.dim() != 2 or any(of_one.dim() != 2 for of_one in codes) or not all(p.isfinite().all() for p in parts):
        raise ValueError("its numbers are none of a voice")
    length = [len(rows) - 1]
    memory = DecoderState(
        KVMemory(parts[0], parts[1], length), RecurrentMemory(parts[2], parts[3]), KVMemory(parts[4], parts[5], length)
    )
    return StoredVoice(label, codes, rows, memory, probe)


def _parts(memory: DecoderState) -> tuple[Tensor, ...]:
    """The tensors of a memory of one sequence without spare capacity, in the order of ``_MEMORY``."""
    kv, recurrent, tower = memory.kv, memory.recurrent, memory.tower
    return kv.keys, kv.values, recurrent.window, recurrent.matrix, tower.keys, tower.values


def memory_on(device: torch.device, memory: DecoderState) -> DecoderState:
    """The memory on ``device``: itself, if it is there."""
    lengths, tower_lengths = memory.kv.lengths, memory.tower.lengths
    parts = [part.to(device) for part in _parts(memory)]
    return DecoderState(
        KVMemory(parts[0], parts[1], lengths),
        RecurrentMemory(parts[2], parts[3]),
        KVMemory(parts[4], parts[5], tower_lengths),
    )


def memory_shapes(memory: DecoderState, rows: int) -> list[tuple[tuple[int, ...], torch.dtype]]:
    """Shape and dtype that each stored part has for a model whose memory is like ``memory``, after ``rows`` rows."""

    def shape(name: str, part: Tensor) -> tuple[int, ...]:
        return (*part.shape[:3], rows, *part.shape[4:]) if name.endswith(("keys", "values")) else tuple(part.shape)

    return [(shape(name, part), part.dtype) for name, part in zip(_MEMORY, _parts(memory), strict=True)]


def _content_hash(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for key in sorted(metadata.keys() - {_HASH}):
        digest.update(json.dumps([key, metadata[key]]).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
