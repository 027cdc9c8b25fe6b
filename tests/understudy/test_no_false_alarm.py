"""What the understudy says is never taken for a fault, however short the text."""

import pytest

from engine.core import Failed, Policy, SamplingParams, Tally, Utterance
from engine.engine import load_engine

# fmt: off
TEXTS = (
    "Yes.", "No.", "No, thanks.", "Go on", "Go on.", "Okay.", "Oh!", "I.", "A.", "Hi!",
    "One.", "7", "12", "42", "100", "1,000", "3.14", "2026", "$5", "5%",
    "9:45", "What?", "Why not?", "Stop!", "Wait.", "Maybe.", "Thank you.", "Good night.", "Hmm.", "Well, yes.",
    "Who is it?", "Come in.", "Not now.", "Of course.", "Eleven", "1st", "Three, two, one.", "It is.", "Ah.",
    "To be, or not to be.",
)
# fmt: on


@pytest.mark.parametrize("text_stream", ["turns", "aligned"])
def test_no_guard_fires(text_stream: str) -> None:
    engine = load_engine(text_stream=text_stream, is_warm=False)
    for i, text in enumerate(TEXTS):
        name = f"u{i}"
        voice, policy = engine.info.voices[i % len(engine.info.voices)], list(Policy)[i % len(Policy)]
        engine.add(Utterance(name, voice, policy=policy, sampling=SamplingParams(seed=i)))
        engine.append_text(name, text)
        engine.finish(name)
    failed = [event for _ in iter(engine.has_work, False) for event in engine.step() if isinstance(event, Failed)]
    assert not failed
    assert engine.tally == Tally()
    assert engine.stats().finished == len(TEXTS)
