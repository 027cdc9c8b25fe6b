"""Samples to latents. Names of layers are the checkpoint's.

Axes: B streams, N channels, T latent steps.
"""

from torch import Tensor, nn

from engine.codec.dac.attention import Transformer
from engine.codec.dac.config import DacConfig
from engine.codec.dac.layers import DILATIONS, CausalConv, ResidualUnit, Snake, run
from engine.codec.dac.memory import StreamMemory


class EncoderStage(nn.Module):
    """Three residual units, then a convolution that doubles the channels and shortens time; the last one attends."""

    def __init__(self, channels: int, rate: int, transformer: Transformer | None) -> None:
        super().__init__()
        self.block = nn.ModuleList(ResidualUnit(channels, dilation) for dilation in DILATIONS)
        self.block.extend([Snake(channels), CausalConv(channels, 2 * channels, 2 * rate, rate)])
        if transformer is not None:
            self.block.append(transformer)

    def forward(self, x: Tensor, memory: StreamMemory) -> Tensor:
        """``x`` [B, N, T] -> [B, 2N, T / rate]."""
        return run(self.block, x, memory)


class Encoder(nn.Module):
    """Samples to latents, one step for every product of the rates."""

    def __init__(self, config: DacConfig) -> None:
        super().__init__()
        channels, last = config.encoder_width, len(config.encoder_rates) - 1
        self.block = nn.ModuleList([CausalConv(1, channels, 7)])
        for i, rate in enumerate(config.encoder_rates):
            transformer = Transformer(config.encoder_transformer) if i == last else None
            self.block.append(EncoderStage(channels, rate, transformer))
            channels *= 2
        self.block.extend([Snake(channels), CausalConv(channels, config.latent_width, 3)])

    def forward(self, samples: Tensor, memory: StreamMemory) -> Tensor:
        """``samples`` [B, 1, T * product of rates] -> latents [B, N, T]."""
        return run(self.block, samples, memory)
