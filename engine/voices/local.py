"""Voices of a model folder without a server: added, listed, made anew, removed."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from engine.checkpoint.source import find_model
from engine.config import CONFIG_FILE, ModelConfig
from engine.core import ClonedVoice, Recording
from engine.engine import UNDERSTUDY
from engine.errors import NoCloningError, VoiceError
from engine.loading import load_parts
from engine.manifest import PLAIN_VOICE, Manifest
from engine.voices.folder import VoiceFolder
from engine.voices.identity import ModelMark, model_identity
from engine.voices.opening import VOICES_FOLDER
from engine.weights import compute_dtype


@dataclass(frozen=True)
class Place:
    """Which model, a folder or one of the hub, and where its voices from recordings lie.

    None: the understudy; ``voices`` in the model's folder.
    """

    model: str | None = None
    voices: Path | None = None

    @cached_property
    def folder(self) -> Path:
        """The model's. Raises ``DownloadError``."""
        return UNDERSTUDY if self.model is None else find_model(self.model)

    @property
    def voice_folder(self) -> VoiceFolder:
        """Of voices from recordings."""
        return VoiceFolder(self.voices or self.folder / VOICES_FOLDER)


@dataclass(frozen=True)
class FolderVoices:
    """A model's own voices, and those from recordings."""

    own: tuple[str, ...]
    cloned: tuple[ClonedVoice, ...]


def list_voices(place: Place) -> FolderVoices:
    """All voices, without loading the model. Raises ``ConfigError`` and ``DownloadError``."""
    manifest = Manifest.from_folder(place.folder)
    if manifest.voices:
        return FolderVoices(manifest.voices, ())
    own = (PLAIN_VOICE,)
    dtype = compute_dtype(ModelConfig.from_file(place.folder / CONFIG_FILE))
    mark = ModelMark(model_identity(place.folder), manifest.name, dtype)
    return FolderVoices(own, place.voice_folder.cloned(own, mark))


def add_voice(place: Place, name: str, recordings: list[Recording]) -> tuple[str, ...]:
    """Load the model and make a voice; returns notes on it.

    Raises ``VoiceError``, ``ClipError``, ``TextError``, ``ConfigError``.
    """
    manifest = Manifest.from_folder(place.folder)
    if manifest.voices:
        raise NoCloningError(
            f"{manifest.name} has learned its voices ({', '.join(manifest.voices)}) and cannot take another from a "
            "recording; name a model whose codec has an encoder, such as Drama 3, with --model"
        )
    place.voice_folder.check_free(name, (PLAIN_VOICE,))
    return load_parts(place.folder, voices_folder=place.voices).voices.make(name, recordings).notes


def remake_voice(place: Place, name: str) -> None:
    """Load the model and make a stored voice anew from its codes. Raises as ``add_voice``."""
    place.voice_folder.load(name)
    load_parts(place.folder, voices_folder=place.voices).voices.remake(name)


def remove_voice(place: Place, name: str) -> None:
    """Delete a voice. Raises ``UnknownVoiceError``, and ``VoiceError`` for the model's own."""
    manifest = Manifest.from_folder(place.folder)
    if name in (manifest.voices or (PLAIN_VOICE,)):
        raise VoiceError(f"{name!r} is the model's own voice; only voices from recordings can be removed")
    place.voice_folder.remove(name)
