"""Speed of an utterance, of words, and when the speech is behind; where it ends. Times are those of true samples."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.core import AudioChunk, Finished, Notice, Revised, SamplingParams, TextFormat, Utterance, WordTiming
from engine.streams.guards import GuardSettings
from tests.engine.doubles import Stage, stage

TEXT = "A cab, a bad face. Dad fed a cab."
FRAME = 1200
LENIENT = GuardSettings(fewest_ms_per_sound=0, most_ms_per_sound=1e9, most_repeated_ms=1e9, most_mute_ms=1e9)


def say(made: Stage, name: str, text: str = TEXT, **options: object) -> None:
    utterance = replace(Utterance(name, "heart", sampling=SamplingParams(seed=1)), **options)  # type: ignore[arg-type]
    made.engine.add(utterance)
    made.engine.append_text(name, text)
    made.engine.finish(name)


def spoken(text: str = TEXT, **options: object) -> tuple[Stage, list[WordTiming]]:
    made = stage(guards=LENIENT)
    say(made, "u", text, **options)
    made.run()
    assert isinstance(made.ending("u"), Finished)
    return made, made.words("u")


def chunks(made: Stage, name: str = "u") -> list[AudioChunk]:
    return [event for event in made.of(name) if isinstance(event, AudioChunk)]


def heard(made: Stage) -> tuple[NDArray[np.float32], list[WordTiming]]:
    """What a listener to a revised utterance has in the end."""
    while made.engine.idle_s() is not None:
        made.clock.now_s += 0.05
        made.step()
    audio, words = np.zeros(0, np.float32), dict[int, WordTiming]()
    for event in made.of("u"):
        if isinstance(event, Revised):
            audio = audio[: event.from_sample]
            words = {start: word for start, word in words.items() if start < event.kept_to}
        elif isinstance(event, AudioChunk):
            assert event.first_sample == len(audio)
            audio = np.concatenate((audio, event.samples))
            words.update((word.char_start, word) for word in event.words)
    return audio, [words[start] for start in sorted(words)]


@pytest.mark.parametrize("speed", [0.5, 1.25, 2.0])
def test_the_speed_of_an_utterance_scales_audio_and_word_times(speed: float) -> None:
    usual, usual_words = spoken()
    made, words = spoken(speed=speed)
    ending, usual_ending = made.ending("u"), usual.ending("u")
    assert isinstance(ending, Finished)
    assert isinstance(usual_ending, Finished)
    assert ending.frames == usual_ending.frames
    assert ending.audio_s == len(made.audio("u")) / 24_000
    assert [word.start_ms * speed for word in words] == pytest.approx([word.start_ms for word in usual_words])
    assert [word.end_ms * speed for word in words] == pytest.approx([word.end_ms for word in usual_words])
    assert ending.audio_s * speed == pytest.approx(usual_ending.audio_s, abs=0.05)


def test_words_of_a_text_have_speeds_of_their_own() -> None:
    text = "A cab, a <prosody rate='50%'>bad face. Dad</prosody> fed a cab."
    _, words = spoken(text, text_format=TextFormat.SSML)
    _, usual = spoken(text.replace("50%", "100%"), text_format=TextFormat.SSML)
    starts, usual_starts = ([word.start_ms for word in each] for each in (words, usual))
    stretch = np.diff(starts) / np.diff(usual_starts)
    # Frames at the edges are of the one or the other.
    assert stretch[:2] == pytest.approx([1, 1], abs=0.3)
    assert stretch[3:5] == pytest.approx([2, 2], abs=0.3)
    assert stretch[6] == pytest.approx(1, abs=0.3)


def test_an_utterance_can_be_hurried_and_slowed_while_it_speaks() -> None:
    made = stage(guards=LENIENT)
    say(made, "u")
    lengths = []
    for speed in (1.0, 2.0, 1.0, 0.5):
        made.engine.hurry("u", speed)
        before = sum(len(chunk.samples) for chunk in chunks(made))
        for _ in range(3):
            made.step()
        lengths.append(sum(len(chunk.samples) for chunk in chunks(made)) - before)
    assert lengths == [3 * FRAME, 3 * FRAME // 2, 3 * FRAME, 6 * FRAME]
    made.run()
    position = 0
    for chunk in chunks(made):
        assert chunk.first_sample == position
        position += len(chunk.samples)
    ending = made.ending("u")
    assert isinstance(ending, Finished)
    assert ending.audio_s == position / 24_000


def test_speeds_together_are_within_what_the_model_can() -> None:
    made = stage(guards=LENIENT)
    say(made, "u", speed=1.5)
    made.engine.hurry("u", 1.5)
    made.run()
    assert np.array_equal(made.audio("u"), spoken(speed=2.0)[0].audio("u"))


def test_neighbours_of_other_speeds_change_nothing() -> None:
    together = stage(guards=LENIENT)
    speeds = (1.0, 2.0, 0.8)
    for i, speed in enumerate(speeds):
        say(together, f"u{i}", speed=speed)
    together.run()
    for i, speed in enumerate(speeds):
        alone, words = spoken(speed=speed)
        np.testing.assert_allclose(together.audio(f"u{i}"), alone.audio("u"), atol=1e-6)
        assert together.words(f"u{i}") == words


@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_a_revision_goes_back_to_true_samples(speed: float) -> None:
    start = TEXT.index("Dad")
    plain, words = spoken(TEXT[:start] + "Bad cab.", speed=speed)
    made = stage(guards=LENIENT)
    say(made, "u", speed=speed)
    for _ in range(12):
        made.step()
    made.engine.revise("u", start, "Bad cab.", heard_ms=100)
    audio, said = heard(made)
    assert said == words
    np.testing.assert_allclose(audio, plain.audio("u"), atol=1e-6)


def test_a_frame_whose_words_are_slower_now_is_made_again() -> None:
    text = "A cab, a bad face. Dad fed a cab."
    slow = "A <prosody rate='50%'>cab, a bad face. Dad fed a cab.</prosody>"
    plain, words = spoken(slow, text_format=TextFormat.SSML)
    made = stage(guards=LENIENT)
    say(made, "u", text, text_format=TextFormat.SSML)
    for _ in range(20):
        made.step()
    made.engine.revise("u", 2, slow[2:], heard_ms=0)
    audio, said = heard(made)
    assert said == words
    np.testing.assert_allclose(audio, plain.audio("u"), atol=1e-6)


@pytest.mark.parametrize(("speed", "told"), [(3.0, "speaks at 0.5 to 2"), (0.1, "speaks at 0.5 to 2")])
def test_a_speed_beyond_its_limits_is_told(speed: float, told: str) -> None:
    made, _ = spoken(speed=speed)
    (notice,) = [event for event in made.of("u") if isinstance(event, Notice)]
    assert told in notice.message


def test_a_model_of_one_pace_says_so_and_speaks() -> None:
    made = stage(is_aligned=False)
    say(made, "u", speed=1.5)
    made.run()
    assert [event.message for event in made.of("u") if isinstance(event, Notice)] == ["speed 1.5: this model cannot"]
    assert isinstance(made.ending("u"), Finished)
    assert len(made.audio("u")) % FRAME == 0


class TestEnd:
    @pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
    @pytest.mark.parametrize("text", ["A cab.", "Dad fed a cab", TEXT, "A bad face!"])
    def test_audio_ends_with_the_last_word(self, text: str, speed: float) -> None:
        for seed in range(4):
            made, words = spoken(text, speed=speed, sampling=SamplingParams(seed=seed))
            behind_ms = len(made.audio("u")) / 24 - words[-1].end_ms
            assert 12 <= behind_ms <= 40
            assert not words[-1].is_estimated
            assert made.audio("u")[-1] == 0

    @pytest.mark.parametrize("rest", [0, 5, 1000])
    def test_what_precedes_does_not_depend_on_when_the_end_is_known(self, rest: int) -> None:
        sooner, words = spoken()
        made = stage(guards=LENIENT)
        made.engine.add(Utterance("u", "heart", sampling=SamplingParams(seed=1)))
        made.engine.append_text("u", TEXT)
        made.engine.flush("u")
        for _ in range(rest):
            made.step()
        made.engine.finish("u")
        made.run()
        assert made.words("u") == words
        faded = 24 * 10
        same = len(sooner.audio("u")) - faded
        assert np.array_equal(made.audio("u")[:same], sooner.audio("u")[:same])
        assert len(made.audio("u")) >= len(sooner.audio("u"))

    def test_a_pause_that_is_asked_for_at_the_end_is_kept(self) -> None:
        made, words = spoken("A cab. <break time='1s'/>", text_format=TextFormat.SSML)
        assert len(made.audio("u")) / 24 - words[-1].end_ms > 700

    def test_a_flush_in_the_middle_keeps_its_pause(self) -> None:
        made = stage(guards=LENIENT)
        made.engine.add(Utterance("u", "heart", sampling=SamplingParams(seed=1)))
        made.engine.append_text("u", "A cab")
        made.engine.flush("u")
        made.engine.append_text("u", " Dad fed a cab")
        made.engine.finish("u")
        made.run()
        words = made.words("u")
        assert words[2].start_ms - words[1].end_ms >= 150
