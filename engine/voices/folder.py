"""The folder with a model's voices from recordings. It is the truth: whoever uses a voice looks there."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from engine.core import ClonedVoice
from engine.errors import UnknownVoiceError, VoiceError, VoiceExistsError
from engine.voices.files import Label, StoredVoice, load_voice, read_label, save_voice
from engine.voices.identity import ModelMark

NAME_RULE = "1 to 64 of a-z, 0-9, '-' and '_', the first a letter or figure"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_SUFFIX = ".safetensors"


@dataclass(frozen=True)
class Signature:
    """Tells one state of a file from another."""

    inode: int
    modified_ns: int
    size: int


@dataclass(frozen=True)
class Entry:
    """A file of the folder: its label, or why it has none."""

    signature: Signature
    label: Label | None
    problem: str | None = None


def check_name(name: str) -> str:
    """``name``, if voices may be called so. Raises ``VoiceError``."""
    if not _NAME.fullmatch(name):
        raise VoiceError(f"a voice's name has {NAME_RULE}; {name[:80]!r} has not")
    return name


class VoiceFolder:
    """Voices by name. Labels are read again only when their file has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: dict[str, Entry] = {}

    def entries(self) -> dict[str, Entry]:
        """All voices there are now, by name in order. Files of other names are not voices."""
        found: dict[str, Entry] = {}
        for path in sorted(self.path.glob(f"*{_SUFFIX}")) if self.path.is_dir() else ():
            signature = self.signature(path.stem) if _NAME.fullmatch(path.stem) else None
            if signature is not None:
                found[path.stem] = self._entry(path, signature)
        self._entries = found
        return found

    def cloned(self, own: Collection[str], mark: ModelMark) -> tuple[ClonedVoice, ...]:
        """All voices for a model of that ``mark``, those included that cannot be used; ``own``: names of its own."""
        found = []
        for name, entry in self.entries().items():
            label, problem = entry.label, entry.problem
            if name in own:
                problem = "the model has a voice of its own of that name"
            elif label is not None and (problem := mark.problem(label)) is not None:
                problem += f": `footlights voice remake {name}`"
            found.append(
                ClonedVoice(name, label.duration_s if label else 0.0, len(label.transcripts) if label else 0, problem)
            )
        return tuple(found)

    def signature(self, name: str) -> Signature | None:
        """What tells whether a voice has changed; None: there is none of that name."""
        try:
            status = self._file(name).stat()
        except (OSError, VoiceError):
            return None
        return Signature(status.st_ino, status.st_mtime_ns, status.st_size)

    def check_free(self, name: str, taken: Collection[str]) -> None:
        """Raise ``VoiceError`` if no new voice may be called so; ``taken``: names of the model's own."""
        check_name(name)
        if name in taken:
            raise VoiceError(f"{name!r} is the model's own voice; choose another name")
        if self.signature(name) is not None:
            raise VoiceExistsError(f"there is a voice {name!r} already; remove it first, or choose another name")

    def load(self, name: str) -> StoredVoice:
        """Read a voice. Raises ``UnknownVoiceError`` and ``VoiceError``."""
        if self.signature(name) is None:
            raise UnknownVoiceError(f"no voice {name!r} in {self.path}")
        return load_voice(self._file(name))

    def save(self, name: str, voice: StoredVoice) -> None:
        """Write a voice, over an older one of that name. Raises ``VoiceError``."""
        save_voice(self._file(name), voice)

    def remove(self, name: str) -> None:
        """Delete a voice. Raises ``UnknownVoiceError`` and ``VoiceError``."""
        try:
            self._file(name).unlink()
        except FileNotFoundError:
            raise UnknownVoiceError(f"no voice {name!r} in {self.path}") from None
        except OSError as error:
            raise VoiceError(f"voice {name!r} cannot be removed: {error}") from error

    def _file(self, name: str) -> Path:
        return self.path / (check_name(name) + _SUFFIX)

    def _entry(self, path: Path, signature: Signature) -> Entry:
        known = self._entries.get(path.stem)
        if known is not None and known.signature == signature:
            return known
        try:
            return Entry(signature, read_label(path))
        except VoiceError as error:
            return Entry(signature, None, str(error))
