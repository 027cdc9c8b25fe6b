"""The aligned text stream: phonemes lie beside the audio and a pointer says which ones are sounding.

See "The aligned text stream" in ``docs/architecture.md``. What a model might get wrong is settled here, so it cannot go
wrong: the pointer never runs past the last known symbol nor skips one, no symbol lasts longer than its cap, and the
utterance ends behind its last sound. What it can get wrong all the same, as hurrying over many sounds, is
watched by the guards.
"""

import math
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.codec.speeds import Speeds
from engine.core import WordTiming
from engine.streams.base import Demand, Fault, Frame, Guide, Spoken, SpokenTurn, Window
from engine.streams.guards import GuardSettings, Watch
from engine.text.words import Boundary, SpokenWord

UNKNOWN = 0
SILENCE = 1
FIRST_PHONEME = 2
UNITS_PER_FRAME = 2
TYPICAL_UNITS = 2.4
"""Mean length of a symbol in the teacher's speech; only estimates of word ends that lie ahead use it."""
TAIL_MS = 25.0
"""Heard behind the last sound, which dies away in it; word times and audio may end 40 ms apart."""


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
    """Frames spent on the silence that closes a text before the utterance waits, or a turn ends."""
    speeds: Speeds | None = None
    """Those of the codec; None: 1 alone."""
    speed: float = 1.0
    """Of the whole utterance, by which those of words and frames are multiplied."""

    def __post_init__(self) -> None:
        # A frame moves the pointer by two symbols at most, so this keeps it among the known ones.
        assert self.look_ahead >= UNITS_PER_FRAME, self.look_ahead
        assert " " in self.symbols, self.symbols


@dataclass(frozen=True)
class PlacedWord:
    """A word and the symbols of its sound, ``first`` to ``last`` without the punctuation around them."""

    word: SpokenWord
    first: int
    last: int


@dataclass(frozen=True)
class Stop:
    """A silence behind which nothing may be looked at before the pointer has rested on it."""

    symbol: int
    is_asked: bool = False
    """The text asks for a pause; else it is the end of flushed text."""


@dataclass(frozen=True)
class TextMark:
    """How much text there was."""

    symbols: int
    words: int
    stops: int
    silence: int
    is_finished: bool


@dataclass(frozen=True)
class Place:
    """Where the speech is in the text."""

    a: int = 0
    """Symbol of unit A of the next frame .."""
    b: int = 0
    """.. and of its unit B."""
    elapsed_a: int = 0
    elapsed_b: int = 1
    ms: float = 0.0
    """Where the next frame begins."""
    last_b: int = 0
    """Symbol of unit B of the frame before."""
    lifted: int = 0
    """Stops the pointer has rested on."""
    rested: int = 0
    """Frames made so far with the pointer on the next stop."""
    first_visible: int = 0
    """Symbols before it are shown no more."""
    ended_words: int = 0
    open_words: tuple[float, ...] = ()
    """When the words behind the ended ones that have begun did so, in ms."""
    watch: Watch = Watch()


@dataclass
class Text:
    """All there is to say."""

    symbols: list[int] = field(default_factory=lambda: [SILENCE])
    words: list[PlacedWord] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    silence: int = 0
    """The last silence of ``symbols``."""
    is_finished: bool = False

    def copy(self) -> "Text":
        """An independent copy."""
        return replace(self, symbols=[*self.symbols], words=[*self.words], stops=[*self.stops])


class AlignedStream:
    """Words to symbols, pointer choices to word times."""

    def __init__(self, settings: AlignedSettings, guards: GuardSettings | None = None, trims_end: bool = True) -> None:
        """``trims_end``: end with the last sound of a finished text rather than with the silence that closes it."""
        self.settings = settings
        self.trims_end = trims_end
        self._guards = guards or GuardSettings()
        self._ids = {symbol: FIRST_PHONEME + i for i, symbol in enumerate(settings.symbols)}
        # Symbols of pauses rather than of sounds: SIL, space, punctuation, intonation arrows.
        self._pauses = {i for symbol, i in self._ids.items() if unicodedata.category(symbol)[0] in "PZS"} | {SILENCE}
        self._rests = self._pauses - {self._ids[" "]}
        self._text = Text()
        self._place = Place()
        self._lead_s, self._reserve_s = 0.0, math.inf

    # Text in

    def add(self, words: Sequence[SpokenWord]) -> None:
        """Append words. One without a known phoneme is silent and gets no time."""
        text = self._text
        assert not text.is_finished
        for word in words:
            ids = [self._ids[symbol] for symbol in word.phonemes if symbol in self._ids]
            sounds = [i for i, symbol in enumerate(ids) if symbol not in self._pauses]
            if sounds:
                if text.symbols[-1] != SILENCE:
                    text.symbols.append(self._ids[" "])
                offset = len(text.symbols)
                text.words.append(PlacedWord(word, first=offset + sounds[0], last=offset + sounds[-1]))
                text.symbols.extend(ids)
            if word.boundary is Boundary.SENTENCE or self._needs_breath(word.boundary):
                self._close()
            if word.pause_ms:
                self._rest(word.pause_ms * self._speed(word.speed))

    def flush(self) -> None:
        """Speak all there is and rest on a silence; what comes later starts behind it."""
        self._close()
        last = len(self._text.symbols) - 1
        if last > (self._text.stops[-1].symbol if self._text.stops else 0):
            self._text.stops.append(Stop(last))

    def finish(self) -> None:
        """Speak all there is and end."""
        self.flush()
        self._text.is_finished = True

    def _rest(self, pause_ms: float) -> None:
        """Rest on a silence for about ``pause_ms`` at speed 1: as many stops there as last so long.

        One less, since the voice rests about as long by itself before it goes on.
        """
        self._close()
        stop_ms = self.settings.end_frames * UNITS_PER_FRAME * self.settings.unit_ms
        stop = Stop(len(self._text.symbols) - 1, is_asked=True)
        self._text.stops += [stop] * max(1, round(pause_ms / stop_ms) - 1)

    def _close(self) -> None:
        """End the symbols with a silence."""
        text = self._text
        if text.symbols[-1] != SILENCE:
            text.silence = len(text.symbols)
            text.symbols.append(SILENCE)

    def _needs_breath(self, boundary: Boundary) -> bool:
        most = self.settings.most_symbols if boundary is Boundary.NONE else self.settings.breath_symbols
        return len(self._text.symbols) - self._text.silence > most

    # Steps out

    def demand(self) -> Demand:
        """Decode when the whole look-ahead is known or no more text may come for now.

        Within a word, the look-ahead of the pause behind it must be known: speech waits for text between words. Behind
        the last of them it holds: how much of the pause there is heard depends on what comes.
        """
        if self.is_ended:
            return Demand.END
        if self._stop is None and not self._is_look_ahead_known:
            return Demand.WAIT
        return Demand.HOLD if self._may_end_here and self._lead_s > self._reserve_s else Demand.DECODE

    @property
    def _is_look_ahead_known(self) -> bool:
        known = len(self._text.symbols)
        # Behind a revision the pointer may be on a space whose next word is not there yet.
        return self._place.b < known and self._rest_after(self._place.b) + self.settings.look_ahead < known

    @property
    def _may_end_here(self) -> bool:
        """Whether the end, should it come now, would leave out some of the next frame."""
        return self.is_said and not self._text.is_finished

    def situate(self, lead_s: float, reserve_s: float, cost: float = 0.0) -> None:
        """Only whether it holds depends on it."""
        self._lead_s, self._reserve_s = lead_s, reserve_s

    @property
    def held_to_s(self) -> float:
        """The reserve."""
        return self._reserve_s

    @property
    def wants_text(self) -> bool:
        """Whether it waits, or whether the next frame depends on what comes."""
        return self._may_end_here or self.demand() is Demand.WAIT

    def upcoming(self) -> tuple[int, ...]:
        """Nothing: its text lies beside the audio."""
        return ()

    def take_prompt(self) -> tuple[int, ...]:
        """Never called: the voice's own prompt is all there is."""
        raise AssertionError("an aligned stream has no prompt rows of its own")

    def retake(self, token_ids: tuple[int, ...], place: Place) -> bool:
        """Never called, either."""
        raise AssertionError("an aligned stream has no prompt rows of its own")

    @property
    def would_restart(self) -> bool:
        """Never: it guesses nothing."""
        return False

    def guide(self) -> Guide:
        """Window of the next frame and the pointer moves it allows.

        The end-of-turn token is never among what may be drawn: the pointer says where the end is, and a draw that
        depends on whether ``finish`` has come already would make the sound depend on timing.
        """
        now, last = self._place, self._last_visible
        places = [
            *range(now.a - self.settings.look_behind, now.a + 1),
            *range(now.b, now.b + self.settings.look_ahead + 1),
        ]
        symbols = tuple(self._text.symbols[i] if now.first_visible <= i <= last else UNKNOWN for i in places)
        return Guide(
            window=Window(symbols, (now.elapsed_a, now.elapsed_b)),
            moves=self._moves(),
            is_end_allowed=False,
        )

    def accept(self, frame: Frame) -> Spoken:
        """Move the pointer; words that start in this frame, and those whose end is now exact."""
        now, moves = self._place, self._moves()
        assert moves[frame.move], (frame.move, moves)
        step_a, step_b = divmod(frame.move, 2)
        a = now.b + step_a
        elapsed_a = 0 if step_a else now.elapsed_b + 1
        rested = now.rested + (now.b == self._stop)
        # The pointer moves under the old limit, so a text that came just now changes nothing before this frame.
        is_lifted = rested == self.settings.end_frames
        speed = self._speed(self._asked_speed(now.b), frame.speed)
        unit_ms = self.settings.unit_ms / speed
        ends_at = self._end_of_sound(unit_ms)
        b = a + step_b
        is_sounding = self._is_sound(now.a) and self._is_sound(now.b)
        # The pointer is a frame ahead of the sound, so a fault may be found before any of it is given out.
        watch = now.watch.push(frame.codes, is_sounding, self._guards)
        watch = watch.move(a, self._is_sound(a), self._guards).move(b, self._is_sound(b), self._guards)
        self._place = replace(
            now,
            a=a,
            b=b,
            elapsed_a=elapsed_a,
            elapsed_b=0 if step_b else elapsed_a + 1,
            ms=now.ms + UNITS_PER_FRAME * unit_ms,
            last_b=now.b,
            lifted=now.lifted + is_lifted,
            rested=0 if is_lifted else rested,
            watch=watch,
        )
        words = self._follow_words((now.a, now.b, a), now.ms, unit_ms)
        most_silent_ms = self._guards.most_mute_ms / speed if is_sounding else math.inf
        return Spoken((frame.codes,), words, self._fault, most_silent_ms, speed, ends_at)

    def hear(self, levels_db: Sequence[float]) -> None:
        """Nothing depends on it."""

    @property
    def is_tentative(self) -> bool:
        """Never: it guesses nothing."""
        return False

    def had_better_end_at(self, place: Place) -> bool:
        """Never."""
        return False

    def pardon(self) -> None:
        """See ``TextStream``."""
        self._place = replace(self._place, watch=self._place.watch.pardon())

    @property
    def is_ended(self) -> bool:
        """Whether all there is has been spoken and no more can come."""
        if not self._text.is_finished:
            return False
        return self._stop is None or (self.trims_end and self.is_said and self._place.last_b > self._last_sound)

    @property
    def is_said(self) -> bool:
        """Whether the last sound of all there is ends before the next frame does, and no pause is asked for there."""
        text = self._text
        is_pause_asked = bool(text.stops) and text.stops[-1].is_asked
        return bool(text.words) and self._place.b > self._last_sound and not is_pause_asked

    @property
    def _last_sound(self) -> int:
        return self._text.words[-1].last

    def _end_of_sound(self, unit_ms: float) -> float | None:
        """``ends_at`` of a frame at this place."""
        now = self._place
        if not (self._text.is_finished and self.trims_end and self.is_said):
            return None
        said = 0.0 if now.a > self._last_sound else 0.5
        return min(1.0, said + TAIL_MS / (UNITS_PER_FRAME * unit_ms))

    @property
    def has_rested(self) -> bool:
        """Whether a frame was made with the pointer on the silence that closes a flushed text."""
        return self._place.rested > 0

    @property
    def sounding_words(self) -> int:
        """Words of the text that have a sound."""
        return len(self._text.words)

    @property
    def begun_words(self) -> int:
        """Words that frames made so far have begun."""
        return self._place.ended_words + len(self._place.open_words)

    def is_past(self, words: int) -> bool:
        """Whether the next frame would bring nothing of the first ``words`` words any more."""
        return words == 0 or self._text.words[words - 1].last < self._place.a

    @property
    def is_resting(self) -> bool:
        """Whether the pointer is on a silence between sentences."""
        now, symbols = self._place, self._text.symbols
        return 0 < now.a == now.b < len(symbols) and symbols[now.b] == SILENCE

    @property
    def history(self) -> tuple[SpokenTurn, ...]:
        """Nothing: the voice's rows hold the voice."""
        return ()

    def renew(self) -> None:
        """Go on from this silence as from the first one: what was before it is no longer shown."""
        self._place = replace(self._place, first_visible=self._place.b)

    # Going back

    @property
    def extent(self) -> int:
        """The symbol a next word's sound would begin with."""
        symbols = self._text.symbols
        return len(symbols) + (symbols[-1] != SILENCE)

    @property
    def reached(self) -> int:
        """The symbol that is sounding."""
        return self._place.b

    def text_mark(self) -> TextMark:
        """How much text there is."""
        text = self._text
        return TextMark(len(text.symbols), len(text.words), len(text.stops), text.silence, text.is_finished)

    def cut_text(self, mark: TextMark) -> None:
        """Forget the text that came after ``mark``."""
        text = self._text
        del text.symbols[mark.symbols :], text.words[mark.words :], text.stops[mark.stops :]
        text.silence, text.is_finished = mark.silence, mark.is_finished

    def place(self) -> Place:
        """Where the pointer is."""
        return self._place

    def go_to(self, place: Place) -> None:
        """Speak on from there."""
        self._place = place

    def snapshot(self) -> tuple[Text, Place]:
        """Copy of text and pointer."""
        return self._text.copy(), self._place

    def restore(self, snapshot: tuple[Text, Place]) -> None:
        """Go back to a snapshot: text that came after it is forgotten too."""
        text, self._place = snapshot
        self._text = text.copy()

    # Pointer

    @property
    def _stop(self) -> int | None:
        """The silence behind which nothing may be looked at yet."""
        stops, lifted = self._text.stops, self._place.lifted
        return stops[lifted].symbol if lifted < len(stops) else None

    @property
    def _last_visible(self) -> int:
        stop = self._stop
        return len(self._text.symbols) - 1 if stop is None else stop

    def _rest_after(self, place: int) -> int:
        """Where speech at ``place`` can wait: the pause behind its word; ``place`` itself if it is in no word."""
        words = self._text.words
        before = bisect_right(words, place, key=lambda placed: placed.first)
        return words[before - 1].last + 1 if before and place <= words[before - 1].last else place

    def _cap(self, place: int) -> int:
        """Most units the symbol at ``place`` may last."""
        if place == 0:
            return self.settings.lead_cap
        return self.settings.pause_cap if self._text.symbols[place] in self._rests else self.settings.phoneme_cap

    def _choices(self, place: int, lasted: int) -> tuple[bool, bool]:
        """Whether the unit after ``lasted`` units of the symbol at ``place`` may stay on it, or go to the next."""
        has_next = place < self._last_visible
        return not has_next or lasted < self._cap(place), has_next

    def _moves(self) -> tuple[bool, bool, bool, bool]:
        now = self._place
        stay_a, go_a = self._choices(now.b, now.elapsed_b + 1)
        stay_b, go_b = self._choices(now.b, now.elapsed_b + 2)
        stay_next, go_next = self._choices(now.b + 1, 1) if go_a else (False, False)
        return stay_a and stay_b, stay_a and go_b, stay_next, go_next

    # Guards

    def _is_sound(self, place: int) -> bool:
        return self._text.symbols[place] not in self._pauses

    @property
    def _fault(self) -> Fault | None:
        """What is wrong with the speech so far."""
        watch, total = self._place.watch, math.inf
        if len(watch.pace.recent) < self._guards.fewest_sounds and self._stop is not None:
            # A text that is shorter is judged when all of it has been said.
            total = sum(symbol not in self._pauses for symbol in self._text.symbols[: self._stop])
        unit_ms = self.settings.unit_ms
        return watch.fault(self._guards, unit_ms, UNITS_PER_FRAME * unit_ms, total)

    # Times

    def _asked_speed(self, place: int) -> float:
        """What the text asks for at ``place``: the speed of the word there, or of the one before."""
        words = self._text.words
        before = bisect_right(words, place, key=lambda placed: placed.first)
        return words[before - 1].word.speed if before else 1.0

    def _speed(self, asked: float, hurry: float = 1.0) -> float:
        """What is spoken, if text and listener ask for these."""
        settings = self.settings
        return settings.speeds.nearest(settings.speed * asked * hurry) if settings.speeds else 1.0

    def _follow_words(self, sounding: Sequence[int], start_ms: float, unit_ms: float) -> tuple[WordTiming, ...]:
        """Note what begins and ends as the pointer goes over the symbols ``sounding``, a unit each, the last of them
        only to see what has ended; returns words that started or ended.
        """
        now, words = self._place, self._text.words
        ended, starts = now.ended_words, [*now.open_words]
        news: dict[int, WordTiming] = {}
        frame_end_ms = start_ms + UNITS_PER_FRAME * unit_ms
        for unit, symbol in enumerate(sounding):
            at_ms = start_ms + unit * unit_ms
            while starts and words[ended].last < symbol:
                news[ended] = _timing(words[ended].word, starts.pop(0), at_ms)
                ended += 1
            if unit == UNITS_PER_FRAME:
                break
            while ended + len(starts) < len(words) and words[ended + len(starts)].first <= symbol:
                placed = words[ended + len(starts)]
                typical_ms = at_ms + TYPICAL_UNITS * (placed.last - placed.first + 1) * unit_ms
                end_ms = max(typical_ms, frame_end_ms + unit_ms)
                news[ended + len(starts)] = _timing(placed.word, at_ms, end_ms, is_estimated=True)
                starts.append(at_ms)
        self._place = replace(now, ended_words=ended, open_words=tuple(starts))
        return tuple(news[i] for i in sorted(news))


def _timing(word: SpokenWord, start_ms: float, end_ms: float, is_estimated: bool = False) -> WordTiming:
    return WordTiming(word.text, word.spoken, start_ms, end_ms, word.char_start, word.char_end, is_estimated)
