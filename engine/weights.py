"""Between the tensors of a checkpoint and the parameters of a ``Decoder``.

In memory some tensors are joined (queries, keys and values of a layer; the experts) or cut (only rows of the head that
may be emitted are kept); ``checkpoint_layout`` says how.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.checkpoint import names
from engine.checkpoint.packed import Packed
from engine.checkpoint.reader import SINGLE_FILE, CheckpointReader, open_checkpoint
from engine.config import CONFIG_FILE, FULL_ATTENTION, LARGE_PARAMETERS, ModelConfig
from engine.model.attention import Attention
from engine.model.codebooks import TowerLayer
from engine.model.decoder import BackboneLayer, Decoder
from engine.model.moe import Experts
from engine.model.recurrent import GatedDeltaNet
from engine.quant.filling import Filler
from engine.quant.integer import IntegerMatrix
from engine.quant.modules import install
from engine.quant.rounding import to_nearest
from engine.quant.scheme import Scheme
from engine.quant.stored import IntegerForm


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a checkpoint: its shape there, and the way to and from the model's parameters."""

    shape: tuple[int, ...]
    put: Callable[[Tensor], None]
    """Copies a tensor of ``shape`` into the model."""
    take: Callable[[], Tensor]
    """The tensor of ``shape`` that the model holds."""


def _stored(
    *parts: Tensor, shape: tuple[int, ...] | None = None, axis: int = 0, is_centred: bool = False
) -> StoredTensor:
    """A stored tensor that is one view of a parameter, or several stacked along a new ``axis``.

    ``is_centred``: the file holds the parameter minus one.
    """
    stacked = [*parts[0].shape]
    if len(parts) > 1:
        stacked.insert(axis, len(parts))
    centre = 1.0 if is_centred else 0.0

    def put(tensor: Tensor) -> None:
        pieces = [tensor.view(stacked)] if len(parts) == 1 else tensor.view(stacked).unbind(axis)
        for part, piece in zip(parts, pieces, strict=True):
            part.copy_(piece if not is_centred else piece.float() + centre)

    def take() -> Tensor:
        joined = parts[0] if len(parts) == 1 else torch.stack(parts, axis)
        return (joined.float() - centre if is_centred else joined).reshape(shape or tuple(stacked))

    return StoredTensor(shape or tuple(stacked), put, take)


def _head(config: ModelConfig, weight: Tensor) -> StoredTensor:
    """The main head: all of the vocabulary in the file, the candidates in memory. Saving writes zeros elsewhere."""
    start, stop = config.semantic_start_token_id, config.semantic_end_token_id + 1
    shape = (config.backbone.vocab_size, config.backbone.hidden_size)

    def put(tensor: Tensor) -> None:
        weight[:-1].copy_(tensor[start:stop])
        weight[-1].copy_(tensor[config.eos_token_id])

    def take() -> Tensor:
        full = weight.new_zeros(shape)
        full[start:stop], full[config.eos_token_id] = weight[:-1], weight[-1]
        return full

    return StoredTensor(shape, put, take)


def checkpoint_layout(model: Decoder) -> dict[str, StoredTensor]:
    """Every tensor of the checkpoint of ``model``, by its name there."""
    config, layout = model.config, {}
    language = "model.language_model"
    layout[f"{language}.embed_tokens.weight"] = _stored(model.embed_tokens.weight.detach())
    for i, layer in enumerate(model.layers):
        assert isinstance(layer, BackboneLayer)
        layout.update((f"{language}.layers.{i}.{name}", entry) for name, entry in _backbone_layer(layer, config, i))
    layout[f"{language}.norm.weight"] = _stored(model.norm.gain.detach(), is_centred=True)
    layout["lm_head.weight"] = _head(config, model.main_head.weight.detach())
    layout["audio_decoder.codebook_embeddings.weight"] = _stored(model.codebook_embeddings.weight.detach())
    for prefix, table, layers in (
        ("audio_decoder_mtp_shared", "semantic_embedding", model.tower.shared),
        ("audio_decoder_mtp", "codebook_embedding", model.tower.residual),
    ):
        for i, layer in enumerate(layers):
            assert isinstance(layer, TowerLayer)
            layout.update((f"{prefix}.layers.{i}.{name}", entry) for name, entry in _tower_layer(layer, table))
    for i, head in enumerate(model.tower.heads):
        layout[f"audio_decoder_mtp.heads.{i}.weight"] = _stored(head.get_parameter("weight").detach())
    if model.aligned_text is not None:
        for name, parameter in model.aligned_text.named_parameters(prefix="aligned_text"):
            layout[name] = _stored(parameter.detach())
    return layout


def _attention_rows(attention: Attention) -> list[Tensor]:
    """Queries, keys, values and gates of a joined projection."""
    dim, heads, kv_heads = attention.head_dim, attention.heads, attention.kv_heads
    return list(
        attention.in_proj.weight.detach().split_with_sizes([heads * dim, kv_heads * dim, kv_heads * dim, heads * dim])
    )


def _backbone_layer(layer: BackboneLayer, config: ModelConfig, index: int) -> Iterator[tuple[str, StoredTensor]]:
    b = config.backbone
    yield "input_layernorm.weight", _stored(layer.mixer_norm.gain.detach(), is_centred=True)
    yield "post_attention_layernorm.weight", _stored(layer.moe_norm.gain.detach(), is_centred=True)
    if b.layer_types[index] == FULL_ATTENTION:
        assert isinstance(layer.mixer, Attention)
        mixer, by_head = layer.mixer, (b.num_attention_heads, b.head_dim, -1)
        queries, keys, values, gates = _attention_rows(mixer)
        # The file alternates, head by head, a query and its gate.
        shape = (2 * queries.shape[0], queries.shape[1])
        yield "self_attn.q_proj.weight", _stored(queries.view(by_head), gates.view(by_head), shape=shape, axis=1)
        yield "self_attn.k_proj.weight", _stored(keys)
        yield "self_attn.v_proj.weight", _stored(values)
        yield "self_attn.o_proj.weight", _stored(mixer.out_proj.weight.detach())
        yield "self_attn.q_norm.weight", _stored(mixer.qk_gain.detach()[0], is_centred=True)
        yield "self_attn.k_norm.weight", _stored(mixer.qk_gain.detach()[1], is_centred=True)
    else:
        assert isinstance(layer.mixer, GatedDeltaNet)
        linear = layer.mixer
        qkv, z = linear.in_proj.weight.detach().split_with_sizes([b.conv_dim, b.value_dim])
        b_rows, a_rows = linear.ba_proj.weight.detach().chunk(2)
        yield "linear_attn.in_proj_qkv.weight", _stored(qkv)
        yield "linear_attn.in_proj_z.weight", _stored(z)
        yield "linear_attn.in_proj_a.weight", _stored(a_rows)
        yield "linear_attn.in_proj_b.weight", _stored(b_rows)
        kernel = (b.conv_dim, 1, b.linear_conv_kernel_dim)
        yield "linear_attn.conv1d.weight", _stored(linear.conv.detach().t(), shape=kernel)
        yield "linear_attn.A_log", _stored(linear.a_log.detach())
        yield "linear_attn.dt_bias", _stored(linear.dt_bias.detach())
        yield "linear_attn.norm.weight", _stored(linear.out_gain.detach())
        yield "linear_attn.out_proj.weight", _stored(linear.out_proj.weight.detach())
    moe = layer.moe
    yield "mlp.gate.weight", _stored(moe.router.detach()[:-1])
    yield "mlp.shared_expert_gate.weight", _stored(moe.router.detach()[-1:])
    gate, up = moe.shared.gate_up.weight.detach().chunk(2)
    yield "mlp.shared_expert.gate_proj.weight", _stored(gate)
    yield "mlp.shared_expert.up_proj.weight", _stored(up)
    yield "mlp.shared_expert.down_proj.weight", _stored(moe.shared.down.weight.detach())
    assert isinstance(moe.experts, Experts), "only plain weights have a checkpoint"
    for x, (gate_up, down) in enumerate(zip(moe.experts.gate_up.detach(), moe.experts.down.detach(), strict=True)):
        gate, up = gate_up.chunk(2)
        yield f"mlp.experts.{x}.gate_proj.weight", _stored(gate)
        yield f"mlp.experts.{x}.up_proj.weight", _stored(up)
        yield f"mlp.experts.{x}.down_proj.weight", _stored(down)


def _tower_layer(layer: TowerLayer, table: str) -> Iterator[tuple[str, StoredTensor]]:
    attention, block = layer.attention, "transformer_layer"
    queries, keys, values, gates = _attention_rows(attention)
    yield f"{table}.weight", _stored(layer.embedding.weight.detach())
    yield "enorm.weight", _stored(layer.embedding_norm.gain.detach(), is_centred=True)
    yield "hnorm.weight", _stored(layer.hidden_norm.gain.detach(), is_centred=True)
    yield "final_layernorm.weight", _stored(layer.final_norm.gain.detach(), is_centred=True)
    yield "eh_proj.weight", _stored(layer.joint_proj.weight.detach())
    yield f"{block}.attention_norm.weight", _stored(layer.attention_norm.gain.detach(), is_centred=True)
    yield f"{block}.ffn_norm.weight", _stored(layer.feed_forward_norm.gain.detach(), is_centred=True)
    yield f"{block}.attention.wqkv.weight", _rows(queries, gates, keys, values)
    yield f"{block}.attention.wo.weight", _stored(attention.out_proj.weight.detach())
    yield f"{block}.attention.q_norm.weight", _stored(attention.qk_gain.detach()[0], is_centred=True)
    yield f"{block}.attention.k_norm.weight", _stored(attention.qk_gain.detach()[1], is_centred=True)
    gate, up = layer.feed_forward.gate_up.weight.detach().chunk(2)
    yield f"{block}.feed_forward.w1.weight", _stored(gate)
    yield f"{block}.feed_forward.w3.weight", _stored(up)
    yield f"{block}.feed_forward.w2.weight", _stored(layer.feed_forward.down.weight.detach())


def _rows(*parts: Tensor) -> StoredTensor:
    """A stored matrix made of ``parts``, one below the other."""
    sizes = [part.shape[0] for part in parts]

    def put(tensor: Tensor) -> None:
        for part, piece in zip(parts, tensor.split_with_sizes(sizes), strict=True):
            part.copy_(piece)

    return StoredTensor((sum(sizes), parts[0].shape[1]), put, lambda: torch.cat(parts))


def load_decoder(
    folder: Path, dtype: torch.dtype | None = torch.float32, scheme: Scheme | None = None
) -> tuple[Decoder, ModelConfig]:
    """The decoder of a checkpoint folder, ready to compute in ``dtype`` (None: ``compute_dtype`` chooses).

    Vectors, convolutions and routers stay float32; for ``scheme`` see ``read_decoder``. Raises ``ConfigError`` for a
    configuration, and ``WeightsError`` naming the first file or tensor that does not fit it.
    """
    with open_checkpoint(folder) as reader:
        return read_decoder(reader, dtype or compute_dtype(reader.config), scheme), reader.config


def compute_dtype(config: ModelConfig) -> torch.dtype:
    """bfloat16 where float32 would double a large memory, float32 for small models."""
    return torch.bfloat16 if sum(config.parameter_counts().values()) > LARGE_PARAMETERS else torch.float32


def parameter_dtype(name: str, parameter: Tensor, dtype: torch.dtype) -> torch.dtype:
    """What a decoder's parameter is kept in when it computes in ``dtype``."""
    is_exact = parameter.dim() < 2 or name.endswith(("router", "conv", "qk_gain"))
    return torch.float32 if is_exact else dtype


def read_decoder(reader: CheckpointReader, dtype: torch.dtype, scheme: Scheme | None = None) -> Decoder:
    """A decoder with the reader's tensors, put in one by one: beside it only one of them is in memory.

    Tables that the files hold in ``dtype`` stay mapped from there: only their rows that are looked up are ever read,
    and processes share them. What ``footlights quantize`` wrote stays quantised; ``engine.quant.modules.prepare`` makes
    it fast. ``scheme``: other checkpoints are quantised as they are read, to the nearest.
    """
    model = Decoder(reader.config)
    for name, parameter in model.named_parameters():
        parameter.data = torch.empty_like(parameter, dtype=parameter_dtype(name, parameter, dtype))
    layout = checkpoint_layout(model)
    tables = _tables(model)
    if reader.quantisation is not None and isinstance(reader.quantisation.rest, IntegerForm):
        scheme = reader.quantisation.rest.scheme
    filler = None
    if scheme is not None:
        install(model, scheme)
        filler = Filler(model, lambda twin: {name: entry.put for name, entry in checkpoint_layout(twin).items()})
    with torch.no_grad():
        for name in reader.names():
            table = tables.get(name)
            tensor = reader.read(name)
            if scheme is not None and filler is not None and (part := scheme.of_tensor(name)).is_packed:
                if not isinstance(tensor, IntegerMatrix):
                    tensor = to_nearest(name, tensor.dequantise() if isinstance(tensor, Packed) else tensor, part)
                filler.put(name, tensor)
            elif isinstance(tensor, Packed):
                layout[name].put(tensor.dequantise(dtype))
            elif table is not None and tensor.dtype == dtype:
                table.data = tensor
            else:
                layout[name].put(tensor)
    return model.eval().requires_grad_(False)


def _tables(model: Decoder) -> dict[str, nn.Parameter]:
    """Parameters that are looked up row by row, by the name of the tensor that is the same."""
    found = {names.EMBEDDING: model.embed_tokens.weight, names.CODEBOOKS: model.codebook_embeddings.weight}
    for prefix, table, layers in (
        (names.SHARED, "semantic_embedding", model.tower.shared),
        (names.RESIDUAL, "codebook_embedding", model.tower.residual),
    ):
        for i, layer in enumerate(layers):
            assert isinstance(layer, TowerLayer)
            found[f"{prefix}.layers.{i}.{table}.weight"] = layer.embedding.weight
    return found


def save_decoder(folder: Path, model: Decoder, config: ModelConfig, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write ``config.json`` and ``model.safetensors`` so that ``load_decoder`` reads them back.

    Tensors are rounded to ``dtype``. Rows of the head outside the candidates are zeros.
    """
    assert config == model.config, "the configuration is not the model's"
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: entry.take().to("cpu", dtype).contiguous() for name, entry in checkpoint_layout(model).items()}
    # By way of another name: a reader may have the old file mapped, and half a file must not be found.
    partial = folder / f"{SINGLE_FILE}.partial"
    save_file(tensors, partial, metadata={"format": "pt"})
    partial.replace(folder / SINGLE_FILE)
    values = {**config.to_dict(), "dtype": str(dtype).removeprefix("torch.")}
    (folder / CONFIG_FILE).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
