"""A codec that says nothing: where only the codes of a take are wanted, sound would be most of the work."""

import torch
from torch import Tensor

from engine.codec.dac.memory import StreamMemory


class SilentCodec:
    """A ``Codec`` (see ``engine/codec/codec.py``) whose samples are all zero."""

    speeds = None
    device = torch.device("cpu")

    def __init__(self, sample_rate: int, samples_per_frame: int, num_codebooks: int) -> None:
        self.sample_rate, self.samples_per_frame, self.num_codebooks = sample_rate, samples_per_frame, num_codebooks

    def allocate(self, batch_size: int) -> StreamMemory:
        """Memory of ``batch_size`` streams; nothing is in it."""
        return StreamMemory([torch.zeros(batch_size, 0)])

    def decode_step(self, codes: Tensor, state: StreamMemory, speed: float = 1.0) -> Tensor:
        """``codes`` [B, C, F] -> zeros [B, F * samples_per_frame]."""
        assert speed == 1.0, speed
        return torch.zeros(codes.shape[0], codes.shape[2] * self.samples_per_frame)
