"""Minutes of speech in one utterance: its context is renewed again and again, and the voice stays what it was."""

import numpy as np
import pytest

from clients.bench.waveform import Samples, loudness_db, pitches_hz
from engine.core import AudioChunk, Finished, Utterance
from engine.engine import load_engine
from tests.understudy.test_takes import SENTENCES

RATE = 24_000
PLAIN = " ".join(text for text in SENTENCES if text[-1] in ".?!" and "*" not in text and "Hmm" not in text)


@pytest.mark.slow
def test_two_minutes_without_a_drift() -> None:
    engine = load_engine(is_warm=False)
    engine.add(Utterance("u", "heart"))
    # The same sentences in each third, so that what is said makes no difference.
    for _ in range(4):
        engine.append_text("u", PLAIN + " ")
    engine.finish("u")
    track = engine._sequences["u"].track
    chunks, renewals, rows, ending = list[Samples](), 0, 0, None
    while engine.has_work():
        for event in engine.step():
            if isinstance(event, AudioChunk):
                chunks.append(event.samples)
            else:
                ending = event
        if engine._sequences:
            renewals += track.rows < rows
            rows = track.rows
    samples = np.concatenate(chunks)
    assert isinstance(ending, Finished)
    assert len(samples) > 110 * RATE
    assert engine.stats().renewals == renewals >= 3
    third = len(samples) // 3
    first, last = samples[:third], samples[-third:]
    assert np.median(pitches_hz(last, RATE)) == pytest.approx(np.median(pitches_hz(first, RATE)), rel=0.1)
    assert loudness_db(last, RATE) == pytest.approx(loudness_db(first, RATE), abs=2)
