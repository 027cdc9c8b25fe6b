"""Where one turn's speech ends and the next begins, and where a whole utterance does, nothing clicks."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.core import AudioChunk, Policy, Utterance
from engine.engine import Engine, load_engine

TEXT = "Good evening, my friends, and welcome to the house. We have waited for you, as you know, for a long time."
AROUND = 24
"""Samples on each side of a join: a millisecond."""
VOICED = 0.02
SILENT = 0.01


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
