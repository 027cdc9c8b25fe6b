"""A float32 decoder made ready to step on an x86 processor: packed weights, and everything worked out beforehand.

At the size of the understudy a step is hundreds of small operations, each of which takes longer to start than to
compute. So what does not change is computed once: gains with the norms' constants in them, rotations with the gains of
queries and keys, and what an embedding becomes in the layer it is read by. The plain modules say what is computed;
``tests/engine/test_ready.py`` holds the two against each other.

A ready decoder is for inference on the machine where it was made: it cannot be trained, saved or moved.

Axes: as in the plain modules.
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.cache.kv import KVMemory, Span
from engine.cache.recurrent import RecurrentMemory
from engine.model.aligned import AlignedText, AlignedWindow
from engine.model.attention import Attention, attend
from engine.model.codebooks import TowerLayer
from engine.model.decoder import BackboneLayer, Decoder
from engine.model.linear import Leaf, Linear
from engine.model.moe import Experts, MixtureOfExperts, Routing
from engine.model.norm import RMSNorm
from engine.model.recurrent import GatedDeltaNet
from engine.model.rotary import Rotary, Rotation
from engine.quant.half import HalfExperts, HalfLinear, Packed, fits, half_linear, is_exact, is_supported, pack


class Scale:
    """``x / sqrt(sum(x^2) + floor^2)`` over the last axis: a root-mean-square norm but for constant factors."""

    def __init__(self, eps: float, dim: int) -> None:
        self.floor = torch.tensor((eps * dim) ** 0.5)

    def of(self, x: Tensor) -> Tensor:
        """What to divide ``x`` [..., dim] by: [..., 1]."""
        length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return length.hypot_(self.floor)


class ReadyNorm(Leaf):
    """``RMSNorm``."""

    def __init__(self, norm: RMSNorm) -> None:
        super().__init__()
        dim = norm.gain.shape[0]
        self._gain = norm.gain.detach() * dim**0.5
        self._scale = Scale(norm.eps, dim)

    def forward(self, x: Tensor) -> Tensor:
        """Norm of ``x`` [..., dim]."""
        scaled: Tensor = x * self._gain
        return scaled.div_(self._scale.of(x))


class GainedRotation:
    """Rotation tables of one layer with the gains of its heads: [P, heads, D] and [P, heads, rotary_dim]."""

    def __init__(self, rotary: Rotary, gains: Tensor) -> None:
        self._rotary, self._gains = rotary, gains
        self._cos = self._sin = gains.new_empty(0)

    def rows(self, count: int, span: Span | None) -> tuple[Tensor, Tensor]:
        """Tables for a block of ``count`` rows, as ``Rotary.rows`` chooses them."""
        end = count if span is None else span.end
        if end > len(self._cos):
            self._grow(end)
        if span is not None and span.positions is not None:
            return self._cos[span.positions], self._sin[span.positions]
        start = 0 if span is None else span.start
        return self._cos[start : start + count], self._sin[start : start + count]

    def _grow(self, end: int) -> None:
        cos, sin = self._rotary.tables(max(end, 2 * len(self._cos), 512))
        # Each pair swaps gains; that one of the two changes its sign is in the projection already.
        swapped = self._rotary.turned(self._gains) * self._rotary.turned(torch.ones_like(self._gains))
        # The cosines last: see ``Rotary``.
        self._sin = sin[:, None, : swapped.shape[-1]] * swapped
        self._cos = cos[:, None] * self._gains


class ReadyAttention(Attention, Packed):
    """``Attention`` whose projection also makes what rotation adds: ``[queries | keys | values | gates | turned]``."""

    def __init__(self, plain: Attention, rotary: Rotary) -> None:
        Leaf.__init__(self)
        self.heads, self.kv_heads, self.head_dim = plain.heads, plain.kv_heads, plain.head_dim
        self.layer = plain.layer
        weight = plain.in_proj.weight.detach()
        both = self.heads + self.kv_heads
        turned = rotary.turned(weight[: both * self.head_dim].view(both, self.head_dim, -1).mT).mT
        joined = torch.cat((weight, turned.reshape(-1, weight.shape[1])))
        self._packed, self.nbytes = pack(joined), 2 * joined.numel()
        self.out_proj = plain.out_proj
        gains = plain.qk_gain.detach().index_select(0, plain.get_buffer("_gain_of_head")) * self.head_dim**0.5
        self._rotation = GainedRotation(rotary, gains)
        self._scale = Scale(plain.eps, self.head_dim)
        self._rotary_dim = turned.shape[1]
        self._parts = [*plain._sizes, both * self._rotary_dim]

    def forward(self, x: Tensor, rotation: Rotation, memory: KVMemory | None, span: Span | None) -> Tensor:
        """Attend from ``x`` [B, T, H] to itself and, with ``memory``, to the rows it holds; appends to it."""
        batch, rows, _ = x.shape
        qk, values, gates, turned = half_linear(x, self._packed).split_with_sizes(self._parts, -1)
        qk = qk.view(batch, rows, -1, self.head_dim)
        cos, sin = self._rotation.rows(rows, span)
        scale = self._scale.of(qk)
        qk = qk * cos
        qk[..., : self._rotary_dim].addcmul_(turned.view(batch, rows, -1, self._rotary_dim), sin)
        queries, keys = qk.div_(scale).split_with_sizes([self.heads, self.kv_heads], 2)
        values = values.view(batch, rows, self.kv_heads, self.head_dim)
        if memory is None or span is None:
            out = attend(queries, keys.transpose(1, 2), values.transpose(1, 2), None)
        elif rows == 1 and not span.is_uniform:
            # Each over its own rows: over those of the longest, sums would be added up in another order.
            own = memory.append_each(self.layer, keys, values, span)
            out = torch.cat([attend(queries.narrow(0, b, 1), k, v, None) for b, (k, v) in enumerate(own)])
        else:
            out = attend(queries, *memory.append(self.layer, keys, values, span), span.mask)
        return self.out_proj(out.mul_(gates.sigmoid()))


class ReadyDeltaNet(GatedDeltaNet, Packed):
    """``GatedDeltaNet`` with one projection ``[queries | keys | values | z | b | a]``.

    Queries and keys have length 1 here. Outputs are then ``sqrt(DK)`` times what the delta rule asks for, which the
    norm takes out.
    """

    def __init__(self, plain: GatedDeltaNet) -> None:
        Leaf.__init__(self)
        c = self.config = plain.config
        self.layer, self.conv, self.out_proj = plain.layer, plain.conv, plain.out_proj
        joined = torch.cat((plain.in_proj.weight, plain.ba_proj.weight))
        self._packed, self.nbytes = pack(joined), 2 * joined.numel()
        heads = c.linear_num_value_heads
        self._parts = [c.conv_dim, c.value_dim, heads, heads]
        self._rate = -plain.a_log.detach().float().exp()
        self._dt_bias = plain.dt_bias.detach()
        self._unit = torch.tensor(1e-3)
        self._out_scale = Scale(c.rms_norm_eps * c.linear_key_head_dim, c.linear_value_head_dim)
        self._gain = plain.out_gain.detach().float() * c.linear_value_head_dim**0.5

    def forward(self, x: Tensor, memory: RecurrentMemory | None, span: Span | None) -> Tensor:
        """``x`` [B, T, H] -> the same; continues from ``memory`` and leaves it after the span's real rows."""
        assert memory is not None
        assert span is not None
        mixed, z, b, a = half_linear(x, self._packed).split_with_sizes(self._parts, -1)
        log_decay = F.softplus(a + self._dt_bias).mul_(self._rate)
        step = self._step if x.shape[1] == 1 else self._block
        out = step(mixed, log_decay, b.sigmoid(), memory, span)
        gate = F.silu(z).view_as(out).mul_(self._gain)
        return self.out_proj(gate.mul_(out).div_(self._out_scale.of(out)).flatten(2))

    def _heads(self, mixed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        c = self.config
        batch, rows, _ = mixed.shape
        qk, values = mixed.split_with_sizes([2 * c.key_dim, c.value_dim], -1)
        qk = qk.view(batch, rows, 2 * c.linear_num_key_heads, c.linear_key_head_dim)
        qk = qk / torch.linalg.vector_norm(qk, dim=-1, keepdim=True).hypot_(self._unit)
        queries, keys = qk.chunk(2, 2)
        if (repeats := c.linear_num_value_heads // c.linear_num_key_heads) > 1:
            queries, keys = queries.repeat_interleave(repeats, 2), keys.repeat_interleave(repeats, 2)
        return queries, keys, values.view(batch, rows, c.linear_num_value_heads, c.linear_value_head_dim)


class ReadyMixture(MixtureOfExperts, Packed):
    """``MixtureOfExperts`` whose router is packed."""

    def __init__(self, plain: MixtureOfExperts) -> None:
        nn.Module.__init__(self)
        self.per_row, self.experts, self.shared = plain.per_row, plain.experts, plain.shared
        self._router, self.nbytes = pack(plain.router), 2 * plain.router.numel()

    def forward(self, x: Tensor) -> tuple[Tensor, Routing]:
        """``x`` [B, T, H] -> the same, and how it was routed."""
        rows = x.view(-1, x.shape[-1])
        scores = half_linear(rows, self._router)
        logits, gate = scores[:, :-1], scores[:, -1:].sigmoid()
        best, chosen = logits.topk(self.per_row, -1)
        routed = self.experts(rows, chosen, best.softmax(-1))
        out = torch.addcmul(routed, gate, self.shared(rows)).view_as(x)
        return out, Routing(logits.view(*x.shape[:-1], -1), chosen.view(*x.shape[:-1], -1))


class ReadyTowerLayer(TowerLayer, Packed):
    """``TowerLayer`` whose embedding is a table of what each code becomes after norm and projection."""

    def __init__(self, plain: TowerLayer) -> None:
        Leaf.__init__(self)
        dim = plain.joint_proj.weight.shape[0]
        weight = plain.joint_proj.weight.detach()
        self._table = F.linear(plain.embedding_norm(plain.embedding.weight), weight[:, :dim])
        self._joint = pack(weight[:, dim:])
        self.nbytes = self._table.nbytes + weight.numel()
        for name in ("hidden_norm", "attention_norm", "feed_forward_norm", "final_norm", "attention", "feed_forward"):
            setattr(self, name, plain.get_submodule(name))

    def embed(self, codes: Tensor, mask: Tensor | None) -> Tensor:
        """What ``codes`` [B, T] add to the layer's input [B, T, H]; nothing where ``mask`` is false."""
        embedded = F.embedding(codes, self._table)
        return embedded if mask is None else embedded * mask[..., None]

    def _join(self, hidden: Tensor, embedded: Tensor) -> Tensor:
        return half_linear(self.hidden_norm(hidden), self._joint).add_(embedded)


class ReadyAlignedText(AlignedText, Packed):
    """``AlignedText`` with one table of what each symbol at its place becomes in ``in_proj``."""

    def __init__(self, plain: AlignedText) -> None:
        nn.Module.__init__(self)
        self.config, self.out_proj, self.pointer = plain.config, plain.out_proj, plain.pointer
        c = plain.config
        weights = plain.in_proj.weight.detach().chunk(c.window + 3, 1)
        tables = [
            *[plain.symbol_embedding.weight] * c.window,
            plain.elapsed_a_embedding.weight,
            plain.elapsed_b_embedding.weight,
            plain.voice_embedding.weight,
        ]
        sizes = torch.tensor([0, *(len(table) for table in tables)])
        self._table = torch.cat([F.linear(t.detach(), w) for t, w in zip(tables, weights, strict=True)])
        self._offsets = sizes.cumsum(0)[:-1]
        self.nbytes = self._table.nbytes
        assert plain.in_proj.bias is not None
        self._bias = plain.in_proj.bias.detach()

    def forward(self, window: AlignedWindow) -> Tensor:
        """What to add to the frame embeddings: [B, T, H]."""
        elapsed = window.elapsed.clamp(0, self.config.max_elapsed)
        index = torch.cat((window.symbols, elapsed, window.voice[..., None]), -1) + self._offsets
        inner = F.embedding_bag(index.view(-1, index.shape[-1]), self._table, mode="sum").add_(self._bias)
        return self.out_proj(F.silu(inner)).view(*index.shape[:-1], -1) * window.mask[..., None]


def make_ready(decoder: Decoder) -> Decoder:
    """Make ``decoder`` ready in place, as far as this processor and its weights allow."""
    if not is_supported() or any(p.dtype is not torch.float32 or p.device.type != "cpu" for p in decoder.parameters()):
        return decoder
    with torch.no_grad():
        for layer in cast("list[BackboneLayer]", list(decoder.layers)):
            if isinstance(layer.mixer, Attention):
                if _is_plain(layer.mixer, "in_proj"):
                    layer.mixer = ReadyAttention(layer.mixer, decoder.rotary)
            elif _is_plain(layer.mixer, "in_proj", "ba_proj") and is_exact(layer.mixer.ba_proj.weight):
                layer.mixer = ReadyDeltaNet(layer.mixer)
            if is_exact(layer.moe.router):
                layer.moe = ReadyMixture(layer.moe)
        tower = decoder.tower
        for stack in (tower.shared, tower.residual):
            for i, depth in enumerate(cast("list[TowerLayer]", list(stack))):
                if _is_plain(depth.attention, "in_proj"):
                    depth.attention = ReadyAttention(depth.attention, tower.rotary)
                if _is_plain(depth, "joint_proj") and not (decoder.has_feature and stack is tower.shared and i == 0):
                    stack[i] = ReadyTowerLayer(depth)
        if decoder.aligned_text is not None and _is_plain(decoder.aligned_text, "in_proj"):
            decoder.aligned_text = ReadyAlignedText(decoder.aligned_text)
        for path, module in list(decoder.named_modules()):
            if replacement := _replacement(module):
                parent, _, name = path.rpartition(".")
                setattr(decoder.get_submodule(parent), name, replacement)
    return decoder


def _replacement(module: nn.Module) -> nn.Module | None:
    """What does the work of a small module."""
    if isinstance(module, RMSNorm):
        return ReadyNorm(module)
    if isinstance(module, Linear) and fits(module.weight):
        return HalfLinear(module)
    if isinstance(module, Experts) and fits(module.gate_up) and fits(module.down):
        return HalfExperts(module)
    return None


def _is_plain(module: nn.Module, *names: str) -> bool:
    """Whether the linear layers ``names`` are not quantised and can be packed."""
    layers = [getattr(module, name) for name in names]
    return all(isinstance(layer, Linear) and fits(layer.weight) for layer in layers)
