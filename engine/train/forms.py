"""Texts made from a sentence or a word: how a listener meets them outside books."""

import random
from collections.abc import Sequence

ENDS = (".", ".", "?", "!")
CARRIERS = ("Say {} again.", "I said {}.", "What does {} mean?", "Did you say {}?", "The word is {}!")
SAID = ("said", "asked", "whispered", "shouted", "answered", "cried")
JOINTS = (", and ", ", but ", "; ", ": ", ". ", "? ", "! ")


def fragment(text: str, rng: random.Random) -> str:
    """One to five words from the middle of ``text``, ended as a clause may be."""
    words = text.rstrip(".?!").split()
    count = min(len(words), rng.randint(1, 5))
    start = rng.randint(0, len(words) - count)
    return " ".join(words[start : start + count]).rstrip(".,;:!?") + rng.choice([".", ",", "?", "!", ""])


def listed(words: Sequence[str]) -> str:
    """``words`` read one after the other."""
    return ", ".join([_opening(words[0]), *words[1:]]) + "."


def lone(word: str, end: str) -> str:
    """``word`` as a whole utterance."""
    return _opening(word) + end


def carried(word: str, rng: random.Random) -> str:
    """``word`` within a short sentence."""
    return rng.choice(CARRIERS).format(word)


def exclaimed(text: str) -> str:
    """The sentence ``text`` with more voice."""
    return text.rstrip(".?!") + "!"


def quoted(text: str, name: str, rng: random.Random) -> str:
    """The sentence ``text`` as dialogue, spoken by ``name``."""
    said, end = rng.choice(SAID), text[-1]
    if rng.random() < 0.5:
        return f'{name} {said}, "{text}"'
    return f'"{text.rstrip(".?!")}{"," if end == "." else end}" {said} {name}.'


def joined(texts: Sequence[str], rng: random.Random) -> str:
    """Sentences as one long one, or several in one breath."""
    whole = texts[0]
    for text in texts[1:]:
        joint = rng.choice(JOINTS)
        # Inside a sentence a capital would make a name of some words ("May", "Will").
        whole = whole.rstrip(".?!") + joint + (text if joint[0] in ".?!" or text.startswith("I") else _inner(text))
    return whole


def _opening(word: str) -> str:
    return word[0].upper() + word[1:]


def _inner(text: str) -> str:
    return text[0].lower() + text[1:]
