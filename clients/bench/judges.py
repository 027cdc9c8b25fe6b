"""What is said and how good it sounds: judges that were trained by others on other voices."""

import contextlib
import importlib.machinery
import sys
import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import soxr
import torch
from numpy.typing import NDArray

from clients.bench.assets import DISTILLMOS, WHISPER, require
from clients.bench.words import WordErrors, word_errors
from engine.train.recogniser import RATE_HZ, whisper

JUDGE_RATE_HZ = RATE_HZ
SHORTEST_S = 0.5
"""Shorter takes get silence behind them: the judges want some context."""
IDENTITY = "whisper-base-int8-greedy/distillmos-0.9.1/words-2"
"""Changes whenever a verdict may change; stored verdicts of another identity are not used."""


@dataclass(frozen=True)
class Verdict:
    """On one take."""

    heard: str
    errors: WordErrors
    mos: float


class Recogniser:
    """Whisper base (greedy, int8, one thread). Raises ``MissingError`` if it is not installed."""

    def __init__(self) -> None:
        self._hear = whisper(require(WHISPER) / "whisper-base")

    def hear(self, sound: NDArray[np.float32]) -> str:
        """What is said in ``sound`` [N] at ``JUDGE_RATE_HZ``."""
        return self._hear(sound)


class Judges:
    """Whisper base (greedy, int8, one thread) and DistillMOS. Raises ``MissingError`` if one is not installed."""

    def __init__(self) -> None:
        require(WHISPER)
        require(DISTILLMOS)
        self._recogniser = Recogniser()
        self._distillmos = _load_distillmos()

    def judge(self, text: str, samples: NDArray[np.float32], sample_rate: int) -> Verdict:
        """Verdict on ``samples`` [N], which should say ``text``."""
        sound = soxr.resample(samples, sample_rate, JUDGE_RATE_HZ).astype(np.float32)
        sound = np.pad(sound, (0, max(0, int(SHORTEST_S * JUDGE_RATE_HZ) - len(sound))))
        heard = self._recogniser.hear(sound)
        with torch.inference_mode():
            mos = float(self._distillmos(torch.from_numpy(sound)[None]))
        return Verdict(heard, word_errors(text, heard), mos)


def _load_distillmos() -> Any:
    # It imports torchaudio for resampling alone, which is done before it here.
    if "torchaudio" not in sys.modules:
        stub = types.ModuleType("torchaudio")
        stub.__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)
        stub.__dict__.update(transforms=types.SimpleNamespace(Resample=None), functional=types.SimpleNamespace())
        sys.modules["torchaudio"] = stub
    import distillmos

    with contextlib.redirect_stdout(sys.stderr):  # it talks; standard output is for figures
        return distillmos.ConvTransformerSQAModel().eval()
