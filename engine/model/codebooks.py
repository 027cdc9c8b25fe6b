"""The codebook tower: from a backbone hidden state and the main token to the other codes of a frame.

Its layers run one after the other at the same row; each attends over all earlier rows at its own depth. Shared layers
take code 0 of the frame being made (the *label*), residual layer i takes code i and its head predicts code i + 1.

Axes: B sequences, T rows, C codebooks, V codebook size, H hidden.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import cast

import torch
from torch import Tensor, nn

from engine.cache.kv import KVMemory, Span
from engine.config import TowerConfig
from engine.model.attention import Attention
from engine.model.feed_forward import FeedForward
from engine.model.linear import Embedding, Leaf, Linear
from engine.model.norm import RMSNorm
from engine.model.rotary import Rotary, Rotation

ChooseCodes = Callable[[Tensor, int], Tensor]
"""``choose(logits [B, V], codebook)`` -> codes [B] (int64) of that codebook."""


class TowerLayer(Leaf):
    """Joins a code's embedding to the running hidden state, then attention and feed-forward."""

    def __init__(self, config: TowerConfig, layer: int) -> None:
        super().__init__()
        dim, eps = config.dim, config.norm_eps
        self.embedding = Embedding(config.vocab_size, dim)
        self.embedding_norm = RMSNorm(dim, eps)
        self.hidden_norm = RMSNorm(dim, eps)
        self.joint_proj = Linear(2 * dim, dim)
        self.attention_norm = RMSNorm(dim, eps)
        self.attention = Attention(dim, config.n_head, config.n_local_heads, config.head_dim, eps, layer)
        self.feed_forward_norm = RMSNorm(dim, eps)
        self.feed_forward = FeedForward(dim, config.intermediate_size)
        self.final_norm = RMSNorm(dim, eps)

    def embed(self, codes: Tensor, mask: Tensor | None) -> Tensor:
        """Embeddings [B, T, H] of ``codes`` [B, T], zero where ``mask`` [B, T] (bool; None: nowhere) is false."""
        embedded: Tensor = self.embedding(codes)
        return embedded if mask is None else embedded * mask[..., None]

    def forward(
        self, hidden: Tensor, embedded: Tensor, rotation: Rotation, memory: KVMemory | None, span: Span | None
    ) -> Tensor:
        """``hidden`` and ``embedded`` [B, T, H] -> the hidden state for the next layer and this layer's head."""
        x = self._join(hidden, embedded)
        x = x + self.attention(self.attention_norm(x), rotation, memory, span)
        x = x + self.feed_forward(self.feed_forward_norm(x))
        out: Tensor = self.final_norm(x)
        return out

    def _join(self, hidden: Tensor, embedded: Tensor) -> Tensor:
        return self.joint_proj(torch.cat((self.embedding_norm(embedded), self.hidden_norm(hidden)), -1))


class Tower(nn.Module):
    """Shared layers, residual layers, and a head per residual layer."""

    __call__: Callable[..., list[Tensor]]

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.config = config
        self.shared = nn.ModuleList(TowerLayer(config, i) for i in range(config.n_layer))
        self.residual = nn.ModuleList(TowerLayer(config, config.n_layer + i) for i in range(config.num_residual_layers))
        self.heads = nn.ModuleList(Linear(config.dim, config.vocab_size) for _ in range(config.num_residual_layers))
        # The file's flag says otherwise at times; the tower always rotates interleaved pairs.
        self.rotary = Rotary(config.head_dim, config.rotary_dim, config.rope_base, is_interleaved=True)

    def forward(
        self,
        hidden: Tensor,
        feature: Tensor | None,
        labels: Tensor,
        is_audio: Tensor,
        memory: KVMemory | None = None,
        counts: list[int] | None = None,
        trace: list[Tensor] | None = None,
    ) -> list[Tensor]:
        """Teacher-forced: outputs of the C - 1 residual layers, each [B, T, H], before their heads.

        ``hidden`` [B, T, H] of the backbone; ``feature`` [B, T, H] of the input rows' codes the backbone did not
        see (None: it saw all); ``labels`` [B, T, C] the codes of the frames being predicted and ``is_audio`` [B, T]
        whether each is one.
        With ``memory``, the rows are appended to it (``counts[b]`` of them when right-padded). Layer outputs are
        appended to ``trace``.
        """
        span = None if memory is None else memory.span(hidden.shape[1], counts)
        rotation = self.rotary.rows(hidden.shape[1], span, hidden.device)
        outputs = []
        for i, layer in enumerate(cast("Iterator[TowerLayer]", chain(self.shared, self.residual))):
            depth = max(i - len(self.shared), 0)
            embedded = layer.embed(labels[..., depth], is_audio)
            if i == 0 and feature is not None:
                embedded = embedded + feature
            hidden = layer(hidden, embedded, rotation, memory, span)
            if i >= len(self.shared):
                outputs.append(hidden)
            if trace is not None:
                trace.append(hidden)
        if memory is not None and span is not None:
            memory.advance(span)
        return outputs

    def step(
        self,
        hidden: Tensor,
        feature: Tensor | None,
        codes: Tensor,
        is_audio: Tensor | None,
        memory: KVMemory,
        choose: ChooseCodes,
        counts: list[int] | None = None,
        trace: list[Tensor] | None = None,
    ) -> Tensor:
        """Make one frame: codes [B, C], the first being ``codes`` [B], the others chosen one by one.

        ``hidden`` and ``feature`` [B, 1, H], as in ``forward``; ``is_audio`` [B] is false where the main token ended
        the turn (None: it did nowhere); sequences whose count is 0 keep their memory and get codes without meaning.
        """
        span = memory.span(1, counts)
        rotation = self.rotary.rows(1, span, hidden.device)
        mask = None if is_audio is None else is_audio[:, None]
        chosen = [codes]
        for i, layer in enumerate(cast("Iterable[TowerLayer]", self.shared)):
            embedded = layer.embed(codes[:, None], mask)
            if i == 0 and feature is not None:
                embedded = embedded + feature
            hidden = layer(hidden, embedded, rotation, memory, span)
            if trace is not None:
                trace.append(hidden)
        residual = cast("Iterable[TowerLayer]", self.residual)
        for i, (layer, head) in enumerate(zip(residual, self.heads, strict=True)):
            hidden = layer(hidden, layer.embed(chosen[-1][:, None], mask), rotation, memory, span)
            chosen.append(choose(head(hidden)[:, 0].float(), i + 1))
            if trace is not None:
                trace.append(hidden)
        memory.advance(span)
        return torch.stack(chosen, 1)
