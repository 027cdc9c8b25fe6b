"""``config.json`` of a Drama 3 checkpoint as frozen dataclasses, and the arithmetic that follows from it.

Reading is strict where strictness protects the sound: a flag that would make the same weights mean something else is
an error, a key that changes nothing here (``dtype``, ``pad_token_id``) is let through.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from engine.errors import ConfigError

CONFIG_FILE = "config.json"
LARGE_PARAMETERS = 1_000_000_000
"""Above this, a model computes in bfloat16 unless asked otherwise."""
_MOST_LAYERS = 1024
"""Of a kind, and of codebooks: what is above is a mistake, or meant to fill the memory with names of tensors."""
_MOST_EXPERTS = 100_000
"""In all layers."""
LINEAR_ATTENTION = "linear_attention"
FULL_ATTENTION = "full_attention"

_BACKBONE_FLAGS: dict[str, tuple[Any, ...]] = {
    "attn_output_gate": (True,),
    "layernorm_zero_centered_gamma": (True,),
    "shared_expert_gate": (True,),
    "use_qk_norm": (True,),
}
"""Flags whose absence means something this model is not, with the values we compute."""

_BACKBONE_OPTIONAL: dict[str, tuple[Any, ...]] = {
    "model_type": ("fish_omni_text",),
    "hidden_act": ("silu",),
    "tie_word_embeddings": (False,),
    "rotary_interleaved": (False,),
    "attention_bias": (False, None),
    "attention_dropout": (0, None),
    "dropout": (0, None),
    "norm_topk_prob": (True,),
    "sliding_window": (None,),
    "use_sliding_window": (False, None),
    "attention_chunk_size": (None,),
    "attn_logit_softcapping": (None,),
    "final_logit_softcapping": (None,),
    "rope_scaling": (None,),
    "mlp_only_layers": ([], None),
    "decoder_sparse_step": (1, None),
    "scoring_func": ("softmax", None),
    "routed_scaling_factor": (1, None),
    "n_group": (1, None),
    "topk_group": (1, None),
    "mamba_ssm_dtype": ("float32", None),
}

_IDLE_KEYS = frozenset(
    {
        *("architectures", "audio_pad_token_id", "bos_token_id", "dtype", "eos_token_id", "footlights"),
        *("initializer_range", "mlp_layer_types", "output_router_logits", "pad_token_id", "quantization_config"),
        *("router_aux_loss_coef", "torch_dtype", "transformers_version", "use_cache", "max_seq_len"),
        *("semantic_start_token_id", "semantic_end_token_id", "text_config", "audio_decoder_config"),
        *("aligned_text_config", "full_attention_interval", "rope_parameters", "rope_theta", "partial_rotary_factor"),
        # Stored, and misleading: the tower always rotates neighbours and always norms queries and keys.
        *("rotary_interleaved", "attention_qk_norm"),
    }
)
"""Keys that change nothing here, or are looked at elsewhere."""

_TOWER_FLAGS: dict[str, tuple[Any, ...]] = {
    "decoder_type": ("codebook_mtp_shared",),
    "layernorm_zero_centered_gamma": (True,),
    "attention_output_gate": (True,),
}

_TOWER_OPTIONAL: dict[str, tuple[Any, ...]] = {
    "model_type": ("fish_qwen3_audio_decoder",),
    "vq_feature_scope": ("all_vq",),
    "attention_qkv_bias": (False, None),
    "attention_o_bias": (False, None),
    "attention_bias": (False, None),
    "use_moe": (False, None),
    "mtp_use_swa": (False, None),
    "sliding_window": (None,),
    "window_size": (None,),
    "window_attn_skip_freq": (None,),
    "window_rotary_base": (None,),
    "num_experts": (0, None),
    "attention_variant": ("full_attention", None),
    "dropout": (0, None),
}

_TOWER_SAME = ("text_dim", "shared_enrichment_layers", "vq_feature_placement", "max_seq_len")
_TOP_FLAGS: dict[str, tuple[Any, ...]] = {
    "architectures": (["FishOmniModel"],),
    "model_type": ("fish_omni",),
    "fish_schema_version": (1,),
    "speech_template_version": ("reference-bracket-v1",),
}
_TOP_OPTIONAL: dict[str, tuple[Any, ...]] = {
    "audio_encoder_config": (None,),
    "extra_samplable_token_ids": ([], None),
    "tie_word_embeddings": (False, None),
}


def read_json(path: Path) -> Mapping[str, Any]:
    """The object in a JSON file; raises ``ConfigError``."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    return parse_json(text, str(path))


def parse_json(text: str, where: str) -> Mapping[str, Any]:
    """The object in JSON ``text``; raises ``ConfigError`` with ``where`` for whatever else it may be."""
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"cannot read {where}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"cannot read {where}: it is nested too deep") from error
    return _mapping(values, where)


def default_layer_types(num_layers: int) -> tuple[str, ...]:
    """Three Gated-DeltaNet layers, then one of full attention, repeated."""
    return tuple(FULL_ATTENTION if (i + 1) % 4 == 0 else LINEAR_ATTENTION for i in range(num_layers))


@dataclass(frozen=True)
class BackboneConfig:
    """``text_config``: the mixture-of-experts backbone (field names are the file's)."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    linear_num_key_heads: int
    linear_key_head_dim: int
    linear_num_value_heads: int
    linear_value_head_dim: int
    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    shared_expert_intermediate_size: int
    vocab_size: int
    linear_conv_kernel_dim: int = 4
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1e7
    partial_rotary_factor: float = 0.25
    max_position_embeddings: int = 32768
    layer_types: tuple[str, ...] = ()
    """One of the two kinds per layer; empty: three DeltaNet layers, then one of attention."""

    def __post_init__(self) -> None:
        """Fill ``layer_types`` and refuse impossible sizes."""
        _require_positive(self, "text_config")
        _require_at_most(_MOST_LAYERS, self.num_hidden_layers, "text_config.num_hidden_layers")
        _require_at_most(_MOST_EXPERTS // self.num_hidden_layers, self.num_experts, "text_config.num_experts")
        if not self.layer_types:
            object.__setattr__(self, "layer_types", default_layer_types(self.num_hidden_layers))
        if len(self.layer_types) != self.num_hidden_layers:
            raise ConfigError(
                f"text_config.layer_types names {len(self.layer_types)} of {self.num_hidden_layers} layers"
            )
        if unknown := set(self.layer_types) - {LINEAR_ATTENTION, FULL_ATTENTION}:
            raise ConfigError(f"text_config.layer_types has unknown kinds {sorted(unknown)}")
        _require_multiple(
            "num_attention_heads", self.num_attention_heads, "num_key_value_heads", self.num_key_value_heads
        )
        _require_multiple(
            "linear_num_value_heads", self.linear_num_value_heads, "linear_num_key_heads", self.linear_num_key_heads
        )
        _require_rotary(self.head_dim, self.partial_rotary_factor, "text_config")
        if self.num_experts_per_tok > self.num_experts:
            raise ConfigError(f"num_experts_per_tok {self.num_experts_per_tok} exceeds num_experts {self.num_experts}")
        if self.linear_conv_kernel_dim < 2:
            raise ConfigError("linear_conv_kernel_dim must be at least 2")

    @property
    def rotary_dim(self) -> int:
        """Leading dimensions of a head that are rotated."""
        return int(self.head_dim * self.partial_rotary_factor)

    @property
    def key_dim(self) -> int:
        """Width of all DeltaNet keys of a row (and of its queries)."""
        return self.linear_num_key_heads * self.linear_key_head_dim

    @property
    def value_dim(self) -> int:
        """Width of all DeltaNet values of a row."""
        return self.linear_num_value_heads * self.linear_value_head_dim

    @property
    def conv_dim(self) -> int:
        """Channels of the DeltaNet convolution: queries, keys and values."""
        return 2 * self.key_dim + self.value_dim

    @property
    def num_full_layers(self) -> int:
        """Layers of full attention, those with a KV memory."""
        return self.layer_types.count(FULL_ATTENTION)

    @property
    def num_linear_layers(self) -> int:
        """Gated-DeltaNet layers, those with a recurrent memory."""
        return self.layer_types.count(LINEAR_ATTENTION)


@dataclass(frozen=True)
class TowerConfig:
    """``audio_decoder_config``: the codebook tower (``n_layer`` shared layers, then one residual layer per code)."""

    dim: int
    n_head: int
    n_local_heads: int
    head_dim: int
    n_layer: int
    intermediate_size: int
    num_codebooks: int
    vocab_size: int
    vq_backbone_codebooks: int
    norm_eps: float = 1e-6
    rope_base: float = 1e7
    rotary_percent: float = 0.25

    def __post_init__(self) -> None:
        """Refuse impossible sizes."""
        _require_positive(self, "audio_decoder_config", but=("vq_backbone_codebooks",))
        _require_at_most(_MOST_LAYERS, self.n_layer, "audio_decoder_config.n_layer")
        _require_at_most(_MOST_LAYERS, self.num_codebooks, "audio_decoder_config.num_codebooks")
        _require_multiple("n_head", self.n_head, "n_local_heads", self.n_local_heads)
        _require_rotary(self.head_dim, self.rotary_percent, "audio_decoder_config")
        if self.num_codebooks < 2:
            raise ConfigError("num_codebooks must be at least 2: the tower predicts codebooks 1 and up")
        if not 0 <= self.vq_backbone_codebooks < self.num_codebooks:
            raise ConfigError(
                f"vq_backbone_codebooks {self.vq_backbone_codebooks} is not in 0..{self.num_codebooks - 1}"
            )

    @property
    def num_residual_layers(self) -> int:
        """Residual layers, one for each code the tower predicts."""
        return self.num_codebooks - 1

    @property
    def num_layers(self) -> int:
        """All layers of the tower."""
        return self.n_layer + self.num_residual_layers

    @property
    def rotary_dim(self) -> int:
        """Leading dimensions of a head that are rotated."""
        return int(self.head_dim * self.rotary_percent)


@dataclass(frozen=True)
class AlignedTextConfig:
    """``aligned_text_config``: text lying beside the audio instead of before it (the understudy's text stream)."""

    num_symbols: int
    embedding_dim: int
    num_voices: int
    max_elapsed: int
    hidden_dim: int
    look_behind: int = 2
    look_ahead: int = 6

    def __post_init__(self) -> None:
        """Refuse impossible sizes."""
        _require_positive(self, "aligned_text_config", but=("look_behind", "look_ahead"))
        if self.look_behind < 0 or self.look_ahead < 1:
            raise ConfigError("aligned_text_config needs look_behind >= 0 and look_ahead >= 1")

    @property
    def window(self) -> int:
        """Symbols in one window: those behind, A, B, and those ahead."""
        return self.look_behind + 2 + self.look_ahead


@dataclass(frozen=True)
class ModelConfig:
    """A whole ``config.json``: two parts, the token ids that join them, and the optional aligned text stream."""

    backbone: BackboneConfig
    tower: TowerConfig
    semantic_start_token_id: int
    eos_token_id: int
    aligned: AlignedTextConfig | None = None

    def __post_init__(self) -> None:
        """Enforce what ties the parts together."""
        backbone, tower = self.backbone, self.tower
        if tower.dim != backbone.hidden_size:
            raise ConfigError(f"tower dim {tower.dim} differs from backbone hidden_size {backbone.hidden_size}")
        ours = (backbone.num_attention_heads, backbone.num_key_value_heads, backbone.head_dim)
        theirs = (tower.n_head, tower.n_local_heads, tower.head_dim)
        if ours != theirs:
            raise ConfigError(f"attention geometry of backbone {ours} and tower {theirs} differ")
        if self.semantic_start_token_id < 0 or self.semantic_end_token_id >= backbone.vocab_size:
            raise ConfigError(
                f"semantic ids {self.semantic_start_token_id}..{self.semantic_end_token_id} "
                f"lie outside the vocabulary of {backbone.vocab_size}"
            )
        if not 0 <= self.eos_token_id < backbone.vocab_size:
            raise ConfigError(f"eos_token_id {self.eos_token_id} lies outside the vocabulary of {backbone.vocab_size}")
        if self.semantic_start_token_id <= self.eos_token_id <= self.semantic_end_token_id:
            raise ConfigError(f"eos_token_id {self.eos_token_id} lies inside the semantic band")

    @classmethod
    def from_file(cls, path: Path) -> "ModelConfig":
        """Read ``config.json``; raises ``ConfigError`` naming what does not fit."""
        return cls.from_dict(read_json(path))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ModelConfig":
        """Read the parsed ``config.json``; raises ``ConfigError`` naming what does not fit."""
        values = _mapping(values, "config.json")
        _check_flags(values, "config.json", _TOP_FLAGS, _TOP_OPTIONAL)
        aligned = values.get("aligned_text_config")
        config = cls(
            backbone=_read_backbone(_mapping(values.get("text_config"), "text_config")),
            tower=_read_tower(_mapping(values.get("audio_decoder_config"), "audio_decoder_config")),
            semantic_start_token_id=_integer(values, "semantic_start_token_id", "config.json"),
            eos_token_id=_integer(values, "eos_token_id", "config.json"),
            aligned=None if aligned is None else _read_aligned(_mapping(aligned, "aligned_text_config")),
        )
        end = _integer(values, "semantic_end_token_id", "config.json")
        if end != config.semantic_end_token_id:
            raise ConfigError(
                f"the semantic band {config.semantic_start_token_id}..{end} does not hold "
                f"audio_decoder_config.vocab_size = {config.codebook_size} tokens"
            )
        return config

    def to_dict(self) -> dict[str, Any]:
        """What ``from_dict`` reads: the ``config.json`` of this model."""
        backbone, tower = self.backbone, self.tower
        text: dict[str, Any] = {
            "model_type": "fish_omni_text",
            **{field.name: getattr(backbone, field.name) for field in fields(backbone)},
            "layer_types": list(backbone.layer_types),
            "mlp_layer_types": ["moe"] * backbone.num_hidden_layers,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": backbone.rope_theta,
                "partial_rotary_factor": backbone.partial_rotary_factor,
            },
            "hidden_act": "silu",
            "tie_word_embeddings": False,
            "rotary_interleaved": False,
            **{name: allowed[0] for name, allowed in _BACKBONE_FLAGS.items()},
        }
        del text["rope_theta"], text["partial_rotary_factor"]
        audio: dict[str, Any] = {
            "model_type": "fish_qwen3_audio_decoder",
            **{field.name: getattr(tower, field.name) for field in fields(tower)},
            "text_dim": tower.dim,
            "shared_enrichment_layers": tower.n_layer,
            "max_seq_len": tower.num_codebooks + 1,
            "vq_feature_scope": "all_vq",
            "vq_feature_placement": "backbone_partial" if tower.vq_backbone_codebooks else "mtp_shared_pre",
            **{name: allowed[0] for name, allowed in _TOWER_FLAGS.items()},
        }
        values: dict[str, Any] = {
            "architectures": ["FishOmniModel"],
            "model_type": "fish_omni",
            "fish_schema_version": 1,
            "speech_template_version": "reference-bracket-v1",
            "semantic_start_token_id": self.semantic_start_token_id,
            "semantic_end_token_id": self.semantic_end_token_id,
            "eos_token_id": self.eos_token_id,
            "text_config": text,
            "audio_decoder_config": audio,
        }
        if self.aligned is not None:
            values["aligned_text_config"] = {f.name: getattr(self.aligned, f.name) for f in fields(self.aligned)}
        return values

    @property
    def num_codebooks(self) -> int:
        """C, codes in a frame."""
        return self.tower.num_codebooks

    @property
    def codebook_size(self) -> int:
        """V, values a code can take in the decoder (codec tables may hold fewer)."""
        return self.tower.vocab_size

    @property
    def semantic_end_token_id(self) -> int:
        """Last token of the semantic band, inclusive."""
        return self.semantic_start_token_id + self.codebook_size - 1

    @property
    def num_candidates(self) -> int:
        """V + 1: main tokens that may be emitted, the semantic band and the end of the turn."""
        return self.codebook_size + 1

    def is_semantic(self, token: int) -> bool:
        """Whether a main token stands for codebook 0 of an audio frame."""
        return self.semantic_start_token_id <= token <= self.semantic_end_token_id

    def parameter_counts(self) -> dict[str, int]:
        """Parameters on disk per part; the values add up to the whole checkpoint."""
        b, t = self.backbone, self.tower
        h, heads, kv = b.hidden_size, b.num_attention_heads * b.head_dim, b.num_key_value_heads * b.head_dim
        attention = h * (2 * heads + 2 * kv) + heads * h + 2 * b.head_dim
        linear = (
            h * (b.conv_dim + b.value_dim + 2 * b.linear_num_value_heads)
            + b.conv_dim * b.linear_conv_kernel_dim
            + 2 * b.linear_num_value_heads
            + b.linear_value_head_dim
            + b.value_dim * h
        )
        layers = b.num_hidden_layers
        counts = {
            "embedding": b.vocab_size * h,
            "head": b.vocab_size * h,
            "attention": b.num_full_layers * attention,
            "recurrent": b.num_linear_layers * linear,
            "norms": (2 * layers + 1) * h,
            "router": layers * b.num_experts * h,
            "experts": layers * b.num_experts * 3 * h * b.moe_intermediate_size,
            "shared_expert": layers * (3 * h * b.shared_expert_intermediate_size + h),
            "codebook_embeddings": t.num_codebooks * t.vocab_size * h,
            "tower_embeddings": t.num_layers * t.vocab_size * h,
            "tower_layers": t.num_layers * (2 * h * h + attention + 3 * h * t.intermediate_size + 5 * h),
            "tower_heads": t.num_residual_layers * t.vocab_size * h,
        }
        if (a := self.aligned) is not None:
            width = (a.window + 3) * a.embedding_dim
            tables = (a.num_symbols + a.num_voices + 2 * (a.max_elapsed + 1)) * a.embedding_dim
            counts["aligned_text"] = tables + (width + 1) * a.hidden_dim + (a.hidden_dim + 1) * h + (h + 1) * 4
        return counts

    def active_parameters(self) -> dict[str, int]:
        """Weights a frame multiplies with, per part: no table look-ups, chosen experts, emitted rows of the head."""
        counts, b = self.parameter_counts(), self.backbone
        for table in ("embedding", "codebook_embeddings", "tower_embeddings"):
            counts[table] = 0
        counts["experts"] = counts["experts"] * b.num_experts_per_tok // b.num_experts
        counts["head"] = self.num_candidates * b.hidden_size
        return counts

    @property
    def active_parameters_per_frame(self) -> int:
        """All of ``active_parameters``."""
        return sum(self.active_parameters().values())

    @property
    def kv_values_per_row(self) -> int:
        """Values one row adds to the KV memories of backbone and tower."""
        per_layer = 2 * self.backbone.num_key_value_heads * self.backbone.head_dim
        return (self.backbone.num_full_layers + self.tower.num_layers) * per_layer

    def kv_bytes_per_row(self, bytes_per_value: int = 2) -> int:
        """Bytes one row adds to the KV memories."""
        return self.kv_values_per_row * bytes_per_value

    def recurrent_state_bytes(self, conv_bytes_per_value: int = 2) -> int:
        """Bytes of one sequence's recurrent memory: float32 matrices and convolution windows."""
        b = self.backbone
        matrix = b.linear_num_value_heads * b.linear_value_head_dim * b.linear_key_head_dim * 4
        window = (b.linear_conv_kernel_dim - 1) * b.conv_dim * conv_bytes_per_value
        return b.num_linear_layers * (matrix + window)


def _read_backbone(values: Mapping[str, Any]) -> BackboneConfig:
    where = "text_config"
    _check_flags(values, where, _BACKBONE_FLAGS, _BACKBONE_OPTIONAL)
    rope = _mapping(values.get("rope_parameters"), f"{where}.rope_parameters")
    _check_flags(rope, f"{where}.rope_parameters", {}, {"rope_type": ("default",), "mrope_section": (None,)})
    layers = _integer(values, "num_hidden_layers", where)
    _require_at_most(_MOST_LAYERS, layers, f"{where}.num_hidden_layers")
    if any(kind != "moe" for kind in _strings(values, "mlp_layer_types", where)):
        raise ConfigError(f"{where}.mlp_layer_types must be 'moe' for every layer")
    given = {"rope_theta": rope.get("rope_theta"), "partial_rotary_factor": rope.get("partial_rotary_factor")}
    types = _strings(values, "layer_types", where) or default_layer_types(layers)
    _require_same_layers(types, values.get("full_attention_interval"))
    for name, value in given.items():
        if values.get(name) not in (None, value):
            raise ConfigError(f"{where}.{name} {values[name]!r} and rope_parameters.{name} {value!r} differ")
    return BackboneConfig(
        **_numbers(BackboneConfig, {**values, **given}, where, but=("layer_types",)), layer_types=tuple(types)
    )


def _read_tower(values: Mapping[str, Any]) -> TowerConfig:
    where = "audio_decoder_config"
    _check_flags(values, where, _TOWER_FLAGS, _TOWER_OPTIONAL)
    spec = _mapping(values.get("mtp_spec") or {}, f"{where}.mtp_spec")
    _check_flags(spec, f"{where}.mtp_spec", {}, {"attention_variant": ("full_attention", None)})
    if mixture := sorted(name for name in spec if name.startswith(("num_experts", "moe_"))):
        raise ConfigError(f"{where}.mtp_spec.{mixture[0]} asks for a mixture of experts; the tower has none here")
    tower = TowerConfig(**_numbers(TowerConfig, values, where))
    placement = "backbone_partial" if tower.vq_backbone_codebooks else "mtp_shared_pre"
    same = {
        "text_dim": (tower.dim,),
        "shared_enrichment_layers": (tower.n_layer,),
        "vq_feature_placement": (placement,),
    }
    _check_flags(values, where, same, {"max_seq_len": (tower.num_codebooks + 1,)})
    return tower


def _require_same_layers(types: Sequence[str], interval: Any) -> None:
    if interval is None:
        return
    if type(interval) is not int or interval < 1:
        raise ConfigError(f"text_config.full_attention_interval must be a positive integer, not {interval!r}")
    if any((kind == FULL_ATTENTION) != ((i + 1) % interval == 0) for i, kind in enumerate(types)):
        raise ConfigError(f"text_config.full_attention_interval {interval} and layer_types differ")


def unknown_keys(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys of a ``config.json`` that nobody here knows and that are not switched off: what they ask for is not done."""
    sections: tuple[tuple[str, Any, set[str]], ...] = (
        ("", values, {*_TOP_FLAGS, *_TOP_OPTIONAL}),
        (
            "text_config.",
            values.get("text_config"),
            {*_BACKBONE_FLAGS, *_BACKBONE_OPTIONAL, *(field.name for field in fields(BackboneConfig))},
        ),
        (
            "audio_decoder_config.",
            values.get("audio_decoder_config"),
            {*_TOWER_FLAGS, *_TOWER_OPTIONAL, *_TOWER_SAME, "mtp_spec", *(field.name for field in fields(TowerConfig))},
        ),
    )
    return tuple(
        f"{prefix}{name}"
        for prefix, section, known in sections
        if isinstance(section, Mapping)
        for name, value in section.items()
        if name not in known | _IDLE_KEYS and value not in (None, False, 0, "", [], {})
    )


def _read_aligned(values: Mapping[str, Any]) -> AlignedTextConfig:
    known = {field.name for field in fields(AlignedTextConfig)}
    if unknown := sorted(set(values) - known):
        raise ConfigError(f"aligned_text_config has unknown keys {unknown}; known are {sorted(known)}")
    return AlignedTextConfig(**_numbers(AlignedTextConfig, values, "aligned_text_config"))


def _numbers(kind: type[Any], values: Mapping[str, Any], where: str, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """The numeric fields of ``kind`` found in ``values``; a missing one is an error unless the class has a default."""
    numbers: dict[str, Any] = {}
    for field in fields(kind):
        if field.name in but:
            continue
        value = values.get(field.name)
        if value is None and field.name in kind.__dict__:
            continue
        if field.type is int:
            numbers[field.name] = _integer(values, field.name, where)
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            numbers[field.name] = float(value)
        else:
            raise ConfigError(f"{where}.{field.name} must be a number, not {value!r}")
    return numbers


def _integer(values: Mapping[str, Any], name: str, where: str) -> int:
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{where}.{name} must be an integer, not {value!r}")
    return value


def _strings(values: Mapping[str, Any], name: str, where: str) -> Sequence[str]:
    """A list of strings; empty if there is none."""
    value = values.get(name) or []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ConfigError(f"{where}.{name} must be a list of strings, not {value!r}")
    return value


def _mapping(values: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where} must be an object, not {values!r}")
    return values


def _check_flags(
    values: Mapping[str, Any],
    where: str,
    required: Mapping[str, tuple[Any, ...]],
    optional: Mapping[str, tuple[Any, ...]],
) -> None:
    for name, allowed in {**required, **optional}.items():
        if name not in values:
            if name in required:
                raise ConfigError(f"{where}.{name} is missing; this engine computes {allowed[0]!r}")
        elif values[name] not in allowed:
            raise ConfigError(f"{where}.{name} is {values[name]!r}; this engine computes {allowed[0]!r} only")


def _require_positive(config: Any, where: str, but: tuple[str, ...] = ()) -> None:
    for field in fields(config):
        value = getattr(config, field.name)
        if isinstance(value, int | float) and field.name not in but and value <= 0:
            raise ConfigError(f"{where}.{field.name} must be positive, not {value}")


def _require_at_most(most: int, value: int, name: str) -> None:
    if value > most:
        raise ConfigError(f"{name} is {value}; {most} is the most that is read")


def _require_multiple(name: str, value: int, of: str, unit: int) -> None:
    if value % unit:
        raise ConfigError(f"{name} {value} is not a multiple of {of} {unit}")


def _require_rotary(head_dim: int, share: float, where: str) -> None:
    rotary = int(head_dim * share)
    if share > 1 or rotary < 2 or rotary % 2:
        raise ConfigError(f"{where}: {share} of head_dim {head_dim} is no positive even number of rotary dimensions")
