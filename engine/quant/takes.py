"""A model's own speech, written down as what its decoder was given: to calibrate with, and to compare models on.

Nothing is vocoded for it.

Axes: T rows, C codebooks, W symbols of a window.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from engine.codec.dac.loading import dac_config, has_dac
from engine.codec.hum import HumCodec
from engine.codec.understudy import UnderstudyCodec
from engine.config import CONFIG_FILE, ModelConfig, read_json
from engine.core import SamplingParams
from engine.engine import Engine
from engine.errors import FootlightsError
from engine.loading import CODEC_FILE, Parts, load_parts
from engine.model.aligned import AlignedWindow
from engine.quant.scheme import Scheme
from engine.runner import Runner, Track
from engine.scheduler import Scheduler
from engine.speak import speak
from engine.streams.base import Frame, Guide
from engine.voices.book import ReadyVoice

_log = logging.getLogger(__name__)

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

    def prefill(self, track: Track, token_ids: Sequence[int], is_ahead: bool = False) -> None:
        """See ``Runner``."""
        first = track.pending
        super().prefill(track, token_ids, is_ahead)
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


def load_speaker(folder: Path, scheme: Scheme | None = None) -> Parts:
    """The parts of a model that will be recorded: without its codec. For ``scheme`` see ``load_parts``."""
    config = ModelConfig.from_dict(read_json(folder / CONFIG_FILE))
    if (folder / CODEC_FILE).exists() and not has_dac(folder):
        rate, samples = UnderstudyCodec.sample_rate, UnderstudyCodec.samples_per_frame
    else:
        dac = dac_config(folder)
        rate, samples = dac.sample_rate, dac.samples_per_frame
    return load_parts(folder, codec=HumCodec(rate, samples, config.num_codebooks), scheme=scheme)


def record(
    parts: Parts,
    texts: Sequence[str],
    seed: int,
    advance: Callable[[], None] = lambda: None,
    voices: Sequence[str] = (),
) -> list[Recorded]:
    """Takes of ``texts``, ``voices`` (those of the model, if none are given) taking turns.

    Takes that failed are left out, unless all did: a model of random weights ends none, and has inputs all the same.
    """
    runner = RecordingRunner(parts.runner)
    engine = Engine(replace(parts, runner=runner), Scheduler(1, float("inf"), lambda: 0.0))
    voices = voices or parts.info.voices
    whole: list[Recorded] = []
    for number, text in enumerate(texts):
        sampling, before = replace(runner.sampling, seed=seed + number), len(runner.takes)
        try:
            speak(engine, text, voices[number % len(voices)], sampling=sampling)
        except FootlightsError as error:
            _log.warning("sentence %s of %s was not spoken: %s", number + 1, len(texts), error)
        else:
            whole += runner.takes[before:]
        advance()
    return whole or runner.takes


def takes_to_tensors(takes: Sequence[Recorded]) -> dict[str, Tensor]:
    """Takes as one set of tensors, one behind the other."""
    tensors = {
        "lengths": torch.tensor([len(take.rows) for take in takes]),
        "rows": torch.cat([take.rows for take in takes]),
        "spoken": torch.cat([take.spoken for take in takes]),
    }
    windows = [take.aligned for take in takes]
    first = next((window for window in windows if window is not None), None)
    if first is not None:
        blanks = {name: torch.zeros_like(part[:, :1]) for name, part in vars(first).items()}
        for name, blank in blanks.items():
            parts = [
                blank.expand(1, len(take.rows), *blank.shape[2:]) if window is None else getattr(window, name)
                for take, window in zip(takes, windows, strict=True)
            ]
            tensors[name] = torch.cat(parts, 1)[0].contiguous()
    return tensors


def takes_of_tensors(tensors: Mapping[str, Tensor]) -> list[Recorded]:
    """What ``takes_to_tensors`` was given; a take without windows has empty ones if another has some."""
    lengths = tensors["lengths"].tolist()
    cut = {name: torch.split(tensor, lengths) for name, tensor in tensors.items() if name != "lengths"}
    fields = ("symbols", "elapsed", "voice", "mask")
    return [
        Recorded(
            cut["rows"][i],
            AlignedWindow(*(cut[name][i][None] for name in fields)) if "mask" in cut else None,
            cut["spoken"][i],
        )
        for i in range(len(lengths))
    ]


def calibration_texts(count: int) -> list[str]:
    """``count`` of the sentences that models are trained with here, or all there are; evenly chosen."""
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    count = min(count, len(lines))
    return [lines[i * len(lines) // count] for i in range(count)]
