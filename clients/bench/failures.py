"""How often a take fails, over short and long utterances of all kinds; and whether the teacher fails there, too."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from clients.bench.judges import Judges
from clients.bench.quality import judged
from clients.bench.store import Reading, Store
from clients.bench.takes import Reader
from clients.bench.utterances import KINDS, Line, utterances


@dataclass(frozen=True)
class Failures:
    """Readings of utterances, and those (voice, text) that the teacher fails as well."""

    readings: list[tuple[Line, Reading]]
    shared: set[tuple[str, str]]

    @property
    def failed(self) -> list[Reading]:
        """The unusable ones."""
        return [reading for _, reading in self.readings if reading.failed is not None]

    def as_json(self) -> dict[str, Any]:
        """For the JSON line."""
        failed = [
            {"kind": line.kind, "voice": r.voice, "text": r.text, "heard": r.heard, "failed": r.failed}
            | {"teacher_fails": (r.voice, r.text) in self.shared}
            for line, r in self.readings
            if r.failed is not None
        ]
        return {"takes": len(self.readings), "failed": failed}


def find_failures(
    reader: Reader,
    teacher: Reader,
    count: int,
    seed: int,
    judges: Judges,
    stores: Mapping[str, Store[Reading]],
    advance: Callable[[], None] = lambda: None,
) -> Failures:
    """``count`` utterances, the voices in turn; the teacher reads what failed.

    ``stores``: of both readers, by identity.
    """
    found: list[tuple[Line, Reading]] = []
    shared: set[tuple[str, str]] = set()
    for number, line in enumerate(utterances(count, seed)):
        # A whole round of the kinds is one voice's, so that every voice reads every kind.
        voice = reader.voices[number // len(KINDS) % len(reader.voices)]
        take_seed = seed * 1_000_003 + number
        reading = _read(reader, voice, take_seed, line.text, judges, stores[reader.identity])
        if reading.failed is not None and voice in teacher.voices:
            again = _read(teacher, voice, take_seed, line.text, judges, stores[teacher.identity])
            if again.failed is not None:
                shared.add((voice, line.text))
        found.append((line, reading))
        advance()
    return Failures(found, shared)


def _read(reader: Reader, voice: str, seed: int, text: str, judges: Judges, store: Store[Reading]) -> Reading:
    reading = store.get(voice, seed, text)
    if reading is None:
        reading = judged(reader, voice, seed, text, reader.read(text, voice, seed), judges)
        store.add(reading)
    return reading
