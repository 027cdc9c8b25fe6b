"""Voices by name: the rows that make one, and the decoder's memory after them, ready to be copied.

Axes: T rows, C codebooks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from engine.cache.decoder import DecoderState
from engine.core import ClonedVoice, Recording
from engine.errors import NoCloningError, UnknownVoiceError


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


@dataclass(frozen=True)
class MadeVoice:
    """A voice that has just been made and written; ``VoiceBook.keep`` takes it in."""

    name: str
    ready: ReadyVoice
    token: object
    """Tells its file from later ones of that name."""
    notes: tuple[str, ...] = ()
    """What was allowed but will be heard."""


class VoiceBook:
    """The voices a model has by itself. ``prepare`` runs a prefix through the decoder, once, when first asked for.

    It takes no voices from recordings; ``engine/voices/library.py`` does.
    """

    def __init__(self, prefixes: Mapping[str, VoicePrefix], prepare: Callable[[VoicePrefix], ReadyVoice]) -> None:
        self._prefixes = dict(prefixes)
        self._prepare = prepare
        self._ready: dict[str, ReadyVoice] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Voices that can be used."""
        return tuple(self._prefixes)

    @property
    def cloned(self) -> tuple[ClonedVoice, ...]:
        """Voices from recordings, those included that cannot be used."""
        return ()

    @property
    def can_clone(self) -> bool:
        """Whether voices can be made of recordings."""
        return False

    @property
    def nbytes(self) -> int:
        """Bytes the ready voices hold."""
        return sum(voice.nbytes for voice in self._ready.values())

    def warm(self) -> None:
        """Make the model's own voices ready."""
        for name in self._prefixes:
            VoiceBook.ready(self, name)

    def ready(self, name: str) -> ReadyVoice:
        """The state of a voice. Raises ``UnknownVoiceError``, which lists the voices."""
        if name not in self._prefixes:
            raise UnknownVoiceError(f"no voice {name!r}; choose one of {', '.join(self.names)}")
        if name not in self._ready:
            self._ready[name] = self._prepare(self._prefixes[name])
        return self._ready[name]

    def make(self, name: str, recordings: Sequence[Recording]) -> MadeVoice:
        """Make and store a new voice; any thread may call it. Raises ``VoiceError``, ``ClipError``, ``TextError``."""
        raise NoCloningError(
            f"this model has learned its voices ({', '.join(self._prefixes)}) and cannot take another from a "
            "recording; a model whose codec has an encoder, such as Drama 3, can"
        )

    def remake(self, name: str) -> None:
        """Make a stored voice anew, for this model, from its codes. Raises as ``make``."""
        raise NoCloningError("this model has learned its voices; none of them is made of recordings")

    def keep(self, made: MadeVoice) -> None:
        """Take in what ``make`` has made."""
        raise AssertionError("nothing is made here")

    def remove(self, name: str) -> None:
        """Delete a voice from recordings. Raises ``UnknownVoiceError``, and ``VoiceError`` for the model's own."""
        if name in self._prefixes:
            raise NoCloningError(f"{name!r} is the model's own voice; only voices from recordings can be removed")
        raise UnknownVoiceError(f"no voice {name!r}; there are {', '.join(self.names)}")
