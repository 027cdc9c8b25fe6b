"""One utterance in the engine, and its audio until that is given out."""

from dataclasses import dataclass, field

import numpy as np

from engine.core import AudioChunk, Utterance
from engine.rewind import Tape
from engine.runner import Track
from engine.script import Script
from engine.streams.base import TextStream
from engine.voices.book import ReadyVoice

MOST_RETRIES = 2
"""Of a turn, or between two silences of the aligned form, where there was no speech."""


@dataclass
class Sequence:
    """One utterance on its way from text to sound."""

    utterance: Utterance
    script: Script
    stream: TextStream
    track: Track
    tape: Tape
    voice: ReadyVoice
    """The utterance's own to its end, whatever becomes of the voice's name."""
    seed: int
    """Of the random numbers it began with."""
    is_finished: bool = False
    """No more text will come."""
    held: list[AudioChunk] = field(default_factory=list)
    """What is kept back."""
    samples: int = 0
    frames: int = 0
    retries: int = 0
    retries_left: int = MOST_RETRIES
    """Until the stream rests again."""
    silent_ms: float = 0.0
    """For how long its audio has been silent where it should not."""
    heard: int = 0
    """Samples that must not change any more: what a revision was told."""
    hurry: float = 1.0
    """How much faster than asked for it is spoken from now on."""
    compute_s: float = 0.0

    @property
    def name(self) -> str:
        """The utterance's id."""
        return self.utterance.utterance_id

    @property
    def held_samples(self) -> int:
        """Samples made and kept back."""
        return sum(len(chunk.samples) for chunk in self.held)

    @property
    def released(self) -> int:
        """Samples given out."""
        return self.samples - self.held_samples

    def take(self, chunk: AudioChunk) -> None:
        """Keep what was made."""
        self.samples += len(chunk.samples)
        if self.stream.is_resting:
            self.retries_left = MOST_RETRIES
        self.held.append(chunk)

    def release(self, keep: int = 0) -> AudioChunk | None:
        """What is held, but for the last ``keep`` pieces, as one chunk to be given out."""
        count = max(0, len(self.held) - keep)
        given, self.held = self.held[:count], self.held[count:]
        if not given:
            return None
        samples = np.concatenate([chunk.samples for chunk in given])
        words = tuple(word for chunk in given for word in chunk.words)
        return AudioChunk(self.name, given[0].first_sample, samples, words)

    def take_back(self, samples: int, frames: int) -> int:
        """Only ``samples`` are left, and ``frames`` are gone; returns the samples that are."""
        void = self.samples - samples
        self.silent_ms = 0.0
        self.samples, self.frames = samples, self.frames - frames
        self.held = [chunk for chunk in self.held if chunk.first_sample < samples]
        return void
