"""The backbone as llama.cpp's converter writes it: renamed, stacked, shifted, reordered; all undone when read."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.checkpoint.gguf import ARCHITECTURE, GgufBlocks
from engine.checkpoint.reader import open_checkpoint
from engine.checkpoint.synthetic import small_config, write_synthetic
from engine.errors import UnsupportedFormatError, WeightsError
from engine.weights import load_decoder

gguf = pytest.importorskip("gguf", reason="an extra of the project", exc_type=ModuleNotFoundError)

LAYERS = "model.language_model.layers"
RENAMED = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_a": "ssm_alpha",
    "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.norm": "ssm_norm",
    "linear_attn.out_proj": "ssm_out",
    "mlp.gate": "ffn_gate_inp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
}
CONFIG = small_config()


def dealt(tensor: Tensor, width: int) -> Tensor:
    """Value heads, kept together per key head, dealt out: the first of every key head, then the second, .."""
    keys = CONFIG.backbone.linear_num_key_heads
    per_key = CONFIG.backbone.linear_num_value_heads // keys
    heads = torch.split(tensor, width)
    return torch.cat([heads[key * per_key + value] for value in range(per_key) for key in range(keys)])


def convert(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """What the converter makes of the backbone, from its description."""
    b, made = CONFIG.backbone, dict[str, Tensor]()
    width, qk = b.linear_value_head_dim, 2 * b.key_dim
    for i in range(b.num_hidden_layers):
        for projection in ("gate", "up", "down"):
            experts = [tensors[f"{LAYERS}.{i}.mlp.experts.{x}.{projection}_proj.weight"] for x in range(b.num_experts)]
            made[f"blk.{i}.ffn_{projection}_exps.weight"] = torch.stack(experts)
    for name, stored in tensors.items():
        tensor = stored.float()
        if name.startswith("audio_decoder") or ".mlp.experts." in name:
            continue
        if name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
            tensor = tensor + 1
        match name.partition("linear_attn.")[2]:
            case "in_proj_qkv.weight":
                tensor = torch.cat((tensor[:qk], dealt(tensor[qk:], width)))
            case "conv1d.weight":
                tensor = torch.cat((tensor[:qk], dealt(tensor[qk:], width))).squeeze()
            case "in_proj_z.weight":
                tensor = dealt(tensor, width)
            case "in_proj_a.weight" | "in_proj_b.weight" | "dt_bias":
                tensor = dealt(tensor, 1)
            case "A_log":
                tensor = -dealt(tensor, 1).exp()
            case "out_proj.weight":
                tensor = dealt(tensor.t(), width).t().contiguous()
        made[renamed(name)] = tensor
    return made


def renamed(name: str) -> str:
    fixed = {
        "model.language_model.embed_tokens.weight": "token_embd.weight",
        "model.language_model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in fixed:
        return fixed[name]
    layer, _, rest = name.removeprefix(f"{LAYERS}.").partition(".")
    special = {"linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias"}
    return f"blk.{layer}.{special.get(rest) or RENAMED[rest.removesuffix('.weight')] + '.weight'}"


def write(path: Path, tensors: dict[str, Tensor], kinds: dict[str, str], architecture: str = ARCHITECTURE) -> None:
    """``kinds``: block types by the end of a name; the rest is float32."""
    writer = gguf.GGUFWriter(path, architecture)
    for name, tensor in tensors.items():
        kind = next((kind for end, kind in kinds.items() if name.endswith(end)), "F32")
        block = gguf.GGMLQuantizationType[kind]
        values = np.ascontiguousarray(tensor.float().numpy())
        writer.add_tensor(name, gguf.quants.quantize(values, block), raw_dtype=block)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gguf") / "original"
    write_synthetic(folder, CONFIG, "bf16", seed=3, shard_bytes=900_000)
    return folder


@pytest.fixture(scope="module")
def converted(original: Path) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for path in original.glob("*.safetensors"):
        tensors |= load_file(path)
    return convert(tensors)


@pytest.fixture
def beside(original: Path, tmp_path: Path) -> Path:
    """A folder with the configuration, the tokenizer and all of the original's shards but the first."""
    for path in original.iterdir():
        if "00001" not in path.name and "index" not in path.name:
            shutil.copy(path, tmp_path)
    return tmp_path


def test_nothing_is_lost_in_float32(original: Path, beside: Path, converted: dict[str, Tensor]) -> None:
    write(beside / "backbone.gguf", converted, {})
    with open_checkpoint(original) as exact, open_checkpoint(beside) as read:
        for name in exact.names():
            expected, found = exact.dense(name, torch.float32), read.dense(name, torch.float32)
            # 1 + w and exp of a logarithm round in the last bits.
            torch.testing.assert_close(found, expected, atol=3e-7, rtol=3e-7, msg=name)


@pytest.mark.parametrize(("kind", "worst"), [("Q8_0", 0.01), ("Q4_0", 0.12), ("Q5_1", 0.06)])
def test_block_types(original: Path, beside: Path, converted: dict[str, Tensor], kind: str, worst: float) -> None:
    matrices = ("_exps.weight", "attn_q.weight", "attn_qkv.weight", "ssm_out.weight", "attn_gate.weight")
    write(beside / "backbone.gguf", converted, dict.fromkeys(matrices, kind))
    packed = set()
    with open_checkpoint(original) as exact, open_checkpoint(beside) as read:
        assert (exact.form, read.form) == ("plain", "GGUF")
        for name in exact.names():
            expected, found = exact.dense(name, torch.float32), read.dense(name, torch.float32)
            if isinstance(read.read(name), GgufBlocks):
                packed.add(name.split(".", 4)[-1])
                assert float((found - expected).norm() / expected.norm()) < worst, name
            else:
                torch.testing.assert_close(found, expected, atol=3e-7, rtol=3e-7, msg=name)
    assert {"linear_attn.out_proj.weight", "linear_attn.in_proj_qkv.weight", "mlp.experts.7.down_proj.weight"} <= packed
    decoder, _ = load_decoder(beside)
    assert all(bool(parameter.isfinite().all()) for parameter in decoder.parameters())


def test_half_and_brain_floats(original: Path, beside: Path, converted: dict[str, Tensor]) -> None:
    write(beside / "backbone.gguf", converted, {"_exps.weight": "BF16", "attn_q.weight": "F16"})
    name = f"{LAYERS}.1.mlp.experts.3.down_proj.weight"
    with open_checkpoint(original) as exact, open_checkpoint(beside) as read:
        assert torch.equal(read.dense(name, torch.float32), exact.dense(name, torch.float32))


class TestRefused:
    def test_without_the_tower(self, beside: Path, converted: dict[str, Tensor]) -> None:
        write(beside / "backbone.gguf", converted, {})
        (beside / "mmproj-drama.gguf").write_bytes(b"not looked into")
        for path in beside.glob("model*.safetensors"):
            path.unlink()
        with pytest.raises(UnsupportedFormatError, match=r"no codebook tower: .*model-\*\.safetensors.*audio_decoder"):
            open_checkpoint(beside)

    def test_another_architecture(self, beside: Path, converted: dict[str, Tensor]) -> None:
        write(beside / "backbone.gguf", converted, {}, architecture="llama")
        with pytest.raises(UnsupportedFormatError, match="architecture 'llama'.*qwen35moe files are read"):
            open_checkpoint(beside)

    def test_a_name_nobody_knows(self, beside: Path, converted: dict[str, Tensor]) -> None:
        write(beside / "backbone.gguf", converted | {"blk.0.nextn.eh_proj.weight": torch.zeros(4, 4)}, {})
        with pytest.raises(WeightsError, match="unexpected tensor blk.0.nextn.eh_proj.weight"):
            open_checkpoint(beside)

    def test_a_tensor_that_is_nowhere(self, beside: Path, converted: dict[str, Tensor]) -> None:
        name = "blk.3.attn_q.weight"
        write(beside / "backbone.gguf", {key: value for key, value in converted.items() if key != name}, {})
        for path in beside.glob("model*.safetensors"):
            save_file({k: t for k, t in load_file(path).items() if not k.endswith("self_attn.q_proj.weight")}, path)
        with pytest.raises(WeightsError, match=f"tensor {LAYERS}.3.self_attn.q_proj.weight is missing"):
            open_checkpoint(beside)

    def test_another_shape(self, beside: Path, converted: dict[str, Tensor]) -> None:
        changed = {"blk.3.attn_q.weight": torch.zeros(64, 128), "blk.0.ffn_up_exps.weight": torch.zeros(3, 128, 128)}
        write(beside / "backbone.gguf", converted | {"blk.3.attn_q.weight": changed["blk.3.attn_q.weight"]}, {})
        with pytest.raises(WeightsError, match=r"self_attn.q_proj.weight has shape \[64, 128\], not \[256, 128\]"):
            open_checkpoint(beside)
        write(beside / "backbone.gguf", converted | changed, {})
        with pytest.raises(WeightsError, match=r"ffn_up_exps.weight of shape \[3, 128, 128\] is no stack of experts"):
            open_checkpoint(beside)

    @pytest.mark.parametrize("keep", [0, 3, 100, 5000])
    def test_a_cut_file(self, beside: Path, converted: dict[str, Tensor], keep: int) -> None:
        path = beside / "backbone.gguf"
        write(path, converted, {})
        path.write_bytes(path.read_bytes()[:keep])
        with pytest.raises(WeightsError, match="backbone.gguf cannot be read"):
            open_checkpoint(beside)

    def test_a_scale_that_is_no_number(self, beside: Path, converted: dict[str, Tensor]) -> None:
        path = beside / "backbone.gguf"
        write(path, converted, {"_exps.weight": "Q8_0"})
        entry: Any = next(t for t in gguf.GGUFReader(path).tensors if t.name == "blk.0.ffn_up_exps.weight")
        content = bytearray(path.read_bytes())
        content[int(entry.data_offset) : int(entry.data_offset) + 2] = np.float16("nan").tobytes()
        path.write_bytes(content)
        with pytest.raises(
            WeightsError, match=f"{LAYERS}.0.mlp.experts.0.up_proj.weight has scales that are not finite"
        ):
            load_decoder(beside)

    def test_without_the_package(self, beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (beside / "backbone.gguf").write_bytes(b"GGUF")
        monkeypatch.setitem(__import__("sys").modules, "gguf", None)
        with pytest.raises(UnsupportedFormatError, match=r"pip install -e '\.\[gguf\]'"):
            open_checkpoint(beside)
