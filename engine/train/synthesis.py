"""The vocoder over many frames at once, with a gradient, and how far its sound is from the teacher's.

Axes: B sequences, F frames, S = 8 F subframes, D parameters, T samples.
"""

import torch
from torch import Tensor, nn
from transformers.audio_utils import mel_filter_bank

from engine.codec.vocoder import (
    FFT_SIZE,
    LOG_F0,
    NOISE_BLOCKS,
    NOISE_FRAMES,
    NUM_CEPSTRA,
    PRE_DELAY,
    RUMBLE_HZ,
    SAMPLE_RATE_HZ,
    SAMPLES_PER_FRAME,
    SUBFRAME_SAMPLES,
    SUBFRAMES_PER_FRAME,
    Vocoder,
    grid,
)

VOCODER_LAG_SAMPLES = SUBFRAME_SAMPLES + PRE_DELAY
"""How far the vocoder's sound lies behind the speech its parameters were measured on."""
RESOLUTIONS = ((2048, 100), (1024, 80), (512, 48))
"""Windows in samples, each with its number of mel bands."""
QUIET = 1e-4
"""Power of a bin of such a window below which differences do not count: noise of about -65 dB (full scale = 0)."""


def synthesise(vocoder: Vocoder, parameters: Tensor, position: Tensor) -> Tensor:
    """Samples [B, T = 1200 F] of ``parameters`` [B, 1 + S, D] (the subframe before comes first), from rest.

    ``position`` [B]: where in the table of noise each sequence begins. The gradient reaches the envelope alone: where
    pulses lie and how much of them is noise is taken as given.
    """
    batch, frames = len(parameters), (parameters.shape[1] - 1) // SUBFRAMES_PER_FRAME
    parameters = torch.cat([parameters[..., :NUM_CEPSTRA], parameters[..., NUM_CEPSTRA:].detach()], -1)
    # [B, F, 9, D]: each frame with the subframe before it.
    windows = parameters.unfold(1, SUBFRAMES_PER_FRAME + 1, SUBFRAMES_PER_FRAME).transpose(2, 3)
    layout, phase = grid(SUBFRAME_SAMPLES), torch.zeros(batch, dtype=torch.float64)
    of, at, period, late = [torch.arange(batch * frames).repeat_interleave(NOISE_BLOCKS)], [], [], []
    for frame in range(frames):
        sequence, where, periods, lateness = vocoder.pulses(windows[:, frame].detach(), phase, layout)
        of.append(sequence * frames + frame)
        at.append(where)
        period.append(periods)
        late.append(lateness)
    window, pulses = torch.cat(of), torch.cat(at)
    moments = torch.cat([layout.centres.repeat(batch * frames), pulses])
    spectra = vocoder.spectra(
        windows.flatten(0, 1), window, moments, torch.cat(period), torch.cat(late), SUBFRAME_SAMPLES
    )
    rows = (position[:, None] + torch.arange(frames)) % NOISE_FRAMES
    noise = vocoder.noise(rows, layout).flatten(0, 2)
    waves = torch.fft.irfft(torch.cat([spectra[: len(noise)] * noise, spectra[len(noise) :]]), FFT_SIZE)
    length = frames * SAMPLES_PER_FRAME + Vocoder.tail_samples()
    starts = torch.cat([torch.tensor(layout.starts).repeat(batch * frames) + PRE_DELAY, pulses])
    first = window // frames * length + window % frames * SAMPLES_PER_FRAME + starts
    places = first[:, None] + torch.arange(FFT_SIZE)
    mixed = torch.zeros(batch * length).index_add(0, places.flatten(), waves.flatten())
    return without_rumble(mixed.view(batch, length)[:, : frames * SAMPLES_PER_FRAME])


def without_rumble(sound: Tensor) -> Tensor:
    """``sound`` [B, T] through the magnitudes of the vocoder's high-pass."""
    ratio = (torch.fft.rfftfreq(sound.shape[1], 1 / SAMPLE_RATE_HZ) / RUMBLE_HZ).square()
    filtered: Tensor = torch.fft.irfft(torch.fft.rfft(sound) * ratio / (1 + ratio.square()).sqrt(), sound.shape[1])
    return filtered


class MelDistance(nn.Module):
    """Mean distance of the logarithms of mel bands, over several resolutions."""

    def __init__(self) -> None:
        super().__init__()
        for size, bands in RESOLUTIONS:
            self.register_buffer(f"window_{size}", torch.hann_window(size))
            filters = mel_filter_bank(size // 2 + 1, bands, 60.0, 11_500.0, SAMPLE_RATE_HZ, mel_scale="htk")
            # Means of bins, not sums: a wide band is no louder than a narrow one.
            mean = torch.from_numpy(filters / filters.sum(0)).float()
            self.register_buffer(f"filters_{size}", mean)

    def forward(self, made: Tensor, target: Tensor) -> Tensor:
        """Of two sounds [B, T]: a number."""
        parts = [(self._bands(made, size) - self._bands(target, size)).abs().mean() for size, _ in RESOLUTIONS]
        return torch.stack(parts).mean()

    def _bands(self, sound: Tensor, size: int) -> Tensor:
        window = self.get_buffer(f"window_{size}")
        bins = torch.stft(sound, size, size // 4, window=window, center=False, return_complex=True)
        power = bins.real.square() + bins.imag.square()
        return (power.transpose(1, 2) @ self.get_buffer(f"filters_{size}") + QUIET).log()


def with_source(parameters: Tensor, source_of: Tensor) -> Tensor:
    """``parameters`` [B, S, D] with pitch and voicing of ``source_of`` (same shape): harmonics at the same places."""
    return torch.cat([parameters[..., :LOG_F0], source_of[..., LOG_F0:]], -1)
