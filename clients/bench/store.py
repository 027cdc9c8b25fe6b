"""What was measured, on disk, a line each, so that an interrupted run goes on where it was."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from clients.bench.judges import IDENTITY as JUDGES
from clients.bench.takes import TOO_LONG, Reader, Take, expected_s
from clients.bench.words import WordErrors, sound_alike

BAD_WER = 0.5


class Record(Protocol):
    """A dataclass that says of which take it is, and by whom it was measured."""

    CURRENT: ClassVar[str]
    """What ``judges`` of new ones is; stored ones of another are not used."""
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def identity(self) -> str:
        """Of the reader."""

    @property
    def judges(self) -> str:
        """Changes whenever what is measured may."""

    @property
    def voice(self) -> str:
        """Of the take."""

    @property
    def seed(self) -> int:
        """Of the take."""

    @property
    def text(self) -> str:
        """Of the take."""


R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Reading:
    """One judged take, without its samples. ``mos`` is None where there was nothing to hear."""

    CURRENT: ClassVar[str] = JUDGES

    reader: str
    identity: str
    judges: str
    voice: str
    seed: int
    text: str
    heard: str
    errors: int
    words: int
    mos: float | None
    audio_s: float
    expected_s: float
    compute_s: float
    cpu_s: float
    failure: str | None
    """What the reader itself reported: ``no_end`` or an error code."""

    @classmethod
    def of(
        cls,
        reader: Reader,
        voice: str,
        seed: int,
        text: str,
        take: Take,
        heard: str,
        errors: WordErrors,
        mos: float | None,
    ) -> "Reading":
        """The reading that ``take`` and the verdict on it make."""
        costs = {"audio_s": take.audio_s, "compute_s": take.compute_s, "cpu_s": take.cpu_s}
        return cls(
            reader.name,
            reader.identity,
            JUDGES,
            voice,
            seed,
            text,
            heard,
            errors.errors,
            errors.words,
            mos,
            expected_s=expected_s(text),
            failure=take.failure,
            **costs,
        )

    @property
    def failed(self) -> str | None:
        """Why the take is unusable, None if it is not: the reader's failure, ``too_long``, ``wrong_words``."""
        if self.failure is not None:
            return self.failure
        if self.audio_s > TOO_LONG * self.expected_s:
            return "too_long"
        is_wrong = self.errors > BAD_WER * self.words and not sound_alike(self.text, self.heard)
        return "wrong_words" if is_wrong else None


class Store(Generic[R]):
    """Records of one kind and one reader. A line that was cut off by an interruption is ignored."""

    def __init__(self, path: Path, kind: type[R], reader: Reader, *, is_fresh: bool = False) -> None:
        self._path = path
        self._known: dict[tuple[str, int, str], R] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if is_fresh:
            path.unlink(missing_ok=True)
        if not path.exists():
            return
        complete = [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
        path.write_text("".join(complete), encoding="utf-8")
        for line in complete:
            record = kind(**json.loads(line))
            if record.identity == reader.identity and record.judges == kind.CURRENT:
                self._known[record.voice, record.seed, record.text] = record

    def get(self, voice: str, seed: int, text: str) -> R | None:
        """An earlier run's record."""
        return self._known.get((voice, seed, text))

    def add(self, record: R) -> None:
        """Keep one, on disk when this returns."""
        self._known[record.voice, record.seed, record.text] = record
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(record), ensure_ascii=False) + "\n")
