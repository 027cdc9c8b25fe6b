"""Text lying beside the audio: what is added to a frame's embedding, and the head that moves along the text.

Axes: B sequences, T rows, W symbols of a window, E embedding, H hidden.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.config import AlignedTextConfig
from engine.model.linear import Embedding, Linear

POINTER_CLASSES = 4
"""``2a + b``: whether unit A, and then unit B, goes on to the next symbol."""


@dataclass(frozen=True)
class AlignedWindow:
    """The text beside each row (int64 but for the mask); see ``docs/architecture.md``.

    ``symbols`` [B, T, W]: ids at ``A - look_behind .. A - 1, A, B, B + 1 .. B + look_ahead``, 0 where none is known;
    ``elapsed`` [B, T, 2]: units that A and B have already lasted (clamped to ``max_elapsed`` here);
    ``voice`` [B, T]; ``mask`` [B, T] (bool): where it is false the row gets nothing added.
    """

    symbols: Tensor
    elapsed: Tensor
    voice: Tensor
    mask: Tensor


class AlignedText(nn.Module):
    """Embeds windows into the frame embedding's space and reads pointer moves off the hidden state."""

    __call__: Callable[..., Tensor]

    def __init__(self, config: AlignedTextConfig, hidden: int) -> None:
        super().__init__()
        self.config = config
        dim = config.embedding_dim
        self.symbol_embedding = Embedding(config.num_symbols, dim)
        self.elapsed_a_embedding = Embedding(config.max_elapsed + 1, dim)
        self.elapsed_b_embedding = Embedding(config.max_elapsed + 1, dim)
        self.voice_embedding = Embedding(config.num_voices, dim)
        self.in_proj = Linear((config.window + 3) * dim, config.hidden_dim, has_bias=True)
        self.out_proj = Linear(config.hidden_dim, hidden, has_bias=True)
        self.pointer = Linear(hidden, POINTER_CLASSES, has_bias=True)

    def forward(self, window: AlignedWindow) -> Tensor:
        """What to add to the frame embeddings: [B, T, H]."""
        assert window.symbols.shape[-1] == self.config.window, (window.symbols.shape, self.config.window)
        elapsed = window.elapsed.clamp(0, self.config.max_elapsed)
        parts = (
            self.symbol_embedding(window.symbols).flatten(-2),
            self.elapsed_a_embedding(elapsed[..., 0]),
            self.elapsed_b_embedding(elapsed[..., 1]),
            self.voice_embedding(window.voice),
        )
        out: Tensor = self.out_proj(F.silu(self.in_proj(torch.cat(parts, -1))))
        return out * window.mask[..., None]
