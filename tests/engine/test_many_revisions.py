"""A thousand random revisions through the whole engine: what is spoken in the end is the final text, every time."""

import random

import numpy as np
import pytest

from engine.streams.turn_speech import TurnSettings
from tests.engine.doubles import stage
from tests.engine.test_rewind import Listener, change, sentence, written

REVISIONS = 500
"""Of each text form."""
EACH = 20
"""Of one text."""
COMPARED = 4
"""One text in so many is spoken by a second utterance, too, that has made nothing ahead."""


def check(listener: Listener) -> None:
    """The words that were told are those of the text, each in its place, one after the other, within the audio."""
    assert listener.spoken_text() == written(listener.text)
    words = [listener.words[start] for start in sorted(listener.words)]
    assert all(before.end_ms <= after.start_ms + 1e-6 for before, after in zip(words, words[1:], strict=False))
    assert all(0 <= 24 * word.start_ms < len(listener.samples) for word in words)
    assert not words or 24 * words[-1].end_ms <= len(listener.samples) + 1e-6
    assert not any(word.is_estimated for word in words) or listener.stage.engine.info.text_stream == "turns"


@pytest.mark.parametrize("is_aligned", [True, False], ids=["aligned", "turns"])
def test_the_final_audio_is_the_final_text_every_time(monkeypatch: pytest.MonkeyPatch, is_aligned: bool) -> None:
    # The mock decoder ends a turn whenever it likes.
    monkeypatch.setattr(TurnSettings, "most_frames", lambda *_: 100_000)
    rng = random.Random(5)
    for number in range(REVISIONS // EACH):
        listener = Listener(stage(is_aligned), seed=number)
        others = [Listener(stage(is_aligned), seed=number)] if number % COMPARED == 0 else []
        for each in (listener, *others):
            each.append(opening := sentence(random.Random(number), 8))
            assert each.text == opening
        heard = 0
        for _ in range(EACH):
            for _ in range(rng.randint(0, 8)):
                listener.step(rng.random() * 0.1)
            heard = rng.randint(heard, max(heard, len(listener.samples)))
            start, text = change(rng, listener, heard)
            answer = listener.revise(start, text, heard)
            for behind in others:
                while len(behind.samples) < answer.from_sample and behind.stage.engine.has_work():
                    behind.step()
                again = behind.revise(start, text, heard)
                assert (again.kept_to, again.resumes_at) == (answer.kept_to, answer.resumes_at)
        for each in (listener, *others):
            each.finish()
            check(each)
        for behind in others:
            assert np.array_equal(listener.samples, behind.samples)
            assert listener.words == behind.words
        assert listener.stage.engine.tally.revisions == EACH
