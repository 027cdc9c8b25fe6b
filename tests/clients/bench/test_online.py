"""Streams are timed on real connections to a server that speaks in tones; figures from made-up arrivals."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.bench import online
from clients.bench.online import Crowd, Latency, real_time_streams, token_of_word, tokens
from clients.bench.timeline import Arrival, Timeline
from clients.sdk import connect

RATE = 1000


def stream(*at_ms: float, is_done: bool = True, silence_ms: int = 0) -> Timeline:
    """Messages of 50 ms; first text at 1 s, third word at 1.1 s; ``at_ms`` after the first text."""
    samples = np.full(50, 0.5, np.float32)
    quiet = samples.copy()
    quiet[:silence_ms] = 0
    made = [Arrival(1 + ms / 1000, quiet if index == 0 else samples) for index, ms in enumerate(at_ms)]
    return Timeline(RATE, first_text_s=1.0, third_word_s=1.1, last_text_s=1.2, arrivals=made, is_done=is_done)


class TestTokens:
    def test_pieces_are_small_and_make_up_the_text(self) -> None:
        assert tokens("Unbelievable, isn't it? ") == ["Unbelie", "vable", ",", " isn", "'", "t", " it", "?"]

    @given(st.text(max_size=60))
    def test_nothing_is_lost_but_the_last_space(self, text: str) -> None:
        assert "".join(tokens(text)) == text.rstrip()

    def test_third_word_ends_in_its_last_piece(self) -> None:
        pieces = tokens("One two unbelievable, four")
        assert pieces[token_of_word(pieces, 3)] == ","
        assert token_of_word(pieces, 2) == 1
        assert token_of_word(tokens("One two"), 3) == 1
        assert token_of_word([], 3) == 0


class TestLatency:
    def test_times_are_since_the_first_text_and_since_the_third_word(self) -> None:
        made = Latency.of([stream(250, 300, silence_ms=20), stream(350, 400)], 15)
        assert made.byte_ms == pytest.approx([250, 350])
        assert made.audible_ms == pytest.approx([250, 350])
        assert made.heard_ms == pytest.approx([270, 350])
        assert made.third_word_byte_ms == pytest.approx([150, 250])
        assert made.third_word_heard_ms == pytest.approx([170, 250])
        assert made.leading_silence_ms == pytest.approx([20, 0])
        assert made.gap_ms == pytest.approx([50, 50])

    def test_speech_may_begin_before_the_third_word(self) -> None:
        assert Latency.of([stream(40, 90)], 15).third_word_audible_ms == pytest.approx([-60])

    def test_streams_without_result_are_failures_and_not_fast_ones(self) -> None:
        made = Latency.of([stream(100, 150), stream(), stream(10, 60, is_done=False)], 30)
        assert (made.streams, made.failed) == (3, 2)
        assert made.byte_ms == pytest.approx([100])

    def test_json_has_percentiles(self) -> None:
        line = json.loads(json.dumps(Latency.of([stream(100, 250)], 30).as_json()))
        assert line["byte_ms"] == {"p50": pytest.approx(100), "p95": pytest.approx(100)}
        assert line["underruns"] == 1
        assert line["tokens_per_s"] == 30


class TestCrowd:
    def test_pauses_are_shared_out(self) -> None:
        smooth, rough, broken = stream(100, 140), stream(100, 225), stream(100, 140, is_done=False)
        made = Crowd.of([smooth, rough, broken, stream(100)], 2)
        assert (made.streams, made.failed, made.underruns, made.underruns_prebuffered) == (4, 2, 1, 0)
        assert made.longest_ms == pytest.approx(75)
        assert made.shares == {"C50": 0.25, "C100": 0.5, "C200": 0.5}
        assert not made.is_clean

    def test_rtf_ends_with_the_last_message(self) -> None:
        assert Crowd.of([stream(100, 140)], 1).rtf["p50"] == pytest.approx(1.4)

    def test_most_listeners_counts_up_to_the_first_underrun(self) -> None:
        clean, rough = Crowd.of([stream(0, 40)], 1), Crowd.of([stream(0, 90)], 2)
        four = Crowd(**{**asdict(clean), "listeners": 4})
        assert real_time_streams([clean]) == 1
        assert real_time_streams([four, rough, clean]) == 1
        assert real_time_streams([rough]) == 0
        assert real_time_streams([]) == 0


class TestRealConnections:
    async def test_text_keeps_its_pace_and_audio_is_timed(self, server: str) -> None:
        async with connect(server, voice="heart") as session:
            timeline = await online.stream_text(session, "One two three four five six", tokens_per_s=40)
        assert timeline.is_done
        assert timeline.audio_s == pytest.approx(6 * 0.2)
        assert timeline.third_word_s - timeline.first_text_s == pytest.approx(2 / 40, abs=0.02)
        assert timeline.last_text_s - timeline.first_text_s == pytest.approx(5 / 40, abs=0.03)
        sound = timeline.first_sound
        assert sound is not None
        # A word is spoken when the next one has begun.
        assert timeline.first_text_s + 1 / 40 < sound.byte_s <= sound.audible_s <= sound.heard_s
        assert sound.byte_s < timeline.last_text_s

    async def test_one_by_one_counts_and_warms_up(self, server: str) -> None:
        steps: list[int] = []
        timelines = await online.one_by_one(server, ["One two.", "Three."], 100, "michael", lambda: steps.append(1))
        assert [t.is_done for t in timelines] == [True, True]
        assert len(steps) == 2

    async def test_at_once_gives_every_stream_its_own_audio(self, server: str) -> None:
        timelines = await online.at_once(server, ["One two three.", "One two.", "One."], 200, ["heart", "bella"])
        assert [round(t.audio_s / 0.2) for t in timelines] == [3, 2, 1]
        crowd = Crowd.of(timelines, 3)
        assert (crowd.streams, crowd.failed) == (3, 0)

    async def test_a_refused_stream_is_not_done(self, server: str) -> None:
        async with connect(server) as session:
            timeline = await online.stream_text(session, "Hello.", 100, voice="nobody")
        assert not timeline.is_done
        assert Latency.of([timeline], 100).failed == 1
