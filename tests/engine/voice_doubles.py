"""The golden tiny model with a codec that hears: recordings become codes by their level, whatever is said in them."""

import io
from pathlib import Path

import numpy as np
import soundfile
import torch
from torch import Tensor

from engine.core import Recording
from engine.engine import Engine
from engine.loading import Parts, load_parts
from engine.scheduler import Scheduler
from engine.voices.clips import read_clip
from engine.voices.library import VoiceLibrary
from tests.engine.doubles import FakeClock, SumCodec

GOLDEN = Path(__file__).parents[1] / "golden" / "drama3-tiny" / "checkpoint-bf16"
TRANSCRIPT = "None of them agreed."


class HearingCodec(SumCodec):
    """Codes are levels of a frame's parts, so that every recording has its own. Made for four codebooks of 64."""

    def encode(self, samples: Tensor, rate: int) -> Tensor:
        assert rate == self.sample_rate
        padded = torch.nn.functional.pad(samples, (0, -len(samples) % self.samples_per_frame))
        parts = padded.view(-1, self.num_codebooks, self.samples_per_frame // self.num_codebooks)
        return (parts.abs().mean(2) * 1000).long().t() % 64


def clip(seconds: float = 1.5, hertz: float = 220.0, rate: int = 24_000) -> bytes:
    """A WAV file with a tone that grows."""
    time_s = np.arange(int(seconds * rate)) / rate
    buffer = io.BytesIO()
    soundfile.write(buffer, 0.5 * time_s / seconds * np.sin(2 * np.pi * hertz * time_s), rate, format="WAV")
    return buffer.getvalue()


def recording(transcript: str = TRANSCRIPT, seconds: float = 1.5, hertz: float = 220.0) -> Recording:
    return Recording(clip(seconds, hertz), transcript)


def link_checkpoint(folder: Path, source: Path = GOLDEN) -> Path:
    """A folder that holds a checkpoint's files as links, so that voices can lie beside them."""
    folder.mkdir(exist_ok=True)
    for path in source.iterdir():
        (folder / path.name).symlink_to(path)
    return folder


def load(folder: Path) -> Parts:
    """The model, which reads recordings in this process: a new one for each takes its time."""
    parts = load_parts(folder, codec=HearingCodec(4))
    assert isinstance(parts.voices, VoiceLibrary)
    parts.voices.maker._read = read_clip
    return parts


def engine_of(parts: Parts) -> Engine:
    return Engine(parts, Scheduler(4, float("inf"), FakeClock()))


def make_engine(folder: str, voices: str | None = None, codec: str = "hearing") -> Engine:
    """For worker processes."""
    torch.set_num_threads(1)
    made = HearingCodec(4) if codec == "hearing" else SumCodec(4)
    return engine_of(load_parts(Path(folder), codec=made, voices_folder=Path(voices) if voices else None))
