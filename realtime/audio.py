"""Samples of the model to bytes of the wire: declick, resample, pcm_s16le. Streamed equals whole.

N samples at the model's rate, M at the session's.
"""

import numpy as np
import soxr
from numpy.typing import NDArray

Samples = NDArray[np.float32]

FADE_MS = 5
SILENCE_PEAK = 1 / 256
"""Below this (-48 dBFS) an edge is not heard as a click and needs no fade."""


def to_pcm_s16le(samples: Samples) -> bytes:
    """Float samples in [-1, 1] as 16-bit little-endian; what lies outside is clipped, what is no number is silent."""
    clean = np.nan_to_num(np.clip(samples, -1.0, 1.0), nan=0.0)
    pcm: NDArray[np.int16] = np.rint(clean * 32767.0).astype("<i2")
    return pcm.tobytes()


def silence(sample_rate: int, ms: float) -> bytes:
    """That much silence as pcm_s16le."""
    return bytes(2 * round(sample_rate * ms / 1000))


class Declick:
    """Fades the first and the last 5 ms of a stream in and out, each only if it would click. Keeps 5 ms back."""

    def __init__(self, sample_rate: int) -> None:
        fade_samples = sample_rate * FADE_MS // 1000
        self._ramp = np.linspace(0.0, 1.0, fade_samples, dtype=np.float32)
        self._held = np.zeros(0, np.float32)
        self._faded_in: int | None = None
        """Samples of the fade-in done so far; None before the first sample."""

    def push(self, samples: Samples) -> Samples:
        """Samples [N] in, those whose final value is known out."""
        held = np.concatenate([self._held, self._fade_in(samples)])
        keep = min(len(held), len(self._ramp))
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def finish(self) -> Samples:
        """The samples kept back."""
        tail, self._held = self._held, np.zeros(0, np.float32)
        if len(tail) and abs(tail[-1]) > SILENCE_PEAK:
            tail = tail * self._ramp[: len(tail)][::-1]
        return tail

    def _fade_in(self, samples: Samples) -> Samples:
        if self._faded_in is None and len(samples):
            self._faded_in = 0 if abs(samples[0]) > SILENCE_PEAK else len(self._ramp)
        if self._faded_in is None or self._faded_in >= len(self._ramp):
            return samples
        ramp = self._ramp[self._faded_in : self._faded_in + len(samples)]
        self._faded_in += len(ramp)
        return np.concatenate([samples[: len(ramp)] * ramp, samples[len(ramp) :]])


class PcmStream:
    """One utterance's samples as pcm_s16le at the session's rate, all state carried from push to push."""

    def __init__(self, model_rate: int, output_rate: int) -> None:
        self._declick = Declick(model_rate)
        self._resampler = (
            None if model_rate == output_rate else soxr.ResampleStream(model_rate, output_rate, 1, dtype="float32")
        )

    def push(self, samples: Samples) -> bytes:
        """Samples [N] in, the bytes of M samples out; M lags by the fade and the resampler's delay."""
        return self._convert(self._declick.push(samples), is_last=False)

    def finish(self) -> bytes:
        """The rest."""
        return self._convert(self._declick.finish(), is_last=True)

    def _convert(self, samples: Samples, *, is_last: bool) -> bytes:
        if self._resampler is not None:
            samples = self._resampler.resample_chunk(samples, last=is_last)
        return to_pcm_s16le(samples)


class MessageCutter:
    """Cuts a byte stream of samples into payloads of 20 to 100 ms; only the last may be shorter."""

    MIN_MS = 20
    MAX_MS = 100

    def __init__(self, sample_rate: int) -> None:
        self._min_bytes = 2 * (sample_rate * self.MIN_MS // 1000)
        self._max_bytes = 2 * (sample_rate * self.MAX_MS // 1000)
        self._rest = b""

    def push(self, pcm: bytes, *, is_last: bool = False) -> list[bytes]:
        """The payloads that are ready; with ``is_last`` all of them."""
        data = self._rest + pcm
        payloads = []
        start = 0
        while len(data) - start >= (2 if is_last else self._min_bytes):
            payloads.append(data[start : start + self._max_bytes])
            start += len(payloads[-1])
        self._rest = data[start:]
        return payloads
