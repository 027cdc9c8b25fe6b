"""Word errors between what was to be said and what a recogniser heard."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from engine.text.front import explain
from engine.train.closeness import sounds
from engine.train.reading import phonemes_of

_NOT_WORDS = re.compile(r"[^a-z' ]+")
_FIGURES = re.compile(r"\S*\d\S*")
SAME = {
    "mr": "mister",
    "mrs": "missus",
    "dr": "doctor",
    "st": "saint",
    "vs": "versus",
    "ok": "okay",
    "alright": "all right",
    "grey": "gray",
    "colour": "color",
    "favourite": "favorite",
    "neighbour": "neighbor",
    "theatre": "theater",
    "centre": "center",
    "travelled": "traveled",
}
"""Spellings of one sound; the recogniser chooses freely among them."""


@dataclass(frozen=True)
class WordErrors:
    """Fewest substitutions, insertions and deletions, and the words there should have been."""

    errors: int
    words: int

    @property
    def rate(self) -> float:
        """Errors per word; above 1 when much was heard that was not there."""
        return self.errors / self.words if self.words else float(self.errors > 0)


def normalise(text: str) -> list[str]:
    """Words without case, punctuation, accents and freedom of spelling; figures are spelled out."""
    text = _FIGURES.sub(_spelled, text.replace("’", "'"))
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = (word.strip("'") for word in _NOT_WORDS.sub(" ", text).split())
    return " ".join(SAME.get(word, word) for word in words).split()


def word_errors(reference: str, heard: str) -> WordErrors:
    """Errors in ``heard``. Both are normalised; words written together or apart are the same."""
    expected = normalise(reference)
    return WordErrors(edit_distance(expected, normalise(heard)), len(expected))


def sound_alike(reference: str, heard: str) -> bool:
    """Whether both are the same sounds, however they are written: "our" and "hour" alone can be told by nobody."""
    said = sounds(phonemes_of(reference))
    return said != "" and sounds(phonemes_of(heard)) == said


def edit_distance(expected: Sequence[str], heard: Sequence[str]) -> int:
    """Fewest word edits; one word for several that spell it ("sun set", "sunset"; "I K V", "IKV") costs nothing."""
    rows = [list(range(len(heard) + 1))]
    for i, word in enumerate(expected, 1):
        row = [i]
        for j, other in enumerate(heard, 1):
            best = min(rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (word != other))
            apart, heard_apart = _spelling(expected[:i], other), _spelling(heard[:j], word)
            if apart:
                best = min(best, rows[i - apart][j - 1])
            if heard_apart:
                best = min(best, rows[i - 1][j - heard_apart])
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def _spelling(words: Sequence[str], whole: str) -> int:
    """How many of the last ``words`` spell ``whole`` together, 0 if none do."""
    rest = whole
    for count, word in enumerate(reversed(words), 1):
        if not rest.endswith(word):
            return 0
        rest = rest[: len(rest) - len(word)]
        if not rest:
            return count
    return 0


def _spelled(figures: re.Match[str]) -> str:
    return " ".join(word.spoken for word in explain(figures.group()))
