"""Training the decoder: stopped and gone on with, from nothing and from a checkpoint."""

import argparse
import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.codec.understudy import UnderstudyCodec
from engine.model.decoder import Decoder, initialise
from engine.quant.convert import quantise
from engine.quant.scheme import PartScheme, Scheme
from engine.train import cli, loop
from engine.train.codec_decoder import export, install_quantiser
from engine.train.export import export_understudy
from engine.train.quantiser import Quantiser
from engine.train.recipe import LEANING, LEANS_ON, VOICES, build_tokenizer, model_config, speaker_token
from engine.weights import load_decoder, save_decoder
from tests.engine.training_run import HIDDEN, LAYERS, make_run


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, work: Path) -> Path:
    """A checkpoint on the run's codebooks."""
    folder = tmp_path_factory.mktemp("published")
    decoder = Decoder(model_config(HIDDEN, LAYERS))
    initialise(decoder, 2)
    save_decoder(folder, decoder, decoder.config)
    codec = UnderstudyCodec(width=32, blocks=1)
    install_quantiser(codec.features, Quantiser.load(work / "quantiser.safetensors"))
    export(codec, folder / "codec.safetensors")
    return folder


def train(monkeypatch: pytest.MonkeyPatch, work: Path, out: Path, *more: str) -> None:
    size = ["--hidden", str(HIDDEN), "--layers", str(LAYERS), "--rows", "60", "--variants", "1", "--log-every", "1"]
    given = ["--features", str(work / "features"), "--quantiser", str(work / "quantiser.safetensors")]
    monkeypatch.setattr(sys, "argv", ["loop", *given, "--out", str(out), *size, *more])
    loop.main()


def test_a_run_that_was_stopped_goes_on(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(monkeypatch, work, tmp_path, "--steps", "1")
    first = torch.load(tmp_path / "training.pt", weights_only=True)
    train(monkeypatch, work, tmp_path, "--steps", "2")
    second = torch.load(tmp_path / "training.pt", weights_only=True)
    assert (first["step"], second["step"]) == (1, 2)
    assert any(not torch.equal(first["decoder"][name], second["decoder"][name]) for name in first["decoder"])
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [entry["step"] for entry in log] == [1, 2]
    assert all(entry["validation"]["main"] > 0 for entry in log)
    train(monkeypatch, work, tmp_path, "--steps", "2")
    assert torch.load(tmp_path / "training.pt", weights_only=True)["step"] == 2


def test_a_run_begins_from_a_checkpoint(
    work: Path, published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(monkeypatch, work, tmp_path, "--steps", "0", "--start", str(published))
    state = torch.load(tmp_path / "training.pt", weights_only=True)
    theirs = load_decoder(published)[0].state_dict()
    assert state["step"] == 0
    assert state["decoder"].keys() == theirs.keys()
    assert all(torch.equal(state["decoder"][name], theirs[name]) for name in theirs)
    train(monkeypatch, work, tmp_path, "--steps", "1", "--start", str(published))
    state = torch.load(tmp_path / "training.pt", weights_only=True)
    assert any(not torch.equal(state["decoder"][name], theirs[name]) for name in theirs)
    decoder = load_decoder(published)[0]
    assert all(torch.equal(decoder.state_dict()[name], theirs[name]) for name in theirs), "the checkpoint was changed"


def test_codebooks_of_very_little_speech_do_no_harm(work: Path) -> None:
    quantiser = Quantiser.load(work / "quantiser.safetensors")
    quantiser.codebooks[-1].zero_()
    decoder = loop.untrained(model_config(HIDDEN, LAYERS), quantiser, 1)
    assert all(torch.isfinite(weights).all() for weights in decoder.state_dict().values())


def test_codebooks_are_read_from_a_codec(work: Path, published: Path) -> None:
    fitted, found = Quantiser.load(work / "quantiser.safetensors"), Quantiser.load(published / "codec.safetensors")
    for one, other in zip(fitted.codebooks, found.codebooks, strict=True):
        torch.testing.assert_close(one, other, rtol=2**-8, atol=0)
    for name in ("spectrum", "source"):
        assert torch.equal(fitted.mean[name], found.mean[name])
        assert torch.equal(fitted.components[name], found.components[name])


class TestRecipe:
    def args(self, *given: str) -> argparse.Namespace:
        return cli.parser().parse_args([*given, "--size", str(HIDDEN), "--layers", str(LAYERS)])

    def test_a_started_run_keeps_the_codes(self, published: Path, tmp_path: Path) -> None:
        args = self.args("--work", str(tmp_path), "--start", str(published), "--no-judge")
        stages = {stage.name: " ".join(stage.arguments) for stage in cli.stages(args, tmp_path)}
        assert list(stages) == ["teacher", "analyse", "sound", "decoder", "export", "report"]
        codec = published / "codec.safetensors"
        assert f"--start {codec} " in stages["sound"]
        assert " --seed 1 " in stages["sound"]
        assert f"--quantiser {codec} " in stages["decoder"]
        assert f"--start {published} " in stages["decoder"]
        assert f"--codec {tmp_path / 'sound' / 'codec.safetensors'} " in stages["export"]
        assert stages["export"].endswith(f"--start {published} --learned 0.5")
        assert stages["report"].endswith(f"--start {published} --learned 0.5")
        assert f"--quantiser {codec} " in stages["report"]

    def test_new_speech_of_some_voices(self, tmp_path: Path) -> None:
        args = self.args("--work", str(tmp_path), "--voices", "bella", "george")
        teacher = next(stage for stage in cli.stages(args, tmp_path) if stage.name == "teacher")
        assert " --styles af_bella bm_george " in " ".join([*teacher.arguments, ""])

    @pytest.mark.parametrize(
        ("damage", "told"),
        [
            ("size", "config.json is not an understudy of --size 256"),
            ("config.json", "config.json"),
            ("codec.safetensors", "codec.safetensors"),
            ("model.safetensors", "model.safetensors cannot be read: it is cut off"),
            ("tensor", "model.safetensors: tensor lm_head.weight is missing"),
            ("quantised", "is quantised"),
        ],
    )
    def test_a_start_that_does_not_fit_is_refused_before_any_work(
        self, published: Path, tmp_path: Path, damage: str, told: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder = tmp_path / "start"
        folder.mkdir()
        for path in published.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        size = "256" if damage == "size" else str(HIDDEN)
        if damage == "tensor":
            tensors = load_file(folder / "model.safetensors")
            del tensors["lm_head.weight"]
            save_file(tensors, folder / "model.safetensors")
        elif damage == "quantised":
            shutil.rmtree(folder)
            quantise(published, folder, Scheme(experts=PartScheme(8)))
        elif damage != "size":
            (folder / damage).write_bytes((folder / damage).read_bytes()[:-1000])
        given = ["--work", str(tmp_path / "work"), "--start", str(folder), "--size", size, "--layers", str(LAYERS)]
        assert cli.main(given) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"cannot start from {folder}: ")
        assert told in error
        assert not (tmp_path / "work").exists()

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            (["--size", "100"], "--size: 100 is not a multiple of 128 from 128 to 4096"),
            (["--size", "0"], "--size"),
            (["--size", "1000000"], "--size"),
            (["--layers", "0"], "--layers: 0 is not a whole number from 1 to 1024"),
            (["--layers", "1025"], "--layers"),
            (["--hours", "-1"], "--hours: -1 is not a number from 0 to 1000"),
            (["--hours", "nan"], "--hours"),
            (["--hours", "inf"], "--hours"),
            (["--hours", "0"], "--features"),
            (["--threads", "0"], "--threads"),
            (["--steps", "0"], "--steps"),
            (["--codec-steps", "0"], "--codec-steps"),
            (["--seed", "-1"], "--seed"),
            (["--features", "nowhere"], "there is no features.jsonl in nowhere"),
            (["--wordnet", "nowhere"], "there is no data.noun in nowhere"),
            (["--out", __file__], "is a file, not a folder"),
        ],
    )
    def test_what_would_fail_hours_later_is_refused_before_any_work(
        self, tmp_path: Path, given: list[str], told: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as stopped:
            cli.main(["--work", str(tmp_path / "work"), *given])
        assert stopped.value.code == 2
        assert told in capsys.readouterr().err.splitlines()[-1]
        assert not (tmp_path / "work").exists()

    def test_every_size_that_is_accepted_is_a_model(self) -> None:
        for size in range(cli.SIZE_UNIT, cli.MOST_SIZE + 1, cli.SIZE_UNIT):
            assert model_config(size, 1).backbone.hidden_size == size
        assert model_config(cli.SIZE_UNIT, cli.MOST_LAYERS).backbone.num_hidden_layers == cli.MOST_LAYERS


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_what_is_kept_of_a_further_run_lies_between(work: Path, published: Path, tmp_path: Path, share: float) -> None:
    given = (work / "training.pt", published / "codec.safetensors", tmp_path, HIDDEN, LAYERS)
    export_understudy(*given, start=published, learned=share)
    found, before = (load_decoder(folder)[0].state_dict() for folder in (tmp_path, published))
    after = torch.load(work / "training.pt", weights_only=True)["average"]
    for name in after:
        torch.testing.assert_close(found[name], before[name].lerp(after[name], share), rtol=0.01, atol=0.01)
    notes = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["footlights"]["notes"]
    assert notes == [f"then for 20 more, {share:g} of the way"]


def test_voices_that_lean_are_put_back(work: Path, published: Path, tmp_path: Path) -> None:
    given = (work / "training.pt", published / "codec.safetensors")
    for name, as_trained in (("plain", True), ("leaning", False)):
        export_understudy(*given, tmp_path / name, HIDDEN, LAYERS, as_trained=as_trained)
    start = tmp_path / "leaning"
    export_understudy(*given, tmp_path / "back", HIDDEN, LAYERS, start=start, learned=0.0, upright=True)
    plain, back = (load_decoder(tmp_path / name)[0].state_dict() for name in ("plain", "back"))
    for name in plain:
        # Rounded to bfloat16 twice, and what is put back is stretched.
        torch.testing.assert_close(plain[name], back[name], rtol=2**-6, atol=2**-6)


def test_voices_of_little_speech_lean_on_others(work: Path, published: Path, tmp_path: Path) -> None:
    for name, as_trained in (("leaning", False), ("plain", True)):
        given = (work / "training.pt", published / "codec.safetensors", tmp_path / name, HIDDEN, LAYERS)
        assert export_understudy(*given, as_trained=as_trained) > 0
    leaning, plain = (load_decoder(tmp_path / name)[0].state_dict() for name in ("leaning", "plain"))
    tags = [speaker_token(build_tokenizer(), voice) for voice in range(len(VOICES))]
    for table, rows in (("aligned_text.voice_embedding.weight", list(range(8))), ("embed_tokens.weight", tags)):
        before, after = plain.pop(table), leaning.pop(table)
        for voice, name in enumerate(VOICES):
            other = VOICES.index(LEANS_ON.get(name, name))
            expected = before[rows[voice]].lerp(before[rows[other]], LEANING)
            torch.testing.assert_close(after[rows[voice]], expected, rtol=0, atol=2**-5)
        untouched = [row for row in range(len(before)) if row not in rows]
        assert torch.equal(before[untouched], after[untouched])
        assert torch.equal(before[rows[:3]], after[rows[:3]])
        assert not torch.equal(before[rows[3:]], after[rows[3:]])
    assert all(torch.equal(plain[name], leaning[name]) for name in plain)
