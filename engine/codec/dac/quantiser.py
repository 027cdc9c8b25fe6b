"""Latents to codes and back: one semantic codebook, then residual ones, on a slowed-down time axis.

Axes: B streams, N channels, T latent steps, F frames, C codebooks.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.dac.attention import Transformer
from engine.codec.dac.config import DacConfig
from engine.codec.dac.layers import CausalConv, CausalTransposedConv, ConvNeXt, run
from engine.codec.dac.memory import StreamMemory


class VectorQuantiser(nn.Module):
    """One codebook, searched by direction in a few dimensions (Yu et al. 2022)."""

    def __init__(self, size: int, width: int, code_width: int) -> None:
        super().__init__()
        self.in_proj = nn.Conv1d(width, code_width, 1)
        self.out_proj = nn.Conv1d(code_width, width, 1)
        self.codebook = nn.Embedding(size, code_width)

    def encode(self, latents: Tensor) -> Tensor:
        """``latents`` [B, N, F] -> the rows nearest in direction [B, F] (int64), the first of equals."""
        directions = F.normalize(self.in_proj(latents).transpose(1, 2), dim=-1)
        similarity = directions @ F.normalize(self.codebook.weight, dim=-1).t()
        return similarity.argmax(-1)

    def decode(self, codes: Tensor) -> Tensor:
        """``codes`` [B, F], clamped to the codebook -> their share of the latents [B, N, F]."""
        rows = self.codebook(codes.clamp(0, self.codebook.num_embeddings - 1))
        out: Tensor = self.out_proj(rows.transpose(1, 2))
        return out


class VectorQuantisers(nn.Module):
    """Codebooks, each for what those before it have left."""

    def __init__(self, count: int, size: int, width: int, code_width: int) -> None:
        super().__init__()
        self.quantizers = nn.ModuleList(VectorQuantiser(size, width, code_width) for _ in range(count))


class Quantiser(nn.Module):
    """Everything between the encoder's latents and the decoder's."""

    def __init__(self, config: DacConfig) -> None:
        super().__init__()
        width, rates = config.latent_width, config.latent_rates
        self.downsample = nn.ModuleList(
            nn.ModuleList([CausalConv(width, width, rate, rate), ConvNeXt(width)]) for rate in rates
        )
        self.pre_module = Transformer(config.latent_transformer)
        self.semantic_quantizer = VectorQuantisers(1, config.semantic_codebook_size, width, config.code_width)
        self.quantizer = VectorQuantisers(
            config.residual_codebooks, config.residual_codebook_size, width, config.code_width
        )
        self.post_module = Transformer(config.latent_transformer)
        self.upsample = nn.ModuleList(
            nn.ModuleList([CausalTransposedConv(width, width, rate, rate), ConvNeXt(width)]) for rate in reversed(rates)
        )

    @property
    def _codebooks(self) -> list[VectorQuantiser]:
        both = (*self.semantic_quantizer.quantizers, *self.quantizer.quantizers)
        return [codebook for codebook in both if isinstance(codebook, VectorQuantiser)]

    def encode(self, latents: Tensor, memory: StreamMemory) -> Tensor:
        """``latents`` [B, N, T] -> codes [B, C, F] (int64)."""
        for stage in self.downsample:
            assert isinstance(stage, nn.ModuleList)
            latents = run(stage, latents, memory)
        left, codes = self.pre_module(latents, memory), []
        for codebook in self._codebooks:
            codes.append(codebook.encode(left))
            left = left - codebook.decode(codes[-1])
        return torch.stack(codes, 1)

    def dequantise(self, codes: Tensor) -> Tensor:
        """``codes`` [B, C, F] -> the sum of their shares [B, N, F]."""
        first, *rest = self._codebooks
        total = first.decode(codes[:, 0])
        for i, codebook in enumerate(rest, start=1):
            total = total + codebook.decode(codes[:, i])
        return total

    def decode(self, codes: Tensor, memory: StreamMemory) -> Tensor:
        """``codes`` [B, C, F] -> latents [B, N, T]."""
        latents: Tensor = self.post_module(self.dequantise(codes), memory)
        for stage in self.upsample:
            assert isinstance(stage, nn.ModuleList)
            latents = run(stage, latents, memory)
        return latents
