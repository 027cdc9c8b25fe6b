"""Samples to bytes: streamed equals whole, no clicks, no lost samples, messages of the promised length."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from realtime.audio import Declick, MessageCutter, PcmStream, silence, to_pcm_s16le

MODEL_RATE = 24_000
RATES = (8_000, 16_000, 22_050, 24_000, 44_100, 48_000)


def speech(samples: int, seed: int = 0) -> NDArray[np.float32]:
    """Something like speech: band-limited, loud, not silent at its edges."""
    random = np.random.default_rng(seed)
    time_s = np.arange(samples) / MODEL_RATE
    tones = [np.sin(2 * np.pi * hertz * time_s + phase) for hertz, phase in random.uniform(80, 3000, (6, 2))]
    mixed: NDArray[np.float32] = (0.15 * np.sum(tones, axis=0)).astype(np.float32)
    return mixed


def stream(pieces: list[NDArray[np.float32]], rate: int) -> bytes:
    pcm = PcmStream(MODEL_RATE, rate)
    return b"".join([pcm.push(piece) for piece in pieces] + [pcm.finish()])


def cut(samples: NDArray[np.float32], sizes: list[int]) -> list[NDArray[np.float32]]:
    edges = np.cumsum(sizes)
    return np.split(samples, edges[edges < len(samples)])


@pytest.mark.parametrize("rate", RATES)
@settings(max_examples=15, deadline=None)
@given(sizes=st.lists(st.integers(1, 3000), max_size=12))
def test_streamed_equals_whole(rate: int, sizes: list[int]) -> None:
    samples = speech(12_000)
    streamed, whole = (
        np.frombuffer(stream(pieces, rate), "<i2").astype(int) for pieces in (cut(samples, sizes), [samples])
    )
    assert len(streamed) == len(whole)
    assert np.abs(streamed - whole).max() <= 1


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("count", [1, 119, 120, 121, 1200, 12_001])
def test_no_sample_is_lost(rate: int, count: int) -> None:
    assert abs(len(stream([speech(count)], rate)) / 2 - count * rate / MODEL_RATE) <= 1


def test_nothing_gives_nothing() -> None:
    assert stream([], 8_000) == b""
    assert stream([np.zeros(0, np.float32)], 24_000) == b""


@pytest.mark.parametrize("rate", [8_000, 48_000])
def test_resampling_keeps_the_tone_and_removes_what_cannot_be_heard(rate: int) -> None:
    time_s = np.arange(MODEL_RATE) / MODEL_RATE
    low, high = (np.sin(2 * np.pi * hertz * time_s).astype(np.float32) * 0.5 for hertz in (1000, 6000))
    spectrum = np.abs(np.fft.rfft(np.frombuffer(stream([low + high], rate), "<i2")))
    hertz = np.fft.rfftfreq(2 * len(spectrum) - 2, 1 / rate)
    peak = spectrum.max()
    assert spectrum[np.abs(hertz - 1000) < 5].max() > 0.9 * peak
    alias = spectrum[np.abs(hertz - 2000) < 50].max()
    assert alias < 1e-3 * peak


def test_loud_samples_are_clipped_and_broken_ones_silent() -> None:
    samples = np.array([2.0, -2.0, np.nan, np.inf, -np.inf, 1.0], np.float32)
    assert np.frombuffer(to_pcm_s16le(samples), "<i2").tolist() == [32767, -32767, 0, 32767, -32767, 32767]


def test_edges_that_would_click_are_faded() -> None:
    loud = np.full(2400, 0.5, np.float32)
    pcm = np.frombuffer(stream([loud], MODEL_RATE), "<i2")
    assert pcm[0] == 0
    assert pcm[-1] == 0
    assert np.abs(np.diff(pcm.astype(int))).max() < 200
    assert (pcm[120:-120] == pcm[1200]).all()


def test_silent_edges_are_left_alone() -> None:
    samples = np.concatenate([np.zeros(1, np.float32), speech(1000), np.zeros(1, np.float32)])
    declick = Declick(MODEL_RATE)
    assert np.array_equal(np.concatenate([declick.push(samples), declick.finish()]), samples)


def test_little_is_kept_back() -> None:
    declick = Declick(MODEL_RATE)
    assert len(declick.push(speech(1200))) == 1200 - 120


@given(st.lists(st.integers(0, 5000), max_size=20), st.sampled_from(RATES))
def test_messages_are_20_to_100_ms(sizes: list[int], rate: int) -> None:
    cutter = MessageCutter(rate)
    payloads = [payload for size in sizes for payload in cutter.push(bytes(2 * size))]
    last = cutter.push(b"", is_last=True)
    for payload in payloads:
        assert 1000 * len(payload) / 2 / rate + 0.05 >= 20
        assert 1000 * len(payload) / 2 / rate <= 100
    assert len(last) <= 1
    assert sum(map(len, payloads + last)) == 2 * sum(sizes)


def test_silence_has_its_length() -> None:
    assert silence(8_000, 40) == bytes(2 * 320)


@pytest.mark.parametrize("output_rate", [24_000, 8_000, 44_100, 48_000, 22_050])
@pytest.mark.parametrize("position", [0, 50, 1_200, 12_345, 23_900, 24_000])
def test_after_a_rewind_it_goes_on_as_if_the_new_samples_had_been_the_first(output_rate: int, position: int) -> None:
    time_s = np.arange(24_000) / 24_000
    old = (0.5 * np.sin(2 * np.pi * 440 * time_s)).astype(np.float32)
    new = (0.4 * np.sin(2 * np.pi * 300 * time_s)).astype(np.float32)
    whole = PcmStream(24_000, output_rate)
    wanted = np.frombuffer(whole.push(np.concatenate([old[:position], new])) + whole.finish(), "<i2").astype(int)
    stream = PcmStream(24_000, output_rate)
    pcm = b"".join(stream.push(old[start : start + 1_200]) for start in range(0, len(old), 1_200))
    cut = stream.rewind(position)
    assert cut * 24_000 <= (position + 1) * output_rate
    pcm = pcm[: 2 * cut] + b"".join(stream.push(new[start : start + 700]) for start in range(0, len(new), 700))
    made = np.frombuffer(pcm + stream.finish(), "<i2").astype(int)
    assert len(made) == len(wanted)
    # What was given out before may have known the old samples that followed.
    assert np.abs(made - wanted)[cut:].max() <= 1


def test_a_rewind_to_what_was_forgotten_is_no_worse_than_a_start() -> None:
    stream = PcmStream(24_000, 48_000)
    samples = np.full(24_000, 0.25, np.float32)
    stream.push(samples)
    stream.forget(20_000)
    assert stream.rewind(10_000) == 20_000
    made = np.frombuffer(stream.push(samples) + stream.finish(), "<i2")
    assert len(made) == 48_000
    assert abs(int(made[1_000]) - 8192) <= 2


def test_a_cutter_forgets_what_is_void() -> None:
    cutter = MessageCutter(1_000)
    assert cutter.push(bytes(range(20))) == []
    cutter.rewind(3)
    assert cutter.push(b"", is_last=True) == [bytes(range(6))]
