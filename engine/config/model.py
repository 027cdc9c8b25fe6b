"""A whole ``config.json``, and the arithmetic that follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.config.aligned import AlignedTextConfig, read_aligned
from engine.config.backbone import BackboneConfig, read_backbone
from engine.config.checks import Flags, check_flags, integer, mapping
from engine.config.json_file import read_json
from engine.config.tower import TowerConfig, read_tower
from engine.errors import ConfigError

CONFIG_FILE = "config.json"
LARGE_PARAMETERS = 1_000_000_000
"""Above this, a model computes in bfloat16 unless asked otherwise."""


_FLAGS: Flags = {
    "architectures": (["FishOmniModel"],),
    "model_type": ("fish_omni",),
    "fish_schema_version": (1,),
    "speech_template_version": ("reference-bracket-v1",),
}
_OPTIONAL: Flags = {
    "audio_encoder_config": (None,),
    "extra_samplable_token_ids": ([], None),
    "tie_word_embeddings": (False, None),
    # The parts have their own.
    "rope_scaling": (None,),
    "rope_parameters": (None,),
    "rope_theta": (None,),
    "partial_rotary_factor": (None,),
}


KNOWN_KEYS = frozenset({*_FLAGS, *_OPTIONAL})


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
        values = mapping(values, "config.json")
        check_flags(values, "config.json", _FLAGS, _OPTIONAL)
        aligned = values.get("aligned_text_config")
        config = cls(
            backbone=read_backbone(mapping(values.get("text_config"), "text_config")),
            tower=read_tower(mapping(values.get("audio_decoder_config"), "audio_decoder_config")),
            semantic_start_token_id=integer(values, "semantic_start_token_id", "config.json"),
            eos_token_id=integer(values, "eos_token_id", "config.json"),
            aligned=None if aligned is None else read_aligned(mapping(aligned, "aligned_text_config")),
        )
        end = integer(values, "semantic_end_token_id", "config.json")
        if end != config.semantic_end_token_id:
            raise ConfigError(
                f"the semantic band {config.semantic_start_token_id}..{end} does not hold "
                f"audio_decoder_config.vocab_size = {config.codebook_size} tokens"
            )
        return config

    def to_dict(self) -> dict[str, Any]:
        """What ``from_dict`` reads: the ``config.json`` of this model."""
        values: dict[str, Any] = {
            "architectures": ["FishOmniModel"],
            "model_type": "fish_omni",
            "fish_schema_version": 1,
            "speech_template_version": "reference-bracket-v1",
            "semantic_start_token_id": self.semantic_start_token_id,
            "semantic_end_token_id": self.semantic_end_token_id,
            "eos_token_id": self.eos_token_id,
            "text_config": self.backbone.to_dict(),
            "audio_decoder_config": self.tower.to_dict(),
        }
        if self.aligned is not None:
            values["aligned_text_config"] = self.aligned.to_dict()
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
        counts = {**self.backbone.parameter_counts(), **self.tower.parameter_counts()}
        if self.aligned is not None:
            counts["aligned_text"] = self.aligned.parameter_count(self.backbone.hidden_size)
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
        return self.backbone.recurrent_state_bytes(conv_bytes_per_value)
