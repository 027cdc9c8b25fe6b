"""The block-FP8 form of the golden checkpoint: read to the bit, and computed with.

The stored part is the experts; the rest is that of the bf16 checkpoint. The folder is put together again here, every
tensor in the shard that the golden index names (one scale lies in another shard than its matrix).
"""

import json
import shutil
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.cache.decoder import DecoderState
from engine.checkpoint.fp8 import BlockFp8, quantise_block_fp8
from engine.checkpoint.inspect import inspect
from engine.checkpoint.reader import open_checkpoint
from engine.core import AudioChunk, Utterance
from engine.engine import load_engine
from engine.model.decoder import Decoder
from engine.weights import load_decoder

ROOT = Path(__file__).parent / "drama3-tiny"
TOLERANCE = 5e-4

Expected = dict[str, Tensor]
Prefilled = tuple[Tensor, DecoderState]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden") / "checkpoint-fp8"
    folder.mkdir()
    for name in ("config.json", "model.safetensors.index.json"):
        shutil.copy(ROOT / "checkpoint-fp8" / name, folder)
    tensors = load_file(ROOT / "checkpoint-fp8/experts.safetensors")
    for path in (ROOT / "checkpoint-bf16").glob("*.safetensors"):
        tensors = load_file(path) | tensors
    shards: dict[str, Expected] = defaultdict(dict)
    for name, shard in json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"].items():
        shards[shard][name] = tensors[name]
    for shard, held in shards.items():
        save_file(held, folder / shard)
    return folder


@pytest.fixture(scope="module")
def fp8_decoder(folder: Path) -> Decoder:
    return load_decoder(folder)[0]


@pytest.fixture(scope="module")
def expected_fp8() -> Expected:
    return load_file(ROOT / "expected-fp8.safetensors")


def test_a_scale_may_lie_in_another_shard(folder: Path) -> None:
    with open_checkpoint(folder) as reader:
        assert len(reader.shards) == 3
        assert {name for shard in reader.shards for name in shard.names} == set(reader.names())
        weights = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
        scales = [name for name in weights if name.endswith("_scale_inv")]
        assert [name for name in scales if weights[name] != weights[name.removesuffix("_scale_inv")]]
        assert len(scales) == sum(isinstance(reader.read(name), BlockFp8) for name in reader.names())


def test_experts_are_dequantised_to_the_bit(folder: Path, expected_fp8: Expected) -> None:
    matrices = {name: tensor for name, tensor in expected_fp8.items() if name.startswith("dequantised.")}
    assert len(matrices) == 6
    with open_checkpoint(folder) as reader:
        for name, matrix in matrices.items():
            assert torch.equal(reader.dense(name.removeprefix("dequantised."), torch.bfloat16), matrix), name


def test_arbitrary_scales_are_dequantised_to_the_bit(expected_fp8: Expected) -> None:
    weight = expected_fp8["case.weight"]
    packed = BlockFp8(weight.view(torch.float8_e4m3fn), expected_fp8["case.weight_scale_inv"])
    assert torch.equal(packed.dequantise(torch.float32), expected_fp8["case.expected_float32"])
    assert torch.equal(packed.dequantise(torch.bfloat16), expected_fp8["case.expected_bfloat16"])


def test_every_code_is_widened_as_torch_does() -> None:
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)
    finite = codes.float().isfinite()
    assert int(finite.sum()) == 254
    widened = BlockFp8(codes[None], torch.ones(1, 2)).dequantise()[0]
    assert torch.equal(widened[finite], codes.float()[finite])


@pytest.mark.parametrize("shape", [(128, 128), (130, 257), (1, 5)])
def test_what_is_quantised_comes_back_within_half_a_step(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(3)) * 0.02
    packed = quantise_block_fp8(matrix)
    assert packed.shape == shape
    assert packed.problem() is None
    # Three bits of mantissa: half a step is a sixteenth of the value, and never less than of the smallest normal one.
    error = (packed.dequantise() - matrix).abs()
    assert bool((error <= matrix.abs() / 16 + matrix.abs().max() / 448 * 2**-10 + 1e-12).all())


@pytest.fixture
def prefilled(fp8_decoder: Decoder, inputs: Expected) -> Prefilled:
    """Hidden states of the golden prompt [1, 116, H], and the memory after it: its last row is not in the tower's."""
    rows, state = inputs["prompt_frames"][None], fp8_decoder.allocate(1)
    with torch.inference_mode():
        hidden = fp8_decoder.backbone(fp8_decoder.embed(rows), state)
        fp8_decoder.tower_prefill(rows, hidden[:, :-1], state)
    return hidden, state


def assert_close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=TOLERANCE, rtol=0)


def test_prefill(fp8_decoder: Decoder, prefilled: Prefilled, expected_fp8: Expected) -> None:
    hidden, _ = prefilled
    assert_close(hidden[0], expected_fp8["prefill.hidden"])
    assert_close(fp8_decoder.main_logits(hidden)[0], expected_fp8["prefill.main_logits"])


@pytest.mark.parametrize("kind", ["forced", "greedy"])
def test_steps(fp8_decoder: Decoder, prefilled: Prefilled, expected_fp8: Expected, inputs: Expected, kind: str) -> None:
    frames = inputs["forced_frames"] if kind == "forced" else expected_fp8["greedy.frames"].long()
    hidden, state = prefilled
    hidden, row = hidden[:, -1:], inputs["prompt_frames"][None, -1:]
    for step, frame in enumerate(frames):
        logits: list[Tensor] = []

        def choose(of_codebook: Tensor, codebook: int, frame: Tensor = frame, seen: list[Tensor] = logits) -> Tensor:
            seen.append(of_codebook[0])
            return frame[None, 1 + codebook] if kind == "forced" else of_codebook.argmax(-1)

        with torch.inference_mode():
            main = fp8_decoder.main_logits(hidden)[:, 0]
            token = frame[None, 0] if kind == "forced" else fp8_decoder.main_token(main.argmax(-1))
            chosen = fp8_decoder.tower_step(row, hidden, token, state, choose)
            if kind == "greedy":
                assert torch.equal(chosen[0], frame)
            row = frame[None, None]
            hidden = fp8_decoder.backbone(fp8_decoder.embed(row), state)
        assert_close(main[0], expected_fp8[f"{kind}.main_logits"][step])
        assert_close(torch.stack(logits), expected_fp8[f"{kind}.codebook_logits"][step])
        assert_close(hidden[0, 0], expected_fp8[f"{kind}.hidden"][step])


def test_a_folder_of_the_original_form_is_all_it_takes(folder: Path, tmp_path: Path) -> None:
    """Sharded FP8 weights, ``codec.pth`` and the tokenizer, as downloaded: text in, sound out."""
    whole = tmp_path / "drama-3"
    shutil.copytree(folder, whole)
    shutil.copy(ROOT / "checkpoint-bf16/tokenizer.json", whole)
    for name in ("codec.pth", "codec_config.json"):
        shutil.copy(ROOT / "codec" / name, whole)
    files = sorted(whole.iterdir())
    assert inspect(whole, reads_all=True).refused == ()
    assert sorted(whole.iterdir()) == files, "a look writes nothing"
    engine = load_engine(whole, is_warm=False)
    assert engine.info.name == "drama-3"
    assert "Built with Fish Audio" in engine.info.notes
    engine.add(Utterance("u", engine.info.voices[0]))
    engine.append_text("u", "Good evening.")
    engine.finish("u")
    chunks: list[AudioChunk] = []
    for _ in range(100):
        chunks += [event for event in engine.step() if isinstance(event, AudioChunk)]
        if len(chunks) > 2:
            break
    samples = np.concatenate([chunk.samples for chunk in chunks])
    assert len(samples) % engine.info.samples_per_frame == 0
    assert bool(np.isfinite(samples).all())
    # Random weights say nothing, but not silence.
    assert float(np.abs(samples).max()) > 1e-4
