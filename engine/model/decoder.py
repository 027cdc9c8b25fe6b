"""The whole Drama 3 decoder: frame embedding, backbone, main head, codebook tower, optional aligned text.

The modules hold weights only. Memory is a ``DecoderState`` passed in; without one, a whole sequence is computed from
position 0 and can be differentiated (``forward_train``).

Axes: B sequences, T rows, C codebooks, V codebook size, H hidden. A row is ``[main, c0 .. c(C-1)]`` (int64).
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.cache.decoder import DecoderState
from engine.cache.kv import Span
from engine.config import FULL_ATTENTION, ModelConfig
from engine.model.aligned import AlignedText, AlignedWindow
from engine.model.attention import Attention
from engine.model.codebooks import ChooseCodes, Tower
from engine.model.linear import Embedding, Linear
from engine.model.moe import MixtureOfExperts, Routing
from engine.model.norm import RMSNorm
from engine.model.recurrent import GatedDeltaNet
from engine.model.rotary import Rotary, Rotation


@dataclass
class Trace:
    """Filled by a forward pass that is given one: residual stream after each layer [B, T, H], routing per layer."""

    layer_outputs: list[Tensor] = field(default_factory=list)
    routing: list[Routing] = field(default_factory=list)


@dataclass(frozen=True)
class TrainOutput:
    """Logits of whole sequences; row t predicts frame t + 1, so nothing of the last row has a target.

    ``main`` [B, T, V + 1]; ``codebooks``: C - 1 tensors [B, T, V] for codes 1 .. C - 1, given the true codes before;
    ``pointer`` [B, T, 4] or None; ``routing`` per backbone layer, for ``load_balance_loss``.
    """

    main: Tensor
    codebooks: tuple[Tensor, ...]
    pointer: Tensor | None
    routing: tuple[Routing, ...]


class BackboneLayer(nn.Module):
    """A mixer (Gated DeltaNet or gated attention) and a mixture of experts, each behind a norm and a residual."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        c = config.backbone
        index = c.layer_types[:layer].count(c.layer_types[layer])
        self.mixer: Attention | GatedDeltaNet
        if c.layer_types[layer] == FULL_ATTENTION:
            self.mixer = Attention(
                c.hidden_size, c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.rms_norm_eps, index
            )
        else:
            self.mixer = GatedDeltaNet(c, index)
        self.mixer_norm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.moe = MixtureOfExperts(
            c.hidden_size,
            c.num_experts,
            c.num_experts_per_tok,
            c.moe_intermediate_size,
            c.shared_expert_intermediate_size,
        )
        self.moe_norm = RMSNorm(c.hidden_size, c.rms_norm_eps)

    def forward(
        self, x: Tensor, rotation: Rotation, state: DecoderState | None, span: Span | None
    ) -> tuple[Tensor, Routing]:
        """``x`` [B, T, H] -> the residual stream after this layer, and how it was routed."""
        x = self.mix(x, rotation, state, span)
        out, routing = self.moe(self.moe_norm(x))
        return x + out, routing

    def mix(self, x: Tensor, rotation: Rotation, state: DecoderState | None, span: Span | None) -> Tensor:
        """The first half, where rows of a sequence meet: the residual stream [B, T, H] after the mixer."""
        normed = self.mixer_norm(x)
        if isinstance(self.mixer, Attention):
            return x + self.mixer(normed, rotation, None if state is None else state.kv, span)
        return x + self.mixer(normed, None if state is None else state.recurrent, span)


class Decoder(nn.Module):
    """Weights of the whole model and the passes through them."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        b, t = config.backbone, config.tower
        self.embed_tokens = Embedding(b.vocab_size, b.hidden_size)
        self.codebook_embeddings = Embedding(t.num_codebooks * t.vocab_size, b.hidden_size)
        self.layers = nn.ModuleList(BackboneLayer(config, i) for i in range(b.num_hidden_layers))
        self.norm = RMSNorm(b.hidden_size, b.rms_norm_eps)
        self.main_head = Linear(b.hidden_size, config.num_candidates)
        """Rows of the file's head that may be emitted: the semantic band in order, then the end of the turn."""
        self.tower = Tower(t)
        self.aligned_text = None if config.aligned is None else AlignedText(config.aligned, b.hidden_size)
        self.rotary = Rotary(b.head_dim, b.rotary_dim, b.rope_theta, is_interleaved=False)
        offsets = torch.tensor([codebook * t.vocab_size for codebook in range(t.num_codebooks)])
        self.register_buffer("_offsets", offsets, persistent=False)

    def allocate(self, batch_size: int) -> DecoderState:
        """Memory for ``batch_size`` sequences without rows, in the weights' dtype and on their device."""
        weight = self.embed_tokens.weight
        return DecoderState.allocate(self.config, batch_size, weight.dtype, weight.device)

    def is_audio(self, rows: Tensor) -> Tensor:
        """Whether each of ``rows`` [..., 1 + C] is an audio row (its main token is semantic): bool [...]."""
        main = rows[..., 0]
        return (main >= self.config.semantic_start_token_id) & (main <= self.config.semantic_end_token_id)

    def embed(self, rows: Tensor, aligned: AlignedWindow | None = None) -> Tensor:
        """Backbone input [B, T, H] of ``rows`` [B, T, 1 + C], with what ``aligned`` says of the text beside them.

        Codes outside ``0 .. V - 1`` are clamped. Raises ``ValueError`` if the model has no aligned text stream.
        """
        x: Tensor = self.embed_tokens(rows[..., 0])
        if seen := self.config.tower.vq_backbone_codebooks:
            scale = (1 + seen) ** -0.5
            audio = (x + self._codes_sum(rows, 1, 1 + seen)) * scale
            x = torch.where(self.is_audio(rows)[..., None], audio, x)
        if aligned is not None:
            if self.aligned_text is None:
                raise ValueError("this model has no aligned text stream")
            x = x + self.aligned_text(aligned)
        return x

    def backbone(
        self,
        x: Tensor,
        state: DecoderState | None = None,
        counts: list[int] | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """Hidden states [B, T, H] (after the final norm) of embedded rows ``x`` [B, T, H].

        With ``state`` the rows follow those it holds and are added to it; of sequence b only the first ``counts[b]``
        are real (None: all), and a sequence whose count is 0 keeps its memory to the bit. Hidden states of padding
        mean nothing. Without ``state`` the rows are whole sequences from position 0.
        """
        span = None if state is None else state.kv.span(x.shape[1], counts)
        rotation = self.rotary.rows(x.shape[1], span, x.device)
        for layer in self.layers:
            x, routing = layer(x, rotation, state, span)
            if trace is not None:
                trace.layer_outputs.append(x)
                trace.routing.append(routing)
        if state is not None and span is not None:
            state.kv.advance(span)
        out: Tensor = self.norm(x)
        return out

    def main_logits(self, hidden: Tensor) -> Tensor:
        """Logits [..., V + 1] in float32 over what may be emitted: the semantic band, then the end of the turn."""
        logits: Tensor = self.main_head(hidden)
        return logits.float()

    def main_token(self, candidate: Tensor) -> Tensor:
        """Token ids of candidates (columns of ``main_logits``), any shape, int64."""
        token = candidate + self.config.semantic_start_token_id
        return torch.where(candidate == self.config.codebook_size, self.config.eos_token_id, token)

    def pointer_logits(self, hidden: Tensor) -> Tensor:
        """Logits [..., 4] of the pointer's moves (class ``2a + b``), float32. Only with an aligned text stream."""
        if self.aligned_text is None:
            raise ValueError("this model has no aligned text stream")
        logits: Tensor = self.aligned_text.pointer(hidden)
        return logits.float()

    def prefill(
        self,
        rows: Tensor,
        state: DecoderState,
        counts: list[int] | None = None,
        aligned: AlignedWindow | None = None,
    ) -> Tensor:
        """Add known rows to the memory of backbone and tower; returns the backbone's hidden states [B, T, H].

        ``rows`` [B, T + 1, 1 + C]: the row after the last one added stays *pending*; here it only labels its
        predecessor. ``counts[b]`` rows of sequence b are added (None: T), row ``counts[b]`` is its pending one.
        ``aligned`` describes the first T rows.
        """
        hidden = self.backbone(self.embed(rows[:, :-1], aligned), state, counts)
        self.tower_prefill(rows, hidden, state, counts)
        return hidden

    def tower_prefill(
        self,
        rows: Tensor,
        hidden: Tensor,
        state: DecoderState,
        counts: list[int] | None = None,
        trace: list[Tensor] | None = None,
    ) -> list[Tensor]:
        """Teacher-force the tower over ``hidden`` [B, T, H] of the first T of ``rows`` [B, T + 1, 1 + C].

        Returns the outputs of the residual layers, each [B, T, H]; ``self.tower.heads[i]`` turns them into logits.
        """
        labels, codes = rows[:, 1:], self._clamp(rows[:, 1:, 1:])
        feature = self.tower_feature(rows[:, :-1])
        return self.tower(hidden, feature, codes, self.is_audio(labels), state.tower, counts, trace)

    def tower_step(
        self,
        rows: Tensor,
        hidden: Tensor,
        main: Tensor,
        state: DecoderState,
        choose: ChooseCodes,
        counts: list[int] | None = None,
        trace: list[Tensor] | None = None,
    ) -> Tensor:
        """The frame after ``rows`` [B, 1, 1 + C]: a row [B, 1 + C] whose main token is ``main`` [B].

        ``hidden`` [B, 1, H] is the backbone's for ``rows``; ``choose(logits [B, V], codebook)`` draws the codes. Where
        ``main`` ends the turn, or the count is 0, the codes mean nothing.
        """
        start, size = self.config.semantic_start_token_id, self.config.codebook_size
        codes = (main - start).clamp(0, size - 1)
        is_audio = codes + start == main
        feature = self.tower_feature(rows)
        mask = None if bool(is_audio.all()) else is_audio
        frame = self.tower.step(hidden, feature, codes, mask, state.tower, choose, counts, trace)
        return torch.cat((main[:, None], frame), 1)

    def forward_train(
        self, rows: Tensor, aligned: AlignedWindow | None = None, history: Tensor | None = None
    ) -> TrainOutput:
        """Teacher-forced logits of right-padded whole sequences ``rows`` [B, T, 1 + C], differentiable.

        Row t predicts frame t + 1. Padding rows must hold valid ids (zeros will do); being at the end, they change
        nothing before them. ``aligned`` (None: no row has a window) describes the T rows.
        ``history`` (None: ``rows``) is what is seen as past, for training against the decoder's own mistakes.
        """
        trace = Trace()
        past = rows if history is None else history
        hidden = self.backbone(self.embed(past, aligned), trace=trace)
        outputs = self.tower(hidden, self.tower_feature(past), *self.labels(rows))
        return TrainOutput(
            main=self.main_head(hidden),
            codebooks=tuple(head(x) for head, x in zip(self.tower.heads, outputs, strict=True)),
            pointer=None if self.aligned_text is None else self.aligned_text.pointer(hidden),
            routing=tuple(trace.routing),
        )

    def labels(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """What the tower is to make of each of ``rows`` [B, T, 1 + C]: codes [B, T, C], and whether it is audio [B, T].

        The last row has no label: a text label, which embeds to nothing.
        """
        return F.pad(self._clamp(rows[:, 1:, 1:]), (0, 0, 0, 1)), F.pad(self.is_audio(rows[:, 1:]), (0, 1))

    def _clamp(self, codes: Tensor) -> Tensor:
        return codes.clamp(0, self.config.codebook_size - 1)

    def _codes_sum(self, rows: Tensor, first: int, stop: int) -> Tensor:
        """Sum of the codebook embeddings of codes ``first .. stop - 1`` of ``rows`` [B, T, 1 + C] -> [B, T, H]."""
        index = self._clamp(rows[..., 1 + first : 1 + stop]) + self.get_buffer("_offsets")[first:stop]
        flat = index.view(-1, stop - first)
        return F.embedding_bag(flat, self.codebook_embeddings.weight, mode="sum").view(*rows.shape[:-1], -1)

    @property
    def has_feature(self) -> bool:
        """Whether there are codes that the backbone does not see, which the tower then gets of the input rows."""
        return self.config.tower.vq_backbone_codebooks + 1 < self.config.num_codebooks

    def tower_feature(self, rows: Tensor) -> Tensor | None:
        """What the tower's first layer gets of the input rows: the codes the backbone did not see -> [B, T, H]."""
        if not self.has_feature:
            return None
        first, stop = self.config.tower.vq_backbone_codebooks + 1, self.config.num_codebooks
        return self._codes_sum(rows, first, stop) * self.is_audio(rows)[..., None]


def initialise(decoder: Decoder, seed: int = 0) -> None:
    """Fill a decoder with random weights to train from."""
    generator = torch.Generator().manual_seed(seed)
    residuals = 2 * decoder.config.backbone.num_hidden_layers

    def normal(weight: Tensor, std: float) -> None:
        with torch.no_grad():
            weight.copy_(torch.randn(weight.shape, generator=generator) * std)

    for name, parameter in decoder.named_parameters():
        match name.rsplit(".", 2)[-2:]:
            case [_, "gain" | "qk_gain" | "out_gain"]:
                nn.init.ones_(parameter)
            case [_, "bias"]:
                nn.init.zeros_(parameter)
            case [_, "a_log"]:
                with torch.no_grad():
                    parameter.copy_(torch.empty(parameter.shape).uniform_(1, 16, generator=generator).log())
            case [_, "dt_bias"]:
                # softplus(dt_bias) between 0.001 and 0.1: heads that forget within a few rows and heads that do not.
                step = torch.empty(parameter.shape).uniform_(-6.9, -2.3, generator=generator).exp()
                with torch.no_grad():
                    parameter.copy_(step + torch.log(-torch.expm1(-step)))
            case [_, "conv"]:
                normal(parameter, parameter.shape[0] ** -0.5)
            case [part, "weight"] if "embed" in part:
                normal(parameter, 1.0 if part == "embed_tokens" else 0.5)
            case [part, kind]:
                std = parameter.shape[-1] ** -0.5
                normal(parameter, std * residuals**-0.5 if "out_proj" in part or "down" in (part, kind) else std)
