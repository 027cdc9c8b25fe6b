"""Source-filter synthesis: vocoder parameters to samples, frame by frame, all memory carried.

A pulse at every glottal period and white noise in between, each through the minimum-phase filter of the spectral
envelope at its moment; band aperiodicity says how the two share the energy (the model of WORLD, Morise et al. 2016, as
overlap-add of filter responses). Parameters are interpolated between subframes, so sound lags its subframe by one.

Axes: B sequences, S = 8 subframes of a frame, D parameters, E events (pulses or noise blocks), K = 513 frequency bins.
"""

import math

import torch
from scipy.signal import butter, sosfilt
from torch import Tensor, nn

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
NOISE_SAMPLES = 80 * SAMPLES_PER_FRAME
"""The noise repeats after 4 s; being a table it is the same in any batch and any grouping of frames."""
PRE_DELAY = 16
"""Samples kept before a pulse for the band-limited onset of a fractional delay."""
MAX_LOG_ENVELOPE = 12.0
HIGH_PASS = butter(2, 40, "highpass", fs=SAMPLE_RATE_HZ, output="sos")
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
        noise = torch.randn(NOISE_SAMPLES, generator=torch.Generator().manual_seed(1))
        self.register_buffer("_noise", noise, persistent=False)
        # Folding the cepstrum of a log magnitude makes it that of the minimum-phase spectrum.
        fold = torch.zeros(FFT_SIZE)
        fold[0] = fold[FFT_SIZE // 2] = 1
        fold[1 : FFT_SIZE // 2] = 2
        self.register_buffer("_fold", fold, persistent=False)

    def forward(self, parameters: Tensor, phase: Tensor, tail: Tensor, rumble: Tensor, position: Tensor) -> Tensor:
        """Samples [B, 1200] of one frame; ``phase``, ``tail``, ``rumble`` and ``position`` are advanced in place.

        ``parameters`` [B, 1 + S, D]: the last subframe before the frame, then its own. ``phase`` [B] float64: glottal
        phase in periods. ``tail`` [B, T]: what earlier events still have to say. ``rumble`` [B, 2] float64: memory of
        the high-pass. ``position`` [B] int64: frames made.
        """
        batch, device = parameters.shape[0], parameters.device
        within = torch.arange(SUBFRAME_SAMPLES, device=device) / SUBFRAME_SAMPLES
        left, right = parameters[:, :-1, None], parameters[:, 1:, None]
        log_f0 = torch.lerp(left[..., LOG_F0], right[..., LOG_F0], within).flatten(1)
        voiced = torch.where(within < 0.5, left[..., VOICED], right[..., VOICED]).flatten(1) > 0.5
        step = log_f0.exp().clamp(30.0, 600.0).double() / SAMPLE_RATE_HZ
        turns = phase[:, None] + step.cumsum(1)
        before = torch.cat([phase[:, None], turns[:, :-1]], 1)
        phase.copy_(turns[:, -1] % 1.0)
        sequence, at = torch.nonzero((turns.floor() > before.floor()) & voiced, as_tuple=True)
        period = 1 / step[sequence, at]
        late = (turns - turns.floor())[sequence, at] * period

        block = torch.arange(0, SAMPLES_PER_FRAME, NOISE_BLOCK, device=device)
        noise_at = block.repeat(batch)
        noise_of = torch.arange(batch, device=device).repeat_interleave(len(block))
        start = (
            (position * SAMPLES_PER_FRAME)[:, None, None] + block[:, None] + torch.arange(NOISE_BLOCK, device=device)
        )
        source = torch.fft.rfft(self.get_buffer("_noise")[start % NOISE_SAMPLES].flatten(0, 1), FFT_SIZE)
        aspirated = self._filters(parameters, noise_of, noise_at + NOISE_BLOCK // 2, is_noise=True)
        noises = torch.fft.irfft(source * aspirated, FFT_SIZE)

        length = SAMPLES_PER_FRAME + FFT_SIZE + PRE_DELAY
        out = torch.zeros(batch * length, dtype=torch.float32, device=device)
        reach = torch.arange(FFT_SIZE, device=device)
        if len(at):
            omega = 2 * math.pi / FFT_SIZE * torch.arange(FFT_SIZE // 2 + 1, device=device)
            delay = PRE_DELAY - late.float()[:, None]
            strength = period.sqrt().float()[:, None].expand(-1, len(omega))
            pulse = self._filters(parameters, sequence, at, is_noise=False) * torch.polar(strength, -omega * delay)
            pulses = torch.fft.irfft(pulse, FFT_SIZE)
            out.index_add_(0, ((sequence * length + at)[:, None] + reach).flatten(), pulses.flatten())
        out.index_add_(0, ((noise_of * length + noise_at + PRE_DELAY)[:, None] + reach).flatten(), noises.flatten())
        out = out.view(batch, length)
        out[:, : tail.shape[1]] += tail
        tail.copy_(out[:, SAMPLES_PER_FRAME:])
        position += 1
        clean, memory = sosfilt(HIGH_PASS, out[:, :SAMPLES_PER_FRAME].double().numpy(), zi=rumble[None].numpy())
        rumble.copy_(torch.from_numpy(memory[0]))
        return torch.from_numpy(clean).float().clamp(-1, 1)

    @staticmethod
    def tail_samples() -> int:
        """Length of the carried overlap."""
        return FFT_SIZE + PRE_DELAY

    def _filters(self, parameters: Tensor, sequence: Tensor, at: Tensor, is_noise: bool) -> Tensor:
        """Minimum-phase spectra [E, K] (complex) at sample ``at`` [E] of ``sequence`` [E], for pulses or for noise."""
        index = torch.div(at, SUBFRAME_SAMPLES, rounding_mode="floor")
        share = (at - index * SUBFRAME_SAMPLES)[:, None] / SUBFRAME_SAMPLES
        left, right = parameters[sequence, index], parameters[sequence, index + 1]
        now = torch.lerp(left, right, share)
        log_power = (now[:, :NUM_CEPSTRA] @ self.get_buffer("envelope_basis")).clamp(max=MAX_LOG_ENVELOPE)
        bands = now[:, NUM_CEPSTRA:LOG_F0] * 10
        decibels = torch.addmm(self.get_buffer("band_offset"), bands, self.get_buffer("band_basis")).clamp(-60, 0)
        is_voiced = torch.where(share < 0.5, left[:, VOICED:], right[:, VOICED:]) > 0.5
        aperiodic = torch.where(is_voiced, 10 ** (decibels / 10), 1.0)
        log_power = log_power + (aperiodic if is_noise else 1 - aperiodic).clamp(min=1e-12).log()
        folded: Tensor = torch.fft.irfft(log_power / 2, FFT_SIZE) * self.get_buffer("_fold")
        spectra: Tensor = torch.fft.rfft(folded).exp()
        return spectra
