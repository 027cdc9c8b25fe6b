"""Takes that the teacher got wrong, as the judge has marked them beside the analysed speech."""

import json
from dataclasses import dataclass
from pathlib import Path

JUDGED = "judged.jsonl"
WRONG, WRONG_SHORT = 0.5, 0.9
"""Errors per phoneme above which a take is dropped; a word alone and letters can be spelled in many ways."""
SHORT, SHORTEST = 12, 2
"""Phonemes up to which a take is short, and up to which there is nothing to tell: "a?" may be heard as "Ah."."""


@dataclass(frozen=True)
class Verdict:
    """On one take."""

    shard: str
    start: int
    voice: str
    text: str
    expected: int
    heard: str
    errors: int
    is_alone: bool

    @property
    def is_dropped(self) -> bool:
        """Whether the teacher got it clearly wrong."""
        limit = max(WRONG_SHORT * self.expected, SHORTEST) if self.expected <= SHORT else WRONG * self.expected
        return self.is_alone and self.errors > limit


def judged(folder: Path) -> list[Verdict]:
    """Verdicts on the takes of ``folder``; none if nobody listened to it."""
    path = folder / JUDGED
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [Verdict(**json.loads(line)) for line in lines]


def dropped(folder: Path) -> set[tuple[str, str]]:
    """Shard and text of the takes of ``folder`` that must not be learned from."""
    return {(verdict.shard, verdict.text) for verdict in judged(folder) if verdict.is_dropped}
