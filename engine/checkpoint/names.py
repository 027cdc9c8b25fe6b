"""Every tensor of a checkpoint by the name it has in the original release, with its shape: from the config alone.

These names are what the project calls tensors, whatever a file calls them. Matrices are ``[out, in]``.
"""

from collections.abc import Iterator

from engine.config import FULL_ATTENTION, BackboneConfig, ModelConfig, TowerConfig

Shapes = Iterator[tuple[str, tuple[int, ...]]]

LANGUAGE = "model.language_model"
EMBEDDING = f"{LANGUAGE}.embed_tokens.weight"
HEAD = "lm_head.weight"
CODEBOOKS = "audio_decoder.codebook_embeddings.weight"
SHARED, RESIDUAL = "audio_decoder_mtp_shared", "audio_decoder_mtp"


def tensor_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor, layer by layer."""
    hidden, tower = config.backbone.hidden_size, config.tower
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (config.backbone.vocab_size, hidden)}
    for i in range(config.backbone.num_hidden_layers):
        shapes |= {f"{LANGUAGE}.layers.{i}.{name}": shape for name, shape in _backbone_layer(config.backbone, i)}
    shapes[f"{LANGUAGE}.norm.weight"] = (hidden,)
    shapes[HEAD] = (config.backbone.vocab_size, hidden)
    shapes[CODEBOOKS] = (tower.num_codebooks * tower.vocab_size, hidden)
    for prefix, table, layers in (
        (SHARED, "semantic_embedding", tower.n_layer),
        (RESIDUAL, "codebook_embedding", tower.num_residual_layers),
    ):
        for i in range(layers):
            shapes |= {f"{prefix}.layers.{i}.{name}": shape for name, shape in _tower_layer(tower, table)}
    for i in range(tower.num_residual_layers):
        shapes[f"{RESIDUAL}.heads.{i}.weight"] = (tower.vocab_size, hidden)
    return shapes | dict(_aligned_text(config))


def _backbone_layer(b: BackboneConfig, index: int) -> Shapes:
    hidden, heads, kv = b.hidden_size, b.num_attention_heads * b.head_dim, b.num_key_value_heads * b.head_dim
    yield "input_layernorm.weight", (hidden,)
    if b.layer_types[index] == FULL_ATTENTION:
        yield "self_attn.q_proj.weight", (2 * heads, hidden)
        yield "self_attn.k_proj.weight", (kv, hidden)
        yield "self_attn.v_proj.weight", (kv, hidden)
        yield "self_attn.o_proj.weight", (hidden, heads)
        yield "self_attn.q_norm.weight", (b.head_dim,)
        yield "self_attn.k_norm.weight", (b.head_dim,)
    else:
        yield "linear_attn.in_proj_qkv.weight", (b.conv_dim, hidden)
        yield "linear_attn.in_proj_z.weight", (b.value_dim, hidden)
        yield "linear_attn.in_proj_a.weight", (b.linear_num_value_heads, hidden)
        yield "linear_attn.in_proj_b.weight", (b.linear_num_value_heads, hidden)
        yield "linear_attn.conv1d.weight", (b.conv_dim, 1, b.linear_conv_kernel_dim)
        yield "linear_attn.A_log", (b.linear_num_value_heads,)
        yield "linear_attn.dt_bias", (b.linear_num_value_heads,)
        yield "linear_attn.norm.weight", (b.linear_value_head_dim,)
        yield "linear_attn.out_proj.weight", (hidden, b.value_dim)
    yield "post_attention_layernorm.weight", (hidden,)
    yield "mlp.gate.weight", (b.num_experts, hidden)
    experts = [("mlp.shared_expert", b.shared_expert_intermediate_size)]
    experts += [(f"mlp.experts.{x}", b.moe_intermediate_size) for x in range(b.num_experts)]
    for expert, width in experts:
        yield f"{expert}.gate_proj.weight", (width, hidden)
        yield f"{expert}.up_proj.weight", (width, hidden)
        yield f"{expert}.down_proj.weight", (hidden, width)
    yield "mlp.shared_expert_gate.weight", (1, hidden)


def _tower_layer(t: TowerConfig, table: str) -> Shapes:
    heads, kv = t.n_head * t.head_dim, t.n_local_heads * t.head_dim
    yield f"{table}.weight", (t.vocab_size, t.dim)
    for norm in ("enorm", "hnorm", "final_layernorm"):
        yield f"{norm}.weight", (t.dim,)
    yield "eh_proj.weight", (t.dim, 2 * t.dim)
    block = "transformer_layer"
    yield f"{block}.attention_norm.weight", (t.dim,)
    yield f"{block}.ffn_norm.weight", (t.dim,)
    yield f"{block}.attention.wqkv.weight", (2 * heads + 2 * kv, t.dim)
    yield f"{block}.attention.wo.weight", (t.dim, heads)
    yield f"{block}.attention.q_norm.weight", (t.head_dim,)
    yield f"{block}.attention.k_norm.weight", (t.head_dim,)
    yield f"{block}.feed_forward.w1.weight", (t.intermediate_size, t.dim)
    yield f"{block}.feed_forward.w3.weight", (t.intermediate_size, t.dim)
    yield f"{block}.feed_forward.w2.weight", (t.dim, t.intermediate_size)


def _aligned_text(config: ModelConfig) -> Shapes:
    """The understudy's addition, named as its module names its parameters."""
    if (a := config.aligned) is None:
        return
    hidden = config.backbone.hidden_size
    for table, rows in (
        ("symbol", a.num_symbols),
        ("elapsed_a", a.max_elapsed + 1),
        ("elapsed_b", a.max_elapsed + 1),
        ("voice", a.num_voices),
    ):
        yield f"aligned_text.{table}_embedding.weight", (rows, a.embedding_dim)
    for layer, ins, outs in (
        ("in_proj", (a.window + 3) * a.embedding_dim, a.hidden_dim),
        ("out_proj", a.hidden_dim, hidden),
        ("pointer", hidden, 4),
    ):
        yield f"aligned_text.{layer}.weight", (outs, ins)
        yield f"aligned_text.{layer}.bias", (outs,)


def part_of(name: str) -> str:
    """The part a tensor belongs to, a key of ``ModelConfig.parameter_counts``."""
    if name.startswith(LANGUAGE):
        for marker, part in (
            (".mlp.experts.", "experts"),
            (".mlp.shared_expert", "shared_expert"),
            (".mlp.gate.", "router"),
            (".self_attn.", "attention"),
            (".linear_attn.", "recurrent"),
            (".embed_tokens.", "embedding"),
        ):
            if marker in name:
                return part
        return "norms"
    if name.startswith("aligned_text."):
        return "aligned_text"
    if name == HEAD:
        return "head"
    if name == CODEBOOKS:
        return "codebook_embeddings"
    if name.startswith(f"{RESIDUAL}.heads."):
        return "tower_heads"
    return "tower_embeddings" if name.endswith("_embedding.weight") else "tower_layers"
