"""The aligned text stream: phonemes lie beside the audio and a pointer says which ones are sounding.

See "The aligned text stream" in ``docs/architecture.md``. What a model might get wrong is settled here, so it cannot go
wrong: the pointer never runs past the last known symbol nor skips one, no symbol lasts longer than its cap, and the
utterance ends behind its last sound. What it can get wrong all the same, as hurrying over many sounds, is
watched by the guards.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.core import WordTiming
from engine.streams.aligned_symbols import SILENCE, UNITS_PER_FRAME, AlignedSettings, AlignedSymbols, Alphabet, TextMark
from engine.streams.base import Demand, Fault, Frame, Guide, Spoken, SpokenTurn, Window
from engine.streams.guards import GuardSettings, Watch
from engine.text.words import SpokenWord

UNKNOWN = 0
TYPICAL_UNITS = 2.4
"""Mean length of a symbol in the teacher's speech; only estimates of word ends that lie ahead use it."""
TAIL_MS = 25.0
"""Heard behind the last sound, which dies away in it; word times and audio may end 40 ms apart."""


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


class AlignedStream:
    """Words to symbols, pointer choices to word times."""

    def __init__(self, settings: AlignedSettings, guards: GuardSettings | None = None, trims_end: bool = True) -> None:
        """``trims_end``: end with the last sound of a finished text rather than with the silence that closes it."""
        self.settings = settings
        self.trims_end = trims_end
        self._guards = guards or GuardSettings()
        self._text = AlignedSymbols(settings, Alphabet(settings.symbols))
        self._place = Place()
        self._lead_s, self._reserve_s = 0.0, math.inf

    # Text in

    def add(self, words: Sequence[SpokenWord]) -> None:
        """Append words. One without a known phoneme is silent and gets no time."""
        self._text.add(words)

    def flush(self) -> None:
        """Speak all there is and rest on a silence; what comes later starts behind it."""
        self._text.flush()

    def finish(self) -> None:
        """Speak all there is and end."""
        self.flush()
        self._text.is_finished = True

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
        return self._place.b < known and self._text.rest_after(self._place.b) + self.settings.look_ahead < known

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
        speed = self.settings.spoken_speed(self._text.asked_speed(now.b), frame.speed)
        unit_ms = self.settings.unit_ms / speed
        ends_at = self._end_of_sound(unit_ms)
        b = a + step_b
        is_sounding = self._text.is_sound(now.a) and self._text.is_sound(now.b)
        # The pointer is a frame ahead of the sound, so a fault may be found before any of it is given out.
        watch = now.watch.push(frame.codes, is_sounding, self._guards)
        watch = watch.move(a, self._text.is_sound(a), self._guards).move(b, self._text.is_sound(b), self._guards)
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
        return self._stop is None or (self.trims_end and self.is_said and self._place.last_b > self._text.last_sound)

    @property
    def is_said(self) -> bool:
        """Whether the last sound of all there is ends before the next frame does, and no pause is asked for there."""
        text = self._text
        is_pause_asked = bool(text.stops) and text.stops[-1].is_asked
        return bool(text.words) and self._place.b > self._text.last_sound and not is_pause_asked

    def _end_of_sound(self, unit_ms: float) -> float | None:
        """``ends_at`` of a frame at this place."""
        now = self._place
        if not (self._text.is_finished and self.trims_end and self.is_said):
            return None
        said = 0.0 if now.a > self._text.last_sound else 0.5
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
        return self._text.extent

    @property
    def reached(self) -> int:
        """The symbol that is sounding."""
        return self._place.b

    def text_mark(self) -> TextMark:
        """How much text there is."""
        return self._text.mark()

    def cut_text(self, mark: TextMark) -> None:
        """Forget the text that came after ``mark``."""
        self._text.cut(mark)

    def place(self) -> Place:
        """Where the pointer is."""
        return self._place

    def go_to(self, place: Place) -> None:
        """Speak on from there."""
        self._place = place

    def snapshot(self) -> tuple[AlignedSymbols, Place]:
        """Copy of text and pointer."""
        return self._text.copy(), self._place

    def restore(self, snapshot: tuple[AlignedSymbols, Place]) -> None:
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

    def _choices(self, place: int, lasted: int) -> tuple[bool, bool]:
        """Whether the unit after ``lasted`` units of the symbol at ``place`` may stay on it, or go to the next."""
        has_next = place < self._last_visible
        return not has_next or lasted < self._text.cap(place), has_next

    def _moves(self) -> tuple[bool, bool, bool, bool]:
        now = self._place
        stay_a, go_a = self._choices(now.b, now.elapsed_b + 1)
        stay_b, go_b = self._choices(now.b, now.elapsed_b + 2)
        stay_next, go_next = self._choices(now.b + 1, 1) if go_a else (False, False)
        return stay_a and stay_b, stay_a and go_b, stay_next, go_next

    # Guards

    @property
    def _fault(self) -> Fault | None:
        """What is wrong with the speech so far."""
        watch, total = self._place.watch, math.inf
        if len(watch.pace.recent) < self._guards.fewest_sounds and self._stop is not None:
            # A text that is shorter is judged when all of it has been said.
            total = self._text.sounds_until(self._stop)
        unit_ms = self.settings.unit_ms
        return watch.fault(self._guards, unit_ms, UNITS_PER_FRAME * unit_ms, total)

    # Times

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
