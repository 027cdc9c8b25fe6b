"""What a checkpoint says of itself beyond its shapes: the ``footlights`` object of ``config.json``.

The understudy has one; a Drama 3 checkpoint has none and gets the defaults of its kind.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from engine.checkpoint.source import model_name
from engine.config import CONFIG_FILE, read_json
from engine.core import SamplingParams
from engine.errors import ConfigError

KEY = "footlights"
TEXT_STREAMS = ("aligned", "turns")
PLAIN_VOICE = "default"
"""The voice of a model without named ones: whatever it invents without a reference."""


@dataclass(frozen=True)
class Manifest:
    """Name, text stream, voices and licence of a checkpoint."""

    name: str
    text_stream: str = "turns"
    """``aligned`` or ``turns``; a model trained for the first speaks in the second, too."""
    voices: tuple[str, ...] = ()
    """Voices learned by the model, speaker tag and aligned voice by position."""
    alphabet: str | None = None
    """Phonemes the model reads: symbols 2, 3, .. of the aligned stream. None: it reads the text itself."""
    cues: bool = False
    """Whether a model that reads text understands directions in it: ``[sighs]``, ``<whisper>..</whisper>``."""
    languages: tuple[str, ...] = ("en",)
    licence: str = "Apache-2.0"
    notes: tuple[str, ...] = ()
    sampling: SamplingParams = SamplingParams()
    renew_rows: int = 2000
    """Context, in rows, that the model was trained to use; longer ones are let go at the next pause."""
    pins_history: bool = True
    """Whether a renewed context begins with the first and the previous turn, or with the voice alone (turn form)."""

    def __post_init__(self) -> None:
        """Refuse a combination that cannot speak."""
        if self.text_stream not in TEXT_STREAMS:
            raise ConfigError(f"{KEY}.text_stream is {self.text_stream!r}; known are {', '.join(TEXT_STREAMS)}")
        if self.text_stream == "aligned" and not (self.alphabet and self.voices):
            raise ConfigError(f"{KEY}: an aligned text stream needs an alphabet and voices")
        if self.cues and self.alphabet:
            raise ConfigError(f"{KEY}: cues are for a model that reads text, not the phonemes of an alphabet")

    @property
    def credit(self) -> str:
        """What has to be shown with the model: its licence and attribution, in a line."""
        return ". ".join(note.rstrip(".") for note in (f"{self.name}: {self.licence}", *self.notes)) + "."

    @classmethod
    def from_folder(cls, folder: Path) -> "Manifest":
        """Read ``config.json``; raises ``ConfigError``."""
        values = read_json(folder / CONFIG_FILE).get(KEY)
        return _fish_audio(folder) if values is None else cls.from_dict(values)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Manifest":
        """Read the ``footlights`` object; raises ``ConfigError`` for unknown keys and wrong kinds."""
        known = {field.name for field in fields(cls)}
        if not isinstance(values, Mapping) or not set(values) <= known or "name" not in values:
            raise ConfigError(f"{KEY} must be an object with a name and none but the keys {sorted(known)}")
        given: dict[str, Any] = dict(values)
        for name in ("voices", "languages", "notes"):
            if name in given:
                if not isinstance(given[name], list) or not all(isinstance(each, str) for each in given[name]):
                    raise ConfigError(f"{KEY}.{name} must be a list of strings")
                given[name] = tuple(given[name])
        for name in ("name", "text_stream", "alphabet", "licence"):
            if not isinstance(given.get(name, ""), str):
                raise ConfigError(f"{KEY}.{name} must be a string")
        for name in ("cues", "pins_history"):
            if not isinstance(given.get(name, False), bool):
                raise ConfigError(f"{KEY}.{name} must be true or false")
        rows = given.get("renew_rows", cls.renew_rows)
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise ConfigError(f"{KEY}.renew_rows must be a positive number of rows, not {rows!r}")
        if "sampling" in given:
            try:
                given["sampling"] = SamplingParams(**given["sampling"])
            except TypeError as error:
                raise ConfigError(f"{KEY}.sampling: {error}") from error
            _check_sampling(given["sampling"])
        return cls(**given)


def _check_sampling(params: SamplingParams) -> None:
    for name, value in (("temperature", params.temperature), ("top_p", params.top_p)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ConfigError(f"{KEY}.sampling.{name} must be a number that is not negative, not {value!r}")
    if type(params.seed) is not int:
        raise ConfigError(f"{KEY}.sampling.seed must be an integer, not {params.seed!r}")
    if params.top_k is not None and (type(params.top_k) is not int or params.top_k < 1):
        raise ConfigError(f"{KEY}.sampling.top_k must be a positive integer or null, not {params.top_k!r}")


def _fish_audio(folder: Path) -> Manifest:
    return Manifest(
        name=model_name(folder),
        licence="Fish Audio Community License",
        cues=True,
        notes=(
            "Built with Fish Audio",
            "No hosted speech service without an agreement with Fish Audio; no training on outputs.",
        ),
    )
