"""The aligned text stream: phonemes lie beside the audio and a pointer says which ones are sounding.

See "The aligned text stream" in ``docs/architecture.md``. What a model might get wrong is settled here, so it cannot go
wrong: the pointer never runs past the last known symbol nor skips one, no symbol lasts longer than its cap, and the
utterance ends when the pointer has rested on the last silence.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.core import WordTiming
from engine.streams.base import Demand, Frame, Guide, Spoken, Window
from engine.text.words import Boundary, SpokenWord

UNKNOWN = 0
SILENCE = 1
FIRST_PHONEME = 2
UNITS_PER_FRAME = 2
TYPICAL_UNITS = 2.4
"""Mean length of a symbol in the teacher's speech; only estimates of word ends that lie ahead use it."""


@dataclass(frozen=True)
class AlignedSettings:
    """What the checkpoint fixes and what the engine enforces; lengths in units (half frames)."""

    symbols: str
    """Characters of ids 2, 3, ..; one of them is the space between words."""
    look_behind: int = 2
    look_ahead: int = 6
    """L: symbols the model sees beyond B."""
    unit_ms: float = 25.0
    phoneme_cap: int = 24
    """Longest sound, or space between words."""
    pause_cap: int = 40
    """Longest punctuation mark, or silence between sentences."""
    lead_cap: int = 2
    """Longest silence before the first sound."""
    breath_symbols: int = 240
    """A text that has gone on for so long without a silence gets one at its next comma .."""
    most_symbols: int = 320
    """.. or, after so many, behind its next word: at a silence a long context can be let go."""
    end_frames: int = 3
    """Frames spent on the silence that closes a text before the utterance ends or waits."""

    def __post_init__(self) -> None:
        # A frame moves the pointer by two symbols at most, so this keeps it among the known ones.
        assert self.look_ahead >= UNITS_PER_FRAME, self.look_ahead
        assert " " in self.symbols, self.symbols


@dataclass
class PlacedWord:
    """A word and the symbols of its sound, ``first`` to ``last`` without the punctuation around them."""

    word: SpokenWord
    first: int
    last: int
    start_unit: int | None = None
    end_unit: int | None = None


@dataclass
class Progress:
    """Everything that changes while an utterance is spoken."""

    symbols: list[int] = field(default_factory=lambda: [SILENCE])
    words: list[PlacedWord] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    """Silences behind which nothing may be looked at before the pointer has rested on them: ends of flushed text."""
    is_finished: bool = False
    is_ended: bool = False
    a: int = 0
    b: int = 0
    elapsed_a: int = 0
    elapsed_b: int = 1
    frames: int = 0
    lifted: int = 0
    """The last stop the pointer has rested on."""
    rested: int = 0
    """Frames made so far with the pointer on the first of ``stops``."""
    silence: int = 0
    """The last silence of ``symbols``."""
    first_visible: int = 0
    """Symbols before it are shown no more."""
    started_words: int = 0
    ended_words: int = 0

    def copy(self) -> "Progress":
        """An independent copy."""
        return replace(self, symbols=[*self.symbols], words=[replace(w) for w in self.words], stops=[*self.stops])


class AlignedStream:
    """Words to symbols, pointer choices to word times."""

    def __init__(self, settings: AlignedSettings) -> None:
        self.settings = settings
        self._ids = {symbol: FIRST_PHONEME + i for i, symbol in enumerate(settings.symbols)}
        # Symbols of pauses rather than of sounds: SIL, space, punctuation, intonation arrows.
        self._pauses = {i for symbol, i in self._ids.items() if unicodedata.category(symbol)[0] in "PZS"} | {SILENCE}
        self._rests = self._pauses - {self._ids[" "]}
        self._now = Progress()

    # Text in

    def add(self, words: Sequence[SpokenWord]) -> None:
        """Append words. One without a known phoneme is silent and gets no time."""
        now = self._now
        assert not now.is_finished
        for word in words:
            ids = [self._ids[symbol] for symbol in word.phonemes if symbol in self._ids]
            sounds = [i for i, symbol in enumerate(ids) if symbol not in self._pauses]
            if sounds:
                if now.symbols[-1] != SILENCE:
                    now.symbols.append(self._ids[" "])
                offset = len(now.symbols)
                now.words.append(PlacedWord(word, first=offset + sounds[0], last=offset + sounds[-1]))
                now.symbols.extend(ids)
            if word.boundary is Boundary.SENTENCE or self._needs_breath(word.boundary):
                self._close()

    def flush(self) -> None:
        """Speak all there is and rest on a silence; what comes later starts behind it."""
        self._close()
        now = self._now
        last = len(now.symbols) - 1
        if last > max([now.lifted, *now.stops]):
            now.stops.append(last)

    def finish(self) -> None:
        """Speak all there is and end."""
        self.flush()
        self._now.is_finished = True
        self._now.is_ended = not self._now.stops

    def _close(self) -> None:
        """End the symbols with a silence."""
        now = self._now
        if now.symbols[-1] != SILENCE:
            now.silence = len(now.symbols)
            now.symbols.append(SILENCE)

    def _needs_breath(self, boundary: Boundary) -> bool:
        now = self._now
        most = self.settings.most_symbols if boundary is Boundary.NONE else self.settings.breath_symbols
        return len(now.symbols) - now.silence > most

    # Steps out

    def demand(self) -> Demand:
        """Decode when the whole look-ahead is known or no more text may come for now."""
        now = self._now
        if now.is_ended:
            return Demand.END
        return Demand.DECODE if now.stops or now.b + self.settings.look_ahead < len(now.symbols) else Demand.WAIT

    def take_prompt(self) -> tuple[int, ...]:
        """Never called: the voice's own prompt is all there is."""
        raise AssertionError("an aligned stream has no prompt rows of its own")

    def guide(self) -> Guide:
        """Window of the next frame and the pointer moves it allows.

        The end-of-turn token is never among what may be drawn: the pointer says where the end is, and a draw that
        depends on whether ``finish`` has come already would make the sound depend on timing.
        """
        now, last = self._now, self._last_visible
        places = [
            *range(now.a - self.settings.look_behind, now.a + 1),
            *range(now.b, now.b + self.settings.look_ahead + 1),
        ]
        symbols = tuple(now.symbols[i] if now.first_visible <= i <= last else UNKNOWN for i in places)
        return Guide(
            window=Window(symbols, (now.elapsed_a, now.elapsed_b)),
            moves=self._moves(),
            is_end_allowed=False,
        )

    def accept(self, frame: Frame) -> Spoken:
        """Move the pointer; words that start in this frame, and those whose end is now exact."""
        now = self._now
        moves = self._moves()
        assert moves[frame.move], (frame.move, moves)
        unit = now.frames * UNITS_PER_FRAME
        started, ended = now.started_words, now.ended_words
        for offset, symbol in enumerate((now.a, now.b)):
            self._mark_starts(unit + offset, symbol)
            self._mark_ends(unit + offset, symbol)
        if now.stops and now.b == now.stops[0]:
            now.rested += 1
        self._advance(frame.move)
        self._mark_ends(unit + UNITS_PER_FRAME, now.a)
        # The pointer has moved under the old limit, so a text that came just now changes nothing before this frame.
        if now.rested == self.settings.end_frames:
            now.rested, now.lifted = 0, now.stops.pop(0)
            now.is_ended = now.is_finished and not now.stops
        news = [*range(ended, min(started, now.ended_words)), *range(started, now.started_words)]
        now.frames += 1
        return Spoken((frame.codes,), tuple(self._timing(now.words[i]) for i in news))

    @property
    def is_ended(self) -> bool:
        """Whether all there is has been spoken and no more can come."""
        return self._now.is_ended

    @property
    def has_rested(self) -> bool:
        """Whether a frame was made with the pointer on the silence that closes a flushed text."""
        return self._now.rested > 0

    @property
    def is_resting(self) -> bool:
        """Whether the pointer is on a silence between sentences."""
        now = self._now
        return 0 < now.a == now.b and now.symbols[now.b] == SILENCE

    def renew(self) -> None:
        """Go on from this silence as from the first one: what was before it is no longer shown."""
        self._now.first_visible = self._now.b

    def snapshot(self) -> Progress:
        """Copy of text and pointer."""
        return self._now.copy()

    def restore(self, snapshot: Progress) -> None:
        """Go back to a snapshot: text that came after it is forgotten too."""
        self._now = snapshot.copy()

    # Pointer

    @property
    def _last_visible(self) -> int:
        now = self._now
        return now.stops[0] if now.stops else len(now.symbols) - 1

    def _cap(self, place: int) -> int:
        """Most units the symbol at ``place`` may last."""
        if place == 0:
            return self.settings.lead_cap
        return self.settings.pause_cap if self._now.symbols[place] in self._rests else self.settings.phoneme_cap

    def _choices(self, place: int, lasted: int) -> tuple[bool, bool]:
        """Whether the unit after ``lasted`` units of the symbol at ``place`` may stay on it, or go to the next."""
        has_next = place < self._last_visible
        return not has_next or lasted < self._cap(place), has_next

    def _moves(self) -> tuple[bool, bool, bool, bool]:
        now = self._now
        stay_a, go_a = self._choices(now.b, now.elapsed_b + 1)
        stay_b, go_b = self._choices(now.b, now.elapsed_b + 2)
        stay_next, go_next = self._choices(now.b + 1, 1) if go_a else (False, False)
        return stay_a and stay_b, stay_a and go_b, stay_next, go_next

    def _advance(self, move: int) -> None:
        now = self._now
        step_a, step_b = divmod(move, 2)
        now.a, now.elapsed_a = now.b + step_a, 0 if step_a else now.elapsed_b + 1
        now.b, now.elapsed_b = now.a + step_b, 0 if step_b else now.elapsed_a + 1

    # Times

    def _mark_starts(self, unit: int, symbol: int) -> None:
        now = self._now
        while now.started_words < len(now.words) and now.words[now.started_words].first <= symbol:
            now.words[now.started_words].start_unit = unit
            now.started_words += 1

    def _mark_ends(self, unit: int, symbol: int) -> None:
        now = self._now
        while now.ended_words < now.started_words and now.words[now.ended_words].last < symbol:
            now.words[now.ended_words].end_unit = unit
            now.ended_words += 1

    def _timing(self, placed: PlacedWord) -> WordTiming:
        assert placed.start_unit is not None, placed
        end: float | None = placed.end_unit
        if end is None:
            typical = placed.start_unit + TYPICAL_UNITS * (placed.last - placed.first + 1)
            end = max(typical, UNITS_PER_FRAME * self._now.frames + 1)
        word, unit_ms = placed.word, self.settings.unit_ms
        return WordTiming(
            word.text, word.spoken, placed.start_unit * unit_ms, end * unit_ms, word.char_start, word.char_end
        )
