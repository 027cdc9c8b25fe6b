"""Latents to samples. Names of layers are the checkpoint's.

Axes: B streams, N channels, T latent steps.
"""

from torch import Tensor, nn

from engine.codec.dac.config import DacConfig
from engine.codec.dac.layers import DILATIONS, CausalConv, CausalTransposedConv, ResidualUnit, Snake, run
from engine.codec.dac.memory import StreamMemory


class DecoderStage(nn.Module):
    """A transposed convolution that halves the channels and stretches time, then three residual units."""

    def __init__(self, channels: int, rate: int) -> None:
        super().__init__()
        half = channels // 2
        self.block = nn.ModuleList([Snake(channels), CausalTransposedConv(channels, half, 2 * rate, rate)])
        self.block.extend(ResidualUnit(half, dilation) for dilation in DILATIONS)

    def forward(self, x: Tensor, memory: StreamMemory) -> Tensor:
        """``x`` [B, N, T] -> [B, N / 2, T * rate]."""
        return run(self.block, x, memory)


class Decoder(nn.Module):
    """Latents to samples in [-1, 1]."""

    def __init__(self, config: DacConfig) -> None:
        super().__init__()
        channels = config.decoder_width
        self.model = nn.ModuleList([CausalConv(config.latent_width, channels, 7)])
        for rate in config.decoder_rates:
            self.model.append(DecoderStage(channels, rate))
            channels //= 2
        self.model.extend([Snake(channels), CausalConv(channels, 1, 7)])

    def forward(self, latents: Tensor, memory: StreamMemory) -> Tensor:
        """``latents`` [B, N, T] -> samples [B, 1, T * product of rates]."""
        return run(self.model, latents, memory).tanh()
