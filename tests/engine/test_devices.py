"""Where things are computed, without an accelerator: torch's ``meta`` device stands for one.

Tensors there have no numbers, but an operation that mixes them with a tensor of the CPU fails as it would on a GPU.
"""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from engine.codec.dac.codec import DacCodec
from engine.codec.dac.config import DacConfig
from engine.codec.understudy import UnderstudyCodec
from engine.core import SamplingParams
from engine.engine import UNDERSTUDY
from engine.loading import load_codec
from engine.model.decoder import Decoder
from engine.runner import Runner, Track
from engine.sampler import SamplerState
from engine.voices.identity import ModelMark
from engine.voices.maker import PROBE_FRAMES, VoiceMaker
from engine.weights import load_decoder

GOLDEN = Path(__file__).parents[1] / "golden" / "drama3-tiny" / "checkpoint-bf16"
ELSEWHERE = torch.device("meta")
FRAMES = [(i, 2 * i, 3 * i, 4, 5, 6, 7, 8 + i) for i in range(3)]


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    """As ``load_parts`` moves one: made on the CPU, then taken elsewhere."""
    return load_decoder(GOLDEN)[0].to(ELSEWHERE)


@pytest.fixture(scope="module")
def understudy() -> UnderstudyCodec:
    codec = load_codec(UNDERSTUDY, device="meta")
    assert isinstance(codec, UnderstudyCodec)
    return codec


def track_of(runner: Runner) -> Track:
    """A track that can be vocoded."""
    track = Track(0, 0, 0, torch.zeros(9), SamplerState(SamplingParams()))
    runner._codecs.put(track.key, runner.codec.allocate(1))
    return track


def test_the_understudys_codec_stays_on_the_cpu_whatever_the_decoder_does(
    decoder: Decoder, understudy: UnderstudyCodec
) -> None:
    runner = Runner(decoder, understudy, SamplingParams(), device="meta")
    (made,) = runner.vocode([track_of(runner)], [FRAMES])
    expected = understudy.decode_step(torch.tensor(FRAMES).t()[None], understudy.allocate(1))[0]
    assert not isinstance(made, Exception)
    assert torch.equal(torch.from_numpy(made), expected)
    assert expected.abs().max() > 0


class OneExpert(nn.Module):
    """Which experts rows go to is a matter of numbers."""

    def forward(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        return x * weights.sum(1, keepdim=True) * chosen.shape[1]


def test_a_decoder_computes_where_its_weights_are(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # not made for tensors without numbers
    for layer in decoder.layers:
        layer.get_submodule("moe").experts = OneExpert()
    state = decoder.allocate(2)
    rows = torch.zeros(2, 9, 1 + decoder.config.num_codebooks, dtype=torch.int64, device=ELSEWHERE)
    with torch.inference_mode():
        for _ in range(2):
            hidden = decoder.prefill(rows, state)
            assert decoder.main_logits(hidden).device == ELSEWHERE
        snapshot = state.snapshot()
        state.restore(snapshot)
        assert type(state).merge([state.extract([1]), snapshot.extract([0])]).kv.keys.device == ELSEWHERE


def test_drama_3s_codec_computes_where_its_weights_are() -> None:
    small = replace(DacConfig(), encoder_width=8, latent_width=128, decoder_width=128, transformer_hidden=128)
    with torch.device("meta"):
        codec = DacCodec(small)
    assert codec.device == ELSEWHERE
    state = codec.allocate(2)
    for _ in range(2):
        codes = torch.zeros(2, codec.num_codebooks, 3, dtype=torch.int64, device=codec.device)
        assert codec.decode_step(codes, state).device == ELSEWHERE
    assert type(state).merge([state.extract([1]), state.snapshot()]).tensors[0].device == ELSEWHERE


def test_a_voices_codec_is_asked_on_its_own_device(understudy: UnderstudyCodec, decoder: Decoder) -> None:
    """What a voice is checked with and made of is computed by the codec, not where the decoder's memory lies."""
    maker = VoiceMaker(
        ModelMark("", "", torch.float32), understudy, cast("Any", None), cast("Any", None), decoder.allocate(1), 100
    )
    assert maker.probe.device.type == "cpu"
    assert len(maker.probe) == PROBE_FRAMES * understudy.samples_per_frame
