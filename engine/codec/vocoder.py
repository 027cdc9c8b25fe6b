"""Source-filter synthesis: vocoder parameters to samples, frame by frame, all memory carried.

A pulse at every glottal period and white noise in between, each through the minimum-phase filter of the spectral
envelope at its moment; band aperiodicity says how the two share the energy (the model of WORLD, Morise et al. 2016, as
overlap-add of filter responses). Parameters are interpolated between subframes, so sound lags its subframe by one.

A subframe of more or fewer than its 150 samples is slower or faster speech at the same pitch.

Axes: B sequences, S = 8 subframes of a frame, H samples of a subframe (the hop), N = 16 noise blocks of a frame,
E events (pulses or noise blocks), D parameters, K = 513 frequency bins.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from engine.codec.high_pass import HighPass
from engine.codec.limit import soft_limit

SAMPLE_RATE_HZ = 24_000
SUBFRAME_SAMPLES = 150
SUBFRAMES_PER_FRAME = 8
SAMPLES_PER_FRAME = SUBFRAME_SAMPLES * SUBFRAMES_PER_FRAME
FFT_SIZE = 1024
NUM_CEPSTRA = 40
NUM_BANDS = 3
LOG_F0, VOICED = NUM_CEPSTRA + NUM_BANDS, NUM_CEPSTRA + NUM_BANDS + 1
NUM_FEATURES = VOICED + 1
LONGEST_SUBFRAME = 2 * SUBFRAME_SAMPLES
NOISE_BLOCKS = 2 * SUBFRAMES_PER_FRAME
NOISE_BLOCK = SUBFRAME_SAMPLES // 2
NOISE_FRAMES = 80
"""The noise repeats after 4 s; being a table it is the same in any batch and any grouping of frames."""
PRE_DELAY = 16
"""Samples kept before a pulse for the band-limited onset of a fractional delay."""
MAX_LOG_ENVELOPE = 12.0
LOWEST_DECIBELS = -60.0
LOWEST_SHARE = 1e-12
"""Of a frame's power in its pulses."""
RUMBLE_HZ = 40
"""A train of pulses has a mean that moves with pitch and level: rumble below any voice."""


@dataclass(frozen=True)
class Grid:
    """Where things lie in a frame of subframes of H samples."""

    samples: int
    """Of a frame."""
    within: Tensor
    """[H]: samples of a subframe as shares of it."""
    starts: tuple[int, ...]
    """[N]: first samples of the noise blocks."""
    centres: Tensor
    """[N]"""
    is_filled: Tensor
    """[N, longest block]: the samples that each block has."""
    high_pass: HighPass


@lru_cache(maxsize=32)
def grid(hop: int) -> Grid:
    """The grid of subframes of ``hop`` samples."""
    assert 2 <= hop <= LONGEST_SUBFRAME, hop
    halves = (hop // 2, hop - hop // 2)
    starts = [i * hop + half for i in range(SUBFRAMES_PER_FRAME) for half in (0, halves[0])]
    lengths = torch.tensor(halves * SUBFRAMES_PER_FRAME)
    samples = hop * SUBFRAMES_PER_FRAME
    return Grid(
        samples,
        within=torch.arange(hop) / hop,
        starts=tuple(starts),
        centres=torch.tensor(starts) + lengths // 2,
        is_filled=torch.arange(halves[1]) < lengths[:, None],
        high_pass=HighPass(RUMBLE_HZ, SAMPLE_RATE_HZ, samples, 60 if hop == SUBFRAME_SAMPLES else hop),
    )


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
        blocks, rest = (
            torch.randn(NOISE_FRAMES * SAMPLES_PER_FRAME, generator=torch.Generator().manual_seed(seed)).view(
                NOISE_FRAMES, NOISE_BLOCKS, NOISE_BLOCK
            )
            for seed in (1, 2)
        )
        constants = {
            "fold": fold,
            "noise_samples": torch.cat([blocks, rest], -1),
            "noise_spectra": torch.fft.rfft(blocks, FFT_SIZE),
            "omega": 2 * math.pi / FFT_SIZE * torch.arange(bins),
        }
        for name, value in constants.items():
            self.register_buffer(f"_{name}", value, persistent=False)

    def forward(
        self,
        parameters: Tensor,
        phase: Tensor,
        tail: Tensor,
        rumble: Tensor,
        position: Tensor,
        hop: int = SUBFRAME_SAMPLES,
    ) -> Tensor:
        """Samples [B, S * hop] of one frame; ``phase``, ``tail``, ``rumble`` and ``position`` are advanced in place.

        ``parameters`` [B, 1 + S, D]: the last subframe before the frame, then its own. ``phase`` [B] float64: glottal
        phase in periods. ``tail`` [B, T]: what earlier events still have to say. ``rumble`` [B, 2] float64: memory of
        the high-pass. ``position`` [B] int64: frames made.
        """
        batch, frame = parameters.shape[0], grid(hop)
        sequence, at, period, late = self.pulses(parameters, phase, frame)
        # Events: all noise blocks of all sequences, then all pulses.
        noises = batch * NOISE_BLOCKS
        of = torch.cat([torch.arange(batch).repeat_interleave(NOISE_BLOCKS), sequence])
        spectra = self.spectra(parameters, of, torch.cat([frame.centres.repeat(batch), at]), period, late, hop)
        spectra[:noises] *= self.noise(position % NOISE_FRAMES, frame).flatten(0, 1)
        waves = torch.fft.irfft(spectra, FFT_SIZE).numpy()

        out = np.zeros((batch, frame.samples + FFT_SIZE + PRE_DELAY), np.float32)
        out[:, : tail.shape[1]] = tail.numpy()
        # Pulses have their delay in the phase of their spectrum.
        starts = [start + PRE_DELAY for start in frame.starts] * batch + at.tolist()
        for b, start, wave in zip(of.tolist(), starts, waves, strict=True):
            out[b, start : start + FFT_SIZE] += wave
        tail.copy_(torch.from_numpy(out[:, frame.samples :]))
        position += 1
        clean = frame.high_pass(out[:, : frame.samples].astype(np.float64), rumble.numpy())
        return torch.from_numpy(soft_limit(clean)).float()

    def noise(self, row: Tensor, frame: Grid) -> Tensor:
        """Spectra [..., N, K] of the noise of frames, each ``row`` [...] of the table."""
        if frame.samples == SAMPLES_PER_FRAME:
            return self.get_buffer("_noise_spectra")[row]
        blocks = self.get_buffer("_noise_samples")[row, :, : frame.is_filled.shape[1]] * frame.is_filled
        spectra: Tensor = torch.fft.rfft(blocks, FFT_SIZE)
        return spectra

    def pulses(self, parameters: Tensor, phase: Tensor, frame: Grid) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Glottal pulses of a frame: of which sequence, at which sample, the period then, how late the sample is for it
        (in samples); each [E]. ``phase`` moves on."""
        batch = parameters.shape[0]
        within = frame.within
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

    def spectra(self, parameters: Tensor, of: Tensor, at: Tensor, period: Tensor, late: Tensor, hop: int) -> Tensor:
        """Spectra [E, K] (complex) of events at sample ``at`` of sequence ``of`` (both [E]).

        Noise comes first: filters for it. The last events are pulses of ``period``, ``late`` as ``pulses`` says.
        """
        index = torch.div(at, hop, rounding_mode="floor")
        share = (at - index * hop)[:, None] / hop
        left, right = parameters[of, index], parameters[of, index + 1]
        now = torch.lerp(left, right, share)
        log_power = (now[:, :NUM_CEPSTRA] @ self.get_buffer("envelope_basis")).clamp_(max=MAX_LOG_ENVELOPE)
        bands = now[:, NUM_CEPSTRA:LOG_F0] * 10
        decibels = torch.addmm(self.get_buffer("band_offset"), bands, self.get_buffer("band_basis"))
        aperiodic = decibels.clamp_(LOWEST_DECIBELS, 0) * (math.log(10) / 10)
        noises = len(of) - len(period)
        is_voiced = torch.where(share < 0.5, left[:, VOICED:], right[:, VOICED:])[:noises] > 0.5
        log_power[:noises] += aperiodic[:noises] * is_voiced
        log_power[noises:] += (-aperiodic[noises:].expm1()).clamp(min=LOWEST_SHARE).log()
        log_magnitude = log_power.mul_(0.5)
        angle = torch.fft.rfft(torch.fft.irfft(log_magnitude, FFT_SIZE).mul_(self.get_buffer("_fold"))).imag
        angle[noises:] -= self.get_buffer("_omega") * (PRE_DELAY - late.float())[:, None]
        log_magnitude[noises:] += 0.5 * period.log().float()[:, None]
        return torch.polar(log_magnitude.exp_(), angle)
