"""Samples of the model to bytes of the wire: declick, resample, pcm_s16le. Streamed equals whole, also after a rewind.

N samples at the model's rate, M at the session's.
"""

import math
from collections import deque

import numpy as np
import soxr
from numpy.typing import NDArray

Samples = NDArray[np.float32]

FADE_MS = 5
PRIMING_MS = 20
"""A resampler that has seen this much of what came before gives what it would have given, to the last bit of 16."""
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

    @property
    def held_samples(self) -> int:
        """How much is kept back."""
        return len(self._held)

    def rewind(self, position: int, given_out: int) -> None:
        """Samples from ``position`` on are void; ``given_out`` of all were given out."""
        self._held = self._held[: max(0, position - given_out)]
        if position == 0:
            self._faded_in = None
        elif self._faded_in is not None and self._faded_in < len(self._ramp):
            self._faded_in = min(self._faded_in, position)

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


class History:
    """The last samples of a stream, as 16-bit numbers: what a new resampler is primed with."""

    def __init__(self) -> None:
        self._pieces: deque[NDArray[np.int16]] = deque()
        self._start = 0
        self._end = 0

    def push(self, samples: Samples) -> None:
        """Remembers them."""
        if len(samples):
            self._pieces.append(np.rint(np.clip(samples, -1.0, 1.0) * 32767.0).astype(np.int16))
            self._end += len(samples)

    def forget(self, position: int) -> None:
        """What lies before ``position`` is not needed any more."""
        while self._pieces and self._start + len(self._pieces[0]) <= position:
            self._start += len(self._pieces.popleft())

    def rewind(self, position: int) -> None:
        """What lies at ``position`` and after it is void."""
        while self._pieces and self._end - len(self._pieces[-1]) >= position:
            self._end -= len(self._pieces.pop())
        if self._end > position:
            piece = self._pieces.pop()
            self._pieces.append(piece[: len(piece) - (self._end - position)])
            self._end = position

    def since(self, position: int) -> Samples:
        """The samples from ``position`` on, float32; those that were forgotten are silent."""
        missing = np.zeros(max(0, min(self._start, self._end) - position), np.int16)
        known = np.concatenate([missing, *self._pieces])[max(0, position - self._start) :]
        samples: Samples = known.astype(np.float32) / 32767.0
        return samples


class PcmStream:
    """One utterance's samples as pcm_s16le at the session's rate, all state carried from push to push."""

    def __init__(self, model_rate: int, output_rate: int) -> None:
        self._declick = Declick(model_rate)
        self._model_rate, self._output_rate = model_rate, output_rate
        self._resampler = self._new_resampler()
        self._history = History()
        self._pushed = 0
        """Model samples so far."""
        self._made = 0
        """Samples given out so far, at the session's rate."""
        self._to_skip = 0
        """Of the next samples of the resampler: they were given out before the rewind."""
        self._spare = np.zeros(0, np.float32)
        """What priming a resampler brought beyond those."""

    def push(self, samples: Samples) -> bytes:
        """Samples [N] in, the bytes of M samples out; M lags by the fade and the resampler's delay."""
        self._pushed += len(samples)
        return self._convert(self._declick.push(samples), is_last=False)

    def finish(self) -> bytes:
        """The rest."""
        return self._convert(self._declick.finish(), is_last=True)

    def forget(self, position: int) -> None:
        """There will be no rewind to before this model sample."""
        self._history.forget(position - self._model_rate * PRIMING_MS // 1000 - self._grid)

    def rewind(self, position: int) -> int:
        """Model samples from ``position`` on are void; the next push brings them anew.

        Returns the position, at the session's rate, from which on what was given out is void.
        """
        if position >= self._pushed:
            return self._made
        declicked = self._pushed - self._declick.held_samples
        self._declick.rewind(position, declicked)
        self._pushed = position
        if position >= declicked:
            return self._made
        made = min(self._made, math.ceil(position * self._output_rate / self._model_rate))
        if self._resampler is not None:
            self._history.rewind(position)
            prime_from = max(0, position - self._model_rate * PRIMING_MS // 1000) // self._grid * self._grid
            self._resampler = self._new_resampler()
            self._to_skip = made - prime_from * self._output_rate // self._model_rate
            self._spare = np.zeros(0, np.float32)
            self._spare = self._resample(self._history.since(prime_from), is_last=False)
        self._made = made
        return made

    @property
    def _grid(self) -> int:
        """At its multiples, samples of both rates coincide."""
        return self._model_rate // math.gcd(self._model_rate, self._output_rate)

    def _new_resampler(self) -> soxr.ResampleStream | None:
        if self._model_rate == self._output_rate:
            return None
        return soxr.ResampleStream(self._model_rate, self._output_rate, 1, dtype="float32")

    def _convert(self, samples: Samples, *, is_last: bool) -> bytes:
        if self._resampler is not None:
            self._history.push(samples)
        return to_pcm_s16le(self._resample(samples, is_last=is_last))

    def _resample(self, samples: Samples, *, is_last: bool) -> Samples:
        if self._resampler is not None:
            samples = self._resampler.resample_chunk(samples, last=is_last)
            skipped = min(self._to_skip, len(samples))
            self._to_skip -= skipped
            samples, self._spare = np.concatenate([self._spare, samples[skipped:]]), np.zeros(0, np.float32)
        self._made += len(samples)
        return samples


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

    def rewind(self, samples: int) -> None:
        """Of what waits to be cut, only that many samples are still valid."""
        self._rest = self._rest[: 2 * samples]
