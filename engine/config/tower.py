"""``audio_decoder_config``: the codebook tower."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from engine.config.attention import attention_parameters
from engine.config.checks import (
    MOST_LAYERS,
    Flags,
    check_flags,
    mapping,
    numbers,
    require_at_most,
    require_multiple,
    require_positive,
    require_rotary,
)
from engine.errors import ConfigError

_FLAGS: Flags = {
    "decoder_type": ("codebook_mtp_shared",),
    "layernorm_zero_centered_gamma": (True,),
    "attention_output_gate": (True,),
}

_OPTIONAL: Flags = {
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
    "rope_scaling": (None,),
    "rope_parameters": (None,),
    "rope_theta": (None,),
    "num_experts": (0, None),
    "attention_variant": ("full_attention", None),
    "dropout": (0, None),
}

_SAME = ("text_dim", "shared_enrichment_layers", "vq_feature_placement", "max_seq_len")


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
        require_positive(self, "audio_decoder_config", but=("vq_backbone_codebooks",))
        require_at_most(MOST_LAYERS, self.n_layer, "audio_decoder_config.n_layer")
        require_at_most(MOST_LAYERS, self.num_codebooks, "audio_decoder_config.num_codebooks")
        require_multiple("n_head", self.n_head, "n_local_heads", self.n_local_heads)
        require_rotary(self.head_dim, self.rotary_percent, "audio_decoder_config")
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

    @property
    def feature_placement(self) -> str:
        """The file's name for where codebook features enter: the backbone too, or the tower alone."""
        return "backbone_partial" if self.vq_backbone_codebooks else "mtp_shared_pre"

    def to_dict(self) -> dict[str, Any]:
        """What `read_tower` reads."""
        return {
            "model_type": "fish_qwen3_audio_decoder",
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "text_dim": self.dim,
            "shared_enrichment_layers": self.n_layer,
            "max_seq_len": self.num_codebooks + 1,
            "vq_feature_scope": "all_vq",
            "vq_feature_placement": self.feature_placement,
            **{name: allowed[0] for name, allowed in _FLAGS.items()},
        }

    def parameter_counts(self) -> dict[str, int]:
        """Parameters on disk per part."""
        h, heads, kv = self.dim, self.n_head * self.head_dim, self.n_local_heads * self.head_dim
        layer = 2 * h * h + attention_parameters(h, heads, kv, self.head_dim) + 3 * h * self.intermediate_size + 5 * h
        return {
            "codebook_embeddings": self.num_codebooks * self.vocab_size * h,
            "tower_embeddings": self.num_layers * self.vocab_size * h,
            "tower_layers": self.num_layers * layer,
            "tower_heads": self.num_residual_layers * self.vocab_size * h,
        }


KNOWN_KEYS = frozenset({*_FLAGS, *_OPTIONAL, *_SAME, "mtp_spec", *(field.name for field in fields(TowerConfig))})


def read_tower(values: Mapping[str, Any]) -> TowerConfig:
    """Read ``audio_decoder_config``; raises ``ConfigError``."""
    where = "audio_decoder_config"
    check_flags(values, where, _FLAGS, _OPTIONAL)
    spec = mapping(values.get("mtp_spec") or {}, f"{where}.mtp_spec")
    check_flags(spec, f"{where}.mtp_spec", {}, {"attention_variant": ("full_attention", None)})
    if mixture := sorted(name for name in spec if name.startswith(("num_experts", "moe_"))):
        raise ConfigError(f"{where}.mtp_spec.{mixture[0]} asks for a mixture of experts; the tower has none here")
    tower = TowerConfig(**numbers(TowerConfig, values, where))
    same = {
        "text_dim": (tower.dim,),
        "shared_enrichment_layers": (tower.n_layer,),
        "vq_feature_placement": (tower.feature_placement,),
    }
    check_flags(values, where, same, {"max_seq_len": (tower.num_codebooks + 1,)})
    return tower
