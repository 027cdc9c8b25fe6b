"""ModifiedDAC: any pieces equal the whole at the same cost, batched equals alone, memory is all there is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from engine.codec.dac import codec as codec_module
from engine.codec.dac.codec import DacCodec
from engine.codec.dac.config import DacConfig
from engine.codec.dac.loading import load_dac
from engine.codec.dac.memory import StreamMemory
from engine.core import SamplingParams
from engine.errors import ConfigError, StateError
from engine.runner import Runner, Track
from engine.voices.book import VoicePrefix
from engine.weights import load_decoder

GOLDEN = Path(__file__).parents[1] / "golden" / "drama3-tiny" / "codec"
FRAMES = 20
TOLERANCE = 2e-4
"""What the golden set allows between streamed and whole."""


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> DacCodec:
    """The golden codec: windows of 6 frames, so that 20 frames fill and leave them."""
    folder = tmp_path_factory.mktemp("codec")
    for name in ("codec.pth", "codec_config.json"):
        (folder / name).write_bytes((GOLDEN / name).read_bytes())
    return load_dac(folder)


def random_codes(batch: int, frames: int = FRAMES, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(32, (batch, 4, frames), generator=generator)


def whole(codec: DacCodec, codes: Tensor) -> Tensor:
    return codec.decode_step(codes, codec.allocate(len(codes)))


def streamed(codec: DacCodec, codes: Tensor, schedule: list[int], memory: StreamMemory | None = None) -> Tensor:
    memory = memory or codec.allocate(len(codes))
    return torch.cat([codec.decode_step(piece, memory) for piece in torch.split(codes, schedule, 2)], 1)


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=TOLERANCE, rtol=0)


@st.composite
def schedules(draw: st.DrawFn, total: int = FRAMES) -> list[int]:
    pieces: list[int] = []
    while total:
        pieces.append(draw(st.integers(1, total)))
        total -= pieces[-1]
    return pieces


@given(schedule=schedules(), seed=st.integers(0, 2**16))
@settings(max_examples=20, deadline=None)
def test_any_pieces_equal_the_whole(codec: DacCodec, schedule: list[int], seed: int) -> None:
    codes = random_codes(1, seed=seed)
    sound = whole(codec, codes)
    assert sound.shape == (1, FRAMES * codec.samples_per_frame)
    assert 0.01 < float(sound.abs().max()) <= 1
    close(streamed(codec, codes, schedule), sound)


@given(schedule=schedules(), cut=st.integers(1, 4))
@settings(max_examples=8, deadline=None)
def test_a_long_piece_is_cut_without_a_seam(codec: DacCodec, schedule: list[int], cut: int) -> None:
    codes = random_codes(1)
    sound = whole(codec, codes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec_module, "MOST_FRAMES", cut)
        close(streamed(codec, codes, schedule), sound)


def test_later_codes_never_change_earlier_samples(codec: DacCodec) -> None:
    codes = random_codes(1)
    other = codes.clone()
    other[:, :, 7:] = random_codes(1, seed=5)[:, :, 7:]
    kept = 7 * codec.samples_per_frame
    close(whole(codec, codes)[:, :kept], whole(codec, other)[:, :kept])
    assert (whole(codec, codes)[:, kept:] - whole(codec, other)[:, kept:]).abs().max() > 0.01


def test_sound_depends_on_what_came_a_window_ago(codec: DacCodec) -> None:
    """Otherwise decoding with a short left context would do, and the memory would be for nothing."""
    codes = random_codes(1)
    other = codes.clone()
    other[:, :, 0] = (codes[:, :, 0] + 7) % 32
    late = 5 * codec.samples_per_frame
    assert (whole(codec, codes) - whole(codec, other))[:, late:].abs().max() > 1e-4


@given(ages=st.lists(st.integers(0, 12), min_size=2, max_size=4), step=st.integers(1, 5))
@settings(max_examples=10, deadline=None)
def test_streams_of_any_age_in_a_batch_sound_as_alone(codec: DacCodec, ages: list[int], step: int) -> None:
    codes = random_codes(len(ages))
    memories = []
    for stream, age in enumerate(ages):
        memories.append(codec.allocate(1))
        if age:
            codec.decode_step(codes[stream : stream + 1, :, :age], memories[-1])
    new = torch.stack([codes[stream, :, age : age + step] for stream, age in enumerate(ages)])
    together = codec.decode_step(new, StreamMemory.merge(memories))
    for stream in range(len(ages)):
        close(together[stream : stream + 1], codec.decode_step(new[stream : stream + 1], memories[stream]))


def test_memory_split_out_of_a_batch_goes_on(codec: DacCodec) -> None:
    codes, memory = random_codes(3), codec.allocate(3)
    codec.decode_step(codes[:, :, :9], memory)
    alone = memory.extract([1])
    assert alone.nbytes * 3 == memory.nbytes
    sound = whole(codec, codes[1:2])[:, 9 * codec.samples_per_frame :]
    close(codec.decode_step(codes[1:2, :, 9:], alone), sound)
    close(codec.decode_step(codes[:, :, 9:], memory)[1:2], sound)


def test_a_restored_snapshot_goes_on_to_the_last_bit(codec: DacCodec) -> None:
    codes, memory = random_codes(2), codec.allocate(2)
    codec.decode_step(codes[:, :, :5], memory)
    snapshot = memory.snapshot()
    first = streamed(codec, codes[:, :, 5:], [4, 11], memory)
    memory.restore(snapshot)
    assert torch.equal(streamed(codec, codes[:, :, 5:], [4, 11], memory), first)


def test_restoring_one_stream_leaves_the_other(codec: DacCodec) -> None:
    codes, memory = random_codes(2), codec.allocate(2)
    codec.decode_step(codes[:, :, :5], memory)
    snapshot = memory.extract([0])
    codec.decode_step(codes[:, :, 5:9], memory)
    memory.restore(snapshot, [0])
    rest = codec.decode_step(torch.stack((codes[0, :, 5:12], codes[1, :, 9:16])), memory)
    per_frame = codec.samples_per_frame
    close(rest[:1], whole(codec, codes[:1])[:, 5 * per_frame : 12 * per_frame])
    close(rest[1:], whole(codec, codes[1:])[:, 9 * per_frame : 16 * per_frame])


def test_reset_makes_one_stream_new_and_leaves_the_other(codec: DacCodec) -> None:
    codes, memory = random_codes(2), codec.allocate(2)
    codec.decode_step(codes[:, :, :9], memory)
    memory.reset(torch.tensor([True, False]))
    rest = codec.decode_step(torch.stack((codes[0, :, :4], codes[1, :, 9:13])), memory)
    close(rest[:1], whole(codec, codes[:1, :, :4]))
    close(rest[1:], whole(codec, codes[1:, :, :13])[:, 9 * codec.samples_per_frame :])


def test_memory_cannot_be_truncated(codec: DacCodec) -> None:
    with pytest.raises(StateError, match="snapshot"):
        codec.allocate(1).truncate([0])


def test_codes_outside_the_codebooks_are_clamped(codec: DacCodec) -> None:
    inside, outside = random_codes(1), random_codes(1)
    inside[0, 0, 3], outside[0, 0, 3] = 63, 4095
    inside[0, 2, 4], outside[0, 2, 4] = 31, 4095
    inside[0, 3, 5], outside[0, 3, 5] = 0, -1
    assert torch.equal(whole(codec, inside), whole(codec, outside))


def test_tracks_that_join_and_leave_a_runners_batch_sound_as_alone(codec: DacCodec) -> None:
    """The tiny Drama 3 of the golden set, decoder and codec: four codebooks of codes up to 63, some to clamp."""
    runner = Runner(load_decoder(GOLDEN.parent / "checkpoint-bf16")[0], codec, SamplingParams())
    voice = runner.prepare(VoicePrefix(load_file(GOLDEN.parent / "inputs.safetensors")["prompt_frames"].long()))
    codes = torch.randint(64, (2, 4, 9), generator=torch.Generator().manual_seed(3))
    heard: list[list[np.ndarray[Any, Any]]] = [[], []]
    tracks = [runner.open(voice, None), runner.open(voice, None)]

    def speak(stream: int, start: int, stop: int) -> tuple[Track, list[tuple[int, ...]]]:
        return tracks[stream], [tuple(codes[stream, :, f].tolist()) for f in range(start, stop)]

    for calls in (
        [(0, 0, 3)],
        [(0, 3, 4), (1, 0, 2)],
        [(1, 2, 3), (0, 4, 7)],
        [(1, 3, 8)],
        [(0, 7, 9), (1, 8, 9)],
    ):
        members = [speak(*call) for call in calls]
        made = runner.vocode([track for track, _ in members], [frames for _, frames in members])
        for (stream, _, _), samples in zip(calls, made, strict=True):
            assert not isinstance(samples, Exception), samples
            heard[stream].append(samples)
    for stream in range(2):
        close(torch.from_numpy(np.concatenate(heard[stream]))[None], whole(codec, codes[stream : stream + 1]))


# Encoding


def tone(samples: int, rate: int) -> Tensor:
    seconds = torch.arange(samples) / rate
    return 0.4 * torch.sin(2 * torch.pi * 220 * seconds) + 0.1 * torch.sin(2 * torch.pi * 1730 * seconds)


@pytest.mark.parametrize("length", [1, 255, 256, 257, 5000])
def test_a_recording_is_filled_up_to_a_frame(codec: DacCodec, length: int) -> None:
    codes = codec.encode(tone(length, 44_100), 44_100)
    assert codes.shape == (4, -(-length // 256))
    silence = torch.zeros(-length % 256)
    assert torch.equal(codes, codec.encode(torch.cat((tone(length, 44_100), silence)), 44_100))


def test_a_long_recording_is_encoded_in_pieces(codec: DacCodec, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = tone(9000, 44_100)
    at_once = codec.encode(recording, 44_100)
    monkeypatch.setattr(codec_module, "MOST_FRAMES", 3)
    assert (codec.encode(recording, 44_100) != at_once).float().mean() < 0.01


def test_a_recording_at_another_rate_is_resampled(codec: DacCodec) -> None:
    assert codec.encode(tone(16_000, 16_000), 16_000).shape[1] == -(-44_100 // 256)
    direct = codec.encode(tone(44_100, 44_100), 44_100)
    resampled = codec.encode(tone(48_000, 48_000), 48_000)
    inner = slice(10, -10)
    assert (direct[0, inner] == resampled[0, inner]).float().mean() > 0.9


# Cost


def flops(codec: DacCodec, batch: int, schedule: list[int]) -> dict[Any, int]:
    """Operations by kind, counted on tensors without numbers."""
    counter = FlopCounterMode(display=False)
    memory = codec.allocate(batch)
    with counter:
        for frames in schedule:
            codes = torch.zeros(batch, codec.num_codebooks, frames, dtype=torch.int64, device="meta")
            codec.decode_step(codes, memory)
    return dict(counter.get_flop_counts()["Global"])


@pytest.fixture(scope="module")
def published() -> DacCodec:
    """The published dimensions, without numbers."""
    with torch.device("meta"):
        return DacCodec(DacConfig())


def test_pieces_cost_what_the_whole_costs(published: DacCodec) -> None:
    """Not one product more in pieces of any size, and the model's 146 GFLOP per second of audio."""
    frames, bmm = 6, torch.ops.aten.bmm
    whole = flops(published, 1, [frames])
    seconds = frames * published.samples_per_frame / published.sample_rate
    assert sum(whole.values()) / seconds / 1e9 == pytest.approx(145.7, abs=0.1)
    attention = whole.pop(bmm)
    for schedule in ([1] * frames, [2, 4]):
        pieces = flops(published, 1, schedule)
        assert pieces.pop(bmm) <= attention, "short pieces compare fewer steps that are not theirs to see"
        assert pieces == whole


def test_memory_of_a_stream_at_the_published_dimensions(published: DacCodec) -> None:
    assert sum(p.numel() for p in published.parameters()) == pytest.approx(391.4e6, rel=1e-3)
    keys_and_values = 8 * 2 * 127 * 1024 * 4
    assert keys_and_values < published.allocate(1).nbytes < 1.1 * keys_and_values


@pytest.mark.parametrize(
    "change",
    [
        {"encoder_rates": (2, 4, 8)},
        {"latent_width": 1000},
        {"decoder_width": 1000},
        {"sample_rate": 0},
        {"code_width": 8.0},
        {"transformer_head_dim": 1},
    ],
)
def test_dimensions_that_make_no_codec_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        DacConfig(**change)


def test_dimensions_are_read_back_and_unknown_ones_refused() -> None:
    config = DacConfig(decoder_width=32, encoder_rates=(8, 8, 8))
    assert DacConfig.from_json(config.to_json(), "here") == config
    for text in ('{"width": 3}', "[]", "{", "3"):
        with pytest.raises(ConfigError, match="here"):
            DacConfig.from_json(text, "here")
