"""Keys of a ``config.json`` that ask for what is not done here."""

from collections.abc import Mapping
from typing import Any

from engine.config import backbone, model, tower

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


def unknown_keys(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys of a ``config.json`` that nobody here knows and that are not switched off: what they ask for is not done."""
    sections = (
        ("", values, model.KNOWN_KEYS),
        ("text_config.", values.get("text_config"), backbone.KNOWN_KEYS),
        ("audio_decoder_config.", values.get("audio_decoder_config"), tower.KNOWN_KEYS),
    )
    return tuple(
        f"{prefix}{name}"
        for prefix, section, known in sections
        if isinstance(section, Mapping)
        for name, value in section.items()
        if name not in known | _IDLE_KEYS and value not in (None, False, 0, "", [], {})
    )
