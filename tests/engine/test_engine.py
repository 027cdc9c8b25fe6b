"""The engine on a mock decoder: every utterance ends once, alone or among others, whatever happens to them."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core import AudioChunk, Cancelled, Failed, Finished, Policy, Utterance, real_time_factor
from engine.errors import (
    StructuralTokenError,
    UnknownLanguageError,
    UnknownUtteranceError,
    UnknownVoiceError,
    UtteranceStateError,
)
from engine.loading import ContextLimits
from engine.script import STEP_CHARACTERS
from engine.speak import speak
from engine.text.phonemes import phonemise_word
from tests.engine.doubles import VOICES, MockDecoder, Stage, stage

TEXT = "Good morning, Dr. Smith! It costs $20 today. Shall we go?"
FORMS = pytest.mark.parametrize("is_aligned", [True, False], ids=["aligned", "turns"])


@cache
def alone(text: str, is_aligned: bool = True, voice: str = "heart", seed: int = 0) -> Stage:
    single = stage(is_aligned)
    single.say("only", text, voice, seed)
    single.run()
    assert isinstance(single.ending("only"), Finished)
    return single


class TestOneUtterance:
    @FORMS
    def test_speaks_all_words_in_order_with_times_inside_the_audio(self, is_aligned: bool) -> None:
        done = alone(TEXT, is_aligned)
        words = done.words("only")
        assert [w.text for w in words] == TEXT.split()
        assert [TEXT[w.char_start : w.char_end] for w in words] == TEXT.split()
        assert words[6].spoken == "twenty dollars"
        audio_ms = 1000 * len(done.audio("only")) / 24_000
        for before, after in zip(words, words[1:], strict=False):
            assert before.end_ms <= after.start_ms + 1e-6
        assert all(0 <= w.start_ms <= w.end_ms <= audio_ms + 1e-6 for w in words)

    @FORMS
    def test_finished_reports_what_was_made(self, is_aligned: bool) -> None:
        done = alone(TEXT, is_aligned)
        ending = done.ending("only")
        assert isinstance(ending, Finished)
        assert ending.audio_s == len(done.audio("only")) / 24_000
        assert ending.frames == len(done.audio("only")) / 1200
        assert 0 < ending.compute_s <= done.engine.stats().compute_s

    @FORMS
    @pytest.mark.parametrize("size", [1, 3, 17])
    def test_sound_and_words_do_not_depend_on_message_sizes(self, is_aligned: bool, size: int) -> None:
        whole = alone(TEXT, is_aligned)
        pieces = stage(is_aligned)
        pieces.engine.add(Utterance("only", "heart", sampling=whole.runner.sampling))
        for start in range(0, len(TEXT), size):
            pieces.engine.append_text("only", TEXT[start : start + size])
            for _ in range(start % 4):
                pieces.step()
        pieces.engine.finish("only")
        pieces.run()
        assert np.array_equal(pieces.audio("only"), whole.audio("only"))
        assert pieces.words("only") == whole.words("only")

    def test_speech_begins_before_the_text_ends(self) -> None:
        for is_aligned, text in ((True, "Good morning to you"), (False, "Good morning, my dear friends. And")):
            early = stage(is_aligned)
            early.engine.add(Utterance("u", "heart"))
            early.engine.append_text("u", text)
            assert early.engine.has_work()
            early.run()
            assert len(early.audio("u")) > 0
            assert not any(isinstance(event, Finished) for event in early.events)

    def test_a_late_word_is_a_pause_not_a_stall(self) -> None:
        late = stage()
        late.engine.add(Utterance("u", "heart"))
        late.engine.append_text("u", "One two three ")
        late.run()
        assert late.engine.idle_s() is None
        late.engine.append_text("u", "four five six seven ")
        assert late.engine.has_work()
        late.engine.finish("u")
        late.run()
        assert [w.text for w in late.words("u")] == ["One", "two", "three", "four", "five", "six", "seven"]

    @FORMS
    def test_flush_speaks_what_is_there_and_more_may_follow(self, is_aligned: bool) -> None:
        flushed = stage(is_aligned)
        flushed.engine.add(Utterance("u", "heart"))
        flushed.engine.append_text("u", "Hello")
        flushed.run()
        assert len(flushed.audio("u")) == 0
        flushed.engine.flush("u")
        flushed.run()
        assert [w.text for w in flushed.words("u")] == ["Hello"]
        flushed.engine.append_text("u", " again")
        flushed.engine.finish("u")
        flushed.run()
        assert [w.text for w in flushed.words("u")] == ["Hello", "again"]
        assert isinstance(flushed.ending("u"), Finished)

    @FORMS
    @pytest.mark.parametrize("text", ["", "   ", "*** --- ***", "🙂🙂"])
    def test_nothing_to_say_is_a_moment_of_silence(self, is_aligned: bool, text: str) -> None:
        silent = alone(text, is_aligned)
        audio = silent.audio("only")
        assert len(audio) == 0.040 * 24_000
        assert not audio.any()
        assert silent.words("only") == []

    @FORMS
    def test_seeds_and_voices_are_heard(self, is_aligned: bool) -> None:
        plain = alone(TEXT, is_aligned).audio("only")
        assert np.array_equal(plain, alone(TEXT, is_aligned).audio("only"))
        assert not np.array_equal(plain, alone(TEXT, is_aligned, seed=1).audio("only")[: len(plain)])
        assert not np.array_equal(plain, alone(TEXT, is_aligned, voice="bella").audio("only")[: len(plain)])

    def test_policy_whole_waits_for_the_end(self) -> None:
        waiting = stage(is_aligned=False)
        waiting.engine.add(Utterance("u", "heart", policy=Policy.WHOLE))
        waiting.engine.append_text("u", "One sentence. Another sentence. ")
        waiting.run()
        assert len(waiting.audio("u")) == 0
        waiting.engine.finish("u")
        waiting.run()
        assert len(waiting.audio("u")) > 0

    @FORMS
    def test_offline_speech_is_the_same_speech(self, is_aligned: bool) -> None:
        samples, words = speak(stage(is_aligned).engine, TEXT, "heart")
        done = alone(TEXT, is_aligned)
        assert np.array_equal(samples, done.audio("only"))
        assert words == done.words("only")

    @FORMS
    def test_a_long_utterance_lets_its_context_go_at_pauses(self, is_aligned: bool) -> None:
        text = "This is a sentence of some length. " * 12
        long = stage(is_aligned, limits=ContextLimits(renew_rows=60, most_rows=400))
        long.say("u", text)
        rows = []
        while long.engine.has_work():
            long.step()
            rows += [sequence.track.rows for sequence in long.engine._sequences.values()]
        assert isinstance(long.ending("u"), Finished)
        assert len(long.words("u")) == 7 * 12
        assert max(rows) < 250
        assert sum(after < before for before, after in zip(rows, rows[1:], strict=False)) >= 3

    @FORMS
    @pytest.mark.parametrize("text", ["and so on " * 500, "and so on, " * 500], ids=["words", "commas"])
    def test_a_text_without_sentences_may_be_of_any_length(self, is_aligned: bool, text: str) -> None:
        endless = stage(is_aligned, limits=ContextLimits(renew_rows=100, most_rows=3000))
        endless.say("u", text)
        endless.run(20_000)
        assert isinstance(endless.ending("u"), Finished)
        assert len(endless.words("u")) == 1500

    def test_an_utterance_without_a_pause_fails_at_the_limit(self) -> None:
        endless = stage(limits=ContextLimits(renew_rows=20, most_rows=80))
        endless.say("u", "and so on " * 60)
        endless.run()
        ending = endless.ending("u")
        assert isinstance(ending, Failed)
        assert ending.code == "text_too_long"


class TestManyUtterances:
    TEXTS = (TEXT, "Yes.", "One two three four five six seven eight nine ten.", "No, thanks. Never mind!")

    @FORMS
    def test_batched_equals_alone(self, is_aligned: bool) -> None:
        many = stage(is_aligned)
        for i, text in enumerate(self.TEXTS):
            many.say(f"u{i}", text, VOICES[i % 3], seed=i)
        many.run()
        assert max(many.decoder.batch_sizes) == len(self.TEXTS)
        for i, text in enumerate(self.TEXTS):
            single = alone(text, is_aligned, VOICES[i % 3], seed=i)
            assert np.array_equal(many.audio(f"u{i}"), single.audio("only")), i
            assert many.words(f"u{i}") == single.words("only")

    @given(
        starts=st.lists(st.integers(0, 30), min_size=4, max_size=4),
        max_batch=st.integers(1, 3),
        cancelled_at=st.integers(0, 40),
    )
    @settings(max_examples=15, deadline=None)
    def test_whoever_joins_or_leaves_nobody_else_hears_it(
        self, starts: list[int], max_batch: int, cancelled_at: int
    ) -> None:
        many = stage(max_batch=max_batch)
        for tick in range(2000):
            for i, start in enumerate(starts):
                if start == tick:
                    many.say(f"u{i}", self.TEXTS[i], seed=i)
            if tick == max(starts[0], cancelled_at) and any(s == "u0" for s in many.engine._sequences):
                many.engine.abort("u0")
            many.step()
            many.clock.now_s += 0.01
            if tick > 40 and not many.engine.has_work():
                break
        for i in range(4):
            expected = alone(self.TEXTS[i], seed=i).audio("only")
            heard = many.audio(f"u{i}")
            if isinstance(many.ending(f"u{i}"), Cancelled):
                assert i == 0
                expected = expected[: len(heard)]
            assert np.array_equal(heard, expected), i

    def test_the_listener_who_runs_dry_first_is_served_first(self) -> None:
        tight = stage(max_batch=1)
        tight.say("ahead", TEXT)
        for _ in range(6):
            tight.step()
        tight.say("new", TEXT)
        # The first frame of an utterance is kept back until there is a second.
        assert [[event.utterance_id for event in tight.step()] for _ in range(2)] == [[], ["new"]]

    def test_the_first_chunk_is_two_frames_and_none_is_lost(self) -> None:
        one = stage()
        one.say("u", TEXT)
        one.run()
        chunks = [event for event in one.of("u") if isinstance(event, AudioChunk)]
        assert [len(chunk.samples) for chunk in chunks[:3]] == [2400, 1200, 1200]
        assert [chunk.first_sample for chunk in chunks[:3]] == [0, 2400, 3600]

    def test_lead_is_bounded_and_the_engine_says_when_it_goes_on(self) -> None:
        bounded = stage(max_lead_s=0.5)
        bounded.say("u", TEXT)
        bounded.run()
        made_s = len(bounded.audio("u")) / 24_000
        assert 0.5 < made_s <= 0.55 + 1e-6
        wait_s = bounded.engine.idle_s()
        assert wait_s is not None
        assert wait_s == pytest.approx(made_s - 0.5)
        bounded.clock.now_s += wait_s
        assert bounded.engine.has_work()
        assert any(isinstance(event, AudioChunk) for event in bounded.step())

    def test_one_prefill_a_step_and_the_others_go_on(self) -> None:
        several = stage(is_aligned=False)
        several.say("a", "Good morning to you all.")
        several.step()
        several.step()
        for name in "bcd":
            several.say(name, "Good morning to you all.")
        before = several.runner.prompt_rows
        served = [{event.utterance_id for event in several.step()} for _ in range(4)]
        assert all("a" in each for each in served)
        # A first chunk takes two steps.
        assert [len(each & set("bcd")) for each in served] == [0, 1, 2, 3]
        assert several.runner.prompt_rows > before

    def test_nothing_is_kept_of_those_that_ended(self) -> None:
        many = stage()
        for i, text in enumerate(self.TEXTS):
            many.say(f"u{i}", text)
        many.engine.abort("u2")
        many.run()
        assert many.runner.nbytes == 0
        stats = many.engine.stats()
        assert (stats.open_utterances, stats.finished, stats.cancelled, stats.failed) == (0, 3, 1, 0)
        samples = sum(len(many.audio(f"u{i}")) for i in range(4))
        # The last frame of each is cut behind its last sound.
        assert 0 <= stats.frames - samples / 1200 <= 3
        assert stats.audio_s == samples / 24_000
        assert real_time_factor(stats.compute_s, stats.audio_s) > 0


class TestLongTexts:
    """Reading a text takes time that the others' audio must not pay."""

    LONG = "It was a long way from here to there. " * 2000

    @pytest.fixture
    def readings(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Words given to the phonemiser."""
        words: list[str] = []

        def counted(left: Sequence[str], spoken: str, *rest: Any) -> str:
            words.append(spoken)
            return phonemise_word(left, spoken, *rest)

        monkeypatch.setattr("engine.text.front.phonemise_word", counted)
        return words

    @FORMS
    def test_a_long_text_is_read_between_the_frames_of_the_others(self, is_aligned: bool, readings: list[str]) -> None:
        busy = stage(is_aligned)
        busy.say("short", "One two three, four five six seven. ", "bella")
        busy.step()
        readings.clear()
        for i in range(4):
            busy.engine.add(Utterance(f"long{i}", "heart", policy=Policy.WHOLE))
            busy.engine.append_text(f"long{i}", self.LONG)
            busy.engine.finish(f"long{i}")
        assert readings == []
        frames = len(busy.audio("short"))
        busy.step()
        assert len(readings) <= STEP_CHARACTERS / 2
        assert len(busy.audio("short")) > frames

    @FORMS
    @pytest.mark.parametrize("text", ["," * 50_000, ", " * 25_000], ids=["one piece", "spaced"])
    def test_text_in_which_nothing_can_be_said_keeps_nobody_waiting(self, is_aligned: bool, text: str) -> None:
        patient = stage(is_aligned)
        for i in range(3):
            patient.say(f"nothing {i}", text)
        for _ in range(3):
            patient.step()
        patient.say("late", "One two three.")
        for _ in range(5):
            patient.step()
        assert len(patient.audio("late")) > 0

    def test_nor_does_such_text_in_small_appends(self) -> None:
        patient = stage()
        patient.engine.add(Utterance("nothing", "heart"))
        for i in range(20):
            patient.engine.append_text("nothing", "," * STEP_CHARACTERS)
            if i == 4:
                patient.say("late", "One two three.")
            patient.step()
        assert len(patient.audio("late")) > 0

    def test_no_more_is_read_than_the_speech_needs(self, readings: list[str]) -> None:
        lazy = stage()
        lazy.say("u", self.LONG)
        for _ in range(20):
            lazy.step()
        assert len(lazy.words("u")) > 0
        assert len(readings) < len(lazy.words("u")) + STEP_CHARACTERS

    @FORMS
    def test_a_cancel_leaves_the_rest_unread(self, is_aligned: bool, readings: list[str]) -> None:
        dropped = stage(is_aligned)
        dropped.say("u", self.LONG)
        dropped.step()
        dropped.engine.abort("u")
        readings.clear()
        dropped.run()
        assert readings == []
        assert isinstance(dropped.ending("u"), Cancelled)

    @FORMS
    def test_flushes_and_the_end_keep_their_places(self, is_aligned: bool) -> None:
        at_once, in_turn = stage(is_aligned), stage(is_aligned)
        for made in (at_once, in_turn):
            made.engine.add(Utterance("u", "heart", sampling=made.runner.sampling))
            for text in ("Good eve", "ning all of you out there.", " And good night"):
                made.engine.append_text("u", text)
                made.engine.flush("u")
                if made is in_turn:
                    made.run()
            made.engine.finish("u")
            made.run()
        assert np.array_equal(at_once.audio("u"), in_turn.audio("u"))
        assert at_once.words("u") == in_turn.words("u")


class TestEnding:
    """Cancellation, one case per moment, and pauses."""

    @FORMS
    @pytest.mark.parametrize("steps", [0, 1, 2, 7])
    def test_abort_ends_at_once(self, is_aligned: bool, steps: int) -> None:
        cut = stage(is_aligned)
        cut.say("u", TEXT)
        for _ in range(steps):
            cut.step()
        chunks = len(cut.events)
        cut.engine.abort("u")
        cut.run()
        assert isinstance(cut.ending("u"), Cancelled)
        assert len(cut.events) == chunks + 1
        assert cut.runner.nbytes == 0

    def test_abort_before_any_text(self) -> None:
        cut = stage()
        cut.engine.add(Utterance("u", "heart"))
        cut.engine.abort("u")
        assert cut.engine.has_work()
        assert cut.step() == [Cancelled("u")]
        assert not cut.engine.has_work()

    def test_abort_twice_and_after_the_end_is_an_unknown_utterance(self) -> None:
        cut = stage()
        cut.say("u", "Yes.")
        cut.engine.abort("u")
        with pytest.raises(UnknownUtteranceError):
            cut.engine.abort("u")
        cut.say("v", "Yes.")
        cut.run()
        with pytest.raises(UnknownUtteranceError):
            cut.engine.abort("v")
        assert isinstance(cut.ending("v"), Finished)

    def test_an_id_is_free_again_after_its_end(self) -> None:
        again = stage()
        again.say("u", TEXT)
        again.step()
        again.engine.abort("u")
        again.run()
        again.events.clear()
        again.say("u", TEXT)
        again.run()
        assert np.array_equal(again.audio("u"), alone(TEXT).audio("only"))

    @FORMS
    def test_a_pause_changes_nothing_but_the_time(self, is_aligned: bool) -> None:
        paused = stage(is_aligned)
        paused.say("u", TEXT)
        paused.say("other", TEXT, seed=3)
        for _ in range(4):
            paused.step()
        heard = len(paused.audio("u"))
        paused.engine.pause("u")
        paused.run()
        assert len(paused.audio("u")) == heard
        assert isinstance(paused.ending("other"), Finished)
        paused.engine.resume("u")
        paused.run()
        assert np.array_equal(paused.audio("u"), alone(TEXT, is_aligned).audio("only"))

    def test_a_paused_utterance_still_takes_text_and_can_be_aborted(self) -> None:
        paused = stage()
        paused.engine.add(Utterance("u", "heart"))
        paused.engine.pause("u")
        paused.engine.append_text("u", TEXT)
        paused.engine.finish("u")
        assert not paused.engine.has_work()
        paused.engine.abort("u")
        assert paused.step() == [Cancelled("u")]


class TestRefusals:
    def test_text_after_the_end(self) -> None:
        ended = stage()
        ended.say("u", TEXT)
        for call in (ended.engine.flush, ended.engine.finish, lambda name: ended.engine.append_text(name, "more")):
            with pytest.raises(UtteranceStateError):
                call("u")
        ended.run()
        assert np.array_equal(ended.audio("u"), alone(TEXT).audio("only"))

    def test_unknown_utterances(self) -> None:
        engine = stage().engine
        for call in (engine.flush, engine.finish, engine.abort, engine.pause, engine.resume):
            with pytest.raises(UnknownUtteranceError, match="ghost"):
                call("ghost")
        with pytest.raises(UnknownUtteranceError):
            engine.append_text("ghost", "boo")

    def test_an_open_id(self) -> None:
        twice = stage()
        twice.say("u", TEXT)
        with pytest.raises(UtteranceStateError):
            twice.engine.add(Utterance("u", "heart"))
        twice.run()
        assert isinstance(twice.ending("u"), Finished)

    def test_an_unknown_voice_lists_the_voices(self) -> None:
        with pytest.raises(UnknownVoiceError, match="heart, michael, bella"):
            stage().engine.add(Utterance("u", "ghost"))

    def test_an_unknown_language(self) -> None:
        with pytest.raises(UnknownLanguageError):
            stage().engine.add(Utterance("u", "heart", language="xx"))

    def test_structural_text_is_left_out_and_the_utterance_goes_on(self) -> None:
        typed = stage()
        typed.engine.add(Utterance("u", "heart"))
        typed.engine.append_text("u", "Good morning <|im_")
        with pytest.raises(StructuralTokenError):
            typed.engine.append_text("u", "end|> all")
        typed.engine.finish("u")
        typed.run()
        assert isinstance(typed.ending("u"), Finished)


class TestFaults:
    """What goes wrong in one utterance fails that one."""

    @staticmethod
    def fail_for_voice(decoder: MockDecoder, voice: int) -> None:
        def fault(rows: object, aligned: object) -> None:
            if aligned is not None and voice in aligned.voice.flatten().tolist():  # type: ignore[attr-defined]
                raise ZeroDivisionError("secret text")

        decoder.fault = fault

    @pytest.mark.parametrize("at", [0, 1, 9])
    def test_a_decoder_fault_in_a_batch(self, at: int) -> None:
        faulty = stage()
        for i, name in enumerate(VOICES):
            faulty.say(name, TEXT, name, seed=i)
        for _ in range(at):
            faulty.step()
        self.fail_for_voice(faulty.decoder, 1)
        faulty.run()
        ending = faulty.ending("michael")
        assert isinstance(ending, Failed)
        assert (ending.code, ending.retryable) == ("internal", True)
        assert "secret" not in ending.message
        for i, name in ((0, "heart"), (2, "bella")):
            assert isinstance(faulty.ending(name), Finished)
            assert np.array_equal(faulty.audio(name), alone(TEXT, voice=name, seed=i).audio("only"))

    def test_a_fault_alone(self) -> None:
        faulty = stage()
        faulty.say("u", TEXT)
        self.fail_for_voice(faulty.decoder, 0)
        faulty.run()
        assert isinstance(faulty.ending("u"), Failed)
        faulty.decoder.fault = None
        faulty.say("v", TEXT)
        faulty.run()
        assert isinstance(faulty.ending("v"), Finished)

    def test_logits_that_are_no_numbers(self) -> None:
        faulty = stage()
        for i, name in enumerate(VOICES):
            faulty.say(name, TEXT, name, seed=i)
        for _ in range(3):
            faulty.step()
        state = faulty.runner._decoders.gather([s.track.key for s in faulty.engine._sequences.values()])
        with torch.inference_mode():
            state.recurrent.matrix[:, 2] = float("nan")
        faulty.run()
        assert isinstance(faulty.ending("bella"), Failed)
        assert np.array_equal(faulty.audio("heart"), alone(TEXT).audio("only"))
        assert np.array_equal(faulty.audio("michael"), alone(TEXT, voice="michael", seed=1).audio("only"))

    def test_samples_that_are_no_numbers(self) -> None:
        faulty = stage()
        for i, name in enumerate(VOICES):
            faulty.say(name, TEXT, name, seed=i)
        for _ in range(3):
            faulty.step()
        state = faulty.runner._codecs.gather([s.track.key for s in faulty.engine._sequences.values()])
        with torch.inference_mode():
            state.value[0] = float("inf")
        faulty.run()
        assert isinstance(faulty.ending("heart"), Failed)
        assert np.array_equal(faulty.audio("michael"), alone(TEXT, voice="michael", seed=1).audio("only"))

    def test_text_that_no_prompt_can_hold(self) -> None:
        faulty = stage(is_aligned=False)
        faulty.say("other", "Good morning to you.")
        faulty.engine.add(Utterance("u", "heart"))
        faulty.engine._sequences["u"].stream._render = lambda words: "q"  # type: ignore[attr-defined]
        faulty.engine.append_text("u", "Good morning to you.")
        faulty.engine.finish("u")
        faulty.run()
        ending = faulty.ending("u")
        assert isinstance(ending, Failed)
        assert (ending.code, ending.retryable) == ("structural_token", False)
        assert isinstance(faulty.ending("other"), Finished)

    def test_a_fault_of_the_text_front(self) -> None:
        faulty = stage()
        faulty.engine.add(Utterance("u", "heart"))
        faulty.engine._sequences["u"].script._front = None  # type: ignore[assignment]
        faulty.engine.append_text("u", "Hello")
        with pytest.raises(UnknownUtteranceError):
            faulty.engine.finish("u")
        faulty.run()
        assert isinstance(faulty.ending("u"), Failed)
