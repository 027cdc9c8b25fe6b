"""What the text front gives: words with what they sound like and where they stand in the original."""

from dataclasses import dataclass
from enum import StrEnum


class Boundary(StrEnum):
    """What follows a word."""

    NONE = "none"
    CLAUSE = "clause"
    SENTENCE = "sentence"


@dataclass(frozen=True)
class SpokenWord:
    """One visible word of the original text and its sound.

    ``phonemes`` are symbols of misaki's alphabet, single spaces between the words of a spoken form of several, then the
    pause symbols that follow (among ``, . ! ? ; :``). Words joined by single spaces are what the voice reads.
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
