"""Training the codec by its sound: the sound is the vocoder's, and nothing but the network changes."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file, save_file

from engine.codec.high_pass import HighPass
from engine.codec.understudy import UnderstudyCodec, silent_parameters
from engine.codec.vocoder import (
    LOG_F0,
    NUM_CEPSTRA,
    NUM_FEATURES,
    SAMPLE_RATE_HZ,
    SUBFRAME_SAMPLES,
    SUBFRAMES_PER_FRAME,
    VOICED,
    Vocoder,
)
from engine.engine import UNDERSTUDY
from engine.train import codec_sound, synthesis
from engine.train.codec_decoder import export, install_quantiser
from engine.train.labels import trim
from engine.train.quantiser import Quantiser
from tests.engine.training_run import TEXTS, make_run

FRAMES = 6


@pytest.fixture(scope="module")
def vocoder() -> Vocoder:
    """That of the built-in voice."""
    return UnderstudyCodec.load(UNDERSTUDY / "codec.safetensors").vocoder


def speech_parameters(batch: int, seed: int = 0) -> torch.Tensor:
    """[B, 1 + 8 FRAMES, D]: voiced and unvoiced stretches at a speaker's pitch, each sequence its own."""
    random = torch.Generator().manual_seed(seed)
    parameters = silent_parameters().repeat(batch, 1 + FRAMES * SUBFRAMES_PER_FRAME, 1)
    parameters[..., :NUM_CEPSTRA] += 0.3 * torch.randn(parameters[..., :NUM_CEPSTRA].shape, generator=random)
    parameters[..., 0] = -7.0
    parameters[..., LOG_F0] = torch.tensor(np.log(140.0)) + 0.1 * torch.randn(
        batch, parameters.shape[1], generator=random
    )
    parameters[..., NUM_CEPSTRA:LOG_F0] = -1.0
    parameters[:, 10:40, VOICED] = 1.0
    return parameters


def test_the_sound_is_that_of_the_vocoder_frame_by_frame(vocoder: Vocoder, monkeypatch: pytest.MonkeyPatch) -> None:
    def unfiltered(self: Any, x: Any, state: Any) -> Any:
        return x

    monkeypatch.setattr(HighPass, "__call__", unfiltered)
    monkeypatch.setattr(synthesis, "without_rumble", lambda sound: sound)
    parameters, start = speech_parameters(3), torch.tensor([0, 7, 78])
    phase, tail = torch.zeros(3, dtype=torch.float64), torch.zeros(3, Vocoder.tail_samples())
    position, rumble = start.clone(), torch.zeros(3, 2, dtype=torch.float64)
    frames = [vocoder(parameters[:, 8 * f : 8 * f + 9], phase, tail, rumble, position).clone() for f in range(FRAMES)]
    streamed = torch.cat(frames, 1)
    assert 0.05 < streamed.abs().max() < 0.8, "neither silence nor bent by the limit"
    torch.testing.assert_close(synthesis.synthesise(vocoder, parameters, start), streamed, atol=2e-5, rtol=0)


def test_rumble_is_lost_as_in_the_vocoder() -> None:
    sound = torch.randn(1, 24_000, generator=torch.Generator().manual_seed(1))
    filtered = HighPass(40, SAMPLE_RATE_HZ, 24_000)(sound.double().numpy(), np.zeros((1, 2)))
    expected = np.abs(np.fft.rfft(filtered[0]))[5:]
    found = torch.fft.rfft(synthesis.without_rumble(sound)[0]).abs().numpy()[5:]
    assert np.abs(found - expected).max() / expected.max() < 0.05


def test_an_envelope_is_found_by_its_sound_alone(vocoder: Vocoder) -> None:
    target, made = speech_parameters(2), speech_parameters(2)
    made[..., 1:NUM_CEPSTRA] = 0
    made.requires_grad_()
    mel, noise = synthesis.MelDistance(), torch.tensor([3, 40])
    with torch.no_grad():
        goal = synthesis.synthesise(vocoder, target, noise)
    optimiser = torch.optim.Adam([made], lr=0.02)
    distances = []
    for _ in range(60):
        distance = mel(synthesis.synthesise(vocoder, synthesis.with_source(made, target), noise), goal)
        optimiser.zero_grad()
        distance.backward()
        assert made.grad is not None
        assert torch.isfinite(made.grad).all()
        assert not made.grad[..., NUM_CEPSTRA:].any(), "where pulses lie is taken as given"
        optimiser.step()
        distances.append(distance.item())
    assert distances[-1] < 0.6 * distances[0]


def test_the_network_sees_no_further_back_than_the_context() -> None:
    codec = UnderstudyCodec()
    for block in codec.features.blocks:
        torch.nn.init.normal_(block.get_parameter("down.weight"), std=0.1)
    torch.nn.init.normal_(codec.features.outward.weight)
    for buffer in codec.features.buffers():
        buffer.normal_()
    codes = torch.randint(1024, (1, 8, codec_sound.CONTEXT_FRAMES + 2))
    for changed, is_seen in ((0, False), (1, True)):
        other = codes.clone()
        other[:, :, changed] = (other[:, :, changed] + 1) % 1024
        last = [
            codec.features(codec.features.dequantise(c), codec.features.empty_windows(1))[0][:, -SUBFRAMES_PER_FRAME:]
            for c in (codes, other)
        ]
        assert torch.equal(*last) != is_seen


def parameters_of(wave: Any, pitch_hz: float) -> Any:
    """As an analysis would find them, roughly: level, pitch, and all of it voiced."""
    subframes = wave[: len(wave) // SUBFRAME_SAMPLES * SUBFRAME_SAMPLES].reshape(-1, SUBFRAME_SAMPLES)
    features = silent_parameters().repeat(len(subframes), 1).numpy()
    features[:, 0] = np.log(np.square(subframes).mean(axis=1) + 1e-8)
    features[:, LOG_F0], features[:, VOICED] = np.log(pitch_hz), 1.0
    return features.astype(np.float16)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory, vocoder: Vocoder) -> Path:
    """Buzzing takes, analysed, in two shards, and a codec with the codebooks of another run."""
    work = make_run(tmp_path_factory.mktemp("run"))
    speech, analysed = work / "speech", work / "analysed"
    speech.mkdir()
    analysed.mkdir()
    random = np.random.default_rng(3)
    entries, lines = [], []
    for number, texts in enumerate((TEXTS[:12], TEXTS[12:24])):
        pieces: list[Any] = []
        features: list[Any] = []
        name, position = f"shard-{number:04d}", 0
        for text in texts:
            pitch_hz = random.uniform(100, 220)
            time = np.arange(1.2 * SAMPLE_RATE_HZ) / SAMPLE_RATE_HZ
            wave = 0.2 * np.sign(np.sin(2 * np.pi * pitch_hz * time)) * np.sin(np.pi * time / 1.2)
            take = {"shard": f"{name}.flac", "voice": "af_heart", "text": text, "phonemes": "ba"}
            place = {"start": sum(map(len, pieces)), "samples": len(wave), "durations": [2, 20, 20, 6]}
            entries.append(take | place)
            pieces.append(wave)
            trimmed, durations = trim(wave, [2, 20, 20, 6], "ba")
            features.append(parameters_of(trimmed, pitch_hz))
            span = {"file": f"{name}.npz", "start": position, "stop": position + len(features[-1])}
            position += len(features[-1])
            lines.append(json.dumps(take | span | {"durations": durations}) + "\n")
        soundfile.write(speech / f"{name}.flac", np.concatenate(pieces), SAMPLE_RATE_HZ)
        np.savez(analysed / f"{name}.npz", features=np.concatenate(features))
    (speech / "index.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    (work / "analysed" / "features.jsonl").write_text("".join(lines), encoding="utf-8")
    codec = UnderstudyCodec(width=32, blocks=5)
    codec.vocoder.load_state_dict(vocoder.state_dict())
    quantiser = Quantiser.load(work / "quantiser.safetensors")
    quantiser.components = {name: 0.02 * part for name, part in quantiser.components.items()}
    quantiser.mean["spectrum"].view(8, NUM_CEPSTRA)[:, 0] = -8.0
    quantiser.mean["source"].view(8, 5)[:, -2:] = torch.tensor([12 * np.log(150.0), 1.5])
    install_quantiser(codec.features, quantiser)
    export(codec, work / "codec.safetensors")
    return work


class TestRun:
    def train(self, monkeypatch: pytest.MonkeyPatch, work: Path, out: Path, steps: int) -> None:
        given = ["--speech", str(work / "speech"), "--features", str(work / "analysed"), "--batch", "4"]
        start = ["--start", str(work / "codec.safetensors"), "--lr", "5e-2", "--log-every", "5"]
        monkeypatch.setattr(sys, "argv", ["sound", *given, *start, "--out", str(out), "--steps", str(steps)])
        codec_sound.main()

    def test_it_comes_nearer_and_changes_the_network_alone(
        self, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(codec_sound, "CRITIC_ALONE", 10)
        monkeypatch.setattr(codec_sound, "AVERAGE", 0.5)
        monkeypatch.setattr(codec_sound, "LEARNED_SHARE", 1.0)
        self.train(monkeypatch, work, tmp_path, 10)
        self.train(monkeypatch, work, tmp_path, 25)
        log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        assert [entry["step"] for entry in log] == [5, 10, 15, 20, 25]
        assert log[-1]["mel"] < 0.9 * log[0]["mel"]
        assert log[-1]["validation"]["mel"] < 0.97 * log[0]["validation"]["mel"]
        assert "matching" in log[-1]
        before, after = load_file(work / "codec.safetensors"), load_file(tmp_path / "codec.safetensors")
        learned = {name for name, _ in UnderstudyCodec(width=32, blocks=5).features.named_parameters()}
        assert before.keys() == after.keys()
        for name in before:
            is_kept = name.removeprefix("features.") not in learned
            assert torch.equal(before[name], after[name]) == is_kept, name
        assert UnderstudyCodec.load(tmp_path / "codec.safetensors").features.width == 32

    def test_what_is_kept_lies_between_the_weights_before_and_after(
        self, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(codec_sound, "AVERAGE", 0.0)
        found = []
        for share in (0.0, 0.5, 1.0):
            # No more updates: what was learned is written once more.
            monkeypatch.setattr(codec_sound, "LEARNED_SHARE", share)
            self.train(monkeypatch, work, tmp_path, 12)
            found.append(load_file(tmp_path / "codec.safetensors")["features.inward.weight"].float())
        before, half, after = found
        assert torch.equal(before, load_file(work / "codec.safetensors")["features.inward.weight"].float())
        assert (after - before).abs().max() > 4e-3
        torch.testing.assert_close(half, (before + after) / 2, atol=1e-3, rtol=0)

    def test_another_codec_to_begin_from_is_begun_from(
        self, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.train(monkeypatch, work, tmp_path, 5)
        other = load_file(work / "codec.safetensors")
        other["features.inward.bias"] += 1
        (tmp_path / "work").mkdir()
        for name in ("speech", "analysed"):
            (tmp_path / "work" / name).symlink_to(work / name)
        save_file(other, tmp_path / "work" / "codec.safetensors", {"width": "32", "blocks": "5"})
        capsys.readouterr()
        self.train(monkeypatch, tmp_path / "work", tmp_path, 5)
        assert "another codec than before" in capsys.readouterr().out
        found = load_file(tmp_path / "codec.safetensors")["features.inward.bias"].float()
        torch.testing.assert_close(found, other["features.inward.bias"].float(), atol=0.1, rtol=0)

    def test_speech_that_is_not_there_is_told(
        self, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "speech").mkdir()
        (tmp_path / "analysed").symlink_to(work / "analysed")
        (tmp_path / "codec.safetensors").symlink_to(work / "codec.safetensors")
        with pytest.raises(SystemExit, match="has no index.jsonl"):
            self.train(monkeypatch, tmp_path, tmp_path, 5)
        (tmp_path / "speech" / "index.jsonl").write_bytes((work / "speech" / "index.jsonl").read_bytes())
        with pytest.raises(SystemExit, match="lacks the sound of shard-0000.flac"):
            self.train(monkeypatch, tmp_path, tmp_path, 5)

    def test_sound_and_parameters_are_of_the_same_moment(
        self, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The vocoder's own sound of a take, its words at their places: any shift of it is further away."""
        self.train(monkeypatch, work, tmp_path, 0)
        given = {"speech": work / "speech", "features": work / "analysed", "start": work / "codec.safetensors"}
        numbers = {"seed": 1, "lr": 1e-3, "frames": 9, "steps": 0, "out": tmp_path / "new"}
        trainer = codec_sound.SoundTrainer(argparse.Namespace(**given, **numbers))
        monkeypatch.setattr(codec_sound, "with_code_noise", lambda codes, nearest: codes)
        frames, codes = 40, torch.randint(1024, (1, 8, 40), generator=torch.Generator().manual_seed(5))
        with torch.no_grad():
            network = trainer.network
            made = network(network.dequantise(codes), network.empty_windows(1))[0][0].clone()
            made[..., 0] = -9 + 4 * torch.sin(torch.arange(frames * 8) * 1.7)
            sound = synthesis.synthesise(trainer.codec.vocoder, torch.cat([made[:1], made])[None], torch.tensor([20]))
            start = 20
            shown = made[(start - codec_sound.CONTEXT_FRAMES) * 8 : (start + 9) * 8]
            monkeypatch.setattr(network, "forward", lambda components, windows: (shown[None], []))
            found = {}
            for shift in (-300, -150, 0, 150, 300):
                # The sound a take would have had: the vocoder's, without what it lies behind.
                pcm = torch.roll(sound[0], shift - synthesis.VOCODER_LAG_SAMPLES) * 32767
                take = codec_sound.SoundTake(codes[0].T, made, pcm.clamp(-32768, 32767).to(torch.int16))
                mel, of_network, target = trainer.hear([(take, start)], torch.tensor([40]))
                assert torch.equal(of_network, target)
                found[shift] = mel.item()
        assert min(found, key=found.__getitem__) == 0, found
        assert found[0] < 0.7 * min(found[-150], found[150]), found

    def test_takes_have_their_own_sound(self, work: Path) -> None:
        quantiser = Quantiser.load(work / "codec.safetensors")
        train, held = codec_sound.load_sound_takes(work / "analysed", work / "speech", quantiser)
        assert len(train) + len(held) == 24
        assert held
        for take in [*train, *held]:
            assert take.parameters.shape == (8 * len(take.codes), NUM_FEATURES)
            assert len(take.sound) == 1200 * len(take.codes)
            # Loud where its envelope is.
            power = take.sound.double().view(len(take.codes), -1).square().mean(1)
            level = take.parameters[:, 0].view(len(take.codes), 8).mean(1)
            loud, quiet = power.argmax(), power.argmin()
            assert level[loud] > level[quiet] + 1
