"""The codec against stored tensors of an independent implementation, stage by stage."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.codec.dac.codec import DacCodec
from engine.codec.dac.layers import run
from engine.codec.dac.loading import load_dac
from engine.codec.dac.memory import allocate

FOLDER = Path(__file__).parent / "drama3-tiny" / "codec"
TOLERANCE = 1e-4
"""The set allows 5e-4 (2e-4 streamed); two independent implementations differ by 2.4e-5."""


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> DacCodec:
    folder = tmp_path_factory.mktemp("codec")
    for name in ("codec.pth", "codec_config.json"):
        (folder / name).write_bytes((FOLDER / name).read_bytes())
    return load_dac(folder)


@pytest.fixture(scope="module")
def golden() -> dict[str, Tensor]:
    return load_file(FOLDER / "expected.safetensors")


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=TOLERANCE, rtol=0)


@torch.inference_mode()
def test_decode_by_stages(codec: DacCodec, golden: dict[str, Tensor]) -> None:
    codes, memory = golden["codes"].long()[None], codec.allocate(1)
    assert int(codes[:, 1:].max()) >= codec.config.residual_codebook_size, "the set has codes to clamp"
    latents = codec.quantizer.dequantise(codes)
    close(latents[0], golden["decode.latents"])
    latents = codec.quantizer.post_module(latents, memory)
    close(latents[0], golden["decode.post_transformer"])
    for stage in codec.quantizer.upsample:
        assert isinstance(stage, torch.nn.ModuleList)
        latents = run(stage, latents, memory)
    close(latents[0], golden["decode.upsampled"])
    close(codec.decoder(latents, memory)[0, 0], golden["decode.audio"])


def test_decode_whole(codec: DacCodec, golden: dict[str, Tensor]) -> None:
    codes = golden["codes"].long()[None]
    close(codec.decode_step(codes, codec.allocate(1))[0], golden["decode.audio"])


def test_decode_streamed(codec: DacCodec, golden: dict[str, Tensor]) -> None:
    codes, memory = golden["codes"].long()[None], codec.allocate(1)
    pieces = torch.split(codes, int(golden["stream.chunk_frames"][0]), 2)
    close(torch.cat([codec.decode_step(piece, memory) for piece in pieces], 1)[0], golden["stream.audio"])


@torch.inference_mode()
def test_encode_by_stages(codec: DacCodec, golden: dict[str, Tensor]) -> None:
    samples, q = golden["encode.audio"], codec.quantizer
    missing = -len(samples) % codec.samples_per_frame
    assert missing, "the set's recording ends inside a frame"
    memory = allocate(codec.hearing, 1)
    latents = codec.encoder(torch.nn.functional.pad(samples, (0, missing))[None, None], memory)
    close(latents[0], golden["encode.encoder_out"])
    for stage in q.downsample:
        assert isinstance(stage, torch.nn.ModuleList)
        latents = run(stage, latents, memory)
    close(latents[0], golden["encode.downsampled"])
    close(q.pre_module(latents, memory)[0], golden["encode.pre_transformer"])


def test_encode(codec: DacCodec, golden: dict[str, Tensor]) -> None:
    assert torch.equal(codec.encode(golden["encode.audio"], codec.sample_rate), golden["encode.codes"].long())
