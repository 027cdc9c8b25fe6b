"""Whole texts to whole audio, by the same steps that streams go through."""

import time
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.core import AudioChunk, Cancelled, Failed, Finished, Utterance, WordTiming
from engine.errors import FootlightsError

if TYPE_CHECKING:
    from engine.engine import Engine


def speak(engine: "Engine", text: str, voice: str, **options: Any) -> tuple[NDArray[np.float32], list[WordTiming]]:
    """Samples [N] of all of ``text`` and the final times of its words, in order.

    ``options`` are further fields of ``Utterance``. Events of other utterances that are open meanwhile are lost. Raises
    what ``Engine.add`` and ``append_text`` raise, and a ``FootlightsError`` of the code that the utterance failed with.
    """
    utterance_id = f"speak-{uuid.uuid4().hex}"
    engine.add(Utterance(utterance_id, voice, **options))
    try:
        engine.append_text(utterance_id, text)
    except FootlightsError:
        engine.abort(utterance_id)
        engine.step()
        raise
    engine.finish(utterance_id)
    pieces: list[NDArray[np.float32]] = []
    words: dict[int, WordTiming] = {}
    while True:
        wait_s = engine.idle_s()
        assert wait_s is not None, "a finished utterance always has something to do"
        if wait_s > 0:
            time.sleep(wait_s)
        for event in engine.step():
            match event:
                case AudioChunk(name, _, samples, timings) if name == utterance_id:
                    pieces.append(samples)
                    words.update((timing.char_start, timing) for timing in timings)
                case Finished(name) if name == utterance_id:
                    return np.concatenate(pieces), [words[start] for start in sorted(words)]
                case Failed(name, code, message, retryable) if name == utterance_id:
                    error = FootlightsError(message)
                    error.code, error.retryable = code, retryable
                    raise error
                case Cancelled(name) if name == utterance_id:
                    raise AssertionError("nobody else knows this utterance")
