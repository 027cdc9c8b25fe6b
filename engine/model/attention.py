"""Gated attention with grouped queries, as the backbone's full layers and the tower's layers have it.

Axes: B sequences, T rows, S rows of memory, N query heads, G KV heads, D head dimension, H hidden.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.cache.kv import KVMemory, Span
from engine.model.linear import Leaf, Linear
from engine.model.norm import rms_norm
from engine.model.rotary import Rotation


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Scaled dot-product attention of ``queries`` [B, T, N, D] over ``keys``, ``values`` [B, G, S, D] -> [B, T, N * D].

    ``mask`` None: causal from the first row, or everything for a single row.
    """
    batch, rows, heads, dim = queries.shape
    groups = keys.shape[1]
    if rows == 1:
        # The query heads of one KV head stand in for rows, so keys need not be repeated.
        grouped = queries.view(batch, groups, heads // groups, dim)
        return F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask).view(batch, 1, heads * dim)
    if torch.is_grad_enabled() and mask is None:
        return _attend_to_learn(queries, keys, values)
    out = F.scaled_dot_product_attention(
        queries.transpose(1, 2), keys, values, attn_mask=mask, is_causal=mask is None, enable_gqa=groups != heads
    )
    return out.transpose(1, 2).reshape(batch, rows, heads * dim)


def _attend_to_learn(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Causal ``attend`` by plain products: on a CPU its backward pass takes half as long as the fused kernel's.

    Scores [B * G, T * N / G, S] are kept, so this is for sequences of training length.
    """
    batch, rows, heads, dim = queries.shape
    groups, each = keys.shape[1], heads // keys.shape[1]
    causal = queries.new_full((rows, rows), -torch.inf).triu_(1)
    causal = causal[None, :, None].expand(1, rows, each, rows).reshape(1, rows * each, rows)
    with torch.autocast(queries.device.type, enabled=False):
        scaled = (queries * dim**-0.5).view(batch, rows, groups, each, dim)
        grouped = scaled.transpose(1, 2).reshape(batch * groups, rows * each, dim)
        keys, values = keys.reshape(batch * groups, rows, dim), values.reshape(batch * groups, rows, dim)
        shares = torch.baddbmm(causal, grouped, keys.transpose(1, 2)).softmax(-1)
        out = torch.bmm(shares, values).view(batch, groups, rows, each * dim)
    return out.transpose(1, 2).reshape(batch, rows, heads * dim)


class Attention(Leaf):
    """Attention whose output is gated by a sigmoid of the input; queries and keys are normed per head.

    One projection makes ``[queries | keys | values | gates]``; ``qk_gain`` [2, D] holds the gains of the two norms.
    """

    def __init__(self, hidden: int, heads: int, kv_heads: int, head_dim: int, eps: float, layer: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim, self.eps = heads, kv_heads, head_dim, eps
        self.layer = layer
        """Index of this layer in the KV memory of its stack."""
        self.in_proj = Linear(hidden, 2 * (heads + kv_heads) * head_dim)
        self.out_proj = Linear(heads * head_dim, hidden)
        self.qk_gain = nn.Parameter(torch.ones(2, head_dim))
        which = torch.tensor([0] * heads + [1] * kv_heads)
        self.register_buffer("_gain_of_head", which, persistent=False)
        self._sizes = [(heads + kv_heads) * head_dim, kv_heads * head_dim, heads * head_dim]

    def forward(self, x: Tensor, rotation: Rotation, memory: KVMemory | None, span: Span | None) -> Tensor:
        """Attend from ``x`` [B, T, H] to itself and, with ``memory``, to the rows it holds; appends to it."""
        batch, rows, _ = x.shape
        qk, values, gates = self.in_proj(x).split_with_sizes(self._sizes, -1)
        gain = self.qk_gain.index_select(0, self.get_buffer("_gain_of_head"))
        qk = rms_norm(qk.view(batch, rows, -1, self.head_dim).float(), None, self.eps) * gain
        queries, keys = rotation.apply(qk).to(values.dtype).split_with_sizes([self.heads, self.kv_heads], 2)
        values = values.view(batch, rows, self.kv_heads, self.head_dim)
        mask = None
        if memory is None or span is None:
            keys, values = keys.transpose(1, 2), values.transpose(1, 2)
        else:
            keys, values = memory.append(self.layer, keys, values, span)
            mask = span.mask
        out = attend(queries, keys, values, mask)
        return self.out_proj(out * torch.sigmoid(gates))
