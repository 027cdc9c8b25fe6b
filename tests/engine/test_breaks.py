"""A pause that the text asks for is a rest of the aligned stream on a silence, as long as asked."""

import pytest

from engine.streams.aligned import AlignedStream
from engine.streams.aligned_symbols import SILENCE, AlignedSettings
from engine.streams.base import Demand, Frame
from engine.text.words import Boundary, Kind, SpokenWord

SETTINGS = AlignedSettings(" abc,.")
STOP_MS = 150


def word(phonemes: str) -> SpokenWord:
    return SpokenWord(phonemes, phonemes, 0, 1, phonemes, Boundary.NONE)


def pause(milliseconds: int) -> SpokenWord:
    return SpokenWord("<break/>", "", 0, 1, "", Boundary.SENTENCE, Kind.PAUSE, pause_ms=milliseconds)


def rested_frames(*given: SpokenWord) -> int:
    """Frames on the silence between two words if the pointer always moves on as soon as it may."""
    stream = AlignedStream(SETTINGS)
    stream.add(given)
    stream.finish()
    frames = 0
    while stream.demand() is Demand.DECODE:
        place, moves = stream.place(), stream.guide().moves
        assert moves is not None
        is_between = 0 < place.b < len(stream._text.symbols) - 1
        frames += is_between and stream._text.symbols[place.b] == SILENCE
        stream.accept(Frame((0,), move=max(i for i in range(4) if moves[i])))
    return frames


@pytest.mark.parametrize("milliseconds", [50, 300, 500, 1000, 2000, 10_000])
def test_a_pause_rests_as_long_as_asked_less_what_the_voice_adds(milliseconds: int) -> None:
    rested_ms = 50 * rested_frames(word("abc"), pause(milliseconds), word("cab"))
    assert max(STOP_MS, milliseconds - STOP_MS) - STOP_MS / 2 <= rested_ms <= max(2 * STOP_MS, milliseconds)


def test_pauses_add_up() -> None:
    one = rested_frames(word("abc"), pause(1000), word("cab"))
    assert 2 * one - 2 <= rested_frames(word("abc"), pause(1000), pause(1000), word("cab")) <= 2 * one


def test_what_comes_after_is_hidden_while_it_rests() -> None:
    stream = AlignedStream(SETTINGS)
    stream.add([word("a"), pause(500), word("b")])
    window = stream.guide().window
    assert window is not None
    assert SILENCE in window.symbols
    assert stream._text.alphabet.ids["b"] not in window.symbols
