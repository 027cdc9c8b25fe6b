"""Going back in an utterance: what was made of it lately, and how to take it back.

Every frame, prompt and renewed context is an entry of the utterance's tape; every few entries hold a snapshot. To go
back, the snapshot before is restored and what lies between is replayed, not drawn again. Nothing that has been heard is
taken back, so what is certainly heard is forgotten.
"""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from engine.core import WordTiming
from engine.recall import Recalled
from engine.runner import Runner, Track, TrackSnapshot
from engine.script import Script
from engine.streams.base import Demand, Frame, Guide, Spoken, SpokenTurn, TextStream
from engine.voices.book import ReadyVoice

SNAPSHOT_ENTRIES = 4
"""From one snapshot to the next."""
MOST_SNAPSHOTS = 48
"""Then every second one goes, so that memory is bounded however much is unheard."""


@dataclass(frozen=True)
class Ahead:
    """Rows of the next prompt were prefilled before the rest of it was known."""

    token_ids: tuple[int, ...]
    until: tuple[int, ...]
    """All of that prompt so far, these included."""

    def again(self, stream: TextStream) -> Spoken | None:
        """Leave the stream as it is if its next prompt still begins like this."""
        return Spoken() if stream.upcoming()[: len(self.until)] == self.until else None

    def replay(self, runner: Runner, track: Track) -> None:
        """Do to the track what was done."""
        runner.prefill(track, self.token_ids, is_ahead=True)


@dataclass(frozen=True)
class Prompt:
    """Prompt rows were prefilled."""

    token_ids: tuple[int, ...]
    place: Any
    """Of the stream, afterwards."""
    ahead: int = 0
    """So many of them were among the rows already."""

    def again(self, stream: TextStream) -> Spoken | None:
        """Take the stream on if it asks for the same."""
        return Spoken() if stream.retake(self.token_ids, self.place) else None

    def replay(self, runner: Runner, track: Track) -> None:
        """Do to the track what was done."""
        runner.prefill(track, self.token_ids[self.ahead :])


@dataclass(frozen=True)
class Renewal:
    """The context went back to the voice and to ``recalled``, the rows of ``history``."""

    voice: ReadyVoice
    history: tuple[SpokenTurn, ...]
    recalled: Recalled | None

    def again(self, stream: TextStream) -> Spoken | None:
        """Take the stream on if it rests here, too."""
        if not stream.is_resting or stream.history != self.history:
            return None
        stream.renew()
        return Spoken()

    def replay(self, runner: Runner, track: Track) -> None:
        """Do to the track what was done."""
        runner.renew(track, self.voice, self.recalled)


@dataclass(frozen=True)
class Made:
    """A frame was made: ``row`` [1 + C] of the decoder, and what the stream took it for."""

    guide: Guide
    frame: Frame
    row: Tensor
    spoken: Spoken
    levels_db: tuple[float, ...] = ()
    """How loud its frames were."""

    def again(self, stream: TextStream) -> Spoken | None:
        """Take the stream on if the same frame would be made."""
        if stream.demand() is not Demand.DECODE or stream.guide() != self.guide:
            return None
        said = stream.accept(self.frame)
        stream.hear(self.levels_db)
        return said if (said.speed, said.ends_at) == (self.spoken.speed, self.spoken.ends_at) else None

    def replay(self, runner: Runner, track: Track) -> None:
        """Do to the track what was done."""
        runner.replay(track, self.guide, self.row, self.spoken.frames, self.spoken.speed)


@dataclass
class Entry:
    """Something that was done, and how things stood before."""

    samples: int
    """Made before, of the whole utterance."""
    place: Any
    snapshot: TrackSnapshot | None
    work: Ahead | Prompt | Renewal | Made | None = None
    """None while it is being done."""


@dataclass(frozen=True)
class Rewound:
    """What a revision has led to: see ``core.Revised``."""

    kept_to: int
    resumes_at: int
    left: tuple[int, int] | None
    """Samples that are left, and frames taken back; None: nothing was."""
    words: tuple[WordTiming, ...]
    """Words of audio that stays which are told differently now."""


class Tape:
    """What was done for one utterance since the last audio that is certainly heard."""

    def __init__(self, runner: Runner, track: Track, stream: TextStream, script: Script) -> None:
        self._runner, self._track, self._stream, self._script = runner, track, stream, script
        self._entries: list[Entry] = []

    @property
    def nbytes(self) -> int:
        """Bytes of all snapshots."""
        snapshots = [entry.snapshot for entry in self._entries if entry.snapshot is not None]
        bases = {id(snapshot.base): snapshot.base.nbytes for snapshot in snapshots if snapshot.base is not None}
        return sum(snapshot.nbytes for snapshot in snapshots) + sum(bases.values())

    def begin(self, samples: int, heard: int) -> None:
        """Something is about to be done, after so many ``samples``; those before ``heard`` will never be taken back."""
        is_due = all(entry.snapshot is None for entry in self._entries[1 - SNAPSHOT_ENTRIES :])
        snapshot = self._runner.snapshot(self._track) if is_due else None
        self._entries.append(Entry(samples, self._stream.place(), snapshot))
        if is_due:
            self._forget(heard)

    def end(self, work: Ahead | Prompt | Renewal | Made) -> None:
        """It was done."""
        self._entries[-1].work = work

    def renew(self, voice: ReadyVoice, recalled: Recalled | None) -> None:
        """Take the track back to the voice's rows and ``recalled`` turns; older snapshots keep what that takes away."""
        base = self._runner.keep(self._track)
        for entry in self._entries:
            if entry.snapshot is not None and entry.snapshot.base is None:
                entry.snapshot = replace(entry.snapshot, base=base)
        self._runner.renew(self._track, voice, recalled)
        self.end(Renewal(voice, self._stream.history, recalled))
        self._stream.renew()

    def revise(self, start: int, text: str, heard: int) -> Rewound:
        """Other text from ``start`` on: go back to where that makes a difference, but not before sample ``heard``.

        Raises what ``Script.revise`` raises; nothing has changed then.
        """
        live, total = self._stream.place(), len(self._entries)
        first = next((i for i, entry in enumerate(self._entries) if entry.samples >= heard), total)
        place = self._entries[first].place if first < total else live
        self._stream.go_to(place)
        try:
            kept_to, resumes_at = self._script.revise(start, text, self._stream.reached)
        except Exception:
            self._stream.go_to(live)
            raise
        self._stream.go_to(place)
        words = list[WordTiming]()
        for i, entry in enumerate(self._entries[first:], first):
            self._script.read()
            entry.place = self._stream.place()
            assert entry.work is not None
            spoken = entry.work.again(self._stream)
            if spoken is None:
                return Rewound(kept_to, resumes_at, self._go_back(i), tuple(words))
            if isinstance(entry.work, Made) and spoken != entry.work.spoken:
                words += spoken.words
                entry.work = replace(entry.work, spoken=spoken)
        return Rewound(kept_to, resumes_at, None, tuple(words))

    def restart(self, released: int) -> tuple[int, int] | None:
        """Undo the last prompt and what came after it, unless samples of it were ``released``.

        Returns the samples that are left and the frames taken back.
        """
        index = max((i for i, entry in enumerate(self._entries) if isinstance(entry.work, Prompt)), default=None)
        if index is None or self._entries[index].samples < released:
            return None
        return self._go_back(index)

    def hear(self, levels_db: tuple[float, ...]) -> None:
        """The frames made last have been vocoded: so loud they are."""
        made = self._entries[-1].work
        assert isinstance(made, Made), made
        self.end(replace(made, levels_db=levels_db))
        self._stream.hear(levels_db)

    def splice(self, released: int) -> tuple[int, int] | None:
        """Go back to the last pause where the turn had better be ended, unless samples behind it were ``released``.

        Returns the samples that are left and the frames taken back.
        """
        for index in range(len(self._entries) - 1, -1, -1):
            entry = self._entries[index]
            if entry.samples < released or isinstance(entry.work, Prompt):
                return None
            if self._stream.had_better_end_at(entry.place):
                return self._go_back(index)
        return None

    def withdraw(self) -> None:
        """Undo the rows that were prefilled ahead, and what was begun behind them."""
        self._go_back(self._first_ahead)

    @property
    def _first_ahead(self) -> int:
        """The first of the entries at the end that are rows of a prompt that is not whole."""
        index = len(self._entries)
        while index and (self._entries[index - 1].work is None or isinstance(self._entries[index - 1].work, Ahead)):
            index -= 1
        return index

    def retreat(self, released: int) -> tuple[int, int]:
        """Undo all frames that were not ``released``; returns what ``restart`` does."""
        return self._go_back(next(i for i, entry in enumerate(self._entries) if entry.samples >= released))

    def _go_back(self, index: int) -> tuple[int, int]:
        """Undo the entries from ``index`` on; returns the samples that are left, and the frames taken back."""
        at = max(i for i, entry in enumerate(self._entries[: index + 1]) if entry.snapshot is not None)
        snapshot = self._entries[at].snapshot
        assert snapshot is not None
        self._runner.restore(self._track, snapshot)
        for entry in self._entries[at:index]:
            assert entry.work is not None
            entry.work.replay(self._runner, self._track)
        gone = self._entries[index:]
        self._stream.go_to(gone[0].place)
        del self._entries[index:]
        return gone[0].samples, sum(len(entry.work.spoken.frames) for entry in gone if isinstance(entry.work, Made))

    def _forget(self, heard: int) -> None:
        """Let go of what lies before sample ``heard``, and of snapshots beyond the bound."""
        held = [i for i, entry in enumerate(self._entries) if entry.snapshot is not None]
        last = self._first_ahead
        first = max((i for i in held if self._entries[i].samples <= heard and i <= last), default=0)
        if first:
            del self._entries[:first]
            live = self._stream.place()
            self._stream.go_to(self._entries[0].place)
            self._script.forget(self._stream.reached)
            self._stream.go_to(live)
        elif len(held) > MOST_SNAPSHOTS:
            for i in held[1::2]:
                self._entries[i].snapshot = None
