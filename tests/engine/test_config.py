"""Strict reading of ``config.json``, and the arithmetic on it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.config import AlignedTextConfig, BackboneConfig, ModelConfig, TowerConfig, unknown_keys
from engine.errors import ConfigError
from engine.model.decoder import Decoder

Values = dict[str, Any]


def released() -> ModelConfig:
    """The dimensions of the released 36-billion-parameter model."""
    backbone = BackboneConfig(
        hidden_size=2048,
        num_hidden_layers=40,
        num_attention_heads=16,
        num_key_value_heads=2,
        head_dim=256,
        linear_num_key_heads=16,
        linear_key_head_dim=128,
        linear_num_value_heads=32,
        linear_value_head_dim=128,
        num_experts=256,
        num_experts_per_tok=8,
        moe_intermediate_size=512,
        shared_expert_intermediate_size=512,
        vocab_size=252288,
    )
    tower = TowerConfig(
        dim=2048,
        n_head=16,
        n_local_heads=2,
        head_dim=256,
        n_layer=4,
        intermediate_size=6144,
        num_codebooks=10,
        vocab_size=4096,
        vq_backbone_codebooks=5,
    )
    return ModelConfig(backbone, tower, semantic_start_token_id=248100, eos_token_id=248046)


ALIGNED = {
    "num_symbols": 60,
    "embedding_dim": 16,
    "num_voices": 3,
    "max_elapsed": 40,
    "hidden_dim": 32,
    "look_behind": 2,
    "look_ahead": 6,
}


def values(**changes: Any) -> Values:
    read: Values = json.loads(json.dumps(released().to_dict()))
    return {**read, **changes}


def changed(part: str | None, key: str, value: Any) -> Values:
    read = values()
    (read[part] if part else read)[key] = value
    return read


def without(part: str | None, key: str) -> Values:
    read = values()
    del (read[part] if part else read)[key]
    return read


def test_what_is_written_is_read_back() -> None:
    assert ModelConfig.from_dict(values()) == released()
    aligned = ModelConfig.from_dict(values(aligned_text_config=ALIGNED))
    assert aligned.aligned == AlignedTextConfig(**ALIGNED)
    assert ModelConfig.from_dict(aligned.to_dict()) == aligned


def test_keys_that_change_nothing_are_let_through() -> None:
    read = values(dtype="bfloat16", pad_token_id=3, audio_pad_token_id=9, transformers_version="6")
    read["text_config"]["initializer_range"] = 0.02
    read["audio_decoder_config"]["attention_qk_norm"] = False
    read["audio_decoder_config"]["rotary_interleaved"] = False
    assert ModelConfig.from_dict(read) == released()


def test_layer_kinds_default_to_three_to_one() -> None:
    read = without("text_config", "layer_types")
    backbone = ModelConfig.from_dict(read).backbone
    assert backbone.layer_types[:8] == (*["linear_attention"] * 3, "full_attention") * 2
    assert (backbone.num_full_layers, backbone.num_linear_layers) == (10, 30)


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (values(architectures=["Other"]), "architectures"),
        (values(model_type="other"), "model_type"),
        (values(fish_schema_version=2), "fish_schema_version"),
        (values(speech_template_version="v2"), "speech_template_version"),
        (values(audio_encoder_config={}), "audio_encoder_config"),
        (values(extra_samplable_token_ids=[5]), "extra_samplable"),
        (values(semantic_end_token_id=252000), "band"),
        (values(semantic_start_token_id="7"), "semantic_start_token_id"),
        (values(eos_token_id=True), "eos_token_id"),
        (values(eos_token_id=248200), "inside the semantic band"),
        (values(eos_token_id=300000), "outside the vocabulary"),
        (values(text_config=None), "text_config"),
        (without(None, "audio_decoder_config"), "audio_decoder_config"),
        (without(None, "eos_token_id"), "eos_token_id"),
        (without("text_config", "layernorm_zero_centered_gamma"), "layernorm_zero_centered_gamma"),
        (without("text_config", "hidden_size"), "hidden_size"),
        (without("text_config", "rope_parameters"), "rope_parameters"),
        (changed("text_config", "attn_output_gate", False), "attn_output_gate"),
        (changed("text_config", "use_qk_norm", False), "use_qk_norm"),
        (changed("text_config", "shared_expert_gate", False), "shared_expert_gate"),
        (changed("text_config", "tie_word_embeddings", True), "tie_word_embeddings"),
        (changed("text_config", "rotary_interleaved", True), "rotary_interleaved"),
        (changed("text_config", "hidden_act", "gelu"), "hidden_act"),
        (changed("text_config", "attention_bias", True), "attention_bias"),
        (changed("text_config", "num_hidden_layers", 39), "layer_types"),
        (changed("text_config", "layer_types", ["sliding"] * 40), "sliding"),
        (changed("text_config", "mlp_layer_types", ["dense"] * 40), "mlp_layer_types"),
        (changed("text_config", "rms_norm_eps", "1e-6"), "rms_norm_eps"),
        (changed("text_config", "hidden_size", 2048.0), "hidden_size"),
        (changed("text_config", "num_key_value_heads", 3), "num_attention_heads"),
        (changed("text_config", "linear_num_key_heads", 5), "linear_num_value_heads"),
        (changed("text_config", "num_experts", 4), "num_experts_per_tok"),
        (changed("text_config", "vocab_size", 252000), "vocabulary"),
        (changed("text_config", "hidden_size", 1024), "hidden_size"),
        (changed("text_config", "head_dim", 128), "geometry"),
        (changed("text_config", "moe_intermediate_size", 0), "positive"),
        (changed("text_config", "full_attention_interval", 2), "full_attention_interval 2 and layer_types"),
        (changed("text_config", "full_attention_interval", "4"), "full_attention_interval must be"),
        (changed("text_config", "rope_theta", 1e6), "rope_theta"),
        (changed("text_config", "rope_scaling", {"rope_type": "yarn"}), "rope_scaling"),
        (changed("text_config", "final_logit_softcapping", 30.0), "softcapping"),
        (changed("text_config", "scoring_func", "sigmoid"), "scoring_func"),
        (changed("text_config", "routed_scaling_factor", 2.5), "routed_scaling_factor"),
        (changed("text_config", "mlp_only_layers", [0]), "mlp_only_layers"),
        (changed("audio_decoder_config", "window_attn_skip_freq", 2), "window_attn_skip_freq"),
        (changed("audio_decoder_config", "rope_scaling", {"rope_type": "yarn"}), "audio_decoder_config.rope_scaling"),
        (changed("audio_decoder_config", "rope_theta", 1e4), "audio_decoder_config.rope_theta"),
        (changed(None, "rope_theta", 1e4), "rope_theta"),
        (changed(None, "rope_parameters", {"rope_type": "yarn"}), "rope_parameters"),
        (changed("audio_decoder_config", "mtp_spec", {"attention_variant": "sliding"}), "attention_variant"),
        (changed("audio_decoder_config", "mtp_spec", {"moe_top_k": 2}), "mtp_spec.moe_top_k"),
        (changed("audio_decoder_config", "decoder_type", "fast"), "decoder_type"),
        (changed("audio_decoder_config", "use_moe", True), "use_moe"),
        (changed("audio_decoder_config", "mtp_use_swa", True), "mtp_use_swa"),
        (changed("audio_decoder_config", "attention_o_bias", True), "attention_o_bias"),
        (changed("audio_decoder_config", "attention_output_gate", False), "attention_output_gate"),
        (changed("audio_decoder_config", "vq_feature_placement", "mtp_shared_pre"), "vq_feature_placement"),
        (changed("audio_decoder_config", "vq_feature_scope", "semantic"), "vq_feature_scope"),
        (changed("audio_decoder_config", "vq_backbone_codebooks", 10), "vq_backbone_codebooks"),
        (changed("audio_decoder_config", "shared_enrichment_layers", 3), "shared_enrichment_layers"),
        (changed("audio_decoder_config", "max_seq_len", 12), "max_seq_len"),
        (changed("audio_decoder_config", "text_dim", 1024), "text_dim"),
        (changed("audio_decoder_config", "vocab_size", 1024), "band"),
        (changed("audio_decoder_config", "num_codebooks", 1), "num_codebooks"),
        (changed("audio_decoder_config", "rotary_percent", 0.001), "rotary"),
        (changed("audio_decoder_config", "dropout", 0.1), "dropout"),
        (changed("text_config", "layer_types", 7), "layer_types must be"),
        (changed("text_config", "layer_types", [["full_attention"]]), "layer_types must be"),
        (changed("text_config", "mlp_layer_types", True), "mlp_layer_types must be"),
        (changed("text_config", "rms_norm_eps", float("nan")), "rms_norm_eps must be a number"),
        (changed("audio_decoder_config", "norm_eps", float("inf")), "norm_eps must be a number"),
        (changed("audio_decoder_config", "rope_base", float("nan")), "rope_base must be a number"),
        (changed("audio_decoder_config", "rotary_percent", float("nan")), "rotary_percent must be a number"),
        (changed("text_config", "num_hidden_layers", 10**12), "num_hidden_layers is 1000000000000"),
        (changed("text_config", "num_experts", 10**9), "num_experts is 1000000000"),
        (changed("audio_decoder_config", "n_layer", 10**9), "n_layer is 1000000000"),
        (changed("audio_decoder_config", "num_codebooks", 10**9), "num_codebooks is 1000000000"),
        (values(aligned_text_config={**ALIGNED, "window": 4}), "window"),
        (values(aligned_text_config={k: v for k, v in ALIGNED.items() if k != "num_voices"}), "num_voices"),
        (values(aligned_text_config={**ALIGNED, "look_ahead": 0}), "look_ahead"),
        (values(aligned_text_config=7), "aligned_text_config"),
    ],
)
def test_what_would_compute_something_else_is_refused(read: Values, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ModelConfig.from_dict(read)


@pytest.mark.parametrize("scale", [("rope_type", "yarn"), ("mrope_section", [1, 2, 3])])
def test_other_rotary_embeddings_are_refused(scale: tuple[str, Any]) -> None:
    read = values()
    read["text_config"]["rope_parameters"][scale[0]] = scale[1]
    with pytest.raises(ConfigError, match=scale[0]):
        ModelConfig.from_dict(read)


def test_the_tower_sees_every_code_when_the_backbone_sees_none() -> None:
    read = changed("audio_decoder_config", "vq_backbone_codebooks", 0)
    with pytest.raises(ConfigError, match="placement"):
        ModelConfig.from_dict(read)
    read["audio_decoder_config"]["vq_feature_placement"] = "mtp_shared_pre"
    assert ModelConfig.from_dict(read).tower.vq_backbone_codebooks == 0


@pytest.mark.parametrize("content", ["{", "[]", "7", '{"architectures": "\\ud800"}', "[" * 100_000, "9" * 5000])
def test_files_that_are_no_configuration(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(ConfigError):
        ModelConfig.from_file(path)
    with pytest.raises(ConfigError, match=r"no\.json"):
        ModelConfig.from_file(tmp_path / "no.json")


def test_sizes_of_the_released_model() -> None:
    """Against the figures of its published description."""
    config = released()
    counts = config.parameter_counts()
    assert counts["experts"] / 1e9 == pytest.approx(32.21, abs=0.01)
    assert counts["embedding"] == counts["head"] == 252288 * 2048
    tower = counts["codebook_embeddings"] + counts["tower_embeddings"] + counts["tower_layers"] + counts["tower_heads"]
    assert tower / 1e9 == pytest.approx(1.22, abs=0.01)
    assert sum(counts.values()) / 1e9 == pytest.approx(35.9, abs=0.05)
    assert config.active_parameters_per_frame / 1e9 == pytest.approx(3.5, abs=0.05)
    assert config.kv_values_per_row == 23552
    assert config.kv_bytes_per_row() * 16384 / 1e6 == pytest.approx(772, abs=1)
    assert config.recurrent_state_bytes(0) / 1e6 == pytest.approx(62.9, abs=0.1)
    assert config.recurrent_state_bytes() - config.recurrent_state_bytes(0) == 30 * 3 * 8192 * 2


def small(aligned: Callable[[], AlignedTextConfig | None]) -> ModelConfig:
    backbone = BackboneConfig(16, 4, 2, 1, 8, 1, 4, 2, 6, 3, 2, 10, 12, 40)
    tower = TowerConfig(16, 2, 1, 8, 2, 20, 3, 8, 1)
    return ModelConfig(backbone, tower, 20, 3, aligned())


@pytest.mark.parametrize("aligned", [lambda: None, lambda: AlignedTextConfig(**ALIGNED)])
def test_counted_parameters_and_bytes_are_those_of_the_model(
    aligned: Callable[[], AlignedTextConfig | None],
) -> None:
    config = small(aligned)
    model = Decoder(config)
    # In memory the head has only the rows that may be emitted.
    unused = (config.backbone.vocab_size - config.num_candidates) * config.backbone.hidden_size
    assert sum(config.parameter_counts().values()) == sum(p.numel() for p in model.parameters()) + unused
    state = model.allocate(1)
    assert state.recurrent.nbytes == config.recurrent_state_bytes(conv_bytes_per_value=4)
    assert state.kv.nbytes + state.tower.nbytes == state.kv.capacity * config.kv_bytes_per_row(4)


def test_tokens_of_the_band() -> None:
    config = small(lambda: None)
    assert [config.is_semantic(token) for token in (19, 20, 27, 28)] == [False, True, True, False]
    assert config.num_candidates == 9


def test_keys_that_agree_with_what_is_computed_are_let_through() -> None:
    read = changed("text_config", "full_attention_interval", 4)
    read["text_config"]["rope_theta"] = 1e7
    read["audio_decoder_config"]["mtp_spec"] = {"attention_variant": "full_attention"}
    assert ModelConfig.from_dict(read) == released()
    assert unknown_keys(read) == ()


def test_unknown_keys_are_told_unless_they_are_switched_off() -> None:
    read = changed("text_config", "hyper_connections", 4)
    read["text_config"] |= {"use_sink": False, "extra_layers": [], "note": None}
    read["audio_decoder_config"]["residual_scale"] = 0.5
    read["streaming"] = True
    assert unknown_keys(read) == ("streaming", "text_config.hyper_connections", "audio_decoder_config.residual_scale")


def test_active_parameters_by_part() -> None:
    active, counts = released().active_parameters(), released().parameter_counts()
    assert active["experts"] * 32 == counts["experts"]
    assert active["embedding"] == active["tower_embeddings"] == active["codebook_embeddings"] == 0
    assert active["head"] == 4097 * 2048
    assert all(active[part] == counts[part] for part in ("attention", "recurrent", "tower_layers", "tower_heads"))
