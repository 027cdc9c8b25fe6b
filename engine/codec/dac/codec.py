"""ModifiedDAC, the codec of Drama 3: 44.1 kHz, frames of 2048 samples, one semantic and nine residual codebooks.

Axes: B streams, C codebooks, F frames.
"""

import soxr
import torch
from torch import Tensor, nn

from engine.codec.dac.config import DacConfig
from engine.codec.dac.decoder import Decoder
from engine.codec.dac.encoder import Encoder
from engine.codec.dac.memory import StreamMemory, allocate, number_slots
from engine.codec.dac.quantiser import Quantiser

MOST_FRAMES = 16
"""Frames computed in one piece: more only costs memory, up to 20 MB a frame."""


class DacCodec(nn.Module):
    """A ``Codec`` (see ``engine/codec/codec.py``) that encodes, too. It speaks at one speed."""

    speeds = None

    def __init__(self, config: DacConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder, self.quantizer, self.decoder = Encoder(config), Quantiser(config), Decoder(config)
        q = self.quantizer
        self.hearing = number_slots([self.encoder, q.downsample, q.pre_module])
        self.speaking = number_slots([q.post_module, q.upsample, self.decoder])

    @property
    def sample_rate(self) -> int:
        """Samples per second."""
        return self.config.sample_rate

    @property
    def samples_per_frame(self) -> int:
        """Samples one frame becomes."""
        return self.config.samples_per_frame

    @property
    def device(self) -> torch.device:
        """Where its weights lie."""
        return next(self.parameters()).device

    @property
    def num_codebooks(self) -> int:
        """C."""
        return self.config.num_codebooks

    def allocate(self, batch_size: int) -> StreamMemory:
        """Memory of ``batch_size`` streams that have heard nothing."""
        return allocate(self.speaking, batch_size)

    @torch.inference_mode()
    def decode_step(self, codes: Tensor, state: StreamMemory, speed: float = 1.0) -> Tensor:
        """``codes`` [B, C, F] (int64) -> float32 samples [B, F * samples_per_frame] in [-1, 1]; advances ``state``.

        Codes outside a codebook are clamped.
        """
        assert speed == 1.0, speed
        pieces = [self.decoder(self.quantizer.decode(p, state), state) for p in torch.split(codes, MOST_FRAMES, 2)]
        return torch.cat(pieces, 2)[:, 0].float()

    @torch.inference_mode()
    def encode(self, samples: Tensor, rate: int) -> Tensor:
        """A recording ``samples`` [S] (float, full scale 1) at ``rate`` Hz -> codes [C, F] (int64).

        It is resampled, and silence fills its last frame. Memory does not grow with its length. The recording is one
        that ``engine/voices/clips.py`` has let through: not empty, all numbers.
        """
        assert samples.dim() == 1, samples.shape
        assert samples.is_floating_point(), samples.dtype
        assert len(samples), "an empty recording"
        assert bool(samples.isfinite().all()), "a recording with values that are not finite"
        if rate != self.sample_rate:
            samples = torch.from_numpy(soxr.resample(samples.float().cpu().numpy(), rate, self.sample_rate, "VHQ"))
        samples = samples.to(self.device, next(self.parameters()).dtype)
        padded = nn.functional.pad(samples, (0, -len(samples) % self.samples_per_frame))
        memory = allocate(self.hearing, 1)
        pieces = torch.split(padded.view(1, 1, -1), MOST_FRAMES * self.samples_per_frame, 2)
        return torch.cat([self.quantizer.encode(self.encoder(p, memory), memory) for p in pieces], 2)[0]
