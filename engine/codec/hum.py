"""A codec that hums: where only the codes of a take are wanted, its sound would be most of the work."""

import torch
from torch import Tensor

from engine.codec.dac.memory import StreamMemory

LEVEL = 0.1
"""Of full scale. Silence would be taken for a fault of the model, and be made again."""


class HumCodec:
    """A ``Codec`` (see ``engine/codec/codec.py``) whose samples are all the same."""

    speeds = None
    device = torch.device("cpu")

    def __init__(self, sample_rate: int, samples_per_frame: int, num_codebooks: int) -> None:
        self.sample_rate, self.samples_per_frame, self.num_codebooks = sample_rate, samples_per_frame, num_codebooks

    def allocate(self, batch_size: int) -> StreamMemory:
        """Memory of ``batch_size`` streams; nothing is in it."""
        return StreamMemory([torch.zeros(batch_size, 0)])

    def decode_step(self, codes: Tensor, state: StreamMemory, speed: float = 1.0) -> Tensor:
        """``codes`` [B, C, F] -> samples [B, F * samples_per_frame]."""
        assert speed == 1.0, speed
        return torch.full((codes.shape[0], codes.shape[2] * self.samples_per_frame), LEVEL)
