"""A model's own speech, written down as what its decoder was given: to calibrate with, and to compare models on.

Axes: T rows, C codebooks, W symbols of a window.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from engine.core import SamplingParams
from engine.engine import Engine
from engine.loading import Parts
from engine.model.aligned import AlignedWindow
from engine.runner import Runner, Track
from engine.scheduler import Scheduler
from engine.speak import speak
from engine.streams.base import Frame, Guide
from engine.voices.book import ReadyVoice

SENTENCES = Path(__file__).parents[1] / "train" / "sentences.txt"


@dataclass(frozen=True)
class Recorded:
    """One take: ``rows`` [T, 1 + C] and the text beside them (None: the model has no aligned stream).

    ``spoken`` [T] (bool): the next row was drawn by the model, so its predictions here matter.
    """

    rows: Tensor
    aligned: AlignedWindow | None
    spoken: Tensor


@dataclass
class _Log:
    rows: list[Tensor] = field(default_factory=list)
    guides: list[Guide | None] = field(default_factory=list)
    """Of each row; None where it was given, not drawn."""


class RecordingRunner(Runner):
    """A ``Runner`` that notes the rows that the backbone sees. What is taken back is forgotten."""

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner.decoder, runner.codec, runner.sampling, str(runner.decoder.embed_tokens.weight.device))
        self._logs: dict[int, _Log] = {}
        self.takes: list[Recorded] = []

    def open(self, voice: ReadyVoice, sampling: SamplingParams | None) -> Track:
        """See ``Runner``."""
        track = super().open(voice, sampling)
        self._logs[track.key] = log = _Log()
        log.rows += list(voice.prefix.rows[:-1])
        log.guides += [None] * len(log.rows)
        return track

    def close(self, track: Track) -> None:
        """See ``Runner``; the take is whole now."""
        super().close(track)
        log = self._logs.pop(track.key)
        self._cut(log, track)
        rows, guides = [*log.rows, track.pending], [*log.guides, None]
        window = self._window([track] * len(rows), [guide or Guide(is_end_allowed=False) for guide in guides])
        if window is not None:
            window = AlignedWindow(*(part.transpose(0, 1) for part in vars(window).values()))
        self.takes.append(Recorded(torch.stack(rows), window, torch.tensor([guide is not None for guide in guides])))

    def prefill(self, track: Track, token_ids: Sequence[int]) -> None:
        """See ``Runner``."""
        first = track.pending
        super().prefill(track, token_ids)
        text = torch.zeros(len(token_ids), len(first), dtype=torch.int64)
        text[:, 0] = torch.tensor(token_ids)
        self._note(track, [first, *text[:-1]], [None] * len(token_ids))

    def decode_step(self, tracks: Sequence[Track], guides: Sequence[Guide]) -> list[Frame | Exception]:
        """See ``Runner``."""
        before = [track.pending for track in tracks]
        frames = super().decode_step(tracks, guides)
        for track, guide, row, frame in zip(tracks, guides, before, frames, strict=True):
            if not isinstance(frame, Exception):
                self._note(track, [row], [guide])
        return frames

    def _note(self, track: Track, rows: Sequence[Tensor], guides: Sequence[Guide | None]) -> None:
        log = self._logs[track.key]
        del log.rows[track.rows - 1 - len(rows) :], log.guides[track.rows - 1 - len(rows) :]
        log.rows += rows
        log.guides += guides

    def _cut(self, log: _Log, track: Track) -> None:
        del log.rows[track.rows - 1 :], log.guides[track.rows - 1 :]


def record(parts: Parts, texts: Sequence[str], seed: int, advance: Callable[[], None] = lambda: None) -> list[Recorded]:
    """Takes of ``texts``, the voices taking turns. Raises what ``speak`` raises."""
    runner = RecordingRunner(parts.runner)
    engine = Engine(replace(parts, runner=runner), Scheduler(1, float("inf"), lambda: 0.0))
    voices = parts.info.voices
    for number, text in enumerate(texts):
        sampling = replace(runner.sampling, seed=seed + number)
        speak(engine, text, voices[number % len(voices)], sampling=sampling)
        advance()
    return runner.takes


def calibration_texts(count: int) -> list[str]:
    """``count`` of the sentences that models are trained with here, or all there are; evenly chosen."""
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    count = min(count, len(lines))
    return [lines[i * len(lines) // count] for i in range(count)]
