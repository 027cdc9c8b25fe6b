"""The last steps of audio in the engine: what is silent, what dies away, what is kept back, what is given out."""

import math
from collections.abc import Callable, Iterable

import numpy as np

from engine.core import AudioChunk, ModelInfo
from engine.runner import Samples
from engine.scheduler import Scheduler
from engine.sequence import Sequence
from engine.streams.base import Demand, Spoken

FIRST_CHUNK_FRAMES = 2
"""Frames in the first chunk: a player that starts with it has time for whatever delays the next one."""
SILENCE_MS = 40
"""Audio of an utterance in which there is nothing to say."""
FADE_MS = 10
"""In which the last sound of an utterance dies away."""
KEPT_BACK_FRAMES = 6
"""Of a turn begun on a guess that are not given out before they have to be: a pause in them may become its end."""
SILENT = 1e-3
"""Loudness (RMS, full scale is 1) of a frame below which it is silent."""


class Delivery:
    """Takes the samples of all utterances and gives them out as chunks, by ``send``."""

    def __init__(self, info: ModelInfo, scheduler: Scheduler, send: Callable[[AudioChunk], None]) -> None:
        self._rate, self._samples_per_frame = info.sample_rate, info.samples_per_frame
        self._scheduler, self._send = scheduler, send
        self.samples = 0
        """Made so far and not taken back, of all utterances."""

    def is_mute(self, sequence: Sequence, samples: Samples, most_ms: float) -> bool:
        """Whether an utterance has been silent for longer than that, ``samples`` included."""
        is_silent = not len(samples) or float(np.sqrt(np.mean(samples**2))) < SILENT
        if math.isinf(most_ms) or not is_silent:
            sequence.silent_ms = 0.0
        else:
            sequence.silent_ms += 1000 * len(samples) / self._rate
        return sequence.silent_ms > most_ms

    def died_away(self, samples: Samples, news: Spoken) -> Samples:
        """The last samples of an utterance, without what lies behind its last sound (``news.ends_at``)."""
        assert news.ends_at is not None
        frame = len(samples) // len(news.frames)
        kept = samples[: len(samples) - frame + round(news.ends_at * frame)].copy()
        fade = min(len(kept), self._rate * FADE_MS // 1000)
        kept[len(kept) - fade :] *= np.linspace(1, 0, fade, dtype=np.float32)
        return kept

    def take(self, sequence: Sequence, chunk: AudioChunk) -> None:
        """What was made of an utterance."""
        sequence.take(chunk)
        self.samples += len(chunk.samples)
        self._scheduler.record(sequence.name, len(chunk.samples) / self._rate)

    def take_back(self, sequence: Sequence, samples: int, frames: int) -> None:
        """Only ``samples`` of an utterance are left, and ``frames`` are gone."""
        void = sequence.take_back(samples, frames)
        self.samples -= void
        self._scheduler.retract(sequence.name, void / self._rate)

    def give_out(self, sequences: Iterable[Sequence], reserve_s: float) -> None:
        """What is there, but for first chunks that are not whole and what might have to be taken back.

        Nothing is kept from a listener who has ``reserve_s`` or less.
        """
        for sequence in sequences:
            if sequence.held and sequence.samples >= FIRST_CHUNK_FRAMES * self._samples_per_frame:
                self.release(sequence, self._kept_back(sequence, reserve_s))

    def _kept_back(self, sequence: Sequence, reserve_s: float) -> int:
        """Chunks of a turn that may still be ended at a pause before them."""
        stream, held_s = sequence.stream, sequence.held_samples / self._rate
        is_needed = self._scheduler.lead_s(sequence.name) - held_s <= reserve_s
        return KEPT_BACK_FRAMES if stream.is_tentative and stream.demand() is Demand.DECODE and not is_needed else 0

    def release(self, sequence: Sequence, keep: int = 0) -> None:
        """All that is held, but for the last ``keep`` pieces."""
        if chunk := sequence.release(keep):
            self._send(chunk)

    def close(self, sequence: Sequence) -> None:
        """The rest of an utterance that has ended; one without any sound gets a moment of silence."""
        if not sequence.samples:
            silence = np.zeros(self._rate * SILENCE_MS // 1000, np.float32)
            self.take(sequence, AudioChunk(sequence.name, 0, silence))
        self.release(sequence)
