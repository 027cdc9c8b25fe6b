"""Source-filter synthesis: vocoder parameters to samples, frame by frame, all memory carried.

A pulse at every glottal period and white noise in between, each through the minimum-phase filter of the spectral
envelope at its moment; band aperiodicity says how the two share the energy (the model of WORLD, Morise et al. 2016, as
overlap-add of filter responses). Parameters are interpolated between subframes, so sound lags its subframe by one.

Axes: B sequences, S = 8 subframes of a frame, D parameters, E events (pulses or noise blocks), K = 513 frequency bins.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from engine.codec.high_pass import HighPass

SAMPLE_RATE_HZ = 24_000
SUBFRAME_SAMPLES = 150
SUBFRAMES_PER_FRAME = 8
SAMPLES_PER_FRAME = SUBFRAME_SAMPLES * SUBFRAMES_PER_FRAME
FFT_SIZE = 1024
NUM_CEPSTRA = 40
NUM_BANDS = 3
LOG_F0, VOICED = NUM_CEPSTRA + NUM_BANDS, NUM_CEPSTRA + NUM_BANDS + 1
NUM_FEATURES = VOICED + 1
NOISE_BLOCK = 75
NOISE_FRAMES = 80
"""The noise repeats after 4 s; being a table it is the same in any batch and any grouping of frames."""
PRE_DELAY = 16
"""Samples kept before a pulse for the band-limited onset of a fractional delay."""
MAX_LOG_ENVELOPE = 12.0
LOWEST_DECIBELS = -60.0
LOWEST_SHARE = 1e-12
"""Of a frame's power in its pulses."""
HIGH_PASS = HighPass(40, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME)
"""A train of pulses has a mean that moves with pitch and level: rumble below any voice."""


class Vocoder(nn.Module):
    """Linear maps and synthesis.

    ``envelope_basis`` [40, K]: cepstra to log power envelope; ``band_basis`` [3, K], ``band_offset`` [K]: coded bands
    to aperiodicity in dB.
    """

    def __init__(self) -> None:
        super().__init__()
        bins = FFT_SIZE // 2 + 1
        self.register_buffer("envelope_basis", torch.zeros(NUM_CEPSTRA, bins))
        self.register_buffer("band_basis", torch.zeros(NUM_BANDS, bins))
        self.register_buffer("band_offset", torch.zeros(bins))
        # Folding the cepstrum of a log magnitude makes it that of the minimum-phase spectrum.
        fold = torch.zeros(FFT_SIZE)
        fold[0] = fold[FFT_SIZE // 2] = 1
        fold[1 : FFT_SIZE // 2] = 2
        noise = torch.randn(NOISE_FRAMES * SAMPLES_PER_FRAME, generator=torch.Generator().manual_seed(1))
        block = torch.arange(0, SAMPLES_PER_FRAME, NOISE_BLOCK)
        constants = {
            "fold": fold,
            "noise": torch.fft.rfft(noise.view(-1, len(block), NOISE_BLOCK), FFT_SIZE),
            "noise_centre": block + NOISE_BLOCK // 2,
            "omega": 2 * math.pi / FFT_SIZE * torch.arange(bins),
            "within": torch.arange(SUBFRAME_SAMPLES) / SUBFRAME_SAMPLES,
        }
        for name, value in constants.items():
            self.register_buffer(f"_{name}", value, persistent=False)
        self._noise_at = block.tolist()

    def forward(self, parameters: Tensor, phase: Tensor, tail: Tensor, rumble: Tensor, position: Tensor) -> Tensor:
        """Samples [B, 1200] of one frame; ``phase``, ``tail``, ``rumble`` and ``position`` are advanced in place.

        ``parameters`` [B, 1 + S, D]: the last subframe before the frame, then its own. ``phase`` [B] float64: glottal
        phase in periods. ``tail`` [B, T]: what earlier events still have to say. ``rumble`` [B, 2] float64: memory of
        the high-pass. ``position`` [B] int64: frames made.
        """
        batch = parameters.shape[0]
        sequence, at, period, late = self._pulses(parameters, phase)
        # Events: all noise blocks of all sequences, then all pulses.
        blocks = len(self._noise_at)
        noises = batch * blocks
        centre = self.get_buffer("_noise_centre")
        of = torch.cat([torch.arange(batch).repeat_interleave(blocks), sequence])
        spectra = self._spectra(parameters, of, torch.cat([centre.repeat(batch), at]), period, late)
        spectra[:noises] *= self.get_buffer("_noise")[position % NOISE_FRAMES].flatten(0, 1)
        waves = torch.fft.irfft(spectra, FFT_SIZE).numpy()

        out = np.zeros((batch, SAMPLES_PER_FRAME + FFT_SIZE + PRE_DELAY), np.float32)
        out[:, : tail.shape[1]] = tail.numpy()
        # Pulses have their delay in the phase of their spectrum.
        starts = [start + PRE_DELAY for start in self._noise_at] * batch + at.tolist()
        for b, start, wave in zip(of.tolist(), starts, waves, strict=True):
            out[b, start : start + FFT_SIZE] += wave
        tail.copy_(torch.from_numpy(out[:, SAMPLES_PER_FRAME:]))
        position += 1
        clean = HIGH_PASS(out[:, :SAMPLES_PER_FRAME].astype(np.float64), rumble.numpy())
        return torch.from_numpy(clean).float().clamp_(-1, 1)

    def _pulses(self, parameters: Tensor, phase: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Glottal pulses of a frame: of which sequence, at which sample, the period then, how late the sample is for it
        (in samples); each [E]. ``phase`` moves on."""
        batch = parameters.shape[0]
        within = self.get_buffer("_within")
        left, right = parameters[:, :-1, None, LOG_F0:], parameters[:, 1:, None, LOG_F0:]
        log_f0 = torch.lerp(left[..., 0], right[..., 0], within).view(batch, -1)
        voiced = torch.where(within < 0.5, left[..., 1], right[..., 1]).view(batch, -1) > 0.5
        # In double precision: what a sequence adds up must not depend on where it lies in the batch.
        step = log_f0.double().exp_().clamp_(30.0, 600.0).div_(SAMPLE_RATE_HZ)
        turns = step.cumsum(1).add_(phase[:, None])
        whole = turns.floor()
        phase.copy_(turns[:, -1] - whole[:, -1])
        sequence, at = torch.nonzero(voiced & (whole.diff(dim=1, prepend=whole.new_zeros(batch, 1)) > 0), as_tuple=True)
        period = 1 / step[sequence, at]
        return sequence, at, period, (turns - whole)[sequence, at] * period

    @staticmethod
    def tail_samples() -> int:
        """Length of the carried overlap."""
        return FFT_SIZE + PRE_DELAY

    def _spectra(self, parameters: Tensor, of: Tensor, at: Tensor, period: Tensor, late: Tensor) -> Tensor:
        """Spectra [E, K] (complex) of events at sample ``at`` of sequence ``of`` (both [E]).

        Noise comes first: filters for it. The last events are pulses of ``period``, ``late`` as ``_pulses`` says.
        """
        index = torch.div(at, SUBFRAME_SAMPLES, rounding_mode="floor")
        share = (at - index * SUBFRAME_SAMPLES)[:, None] / SUBFRAME_SAMPLES
        left, right = parameters[of, index], parameters[of, index + 1]
        now = torch.lerp(left, right, share)
        log_power = (now[:, :NUM_CEPSTRA] @ self.get_buffer("envelope_basis")).clamp_(max=MAX_LOG_ENVELOPE)
        bands = now[:, NUM_CEPSTRA:LOG_F0] * 10
        decibels = torch.addmm(self.get_buffer("band_offset"), bands, self.get_buffer("band_basis"))
        aperiodic = decibels.clamp_(LOWEST_DECIBELS, 0).mul_(math.log(10) / 10)
        noises = len(of) - len(period)
        is_voiced = torch.where(share < 0.5, left[:, VOICED:], right[:, VOICED:])[:noises] > 0.5
        log_power[:noises] += aperiodic[:noises] * is_voiced
        log_power[noises:] += aperiodic[noises:].expm1_().neg_().clamp_(min=LOWEST_SHARE).log_()
        log_magnitude = log_power.mul_(0.5)
        angle = torch.fft.rfft(torch.fft.irfft(log_magnitude, FFT_SIZE).mul_(self.get_buffer("_fold"))).imag
        angle[noises:] -= self.get_buffer("_omega") * (PRE_DELAY - late.float())[:, None]
        log_magnitude[noises:] += 0.5 * period.log().float()[:, None]
        return torch.polar(log_magnitude.exp_(), angle)
