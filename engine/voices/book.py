"""Voices by name: the rows that make one, and the decoder's memory after them, ready to be copied.

Axes: T rows, C codebooks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from engine.cache.decoder import DecoderState
from engine.errors import UnknownVoiceError


@dataclass(frozen=True)
class VoicePrefix:
    """What makes a voice: prompt ``rows`` [T, 1 + C] (int64), and its index in the aligned text stream."""

    rows: Tensor
    index: int = 0


@dataclass(frozen=True)
class ReadyVoice:
    """A voice as a saved state: memory after all rows but the last, which is ``pending`` [1 + C]. Only ever copied."""

    prefix: VoicePrefix
    pending: Tensor
    memory: DecoderState

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.memory.nbytes + self.prefix.rows.nbytes


class VoiceBook:
    """All voices of a model. ``prepare`` runs a prefix through the decoder, once per voice, when first asked for."""

    def __init__(self, prefixes: Mapping[str, VoicePrefix], prepare: Callable[[VoicePrefix], ReadyVoice]) -> None:
        self._prefixes = dict(prefixes)
        self._prepare = prepare
        self._ready: dict[str, ReadyVoice] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Voices there are."""
        return tuple(self._prefixes)

    @property
    def nbytes(self) -> int:
        """Bytes the ready voices hold."""
        return sum(voice.nbytes for voice in self._ready.values())

    def ready(self, name: str) -> ReadyVoice:
        """The state of a voice. Raises ``UnknownVoiceError``, which lists the voices."""
        if name not in self._prefixes:
            raise UnknownVoiceError(f"no voice {name!r}; choose one of {', '.join(self._prefixes)}")
        if name not in self._ready:
            self._ready[name] = self._prepare(self._prefixes[name])
        return self._ready[name]
