"""Where one turn's speech ends and the next begins, and where a whole utterance does, nothing clicks."""

import math
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from clients.bench.waveform import loudness_db, pitches_hz
from engine.core import AudioChunk, Policy, Utterance
from engine.engine import UNDERSTUDY, Engine, load_engine
from engine.loading import ContextLimits, load_parts
from engine.scheduler import Scheduler

TEXT = "Good evening, my friends, and welcome to the house. We have waited for you, as you know, for a long time."
AROUND = 24
"""Samples on each side of a join: a millisecond."""
VOICED = 0.02
SILENT = 0.01
RATE = 24_000


@pytest.fixture(scope="module")
def engine() -> Engine:
    return load_engine(text_stream="turns", is_warm=False)


def speak(engine: Engine, policy: Policy, words_at_once: int) -> Iterator[tuple[NDArray[np.float32], int]]:
    """Chunks, and the number of turns begun so far; the text comes so many words at a time."""
    engine.add(Utterance("u", "heart", policy=policy))
    stream = engine._sequences["u"].stream
    words = TEXT.split(" ")
    turns, place = 0, stream.place()
    while engine._sequences:
        if words:
            engine.append_text("u", " ".join(words[:words_at_once]) + (" " if words[words_at_once:] else ""))
            words = words[words_at_once:]
            if not words:
                engine.finish("u")
        events = engine.step()
        turns += stream.place().words != place.words and bool(stream.place().words)
        place = stream.place()
        for event in events:
            if isinstance(event, AudioChunk):
                yield event.samples, turns


@pytest.mark.parametrize(("policy", "words_at_once"), [(Policy.CLAUSE, 99), (Policy.EAGER, 1)])
def test_joins_and_ends_do_not_click(engine: Engine, policy: Policy, words_at_once: int) -> None:
    pieces = list(speak(engine, policy, words_at_once))
    samples = np.concatenate([piece for piece, _ in pieces])
    steps = np.abs(np.diff(samples))
    voiced = steps[np.abs(samples[1:]) > VOICED]
    starts = np.cumsum([0, *(len(piece) for piece, _ in pieces)])
    turns = [turn for _, turn in pieces]
    joins = [int(starts[i]) for i in range(1, len(pieces)) if turns[i] != turns[i - 1]]
    assert len(joins) >= 2
    for join in joins:
        assert steps[join - AROUND : join + AROUND].max() <= np.quantile(voiced, 0.999)
    assert abs(samples[0]) < SILENT
    assert abs(samples[-1]) < SILENT


def test_a_renewed_context_neither_clicks_nor_changes_the_voice() -> None:
    """With its first and last turn shown again, in a context so small that the understudy renews it between clauses."""
    parts = load_parts(UNDERSTUDY, "turns")
    engine = Engine(replace(parts, limits=ContextLimits(renew_rows=150)), Scheduler(1, math.inf, time.monotonic))
    renewed, pieces, renewals = list[int](), list[NDArray[np.float32]](), 0
    for piece, _ in speak(engine, Policy.CLAUSE, 99):
        if engine.stats().renewals > renewals:
            renewals = engine.stats().renewals
            renewed.append(sum(map(len, pieces)))
        pieces.append(piece)
    samples = np.concatenate(pieces)
    steps = np.abs(np.diff(samples))
    voiced = steps[np.abs(samples[1:]) > VOICED]
    assert renewed
    for join in renewed:
        assert steps[join - AROUND : join + AROUND].max() <= np.quantile(voiced, 0.999)
    before, after = samples[: renewed[0]], samples[renewed[0] :]
    assert np.median(pitches_hz(after, RATE)) == pytest.approx(np.median(pitches_hz(before, RATE)), rel=0.2)
    assert loudness_db(after, RATE) == pytest.approx(loudness_db(before, RATE), abs=4)
