"""Both text streams without a model: pointer rules, word times, turns, and what must not depend on timing."""

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core import WordTiming
from engine.streams.aligned import AlignedStream
from engine.streams.aligned_symbols import SILENCE, AlignedSettings
from engine.streams.base import Demand, Frame, Guide
from engine.streams.guesses import Guessing
from engine.streams.turn_speech import AlignedTurn, GuessedTurn, TurnSettings
from engine.streams.turns import TurnStream
from engine.text.words import Boundary, SpokenWord

SYMBOLS = " abcdefgˈ,.?!"
SETTINGS = AlignedSettings(symbols=SYMBOLS, look_behind=2, look_ahead=4)
IDS = {symbol: 2 + i for i, symbol in enumerate(SYMBOLS)}

Policy = Callable[[Guide], int]


def word(phonemes: str, start: int = 0, boundary: Boundary = Boundary.NONE) -> SpokenWord:
    return SpokenWord(phonemes, phonemes, start, start + len(phonemes), phonemes, boundary)


def sentence(text: str) -> list[SpokenWord]:
    """Words of ``text`` whose letters are their phonemes."""
    words, start = [], 0
    for part in text.split(" "):
        stop = {".": Boundary.SENTENCE, "!": Boundary.SENTENCE, ",": Boundary.CLAUSE}
        words.append(word(part, start, stop.get(part[-1:], Boundary.NONE)))
        start += len(part) + 1
    return words


def like_a_model(guide: Guide) -> int:
    """A choice that depends on everything the model would see, among the allowed ones."""
    assert guide.moves is not None
    allowed = [move for move in range(4) if guide.moves[move]]
    return allowed[zlib.crc32(repr(guide.window).encode()) % len(allowed)]


def always(*preferences: int) -> Policy:
    """The first of ``preferences`` that is allowed."""

    def choose(guide: Guide) -> int:
        assert guide.moves is not None
        return next(move for move in (*preferences, 0, 1, 2, 3) if guide.moves[move])

    return choose


@dataclass
class Drive:
    """Steps an aligned stream as the engine would and keeps what was seen."""

    stream: AlignedStream
    policy: Policy = like_a_model
    guides: list[Guide] = field(default_factory=list)
    moves: list[int] = field(default_factory=list)
    words: list[list[WordTiming]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """Symbol of every unit, followed independently of the stream."""
    pointer: tuple[int, int] = (0, 0)

    def step(self) -> None:
        guide = self.stream.guide()
        move = self.policy(guide)
        self.guides.append(guide)
        self.moves.append(move)
        self.places.extend(self.pointer)
        a = self.pointer[1] + move // 2
        self.pointer = (a, a + move % 2)
        spoken = self.stream.accept(Frame(codes=(7,), move=move))
        assert spoken.frames == ((7,),)
        self.words.append(list(spoken.words))

    def run(self, most: int = 10_000) -> "Drive":
        """As long as frames can be made; fails if that never ends."""
        for _ in range(most):
            if self.stream.demand() is not Demand.DECODE:
                return self
            self.step()
        raise AssertionError("the stream ran away")

    @property
    def final_words(self) -> dict[int, WordTiming]:
        return {timing.char_start: timing for words in self.words for timing in words}


def speak(words: Sequence[SpokenWord], policy: Policy = like_a_model, settings: AlignedSettings = SETTINGS) -> Drive:
    stream = AlignedStream(settings)
    stream.add(words)
    stream.finish()
    drive = Drive(stream, policy).run()
    assert stream.demand() is Demand.END
    return drive


class TestPointer:
    def test_window_shows_two_symbols_behind_both_units_and_what_lies_ahead(self) -> None:
        stream = AlignedStream(SETTINGS)
        stream.add(sentence("ab cd."))
        a, b, space, c, d, stop = (IDS[symbol] for symbol in "ab cd.")
        first = stream.guide().window
        assert first is not None
        assert first.symbols == (0, 0, SILENCE, SILENCE, a, b, space, c)
        assert first.elapsed == (0, 1)
        stream.accept(Frame((7,), move=3))
        second = stream.guide().window
        assert second is not None
        assert second.symbols == (0, SILENCE, a, b, space, c, d, stop)
        assert second.elapsed == (0, 0)

    def test_elapsed_counts_the_units_before_each_unit(self) -> None:
        stream = AlignedStream(SETTINGS)
        stream.add(sentence("abcdefg"))
        seen = []
        for move in (2, 0, 1, 2):
            stream.accept(Frame((7,), move=move))
            window = stream.guide().window
            assert window is not None
            seen.append(window.elapsed)
        assert seen == [(0, 1), (2, 3), (4, 0), (0, 1)]

    def test_no_symbol_is_skipped_and_none_lasts_longer_than_its_cap(self) -> None:
        places = speak(sentence("abc de, fg. ab?"), policy=always(0)).places
        assert places[:3] == [0, 0, 1]
        runs = [places.count(place) for place in sorted(set(places))]
        assert sorted(set(places)) == list(range(max(places) + 1))
        phonemes, pauses = SETTINGS.phoneme_cap, SETTINGS.pause_cap
        #           'abc de'          ,         ' fg'            .       SIL
        expected = [2, *[phonemes] * 6, pauses, *[phonemes] * 3, pauses, pauses]
        assert runs[: len(expected)] == expected

    def test_a_model_in_a_hurry_gives_every_symbol_one_unit_and_still_rests_after_a_flush(self) -> None:
        stream = AlignedStream(SETTINGS)
        stream.add(sentence("abc de"))
        stream.flush()
        drive = Drive(stream, always(3, 2, 1)).run()
        assert drive.places[2:8] == [1, 2, 3, 4, 5, 6]
        assert set(drive.places[8:]) == {7}
        assert len(drive.places[8:]) == 2 * SETTINGS.end_frames

    @given(cuts=st.lists(st.integers(0, 30), max_size=6), eager=st.booleans())
    @settings(max_examples=60, deadline=None)
    def test_sound_does_not_depend_on_when_words_came(self, cuts: list[int], eager: bool) -> None:
        words = sentence("ab, cde fg abcd. gfe d cb a! ab dc.")
        whole = speak(words)
        stream = AlignedStream(SETTINGS)
        drive = Drive(stream)
        for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(words)], strict=True):
            stream.add(words[start:stop])
            if eager:
                drive.run()
        stream.finish()
        drive.run()
        assert drive.moves == whole.moves
        assert drive.guides == whole.guides
        assert drive.final_words == whole.final_words

    @given(pauses=st.lists(st.integers(0, 12), min_size=3, max_size=3))
    @settings(max_examples=60, deadline=None)
    def test_sound_depends_on_flushes_but_not_on_when_they_came(self, pauses: list[int]) -> None:
        parts = [sentence("ab cde"), sentence("fg. ab"), sentence("cd")]

        def run(steps: list[int]) -> Drive:
            stream = AlignedStream(SETTINGS)
            drive = Drive(stream)
            for part, count in zip(parts, steps, strict=True):
                stream.add(part)
                stream.flush()
                for _ in range(count):
                    if stream.demand() is Demand.DECODE:
                        drive.step()
            stream.finish()
            return drive.run()

        late = run([10_000] * 3)
        early = run(pauses)
        # Of the silence at the end there is no more once the end is known.
        count = len(early.moves)
        assert early.moves == late.moves[:count]
        assert early.guides == late.guides[:count]
        last_sound = 16
        assert early.places[-1] > last_sound
        assert set(late.places[2 * count :]) <= {last_sound + 1}
        assert early.final_words == late.final_words

    def test_flush_speaks_all_and_rests_then_waits_for_the_look_ahead(self) -> None:
        stream = AlignedStream(SETTINGS)
        stream.add(sentence("ab"))
        assert stream.demand() is Demand.WAIT
        stream.flush()
        drive = Drive(stream).run()
        assert stream.demand() is Demand.WAIT
        assert drive.places[-2 * SETTINGS.end_frames :] == [3] * 2 * SETTINGS.end_frames
        stream.add(sentence("cd"))
        assert stream.demand() is Demand.WAIT
        stream.add(sentence("efg"))
        assert stream.demand() is Demand.DECODE
        stream.flush()
        drive.run()
        assert max(drive.places) == 3 + len("cd efg") + 1

    def test_repeated_flushes_and_flushes_of_nothing_change_nothing(self) -> None:
        stream = AlignedStream(SETTINGS)
        stream.flush()
        assert stream.demand() is Demand.WAIT
        stream.add(sentence("abc."))
        for _ in range(3):
            stream.flush()
        once = Drive(stream).run()
        stream.flush()
        assert stream.demand() is Demand.WAIT
        stream.finish()
        assert stream.demand() is Demand.END
        whole = speak(sentence("abc."))
        assert once.moves[: len(whole.moves)] == whole.moves

    def test_a_late_word_only_pauses_the_frames(self) -> None:
        stream = AlignedStream(SETTINGS)
        drive = Drive(stream)
        stream.add(sentence("abcd"))
        drive.run()
        made = len(drive.moves)
        assert stream.demand() is Demand.WAIT
        stream.add(sentence("efg ab"))
        drive.run()
        assert len(drive.moves) > made

    def test_finish_without_sound_ends_at_once(self) -> None:
        for words in ([], [word("")], [word("…", boundary=Boundary.SENTENCE)]):
            stream = AlignedStream(SETTINGS)
            stream.add(words)
            stream.finish()
            assert stream.demand() is Demand.END

    def test_end_of_turn_may_never_be_drawn(self) -> None:
        assert not any(guide.is_end_allowed for guide in speak(sentence("ab. cd")).guides)

    def test_unknown_phonemes_are_left_out(self) -> None:
        assert speak(sentence("aXb")).moves == speak(sentence("ab")).moves

    def test_sentences_are_parted_by_silence_and_words_by_a_space(self) -> None:
        stream = AlignedStream(SETTINGS)
        stream.add(sentence("a. b c"))
        stream.finish()
        a, stop, b, space, c = (IDS[symbol] for symbol in "a.b c")
        assert stream.snapshot()[0].symbols == [SILENCE, a, stop, SILENCE, b, space, c, SILENCE]

    @given(at=st.integers(0, 12))
    @settings(max_examples=13, deadline=None)
    def test_a_restored_stream_goes_on_as_if_it_had_never_branched(self, at: int) -> None:
        words = sentence("ab, cde fg. ab cd")
        stream = AlignedStream(SETTINGS)
        stream.add(words[:3])
        drive = Drive(stream)
        for _ in range(at):
            if stream.demand() is Demand.DECODE:
                drive.step()
        taken = stream.snapshot()

        def rest() -> list[Guide]:
            stream.restore(taken)
            stream.add(words[3:])
            stream.finish()
            return Drive(stream, pointer=drive.pointer).run().guides

        first = rest()
        assert rest() == first
        assert drive.guides + first == speak(words).guides


class TestWordTimes:
    @given(st.lists(st.text("abcdefg", min_size=1, max_size=6), min_size=1, max_size=6), st.integers(0, 3))
    @settings(max_examples=60, deadline=None)
    def test_final_times_are_those_of_the_units_and_arrive_in_time(self, parts: list[str], preferred: int) -> None:
        text = " ".join(f"{part}{',.'[i % 2] if i % 3 == 0 else ''}" for i, part in enumerate(parts))
        words = sentence(text)
        drive = speak(words, policy=always(preferred) if preferred else like_a_model)
        assert sorted(drive.final_words) == [w.char_start for w in words]
        symbols = drive.stream.snapshot()[0].symbols
        place = 1
        for w in words:
            sounds = [place + i for i in range(len(w.phonemes)) if w.phonemes[i] in "abcdefg"]
            assert [symbols[i] for i in sounds] == [IDS[p] for p in w.phonemes if p in "abcdefg"]
            units = [unit for unit, at in enumerate(drive.places) if at in sounds]
            timing = drive.final_words[w.char_start]
            assert (timing.start_ms, timing.end_ms) == (25 * units[0], 25 * (units[-1] + 1))
            first_told = next(f for f, told in enumerate(drive.words) if w.char_start in [t.char_start for t in told])
            last_told = max(f for f, told in enumerate(drive.words) if w.char_start in [t.char_start for t in told])
            assert first_told == units[0] // 2
            assert last_told == units[-1] // 2
            place += len(w.phonemes) + 1

    def test_a_word_is_told_once_when_it_starts_and_corrected_once_when_it_ends(self) -> None:
        told = [w for words in speak(sentence("abcdefg ab"), policy=always(0)).words for w in words]
        assert [w.char_start for w in told] == [0, 0, 8, 8]
        assert told[0].start_ms == told[1].start_ms
        assert told[0].end_ms > told[0].start_ms

    def test_words_carry_their_original_text(self) -> None:
        spoken = SpokenWord("$20", "twenty dollars", 4, 7, "abc def", Boundary.NONE)
        (timing,) = speak([spoken]).final_words.values()
        assert (timing.text, timing.spoken, timing.char_start, timing.char_end) == ("$20", "twenty dollars", 4, 7)


class FakeCutter:
    """Clauses end at a boundary."""

    def __init__(self) -> None:
        self.open: list[SpokenWord] = []

    def add(self, words: Sequence[SpokenWord]) -> list[list[SpokenWord]]:
        clauses = []
        for each in words:
            self.open.append(each)
            if each.boundary is not Boundary.NONE:
                clauses.append(self.open)
                self.open = []
        return clauses

    def flush(self) -> list[list[SpokenWord]]:
        clauses, self.open = [self.open] if self.open else [], []
        return clauses


TURN_SETTINGS = TurnSettings(frame_ms=50, expected_ms=50, cap_ms=100, spare_ms=200)
ALIGNED_TURN = AlignedSettings(symbols=SYMBOLS, look_behind=2, look_ahead=4, end_frames=6)


def turn_stream(is_aligned: bool = False) -> TurnStream:
    def prompt(text: str, is_first: bool, is_closed: bool) -> tuple[int, ...]:
        return (int(is_first), int(is_closed), *(ord(c) for c in text))

    open_turn = partial(AlignedTurn, ALIGNED_TURN) if is_aligned else partial(GuessedTurn, TURN_SETTINGS)
    return TurnStream(50, FakeCutter(), open_turn, lambda words: " ".join(w.text for w in words), prompt)


def text_of(prompt: tuple[int, ...]) -> str:
    return "".join(chr(c) for c in prompt[2:])


END = Frame((0,), is_end=True)


class TestTurns:
    def test_a_clause_becomes_a_turn_and_the_next_goes_on_from_it(self) -> None:
        stream = turn_stream()
        stream.add(sentence("ab cd, ef"))
        assert stream.demand() is Demand.PREFILL
        first = stream.take_prompt()
        assert (first[:2], text_of(first)) == ((1, 0), "ab cd,")
        assert stream.demand() is Demand.DECODE
        assert stream.accept(Frame((5,))).frames == ((5,),)
        stream.accept(END)
        assert stream.demand() is Demand.WAIT
        stream.finish()
        second = stream.take_prompt()
        assert (second[:2], text_of(second)) == ((0, 1), "ef")
        stream.accept(END)
        assert stream.demand() is Demand.END

    def test_first_turn_does_not_wait_for_later_text(self) -> None:
        stream = turn_stream()
        stream.add(sentence("ab, cd"))
        stream.take_prompt()
        stream.add(sentence("ef."))
        assert stream.demand() is Demand.DECODE
        stream.accept(END)
        assert text_of(stream.take_prompt()) == "cd ef."

    @pytest.mark.parametrize(
        ("drawn", "heard"),
        [
            ([5, 0], [5]),
            ([0, 0, 7], [0, 0, 7]),
            ([0], []),
            ([], []),
            ([6, 0, 0], [6, 0]),
        ],
    )
    def test_one_semantic_zero_before_the_end_is_dropped(self, drawn: list[int], heard: list[int]) -> None:
        stream = turn_stream()
        stream.add(sentence("abcdefg."))
        stream.take_prompt()
        out = [frame for code in drawn for frame in stream.accept(Frame((code, 9))).frames]
        out += stream.accept(END).frames
        assert out == [(code, 9) for code in heard]

    def test_a_model_that_does_not_stop_is_stopped_and_a_held_frame_is_heard(self) -> None:
        stream = turn_stream()
        stream.add(sentence("abc. def."))
        stream.take_prompt()
        most = TURN_SETTINGS.most_frames(len("abc."))
        out: list[tuple[int, ...]] = []
        for _ in range(most):
            assert stream.demand() is Demand.DECODE
            out += stream.accept(Frame((0,))).frames
        assert len(out) == most
        assert stream.demand() is Demand.PREFILL
        assert stream.take_prompt()[:2] == (0, 0), "the end-of-turn token is still to be written"

    def test_word_times_share_the_true_length_of_their_turn(self) -> None:
        stream = turn_stream()
        stream.add(sentence("ab abcd, abc."))
        stream.take_prompt()
        told = [w for _ in range(14) for w in stream.accept(Frame((5,))).words]
        assert [w.char_start for w in told] == [0, 3]
        final = stream.accept(END).words
        assert [(w.start_ms, w.end_ms) for w in final] == [(0, 200), (200, 700)]
        stream.take_prompt()
        stream.accept(Frame((5,)))
        (last,) = stream.accept(END).words
        assert (last.start_ms, last.end_ms) == (700, 750)

    def test_a_restored_stream_goes_on_as_if_it_had_never_branched(self) -> None:
        stream = turn_stream()
        stream.add(sentence("ab, cd"))
        stream.take_prompt()
        stream.accept(Frame((0,)))
        taken = stream.snapshot()

        def rest() -> list[object]:
            stream.restore(taken)
            out: list[object] = [stream.accept(Frame((4,))), stream.accept(END)]
            stream.add(sentence("ef, gg."))
            stream.finish()
            while stream.demand() is not Demand.END:
                out += [stream.take_prompt(), stream.accept(END)]
            return out

        first = rest()
        assert rest() == first
        assert len(first) == 6

    def test_symbols_only_text_ends_without_a_turn(self) -> None:
        stream = turn_stream()
        stream.add([word(" ", boundary=Boundary.SENTENCE)])
        stream.finish()
        assert stream.demand() is Demand.END


class TestAlignedTurns:
    """Turns whose audio rows see their own symbols."""

    def speak(self, stream: TurnStream, policy: Policy, end_after: int = 99) -> tuple[list[Guide], list[WordTiming]]:
        """One turn; the model ends it ``end_after`` frames after it may."""
        stream.take_prompt()
        guides: list[Guide] = []
        words: list[WordTiming] = []
        while stream.demand() is Demand.DECODE:
            guide = stream.guide()
            guides.append(guide)
            end_after -= guide.is_end_allowed
            if end_after < 0:
                words += stream.accept(END).words
                break
            words += stream.accept(Frame((5,), move=policy(guide))).words
        return guides, words

    def test_a_turn_sees_no_symbol_of_the_next(self) -> None:
        stream = turn_stream(is_aligned=True)
        stream.add(sentence("ab cd, ef"))
        stream.finish()
        first, _ = self.speak(stream, like_a_model)
        second, _ = self.speak(stream, like_a_model)
        for guides, text in ((first, "ab cd,"), (second, "ef")):
            seen = {symbol for guide in guides if guide.window for symbol in guide.window.symbols}
            assert seen == {0, SILENCE} | {IDS[symbol] for symbol in text}
        assert stream.demand() is Demand.END

    def test_the_end_may_be_drawn_only_behind_the_last_sound(self) -> None:
        stream = turn_stream(is_aligned=True)
        stream.add(sentence("abcd, e"))
        guides, _ = self.speak(stream, like_a_model, end_after=0)
        assert [guide.is_end_allowed for guide in guides] == [False] * (len(guides) - 1) + [True]
        last = guides[-1].window
        assert last is not None
        assert last.symbols[2] == SILENCE
        assert stream.demand() is Demand.WAIT
        stream.finish()
        assert stream.take_prompt()[:2] == (0, 1), "the end-of-turn token is among the rows"

    def test_a_turn_the_model_does_not_end_is_ended(self) -> None:
        stream = turn_stream(is_aligned=True)
        stream.add(sentence("ab, c"))
        guides, _ = self.speak(stream, like_a_model)
        assert sum(guide.is_end_allowed for guide in guides) == ALIGNED_TURN.end_frames - 1
        stream.finish()
        assert stream.take_prompt()[:2] == (0, 0), "the end-of-turn token is still to be written"

    def test_word_times_are_those_of_the_pointer(self) -> None:
        stream = turn_stream(is_aligned=True)
        stream.add(sentence("ab cd, ef"))
        stream.finish()
        slow = always(1, 2, 0)  # a symbol each frame
        guides, words = self.speak(stream, slow, end_after=1)
        _, later = self.speak(stream, slow, end_after=1)
        frames = len(guides) - 1
        final = {w.char_start: w for w in words}
        # After SIL's one frame every symbol has two units: the last unit of a frame and the first of the next.
        assert [(w.start_ms, w.end_ms) for w in final.values()] == [(50, 175), (225, 325)]
        assert later[-1].start_ms == 50 * frames + 50

    def test_a_restored_stream_goes_on_as_if_it_had_never_branched(self) -> None:
        stream = turn_stream(is_aligned=True)
        stream.add(sentence("abc ab, cd"))
        stream.finish()
        stream.take_prompt()
        for _ in range(4):
            stream.accept(Frame((5,), move=like_a_model(stream.guide())))
        taken = stream.snapshot()

        def rest() -> list[object]:
            stream.restore(taken)
            out: list[object] = []
            while stream.demand() is not Demand.END:
                if stream.demand() is Demand.PREFILL:
                    out.append(stream.take_prompt())
                guide = stream.guide()
                out += [guide, stream.accept(Frame((5,), move=like_a_model(guide)))]
            return out

        assert rest() == rest()

    def test_a_clause_without_any_sound_is_no_turn(self) -> None:
        stream = turn_stream(is_aligned=True)
        stream.add([word("!", boundary=Boundary.SENTENCE)])
        stream.finish()
        assert stream.demand() is Demand.END


class TestGuesses:
    """Turns begun before their clause is whole."""

    def stream(self, guessing: Guessing | None = None) -> TurnStream:
        def prompt(text: str, is_first: bool, is_closed: bool) -> tuple[int, ...]:
            return (int(is_first), int(is_closed), *(ord(c) for c in text))

        def render(words: Sequence[SpokenWord]) -> str:
            return " ".join(w.text for w in words)

        open_turn = partial(AlignedTurn, ALIGNED_TURN)
        return TurnStream(50, FakeCutter(), open_turn, render, prompt, guessing or Guessing())

    def speak(self, stream: TurnStream, lead_s: float, most: int = 500) -> int:
        """Frames until the stream asks for something else."""
        for made in range(most):
            stream.situate(lead_s, 0.3)
            if stream.demand() is not Demand.DECODE:
                return made
            stream.accept(Frame((5,), move=like_a_model(stream.guide())))
        raise AssertionError("the turn never ended")

    def test_a_few_words_are_begun_when_the_listener_has_nothing_and_held_while_it_has(self) -> None:
        stream = self.stream()
        stream.add(sentence("ab cd"))
        stream.situate(0, 0.3)
        assert stream.demand() is Demand.WAIT
        stream.add(sentence("ef"))
        assert stream.demand() is Demand.PREFILL
        stream.situate(1.0, 0.3)
        assert stream.demand() is Demand.HOLD
        stream.situate(0, math.inf)
        assert stream.demand() is Demand.WAIT, "no guesses where there is no time"
        stream.situate(0, 0.3)
        assert text_of(stream.take_prompt()) == "ab cd ef"

    def test_a_clause_that_is_whole_is_no_guess(self) -> None:
        stream = self.stream()
        stream.add(sentence("ab cd, ef"))
        stream.situate(0.3, 0.3)
        assert stream.demand() is Demand.PREFILL
        assert text_of(stream.take_prompt()) == "ab cd,"
        assert not stream.place().is_guess

    def test_a_clause_waits_for_the_next_as_long_as_there_is_more_time_than_it_takes(self) -> None:
        stream = self.stream()
        stream.add(sentence("abcd abcd,"))
        made_s = 11 * 65 / 1000
        stream.situate(5.0, 0.3, cost=0.5)
        assert (stream.demand(), stream.wants_text) == (Demand.HOLD, True)
        assert stream.held_to_s == pytest.approx(0.3 + 0.5 * made_s)
        stream.situate(stream.held_to_s, 0.3, cost=0.5)
        assert (stream.demand(), stream.wants_text) == (Demand.PREFILL, False)
        stream.situate(5.0, 0.3, cost=0.5)
        stream.add(sentence("abcd abcd, ef"))
        assert stream.held_to_s == pytest.approx(0.3 + 0.5 * 2 * made_s), "the longer the turn, the sooner it is begun"
        stream.add([word("ab.", boundary=Boundary.SENTENCE)])
        assert stream.demand() is Demand.PREFILL
        assert text_of(stream.take_prompt()) == "abcd abcd, abcd abcd, ef ab."

    @pytest.mark.parametrize("ends", ["flush", "finish"])
    def test_a_clause_behind_which_the_text_ends_does_not_wait(self, ends: str) -> None:
        stream = self.stream()
        stream.add(sentence("ab cd,"))
        stream.situate(5.0, 0.3)
        assert stream.demand() is Demand.HOLD
        (stream.flush if ends == "flush" else stream.finish)()
        assert stream.demand() is Demand.PREFILL

    def test_clauses_wait_for_no_more_words_than_a_turn_should_have(self) -> None:
        stream = self.stream(Guessing(most_joined=4))
        for _ in range(2):
            stream.situate(5.0, 0.3)
            stream.add(sentence("ab cd,"))
        assert stream.demand() is Demand.PREFILL

    def test_with_more_text_the_turn_ends_before_its_last_word(self) -> None:
        stream = self.stream()
        stream.add(sentence("ab cd ef"))
        stream.situate(0, 0.3)
        stream.take_prompt()
        stream.add(sentence("ga bc."))
        self.speak(stream, lead_s=1.0)
        second = stream.take_prompt()
        assert (second[:2], text_of(second)) == ((0, 0), "ef ga bc.")
        assert stream.place().guess_words == 2 * Guessing().fewest_words

    def test_without_more_text_it_waits_there_and_goes_on_when_the_listener_runs_dry(self) -> None:
        stream = self.stream()
        stream.add(sentence("ab cd ef"))
        stream.situate(0, 0.3)
        stream.take_prompt()
        self.speak(stream, lead_s=1.0)
        assert stream.demand() is Demand.HOLD
        assert stream.reached == 1
        self.speak(stream, lead_s=0.0)
        assert stream.demand() is Demand.WAIT
        assert stream.reached == 2

    @pytest.mark.parametrize("ends", ["flush", "finish"])
    def test_a_text_that_ends_with_the_guess_is_spoken_to_its_end(self, ends: str) -> None:
        stream = self.stream()
        stream.add(sentence("ab cd ef"))
        stream.situate(0, 0.3)
        stream.take_prompt()
        (stream.flush if ends == "flush" else stream.finish)()
        self.speak(stream, lead_s=1.0)
        assert stream.reached == 2
        if ends == "flush":
            assert stream.demand() is Demand.HOLD, "how much of the pause is heard depends on what comes"
            self.speak(stream, lead_s=0.0)
        assert stream.demand() is (Demand.WAIT if ends == "flush" else Demand.END)

    def test_clauses_that_wait_become_one_turn_while_there_is_time(self) -> None:
        for lead_s, expected in ((1.0, "ab, cd, ef."), (0.0, "ab,")):
            stream = self.stream()
            stream.add(sentence("ab, cd, ef. ga"))
            stream.situate(lead_s, 0.3)
            assert text_of(stream.take_prompt()) == expected

    def test_a_guess_that_came_much_too_early_would_be_begun_anew(self) -> None:
        stream = self.stream()
        stream.add(sentence("ab cd ef"))
        stream.situate(0, 0.3)
        before = stream.place()
        stream.take_prompt()
        stream.add(sentence("ga bc"))
        assert not stream.would_restart
        stream.add(sentence("de."))
        assert stream.would_restart
        stream.go_to(before)
        assert text_of(stream.take_prompt()) == "ab cd ef ga bc de."

    def test_a_guess_is_taken_again_as_it_was_while_its_words_are_there(self) -> None:
        stream = self.stream()
        mark = stream.text_mark()
        stream.add(sentence("ab cd ef"))
        stream.situate(0, 0.3)
        before = stream.place()
        ids = stream.take_prompt()
        after = stream.place()
        for text, is_same in (("ab cd ef ga bc.", True), ("ab cd ee ga bc.", False)):
            stream.cut_text(mark)
            stream.go_to(before)
            stream.add(sentence(text))
            assert stream.retake(ids, after) is is_same
            assert stream.place() is (after if is_same else before)
