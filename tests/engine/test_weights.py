"""Checkpoints: the layout, what is refused and how it is named, and writing what can be read."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.config import AlignedTextConfig, ModelConfig
from engine.errors import ConfigError, WeightsError
from engine.model.decoder import Decoder, initialise
from engine.weights import checkpoint_layout, load_decoder, save_decoder

GOLDEN = Path(__file__).parents[1] / "golden" / "drama3-tiny" / "checkpoint-bf16"
NORM = "model.language_model.norm.weight"
A_LOG = "model.language_model.layers.0.linear_attn.A_log"

Tensors = dict[str, Tensor]


def stored() -> Tensors:
    return {name: tensor for path in sorted(GOLDEN.glob("*.safetensors")) for name, tensor in load_file(path).items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The golden checkpoint as one file."""
    shutil.copy(GOLDEN / "config.json", tmp_path)
    save_file(stored(), tmp_path / "model.safetensors")
    return tmp_path


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    copy = tmp_path / "sharded"
    shutil.copytree(GOLDEN, copy)
    return copy


def parameters(model: Decoder) -> Tensors:
    return {name: p.detach() for name, p in model.named_parameters()}


def rewrite(folder: Path, change: Callable[[Tensors], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_one_file_and_shards_hold_the_same_model(folder: Path) -> None:
    single, sharded = load_decoder(folder)[0], load_decoder(GOLDEN)[0]
    for name, parameter in parameters(sharded).items():
        assert torch.equal(parameters(single)[name], parameter), name
        assert not parameter.requires_grad


def test_layout_names_every_tensor_of_the_checkpoint() -> None:
    model, _ = load_decoder(GOLDEN)
    layout, tensors = checkpoint_layout(model), stored()
    assert set(layout) == set(tensors)
    assert {name: entry.shape for name, entry in layout.items()} == {n: tuple(t.shape) for n, t in tensors.items()}


def test_what_was_loaded_is_written_back_to_the_bit(tmp_path: Path) -> None:
    model, config = load_decoder(GOLDEN)
    save_decoder(tmp_path / "copy", model, config)
    original, written = stored(), load_file(tmp_path / "copy" / "model.safetensors")
    assert set(written) == set(original)
    head = "lm_head.weight"
    for name, tensor in original.items():
        assert written[name].dtype == torch.bfloat16
        if name == head:
            band = slice(config.semantic_start_token_id, config.semantic_end_token_id + 1)
            assert torch.equal(written[name][band], tensor[band])
            assert torch.equal(written[name][config.eos_token_id], tensor[config.eos_token_id])
            assert int(written[name].any(1).sum()) == config.num_candidates
        else:
            # Gains are kept as 1 + w, which costs the last bits of a w next to zero.
            torch.testing.assert_close(written[name].float(), tensor.float(), atol=6e-8, rtol=0, msg=name)
    assert load_decoder(tmp_path / "copy")[1] == config


def test_saving_what_was_saved_changes_nothing(tmp_path: Path) -> None:
    golden = load_decoder(GOLDEN)[1]
    aligned = AlignedTextConfig(num_symbols=9, embedding_dim=4, num_voices=2, max_elapsed=3, hidden_dim=8)
    config = replace(golden, aligned=aligned)
    model = Decoder(config)
    initialise(model)
    for folder, dtype in (("a", torch.float32), ("b", torch.bfloat16)):
        save_decoder(tmp_path / folder, model, config, dtype)
        loaded, read = load_decoder(tmp_path / folder)
        assert read == config
        for name, parameter in parameters(loaded).items():
            expected = parameters(model)[name]
            if dtype == torch.float32:
                assert torch.equal(parameter, expected), name
            else:
                torch.testing.assert_close(parameter, expected, atol=1e-2, rtol=1e-2)
    written = load_file(tmp_path / "b" / "model.safetensors")
    assert {n.split(".")[1] for n in written if n.startswith("aligned_text.")} == {
        "symbol_embedding",
        "elapsed_a_embedding",
        "elapsed_b_embedding",
        "voice_embedding",
        "in_proj",
        "out_proj",
        "pointer",
    }


def test_matrices_take_the_dtype_asked_for_and_the_rest_stays_wide() -> None:
    model, _ = load_decoder(GOLDEN, torch.bfloat16)
    for name, parameter in parameters(model).items():
        is_wide = parameter.dim() == 1 or name.endswith(("router", "conv", "qk_gain"))
        assert parameter.dtype == (torch.float32 if is_wide else torch.bfloat16), name
    rows = torch.zeros(1, 4, 5, dtype=torch.int64)
    rows[..., 0] = 430
    with torch.inference_mode():
        state = model.allocate(1)
        hidden = model.prefill(rows, state)
        exact = load_decoder(GOLDEN)[0]
        expected = exact.prefill(rows, exact.allocate(1))
    assert hidden.dtype == state.kv.keys.dtype == torch.bfloat16
    assert float((hidden - expected).abs().median()) < 0.05 * float(expected.std())


def test_float32_and_float16_files_are_read(folder: Path) -> None:
    def widen(tensors: Tensors) -> None:
        for name in tensors:
            tensors[name] = tensors[name].to(torch.float16 if name == A_LOG else torch.float32)

    expected = parameters(load_decoder(folder)[0])
    rewrite(folder, widen)
    for name, parameter in parameters(load_decoder(folder)[0]).items():
        torch.testing.assert_close(parameter, expected[name], atol=1e-3, rtol=1e-3)


def remove(tensors: Tensors) -> None:
    del tensors[NORM]


def add(tensors: Tensors) -> None:
    tensors["model.visual.patch_embed.weight"] = torch.zeros(2)


def reshape(tensors: Tensors) -> None:
    tensors[NORM] = tensors[NORM].view(2, -1)


def transpose(tensors: Tensors) -> None:
    name = "audio_decoder_mtp.layers.1.transformer_layer.feed_forward.w2.weight"
    tensors[name] = tensors[name].t().contiguous()


def quantise(tensors: Tensors) -> None:
    tensors[NORM] = tensors[NORM].to(torch.float8_e4m3fn)


def integers(tensors: Tensors) -> None:
    tensors[NORM] = tensors[NORM].to(torch.int32)


def poison(tensors: Tensors) -> None:
    tensors[A_LOG][1] = torch.nan


def overflow(tensors: Tensors) -> None:
    tensors[A_LOG][1] = -torch.inf


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (remove, f"{NORM} is missing"),
        (add, "unexpected tensor model.visual.patch_embed.weight"),
        (reshape, rf"{NORM} has shape \[2, 128\], not \[256\]"),
        (transpose, r"feed_forward\.w2\.weight has shape \[192, 256\], not \[256, 192\]"),
        (quantise, f"{NORM} is float8_e4m3fn, not bfloat16"),
        (integers, f"{NORM} is int32, not bfloat16"),
        (poison, f"{A_LOG} has values that are not finite"),
        (overflow, f"{A_LOG} has values that are not finite"),
    ],
)
def test_a_wrong_tensor_is_named(folder: Path, change: Callable[[Tensors], None], says: str) -> None:
    rewrite(folder, change)
    with pytest.raises(WeightsError, match=says):
        load_decoder(folder)


def test_aligned_text_is_all_or_nothing(folder: Path) -> None:
    read = json.loads((folder / "config.json").read_text())
    read["aligned_text_config"] = {
        "num_symbols": 9, "embedding_dim": 4, "num_voices": 2, "max_elapsed": 3, "hidden_dim": 8
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(read))
    with pytest.raises(WeightsError, match=r"aligned_text\.symbol_embedding\.weight is missing"):
        load_decoder(folder)


def test_folders_without_a_checkpoint(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.json"):
        load_decoder(tmp_path / "nowhere")
    (folder / "model.safetensors").unlink()
    with pytest.raises(WeightsError, match="model.safetensors is missing"):
        load_decoder(folder)


@pytest.mark.parametrize("keep", [0, 4, 1000, 2_000_000])
def test_truncated_files(folder: Path, keep: int) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(WeightsError, match="model.safetensors cannot be read"):
        load_decoder(folder)


SECOND = "model-00002-of-00003.safetensors"


def test_a_missing_shard(sharded: Path) -> None:
    (sharded / SECOND).unlink()
    with pytest.raises(WeightsError, match=f"{SECOND} is missing"):
        load_decoder(sharded)


def edit_index(folder: Path, change: Callable[[dict[str, str]], object]) -> None:
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    change(index["weight_map"])
    path.write_text(json.dumps(index))


def test_an_index_that_is_not_the_checkpoints(sharded: Path) -> None:
    shutil.copy(sharded / "model.safetensors.index.json", sharded / "kept.json")
    for change, says in (
        (lambda weight_map: weight_map.pop(NORM), f"unexpected tensor {NORM} .*not in the index"),
        (lambda weight_map: weight_map.update({"other": SECOND}), "tensor other is missing"),
        (lambda weight_map: weight_map.update({A_LOG: SECOND}), "unexpected tensor|is missing"),
        (lambda weight_map: weight_map.update({NORM: "../" + SECOND}), "outside its folder"),
    ):
        shutil.copy(sharded / "kept.json", sharded / "model.safetensors.index.json")
        edit_index(sharded, change)
        with pytest.raises(WeightsError, match=says):
            load_decoder(sharded)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"weight_map": 3}'])
def test_an_index_that_is_none(sharded: Path, content: str) -> None:
    (sharded / "model.safetensors.index.json").write_text(content)
    with pytest.raises(WeightsError, match="no index"):
        load_decoder(sharded)


def test_a_configuration_of_another_model_is_not_saved(tmp_path: Path) -> None:
    model, config = load_decoder(GOLDEN)
    other: ModelConfig = replace(config, eos_token_id=0)
    with pytest.raises(AssertionError):
        save_decoder(tmp_path, model, other)
