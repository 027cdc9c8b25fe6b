"""What the text front gives: words with what they sound like and where they stand in the original."""

from dataclasses import dataclass
from enum import StrEnum


class Boundary(StrEnum):
    """What follows a word."""

    NONE = "none"
    CLAUSE = "clause"
    SENTENCE = "sentence"


class Kind(StrEnum):
    """What a piece of the text is to the voice."""

    WORD = "word"
    CUE = "cue"
    """A direction that the model itself understands: ``[sighs]``."""
    SPEAKER = "speaker"
    """Who says what follows, for a model that knows speakers: ``<|speaker:1|>``."""
    PAUSE = "pause"
    """A pause asked for (SSML)."""
    SILENT = "silent"
    """Seen, but not said by this voice: another script, a direction it does not understand."""


@dataclass(frozen=True)
class SpokenWord:
    """One visible word of the original text and its sound.

    ``phonemes`` are symbols of misaki's alphabet, single spaces between the words of a spoken form of several, then the
    pause symbols that follow (among ``, . ! ? ; :``). Words joined by single spaces are what the voice reads. They are
    empty for a model that reads text.
    """

    text: str
    """``original[char_start:char_end]``: the visible word with its attached punctuation."""
    spoken: str
    """Its spoken form without pause symbols: "$20" gives "twenty dollars"."""
    char_start: int
    char_end: int
    """Offsets in Unicode code points of all text appended to the utterance."""
    phonemes: str
    boundary: Boundary
    kind: Kind = Kind.WORD
    language: str = "en"
    """BCP 47; for a script that tells no language ``und-`` and the script."""
    pause_ms: int = 0
    """Of a pause."""
    visible: str = ""
    """What a model reads that reads text: without markup, a space before it where there was a gap."""
    tags: tuple[str, ...] = ()
    """Paired tags around it that the model understands, the outermost first."""
    speaker: int | None = None
    """Who says it, where the text tells."""
    speed: float = 1.0
    """How fast it is said; of a pause, what was said before it."""


@dataclass(slots=True)
class RawWord:
    """A word found in the text, not yet normalised."""

    text: str
    start: int
    end: int
    core: str
    """The word without the punctuation around it; an operator such as "+" that stood alone is one, too."""
    pause: str = ""
    """Pause symbols behind it."""
    boundary: Boundary = Boundary.NONE
    is_settled: bool = False
    """What follows is known: no later text changes ``pause`` or ``boundary``."""
    follower: str = ""
    """First letter or digit of the next word, when it was waited for; empty before an end or a flush."""
    is_operator: bool = False
    is_address: bool = False
    """A web or mail address."""
    kind: Kind = Kind.WORD
    language: str = "en"
    pause_ms: int = 0
    visible: str = ""
    tags: tuple[str, ...] = ()
    speaker: int | None = None
    said: str | None = None
    """What is said for it, settled by the markup around it."""
    sounds: str | None = None
    """Its phonemes, settled by the markup around it."""
    is_last: bool = False
    """Nothing that follows counts for it."""
    speed: float = 1.0
