"""The voices of a model that can take one from recordings: its own, and those of a folder."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from engine.core import ClonedVoice, Recording
from engine.errors import UnknownVoiceError, VoiceError
from engine.voices.book import MadeVoice, ReadyVoice, VoiceBook, VoicePrefix
from engine.voices.folder import Signature, VoiceFolder
from engine.voices.maker import VoiceMaker

logger = logging.getLogger(__name__)

KEPT_BYTES = 1024**3
"""Ready voices from recordings that stay in memory, the last used ones; one of them in any case."""


class VoiceLibrary(VoiceBook):
    """Voices from recordings are looked up in the folder whenever they are used, and loaded when they have changed."""

    def __init__(
        self,
        prefixes: Mapping[str, VoicePrefix],
        prepare: Callable[[VoicePrefix], ReadyVoice],
        folder: VoiceFolder,
        maker: VoiceMaker,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        super().__init__(prefixes, prepare)
        self.folder, self.maker = folder, maker
        self._kept_bytes = kept_bytes
        self._loaded: OrderedDict[str, tuple[Signature, ReadyVoice]] = OrderedDict()

    @property
    def names(self) -> tuple[str, ...]:
        """Voices that can be used."""
        return (*super().names, *(voice.name for voice in self.cloned if voice.problem is None))

    @property
    def cloned(self) -> tuple[ClonedVoice, ...]:
        """Voices from recordings, those included that cannot be used."""
        return self.folder.cloned(self._prefixes, self.maker.mark)

    @property
    def can_clone(self) -> bool:
        """Whether voices can be made of recordings."""
        return self.maker.can_clone

    @property
    def nbytes(self) -> int:
        """Bytes the ready voices hold."""
        return super().nbytes + sum(voice.nbytes for _, voice in self._loaded.values())

    def warm(self) -> None:
        """Make the model's own voices ready, and as many of the others as are kept: reading one takes a third of a
        second that listeners would wait."""
        super().warm()
        for voice in self.cloned:
            if self.nbytes < self._kept_bytes and voice.problem is None:
                try:
                    self.ready(voice.name)
                except VoiceError as error:
                    logger.warning("%s", error)

    def ready(self, name: str) -> ReadyVoice:
        """The state of a voice: no file is read for one that is loaded and has not changed since.

        Raises ``UnknownVoiceError``, which lists the voices, and ``VoiceError`` for a file that is unfit.
        """
        signature = None if name in self._prefixes else self.folder.signature(name)
        if signature is None:
            self._loaded.pop(name, None)
            return super().ready(name)
        known = self._loaded.get(name)
        if known is None or known[0] != signature:
            self._hold(name, signature, self.maker.restore(name, self.folder.load(name)))
        self._loaded.move_to_end(name)
        return self._loaded[name][1]

    def make(self, name: str, recordings: Sequence[Recording]) -> MadeVoice:
        """Make and store a new voice; any thread may call it. Raises ``VoiceError``, ``ClipError``, ``TextError``."""
        self.folder.check_free(name, self._prefixes)
        stored, ready, notes = self.maker.make(recordings)
        self.folder.check_free(name, self._prefixes)
        self.folder.save(name, stored)
        return MadeVoice(name, ready, self.folder.signature(name), notes)

    def remake(self, name: str) -> None:
        """Make a stored voice anew, for this model, from its codes. Raises as ``make``."""
        stored, _ = self.maker.remake(self.folder.load(name))
        self.folder.save(name, stored)

    def keep(self, made: MadeVoice) -> None:
        """Take in what ``make`` has made."""
        if isinstance(made.token, Signature):
            self._hold(made.name, made.token, made.ready)

    def remove(self, name: str) -> None:
        """Delete a voice from recordings; utterances that speak with it go on.

        Raises ``UnknownVoiceError``, and ``VoiceError`` for the model's own.
        """
        if name in self._prefixes:
            super().remove(name)
        try:
            self.folder.remove(name)
        except UnknownVoiceError:
            super().remove(name)
        self._loaded.pop(name, None)

    def _hold(self, name: str, signature: Signature, voice: ReadyVoice) -> None:
        self._loaded[name] = signature, voice
        self._loaded.move_to_end(name)
        while len(self._loaded) > 1 and sum(v.nbytes for _, v in self._loaded.values()) > self._kept_bytes:
            self._loaded.popitem(last=False)
