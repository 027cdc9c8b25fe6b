"""The understudy's codec: streamed equals whole, batched equals alone, memory is all there is, files are checked."""

import copy
import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.codec.limit import CEILING, KNEE
from engine.codec.speeds import Speeds
from engine.codec.understudy import CODEBOOK_SIZE, CODEBOOK_STREAMS, StreamingFeatures, UnderstudyCodec
from engine.codec.vocoder import LOG_F0, NUM_FEATURES, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME, VOICED, Vocoder
from engine.errors import StateError, WeightsError
from engine.quant import half

FRAMES = 12


def envelope_tables() -> dict[str, torch.Tensor]:
    """A smooth envelope basis (cosines) and bands that are hats over frequency."""
    frequency = torch.linspace(0, torch.pi, 513)
    cosines = torch.cos(torch.arange(40)[:, None] * frequency)
    centres = torch.linspace(0, torch.pi, 5)[1:-1, None]
    hats = (1 - (frequency - centres).abs() / (torch.pi / 4)).clamp(min=0)
    return {"envelope_basis": cosines, "band_basis": hats, "band_offset": torch.zeros(513)}


@pytest.fixture(scope="module")
def codec() -> UnderstudyCodec:
    torch.manual_seed(0)
    codec = UnderstudyCodec(width=32, blocks=2)
    for name, buffer in codec.features.named_buffers():
        if "codebook" in name or "components" in name:
            # Pitch is kept calm: where pulses fall is what rounding is magnified by.
            buffer.normal_(0, 0.02 if buffer.shape[-1] in (16, 40) else 0.2)
    codec.features.get_buffer("source_mean").view(8, 5)[:, -2:] = torch.tensor([12 * np.log(180.0), 1.5])
    torch.nn.init.normal_(codec.features.outward.weight, std=0.02)
    for block in codec.features.blocks:
        torch.nn.init.normal_(block.get_parameter("down.weight"), std=0.1)
    for name, table in envelope_tables().items():
        codec.vocoder.get_buffer(name).copy_(table)
    codec.features.get_buffer("spectrum_mean").view(8, 40)[:, 0] = -6.0
    return codec.for_streaming()


def random_codes(batch: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(CODEBOOK_SIZE, (batch, len(CODEBOOK_STREAMS), FRAMES), generator=generator)


def whole(codec: UnderstudyCodec, codes: torch.Tensor) -> torch.Tensor:
    return codec.decode_step(codes, codec.allocate(len(codes)))


@pytest.mark.parametrize("schedule", [[1] * FRAMES, [5, 1, 6], [2, 10], [11, 1]])
def test_streamed_equals_whole(codec: UnderstudyCodec, schedule: list[int]) -> None:
    codes, state = random_codes(1), codec.allocate(1)
    pieces = [codec.decode_step(part, state) for part in torch.split(codes, schedule, dim=2)]
    assert torch.equal(torch.cat(pieces, 1), whole(codec, codes))
    assert whole(codec, codes).shape == (1, FRAMES * SAMPLES_PER_FRAME)
    assert whole(codec, codes).abs().max() > 0.01


def test_later_codes_never_change_earlier_samples(codec: UnderstudyCodec) -> None:
    codes = random_codes(1)
    other = codes.clone()
    other[:, :, 7:] = random_codes(1, seed=5)[:, :, 7:]
    kept = 7 * SAMPLES_PER_FRAME
    torch.testing.assert_close(whole(codec, codes)[:, :kept], whole(codec, other)[:, :kept], atol=1e-5, rtol=0)
    assert (whole(codec, codes)[:, kept:] - whole(codec, other)[:, kept:]).abs().max() > 0.01


def test_batched_equals_alone(codec: UnderstudyCodec) -> None:
    codes = random_codes(3)
    together = whole(codec, codes)
    for i in range(3):
        torch.testing.assert_close(together[i : i + 1], whole(codec, codes[i : i + 1]), atol=1e-4, rtol=0)


SPEEDS = [0.5, 0.8, 1.0, 1.1, 1.5, 2.0]


@pytest.mark.parametrize("asked", SPEEDS)
def test_a_speed_is_whole_samples_and_near_what_was_asked(asked: float) -> None:
    speed = UnderstudyCodec.speeds.nearest(asked)
    assert SAMPLES_PER_FRAME / speed == pytest.approx(round(SAMPLES_PER_FRAME / speed), abs=1e-9)
    assert speed == pytest.approx(asked, rel=0.006)
    assert UnderstudyCodec.speeds.nearest(speed) == speed


def test_speeds_have_limits_and_one_is_exact() -> None:
    speeds = Speeds(slowest=0.5, fastest=2.0, hop=150)
    assert [speeds.nearest(asked) for asked in (0, 0.1, 1, 3, float("inf"))] == [0.5, 0.5, 1, 2, 2]


@pytest.mark.parametrize("asked", SPEEDS)
def test_at_any_speed_streamed_equals_whole_and_batched_equals_alone(codec: UnderstudyCodec, asked: float) -> None:
    speed, codes = codec.speeds.nearest(asked), random_codes(3)
    together = codec.decode_step(codes, codec.allocate(3), speed)
    assert together.shape == (3, round(FRAMES * SAMPLES_PER_FRAME / speed))
    for i in range(3):
        state = codec.allocate(1)
        pieces = [codec.decode_step(part, state, speed) for part in torch.split(codes[i : i + 1], [5, 1, 6], 2)]
        torch.testing.assert_close(torch.cat(pieces, 1), together[i : i + 1], atol=1e-4, rtol=0)


def test_a_change_of_speed_is_seamless(codec: UnderstudyCodec) -> None:
    frame, state = random_codes(1)[:, :, :1], codec.allocate(1)
    speeds = [codec.speeds.nearest(speed) for speed in itertools.islice(itertools.cycle([1.0, 2.0, 0.5, 1.3]), 80)]
    pieces = [codec.decode_step(frame, state, speed)[0] for speed in speeds]
    steps = torch.cat(pieces)[6000:].diff().abs()
    edges = torch.tensor([len(piece) for piece in pieces]).cumsum(0)[:-1] - 1 - 6000
    at_edges = torch.isin(torch.arange(len(steps)), edges)
    # Pulses are as likely to fall there as anywhere.
    assert steps[at_edges].mean() < 1.5 * steps.mean()
    assert steps[at_edges].max() < steps[~at_edges].max()


def test_speed_leaves_pitch_and_level(codec: UnderstudyCodec) -> None:
    def autocorrelation_peak(sound: torch.Tensor) -> int:
        spectrum = torch.fft.rfft(sound, 2 * len(sound))
        lags = torch.fft.irfft(spectrum.abs().square())[80:240]
        return 80 + int(lags.argmax())

    # Pulses alone and one envelope throughout: in noise there is no pitch to find.
    codec = copy.deepcopy(codec)
    for stream in ("spectrum", "source"):
        codec.features.get_buffer(f"{stream}_components").zero_()
    codec.features.get_buffer("source_mean").view(8, 5)[:, :3] = -3.0
    codec.features.outward.weight.zero_()
    codec.for_streaming()
    codes = random_codes(1)[:, :, :1].expand(1, -1, 20)
    usual = codec.decode_step(codes, codec.allocate(1))[0, 6000:]
    for asked in SPEEDS:
        sound = codec.decode_step(codes, codec.allocate(1), codec.speeds.nearest(asked))[0, 6000:]
        assert autocorrelation_peak(sound) == pytest.approx(SAMPLE_RATE_HZ / 180, abs=2), asked
        assert float(sound.std()) == pytest.approx(float(usual.std()), rel=0.1), asked


def test_a_restored_snapshot_goes_on_to_the_last_bit(codec: UnderstudyCodec) -> None:
    codes, state = random_codes(2), codec.allocate(2)
    codec.decode_step(codes[:, :, :5], state)
    snapshot = state.snapshot()
    first = codec.decode_step(codes[:, :, 5:], state)
    state.restore(snapshot)
    assert torch.equal(codec.decode_step(codes[:, :, 5:], state), first)


def test_reset_makes_one_stream_new_and_leaves_the_other(codec: UnderstudyCodec) -> None:
    codes, state = random_codes(2), codec.allocate(2)
    codec.decode_step(codes, state)
    before = state.extract([1])
    state.reset(torch.tensor([True, False]))
    for field in dataclasses.fields(state):
        old, new = getattr(before, field.name), getattr(state, field.name)
        pairs = zip(old, new, strict=True) if isinstance(old, list) else [(old, new)]
        assert all(torch.equal(a[0], b[1]) for a, b in pairs), field.name
    torch.testing.assert_close(codec.decode_step(codes[:, :, :2], state)[:1], whole(codec, codes[:1, :, :2]))


def test_memory_cannot_be_truncated(codec: UnderstudyCodec) -> None:
    with pytest.raises(StateError, match="snapshot"):
        codec.allocate(1).truncate([0])


def test_codes_outside_the_codebooks_are_clamped(codec: UnderstudyCodec) -> None:
    codes = random_codes(1)
    codes[0, 3, 4] = CODEBOOK_SIZE - 1
    outside = codes.clone()
    outside[0, 3, 4] = CODEBOOK_SIZE + 500
    assert torch.equal(whole(codec, codes), whole(codec, outside))


def hum(log_power: float, frames: int) -> torch.Tensor:
    """A steady voice without noise [S]."""
    vocoder = Vocoder()
    for name, table in envelope_tables().items():
        vocoder.get_buffer(name).copy_(table)
    parameters = torch.zeros(1, 9, NUM_FEATURES)
    parameters[..., 0], parameters[..., 40:43] = log_power, -6.0
    parameters[..., LOG_F0], parameters[..., VOICED] = np.log(223.7), 1.0
    vocoder.get_buffer("band_offset").fill_(-60.0)
    state = UnderstudyCodec(8, 1).allocate(1)
    memory = (state.phase, state.tail, state.rumble, state.position)
    return torch.cat([vocoder(parameters, *memory) for _ in range(frames)], 1)[0]


def test_loud_speech_is_bent_and_not_clipped() -> None:
    quiet, loud = hum(-6.0, 6), hum(-2.0, 6)
    assert float(quiet.abs().max()) < KNEE < float(loud.abs().max()) <= CEILING + 1e-6
    is_quiet = loud.abs() < KNEE
    torch.testing.assert_close(loud[is_quiet], (quiet * np.exp(2.0))[is_quiet], rtol=1e-3, atol=1e-5)


def test_pulses_come_at_the_pitch_asked_for() -> None:
    wave = hum(-3.0, 40)[4 * SAMPLES_PER_FRAME :].numpy()
    spectrum = np.abs(np.fft.rfft(wave * np.hanning(len(wave))))
    frequency = np.arange(len(spectrum)) * SAMPLE_RATE_HZ / len(wave)
    for harmonic in (1, 2, 10, 30):
        near = np.abs(frequency - harmonic * 223.7) < 60
        assert abs(frequency[near][spectrum[near].argmax()] - harmonic * 223.7) < 1.0
    between = np.abs(frequency - 2.5 * 223.7) < 30
    peak = spectrum[np.abs(frequency - 2 * 223.7) < 5].max()
    assert 20 * np.log10(peak / np.median(spectrum[between])) > 40


def test_a_saved_codec_is_read_back(codec: UnderstudyCodec, tmp_path: Path) -> None:
    path = tmp_path / "codec.safetensors"
    save_file(codec.state_dict(), path, {"width": "32", "blocks": "2"})
    assert torch.equal(whole(UnderstudyCodec.load(path), random_codes(1)), whole(codec, random_codes(1)))


@pytest.mark.parametrize("fault", ["missing", "unexpected", "shape", "nan", "truncated"])
def test_a_file_that_does_not_fit_names_what_is_wrong(codec: UnderstudyCodec, tmp_path: Path, fault: str) -> None:
    path = tmp_path / "codec.safetensors"
    save_file(codec.state_dict(), path)
    tensors = load_file(path)
    name = "features.outward.weight"
    match fault:
        case "missing":
            del tensors[name]
        case "unexpected":
            tensors["extra"] = torch.zeros(1)
            name = "extra"
        case "shape":
            tensors[name] = tensors[name][:-1].contiguous()
        case "nan":
            tensors[name][0, 0] = torch.nan
    save_file(tensors, path, {"width": "32", "blocks": "2"})
    if fault == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
        name = "codec.safetensors"
    with pytest.raises(WeightsError, match=name.replace(".", r"\.")):
        UnderstudyCodec.load(path)


def test_a_stream_in_a_batch_gets_the_same_parameters_to_the_bit(codec: UnderstudyCodec) -> None:
    codes = random_codes(5)
    network = StreamingFeatures(codec.features)
    together, alone = codec.features.empty_windows(5), [codec.features.empty_windows(1) for _ in codes]
    for frame in codes.unbind(2):
        parameters = network(frame, together)
        for b, windows in enumerate(alone):
            assert torch.equal(network(frame[b : b + 1], windows)[0], parameters[b])


def test_streaming_equals_the_network_that_was_trained(codec: UnderstudyCodec) -> None:
    codes, trained, network = random_codes(2), codec.features, StreamingFeatures(codec.features)
    expected, _ = trained(trained.dequantise(codes), trained.empty_windows(2))
    windows = trained.empty_windows(2)
    parameters = torch.cat([network(frame, windows) for frame in codes.unbind(2)], 1)
    torch.testing.assert_close(parameters, expected, atol=2e-3, rtol=1e-3)


def test_without_packed_products_it_sounds_the_same(codec: UnderstudyCodec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half, "is_supported", lambda: False)
    plain = UnderstudyCodec(width=32, blocks=2)
    plain.load_state_dict(codec.state_dict())
    plain.for_streaming()
    codes = random_codes(3)
    together = whole(plain, codes)
    for i in range(3):
        torch.testing.assert_close(together[i : i + 1], whole(plain, codes[i : i + 1]), atol=1e-4, rtol=0)
