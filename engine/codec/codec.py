"""What every codec is to the engine: codes in, samples out, memory carried from one call to the next.

Axes: B sequences, C codebooks, F frames.
"""

from typing import Any, Protocol

import torch
from torch import Tensor

from engine.cache.base import Memory
from engine.codec.speeds import Speeds


class Codec(Protocol):
    """A causal decoder of audio codes. Holds weights only; ``state`` is the memory of B sequences.

    Streamed equals whole: the samples do not depend on how frames are grouped into calls.
    """

    @property
    def sample_rate(self) -> int:
        """Samples per second."""

    @property
    def samples_per_frame(self) -> int:
        """Samples one frame becomes at speed 1."""

    @property
    def num_codebooks(self) -> int:
        """C."""

    @property
    def device(self) -> torch.device:
        """Where it computes, wherever the decoder does: codes are put there."""

    @property
    def speeds(self) -> Speeds | None:
        """The speeds that frames can be spoken at; None: 1 alone."""

    def allocate(self, batch_size: int) -> Memory:
        """Memory of ``batch_size`` sequences that have heard nothing."""

    def decode_step(self, codes: Tensor, state: Any, speed: float = 1.0) -> Tensor:
        """``codes`` [B, C, F] (int64) -> float32 samples [B, F * samples_per_frame / speed] in [-1, 1].

        Advances ``state``. ``speed`` is one of ``speeds`` (see ``Speeds.nearest``) and may change from call to call.
        Codes outside a codebook are clamped: the decoder's heads may be wider than the codec's tables.
        """
