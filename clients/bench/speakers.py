"""Who is speaking: Resemblyzer's speaker encoder, and how alike the takes of two models are by it.

Of the package only the weights are used: a spectrogram, three recurrent layers and a projection are quicker written
than its dependencies installed. Axes: N samples, T frames of 10 ms, M mel bands, D dimensions.
"""

import importlib.util
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import soxr
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from clients.bench.assets import RESEMBLYZER, require
from clients.bench.spread import Estimate, mean

IDENTITY = "resemblyzer-1"
"""Changes whenever a vector may change."""
RATE_HZ = 16_000
WINDOW, HOP, BANDS = 400, 160, 40
"""Samples of a frame's window, samples between frames, mel bands."""
PART, STEP = 160, 77
"""Frames that are heard at a time, and frames between such parts."""
COVERED = 0.75
"""Share of a part that has to be sound."""
LEVEL = 10 ** (-30 / 20)
"""Quieter takes are brought to this RMS."""
WIDTH, LAYERS = 256, 3

Vector = NDArray[np.float32]
"""[D], of length 1."""
Takes = Mapping[tuple[str, str], Vector]
"""By voice and text."""


class SpeakerJudge:
    """Where a take lies among speakers. Raises ``MissingError`` if the weights are not installed."""

    def __init__(self) -> None:
        require(RESEMBLYZER)
        found = importlib.util.find_spec("resemblyzer")
        assert found is not None
        assert found.submodule_search_locations is not None
        path = Path(found.submodule_search_locations[0]) / "pretrained.pt"
        weights = torch.load(path, map_location="cpu", weights_only=True)
        self._encoder = Encoder()
        self._encoder.load_state_dict({name: weights["model_state"][name] for name in self._encoder.state_dict()})

    def embed(self, samples: NDArray[np.float32], sample_rate: int) -> Vector:
        """The speaker of ``samples`` [N], which are not all zero."""
        sound = soxr.resample(samples, sample_rate, RATE_HZ).astype(np.float32)
        sound = sound * max(1.0, LEVEL / float(np.sqrt(np.mean(sound**2))))
        with torch.inference_mode():
            mels = mel_spectrogram(torch.from_numpy(sound))
            whole = self._encoder(parts(mels)).mean(0)
            vector: Vector = (whole / whole.norm()).numpy()
            return vector


class Encoder(nn.Module):
    """The network: parts [B, T, M] to vectors [B, D] of length 1. Names are those of the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(BANDS, WIDTH, LAYERS, batch_first=True)
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, mels: Tensor) -> Tensor:
        """See the class."""
        _, (hidden, _) = self.lstm(mels)
        return nn.functional.normalize(torch.relu(self.linear(hidden[-1])), dim=1)


def mel_spectrogram(sound: Tensor) -> Tensor:
    """Energies [T, M] of ``sound`` [N] at 16 kHz."""
    window = torch.hann_window(WINDOW)
    spectrum = torch.stft(sound, WINDOW, HOP, window=window, pad_mode="constant", return_complex=True)
    return spectrum.abs().square().t() @ mel_bands()


def mel_bands() -> Tensor:
    """Triangles [WINDOW / 2 + 1, M] of equal area on Slaney's scale: linear to 1 kHz, logarithmic above."""
    linear_hz, per_mel, growth = 1000.0, 200 / 3, math.log(6.4) / 27
    knee = linear_hz / per_mel
    mels = torch.linspace(0, knee + math.log(RATE_HZ / 2 / linear_hz) / growth, BANDS + 2, dtype=torch.float64)
    edges = torch.where(mels < knee, mels * per_mel, linear_hz * ((mels - knee) * growth).exp())
    bins = torch.linspace(0, RATE_HZ / 2, WINDOW // 2 + 1, dtype=torch.float64)[:, None]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return (torch.minimum(rising, falling).clamp(min=0) * 2 / (edges[2:] - edges[:-2])).float()


def parts(mels: Tensor) -> Tensor:
    """Overlapping parts [B, PART, M] of ``mels`` [T, M]; the last one is left out if it would be mostly silence."""
    starts = [start for start in range(0, len(mels), STEP) if not start or len(mels) - start >= COVERED * PART]
    padded = nn.functional.pad(mels, (0, 0, 0, PART))
    return torch.stack([padded[start : start + PART] for start in starts])


def likeness(takes: Takes, original: Takes) -> Estimate | None:
    """Mean cosine of each take with its voice: with the mean of the original's takes of *other* texts in that voice.

    So the original itself is measured by the same rule. None if no voice has two texts.
    """
    cosines, texts = [], []
    for (voice, text), vector in takes.items():
        others = [other for (v, t), other in original.items() if v == voice and t != text]
        if others:
            centre = np.mean(others, axis=0)
            cosines.append(float(vector @ centre / np.linalg.norm(centre)))
            texts.append(text)
    return mean(cosines, clusters=texts) if cosines else None


def voices_apart(original: Takes) -> float | None:
    """Mean cosine of the original's takes with its other voices: what ``likeness`` of a wrong voice would be."""
    centres = {voice: np.mean([x for (v, _), x in original.items() if v == voice], axis=0) for voice, _ in original}
    cosines = [
        float(vector @ centre / np.linalg.norm(centre))
        for (voice, _), vector in original.items()
        for other, centre in centres.items()
        if other != voice
    ]
    return float(np.mean(cosines)) if cosines else None
