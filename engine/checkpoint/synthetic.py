"""Checkpoints of random weights in the layouts that are read, of the released model's dimensions or of small ones.

The real weights are large, and not everybody may have them; what loading and decoding cost depends on dimensions
alone. Nothing here is trained, so nothing it says is speech. Run as ``python -m engine.checkpoint.synthetic``.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from engine.checkpoint.fp8 import quantise_block_fp8
from engine.checkpoint.gptq import quantise_gptq
from engine.checkpoint.names import tensor_shapes
from engine.checkpoint.nvfp4 import quantise_nvfp4
from engine.checkpoint.writer import Piece, ShardWriter, open_shard, plan_shards, write_index
from engine.config import CONFIG_FILE, BackboneConfig, ModelConfig, TowerConfig
from engine.errors import ConfigError, FootlightsError

FORMS = ("bf16", "fp8", "int4", "nvfp4")
"""Of the routed experts: plain, as released, as ``drama3-int4`` (with the dense projections), or NVFP4."""

DENSE_TARGETS = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "linear_attn.in_proj_qkv",
    "linear_attn.in_proj_z",
    "linear_attn.out_proj",
)
GROUP = 128
_SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|voice|>", "<|text|>", "<|interleave|>", "<|audio_pad|>")
_FIRST_SPECIAL = 256
_SPEAKERS = 16
_SEMANTIC = _FIRST_SPECIAL + len(_SPECIALS) + _SPEAKERS
_BANK = 1 << 23


def released_config(layers: int = 40) -> ModelConfig:
    """The dimensions of the released model, with ``layers`` backbone layers; token ids are those of ``tokenizer``."""
    backbone = BackboneConfig(
        hidden_size=2048,
        num_hidden_layers=layers,
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
        vq_backbone_codebooks=1,
    )
    return ModelConfig(backbone, tower, semantic_start_token_id=_SEMANTIC, eos_token_id=_special("<|im_end|>"))


def small_config(layers: int = 4) -> ModelConfig:
    """The same structure, small enough for tests; widths are multiples of what the quantised layouts need."""
    released = released_config(layers)
    backbone = replace(
        released.backbone,
        hidden_size=128,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=32,
        linear_num_key_heads=2,
        linear_key_head_dim=16,
        linear_num_value_heads=8,
        linear_value_head_dim=16,
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=128,
        shared_expert_intermediate_size=128,
        vocab_size=_SEMANTIC + 64,
    )
    tower = TowerConfig(
        dim=128,
        n_head=4,
        n_local_heads=1,
        head_dim=32,
        n_layer=2,
        intermediate_size=192,
        num_codebooks=4,
        vocab_size=64,
        vq_backbone_codebooks=1,
    )
    return replace(released, backbone=backbone, tower=tower)


def write_synthetic(
    folder: Path, config: ModelConfig, form: str = "fp8", seed: int = 0, shard_bytes: int = 2_500_000_000
) -> None:
    """Write a checkpoint into ``folder``, which must be empty or absent. Holds one tensor in memory at a time.

    Borders of shards fall anywhere. Raises ``ConfigError`` for a folder that
    is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty")
    folder.mkdir(parents=True, exist_ok=True)
    shapes = tensor_shapes(config)
    source = _Source(seed)
    pieces = [piece for name, shape in shapes.items() for piece in _pieces(name, shape, form)]
    shards = plan_shards(pieces, shard_bytes)
    file_of = {piece.name: file for file, shard in shards.items() for piece in shard}
    with ExitStack() as stack:
        current: tuple[str, ShardWriter] | None = None
        for name, shape in shapes.items():
            for part, tensor in _encode(name, source.tensor(name, shape), form):
                file = file_of[part]
                if current is None or current[0] != file:
                    stack.close()
                    current = (file, stack.enter_context(open_shard(folder / file, shards[file])))
                current[1].write(part, tensor)
    values = {**config.to_dict(), "dtype": "bfloat16"}
    if (quantisation := _quantization_config(form)) is not None:
        values["quantization_config"] = quantisation
    (folder / CONFIG_FILE).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    tokenizer(config).save(str(folder / "tokenizer.json"))
    write_index(folder, shards)


def tokenizer(config: ModelConfig) -> Tokenizer:
    """Bytes as tokens, then the special tokens with the ids of ``config``."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={symbol: i for i, symbol in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    speakers = [f"<|speaker:{i}|>" for i in range(_SPEAKERS)]
    semantic = [f"<|semantic:{i}|>" for i in range(config.codebook_size)]
    made.add_special_tokens([AddedToken(t, normalized=False) for t in (*_SPECIALS, *speakers, *semantic)])
    return made


def _special(token: str) -> int:
    return _FIRST_SPECIAL + _SPECIALS.index(token)


class _Source:
    """Random tensors, cut from one bank of normal values: as fast as copying."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._bank = torch.randn(_BANK, generator=self._generator)

    def tensor(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Values of about the size that training would give them, in the dtype of the release."""
        count = torch.Size(shape).numel()
        start = int(torch.randint(_BANK, (), generator=self._generator))
        whole, rest = divmod(start + count, _BANK)
        runs = [self._bank] * whole + [self._bank[:rest]]
        runs[0] = runs[0][start:]
        if name.endswith(".A_log"):
            return torch.cat(runs).view(shape).abs().mul(4).add(1).log()
        if name.endswith(".linear_attn.norm.weight"):
            return torch.cat(runs).view(shape).mul(0.1).add(1)
        if name.endswith(".dt_bias"):
            return torch.cat(runs).view(shape).sub(4).bfloat16()
        size = 0.1 if len(shape) == 1 else shape[-1] ** -0.5
        # Piece by piece: the embedding would take four times its size.
        return torch.cat([run.mul(size).bfloat16() for run in runs]).view(shape)


def _is_packed(name: str, form: str) -> bool:
    if ".mlp.experts." in name:
        return form != "bf16"
    return form == "int4" and name.removesuffix(".weight").endswith(DENSE_TARGETS)


def _encode(name: str, tensor: Tensor, form: str) -> Iterator[tuple[str, Tensor]]:
    """A tensor as what the files hold of it, by name."""
    base = name.removesuffix(".weight")
    if not _is_packed(name, form):
        yield name, tensor
    elif form == "fp8":
        fp8 = quantise_block_fp8(tensor)
        yield name, fp8.weight
        yield f"{name}_scale_inv", fp8.scale_inv
    elif form == "int4":
        int4 = quantise_gptq(tensor, GROUP)
        yield f"{base}.qweight", int4.words
        yield f"{base}.scales", int4.scales
    else:
        nvfp4 = quantise_nvfp4(tensor)
        yield name, nvfp4.codes
        yield f"{name}_scale", nvfp4.scales
        yield f"{name}_scale_2", nvfp4.scale


def _pieces(name: str, shape: tuple[int, ...], form: str) -> list[Piece]:
    """What ``_encode`` will give."""
    is_packed = _is_packed(name, form)
    dtype = torch.float32 if name.endswith((".A_log", ".linear_attn.norm.weight")) else torch.bfloat16
    if not is_packed:
        return [Piece(name, dtype, shape)]
    key = (shape, form)
    if key not in _LAYOUTS:
        _LAYOUTS[key] = [Piece.of(part, tensor) for part, tensor in _encode(name, torch.ones(shape), form)]
    base, known = name.removesuffix(".weight"), _LAYOUTS[key][0].name.rpartition(".")[0]
    return [replace(piece, name=base + piece.name.removeprefix(known)) for piece in _LAYOUTS[key]]


_LAYOUTS: dict[tuple[tuple[int, ...], str], list[Piece]] = {}


def _quantization_config(form: str) -> dict[str, Any] | None:
    gptq = {"bits": 4, "group_size": GROUP, "sym": True, "desc_act": False}
    match form:
        case "fp8":
            return {"quant_method": "bsgemm-moe", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
        case "int4":
            dense = {"quant_method": "gptq_marlin", **gptq, "targets": list(DENSE_TARGETS)}
            return {"quant_method": "drama3-int4", "experts": {"quant_method": "gptq", **gptq}, "dense": dense}
        case "nvfp4":
            return {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    return None


def main(argv: list[str] | None = None) -> int:
    """Write a checkpoint; 1 if it cannot be."""
    parser = argparse.ArgumentParser(prog="python -m engine.checkpoint.synthetic", description=__doc__)
    parser.add_argument("out", type=Path, metavar="FOLDER", help="where to; must be empty or absent")
    parser.add_argument("--layers", type=int, default=4, help="backbone layers (released: 40; default 4)")
    parser.add_argument("--experts", type=int, help="routed experts of a layer, 8 at least (released: 256)")
    parser.add_argument("--small", action="store_true", help="small widths instead of the released ones")
    parser.add_argument("--form", choices=FORMS, default="fp8", help="how experts are stored (default fp8)")
    parser.add_argument("--shard-gb", type=float, default=2.5, help="largest file, in GB (default 2.5)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    config = small_config(arguments.layers) if arguments.small else released_config(arguments.layers)
    try:
        if arguments.experts is not None:
            config = replace(config, backbone=replace(config.backbone, num_experts=arguments.experts))
        write_synthetic(arguments.out, config, arguments.form, arguments.seed, int(arguments.shard_gb * 1e9))
    except (FootlightsError, OSError) as error:
        print(f"footlights: {error}", file=sys.stderr)
        return 1
    print(f"{arguments.out}: {sum(path.stat().st_size for path in arguments.out.iterdir()) / 1e6:,.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
