"""``text_config``: the mixture-of-experts backbone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from engine.config.attention import attention_parameters
from engine.config.checks import (
    MOST_LAYERS,
    Flags,
    check_flags,
    integer,
    mapping,
    numbers,
    require_at_most,
    require_multiple,
    require_positive,
    require_rotary,
    strings,
)
from engine.errors import ConfigError

LINEAR_ATTENTION = "linear_attention"
FULL_ATTENTION = "full_attention"
_MOST_EXPERTS = 100_000
"""In all layers."""


_FLAGS: Flags = {
    "attn_output_gate": (True,),
    "layernorm_zero_centered_gamma": (True,),
    "shared_expert_gate": (True,),
    "use_qk_norm": (True,),
}
"""Flags whose absence means something this model is not, with the values we compute."""

_OPTIONAL: Flags = {
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
        require_positive(self, "text_config")
        require_at_most(MOST_LAYERS, self.num_hidden_layers, "text_config.num_hidden_layers")
        require_at_most(_MOST_EXPERTS // self.num_hidden_layers, self.num_experts, "text_config.num_experts")
        if not self.layer_types:
            object.__setattr__(self, "layer_types", default_layer_types(self.num_hidden_layers))
        if len(self.layer_types) != self.num_hidden_layers:
            raise ConfigError(
                f"text_config.layer_types names {len(self.layer_types)} of {self.num_hidden_layers} layers"
            )
        if unknown := set(self.layer_types) - {LINEAR_ATTENTION, FULL_ATTENTION}:
            raise ConfigError(f"text_config.layer_types has unknown kinds {sorted(unknown)}")
        require_multiple(
            "num_attention_heads", self.num_attention_heads, "num_key_value_heads", self.num_key_value_heads
        )
        require_multiple(
            "linear_num_value_heads", self.linear_num_value_heads, "linear_num_key_heads", self.linear_num_key_heads
        )
        require_rotary(self.head_dim, self.partial_rotary_factor, "text_config")
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

    def to_dict(self) -> dict[str, Any]:
        """What `read_backbone` reads."""
        values: dict[str, Any] = {
            "model_type": "fish_omni_text",
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "layer_types": list(self.layer_types),
            "mlp_layer_types": ["moe"] * self.num_hidden_layers,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": self.rope_theta,
                "partial_rotary_factor": self.partial_rotary_factor,
            },
            "hidden_act": "silu",
            "tie_word_embeddings": False,
            "rotary_interleaved": False,
            **{name: allowed[0] for name, allowed in _FLAGS.items()},
        }
        del values["rope_theta"], values["partial_rotary_factor"]
        return values

    def parameter_counts(self) -> dict[str, int]:
        """Parameters on disk per part."""
        h, layers = self.hidden_size, self.num_hidden_layers
        heads, kv = self.num_attention_heads * self.head_dim, self.num_key_value_heads * self.head_dim
        linear = (
            h * (self.conv_dim + self.value_dim + 2 * self.linear_num_value_heads)
            + self.conv_dim * self.linear_conv_kernel_dim
            + 2 * self.linear_num_value_heads
            + self.linear_value_head_dim
            + self.value_dim * h
        )
        return {
            "embedding": self.vocab_size * h,
            "head": self.vocab_size * h,
            "attention": self.num_full_layers * attention_parameters(h, heads, kv, self.head_dim),
            "recurrent": self.num_linear_layers * linear,
            "norms": (2 * layers + 1) * h,
            "router": layers * self.num_experts * h,
            "experts": layers * self.num_experts * 3 * h * self.moe_intermediate_size,
            "shared_expert": layers * (3 * h * self.shared_expert_intermediate_size + h),
        }

    def recurrent_state_bytes(self, conv_bytes_per_value: int) -> int:
        """Bytes of one sequence's recurrent memory: float32 matrices and convolution windows."""
        matrix = self.linear_num_value_heads * self.linear_value_head_dim * self.linear_key_head_dim * 4
        window = (self.linear_conv_kernel_dim - 1) * self.conv_dim * conv_bytes_per_value
        return self.num_linear_layers * (matrix + window)


KNOWN_KEYS = frozenset({*_FLAGS, *_OPTIONAL, *(field.name for field in fields(BackboneConfig))})


def read_backbone(values: Mapping[str, Any]) -> BackboneConfig:
    """Read ``text_config``; raises ``ConfigError``."""
    where = "text_config"
    check_flags(values, where, _FLAGS, _OPTIONAL)
    rope = mapping(values.get("rope_parameters"), f"{where}.rope_parameters")
    check_flags(rope, f"{where}.rope_parameters", {}, {"rope_type": ("default",), "mrope_section": (None,)})
    layers = integer(values, "num_hidden_layers", where)
    require_at_most(MOST_LAYERS, layers, f"{where}.num_hidden_layers")
    if any(kind != "moe" for kind in strings(values, "mlp_layer_types", where)):
        raise ConfigError(f"{where}.mlp_layer_types must be 'moe' for every layer")
    given = {"rope_theta": rope.get("rope_theta"), "partial_rotary_factor": rope.get("partial_rotary_factor")}
    types = strings(values, "layer_types", where) or default_layer_types(layers)
    _require_same_layers(types, values.get("full_attention_interval"))
    for name, value in given.items():
        if values.get(name) not in (None, value):
            raise ConfigError(f"{where}.{name} {values[name]!r} and rope_parameters.{name} {value!r} differ")
    return BackboneConfig(
        **numbers(BackboneConfig, {**values, **given}, where, but=("layer_types",)), layer_types=tuple(types)
    )


def _require_same_layers(types: Sequence[str], interval: Any) -> None:
    if interval is None:
        return
    if type(interval) is not int or interval < 1:
        raise ConfigError(f"text_config.full_attention_interval must be a positive integer, not {interval!r}")
    if any((kind == FULL_ATTENTION) != ((i + 1) % interval == 0) for i, kind in enumerate(types)):
        raise ConfigError(f"text_config.full_attention_interval {interval} and layer_types differ")
