"""Short and long things to say, to find out how often a take fails: made of the held-out sentences, fixed by a seed.

The words of short ones were heard in training, in other sentences or alone; what surrounds them here was not.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from clients.bench.sentences import load
from engine.train.forms import fragment

KINDS = ("word", "fragment", "sentence", "long", "dialogue")
SHORTEST_WORD = 3
DIALOGUE = (
    '"{first}" she asked. "{second}"',
    '"{word}," said the driver. "{second}"',
    'He turned around. "{first}" Nobody answered.',
    "{word}? {first} {second}",
    '"{first}" "{word}." "{second}"',
)


@dataclass(frozen=True)
class Line:
    """Something to say, and which of ``KINDS`` it is."""

    kind: str
    text: str


def most() -> int:
    """As many lines as there are."""
    return len(load()) * len(KINDS)


def utterances(count: int, seed: int) -> list[Line]:
    """``count`` lines, at most ``most()``, kinds in turn, no two alike."""
    rng, sentences = random.Random(seed), load()
    rng.shuffle(sentences)
    lines: list[Line] = []
    known: set[str] = set()
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        text = _text(kind, sentences, number // len(KINDS), rng)
        while text in known:
            text = _text(kind, sentences, rng.randrange(len(sentences)), rng)
        known.add(text)
        lines.append(Line(kind, text))
    return lines


def _text(kind: str, sentences: Sequence[str], at: int, rng: random.Random) -> str:
    first, second, third = (sentences[(at + i) % len(sentences)] for i in range(3))
    match kind:
        case "word":
            return _word(first, rng) + rng.choice(".?!")
        case "fragment":
            return fragment(first, rng)
        case "sentence":
            return first
        case "long":
            return "; ".join(text.rstrip(".?!") for text in (first, second, third)) + "."
    return rng.choice(DIALOGUE).format(first=first, second=second, word=_word(third, rng))


def _word(text: str, rng: random.Random) -> str:
    words = [word.strip(".,;:!?'") for word in text.split()]
    return rng.choice([word for word in words if len(word) >= SHORTEST_WORD]).capitalize()
