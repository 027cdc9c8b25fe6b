"""The report on a training: what it says of a small run folder, made here."""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.model.decoder import Decoder, initialise
from engine.train import cli, curves, report
from engine.train.balance import expert_shares, unevenness
from engine.train.corpus import coverage, hours
from engine.train.features import load_takes
from engine.train.recipe import ALPHABET, model_config
from engine.train.texts import is_held_out
from tests.engine.training_run import HIDDEN, LAYERS, TEXTS, entry, make_run

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run"))


def test_the_report_tells_what_happened(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = work / "report"
    report.main(
        [
            *("--features", str(work / "features"), "--quantiser", str(work / "quantiser.safetensors")),
            *("--training", str(work / "training.pt"), "--decoder-log", str(work / "decoder.jsonl")),
            *("--codec-log", str(work / "absent.jsonl"), "--sound-log", str(work / "absent.jsonl")),
            *("--stages", str(work / "stages.jsonl")),
            *("--out", str(out), "--hidden", str(HIDDEN), "--layers", str(LAYERS)),
        ]
    )
    assert str(out / "report.md") in capsys.readouterr().out
    text = (out / "report.md").read_text(encoding="utf-8")
    assert "| decoder | 50.0 min |" in text
    assert "| all | 1.00 h |" in text
    assert "| decoder: updates alone, all runs | 1.0 min |" in text
    held_out = sum(map(is_held_out, TEXTS))
    assert held_out > 0
    assert f"| all | {59 - held_out} |" in text
    assert "listened to 60 takes; 1 (1.7 %) are left out" in text
    assert "wrong: am_michael 1." in text
    assert "After 20 updates" in text
    assert "| main | 4.000 | 4.500 |" in text
    assert "| codebooks | 4.000 | 4.500 |" in text
    assert "## Codec\nNo log." in text
    assert "| layer | expert 0 |" in text
    assert "| Kokoro-82M, model and voices: the teacher | Apache-2.0 |" in text
    assert "| `features/features.jsonl` | `" in text
    assert sorted(path.name for path in out.iterdir()) == ["decoder.svg", "experts.svg", "report.md"]
    assert all(f"]({name})" in text for name in ("decoder.svg", "experts.svg"))


def test_nothing_is_learned_from_a_take_the_judge_dropped(work: Path) -> None:
    takes = load_takes(work / "features")
    assert [take.text for take in takes] == [TEXTS[0], *TEXTS[2:]]


def test_shares_are_those_of_the_routers(work: Path) -> None:
    quantiser = work / "quantiser.safetensors"
    arguments = argparse.Namespace(features=[work / "features"], quantiser=quantiser, hidden=HIDDEN, layers=LAYERS)
    batches = report.held_out_batches(arguments)
    decoder = Decoder(model_config(HIDDEN, LAYERS))
    initialise(decoder, 1)
    with torch.no_grad():
        for name, parameter in decoder.named_parameters():
            if name.endswith("router"):
                parameter.zero_()
    shares = expert_shares(decoder.eval(), batches)
    assert shares.shape == (LAYERS, 8)
    np.testing.assert_allclose(shares.sum(1), 1)
    # Equal scores: topk takes the same two everywhere.
    np.testing.assert_allclose(np.sort(shares, axis=1)[:, -2:], 0.5)
    np.testing.assert_allclose(unevenness(shares), 4)


def test_hours_and_held_out_ones_by_voice() -> None:
    held = next(text for text in TEXTS if is_held_out(text))
    taught = [text for text in TEXTS if not is_held_out(text)]
    entries = [entry(held, units=1440), entry(taught[0], units=1440), entry(taught[1], "am_michael", units=2880)]
    found = hours(entries)
    assert list(found) == ["am_michael", "af_heart"]
    assert (found["af_heart"].takes, found["af_heart"].held_out_takes) == (1, 1)
    assert found["af_heart"].hours == found["af_heart"].held_out_hours == pytest.approx(0.01, rel=0.01)
    assert found["am_michael"].hours == pytest.approx(0.02, rel=0.01)


def test_coverage_counts_what_was_trained_on_alone() -> None:
    held = next(text for text in TEXTS if is_held_out(text))
    taught = next(text for text in TEXTS if not is_held_out(text))
    entries = [entry(held, phonemes="fIt"), *[entry(taught, phonemes="kˈæt")] * 10]
    found = coverage(entries, ["kˈæt", "kæf", "fIt"])
    # kæ, æt; æf; fI, It
    assert (found.pairs, found.heard, found.heard_often) == (5, 2, 2)
    assert set(found.missing) == {"æf", "fI", "It"}


def test_the_lexicon_has_the_pairs_of_english() -> None:
    from engine.train.corpus import lexicon_words

    found = coverage([], lexicon_words().values())
    assert 800 < found.pairs < 3000
    assert {symbol for pair in found.missing for symbol in pair} <= set(ALPHABET)
    assert found.heard == 0
    assert found.missing[0] in ("ən", "ɪŋ", "əl", "st", "ɪn", "ᵊl", "ti", "ɪk", "əɹ")


class TestLog:
    def test_updates_made_again_count_as_made_last_and_other_lines_not_at_all(self, tmp_path: Path) -> None:
        path = tmp_path / "log.jsonl"
        lines = [{"step": 1, "seconds": 5.0, "main": 3.0}, {"step": 2, "seconds": 9.0, "main": 2.0}]
        again = [{"step": 2, "seconds": 4.0, "main": 1.0}, {"step": 3, "seconds": 8.0, "main": 0.5}]
        path.write_text("10 takes\n" + "".join(json.dumps(line) + "\n" for line in [*lines, *again]))
        log = curves.read_log(path)
        assert [entry["main"] for entry in log] == [3.0, 1.0, 0.5]
        assert curves.seconds(path) == 17.0
        assert curves.series(log, "main") == ([1, 2, 3], [3.0, 1.0, 0.5])
        assert curves.series(log, "main", is_held_out=True) == ([], [])

    def test_nothing_yet(self, tmp_path: Path) -> None:
        assert curves.read_log(tmp_path / "log.jsonl") == []
        assert curves.seconds(tmp_path / "log.jsonl") == 0

    def test_a_log_without_held_out_speech_is_drawn(self, tmp_path: Path) -> None:
        curves.draw_losses([{"step": 1, "seconds": 1.0, "cepstra": 2.0, "validation": {}}], tmp_path / "a.svg")
        curves.draw_losses([{"step": 1, "seconds": 1.0, "cepstra": 2.0, "validation": {}}], tmp_path / "b.svg")
        assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
        assert "cepstra" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_the_recipe_ends_with_a_report_whose_arguments_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = cli.parser().parse_args(["--work", str(tmp_path), "--hours", "0", "--features", str(tmp_path / "f")])
    last = list(cli.stages(args, tmp_path))[-1]
    assert last.module == "engine.train.report"
    given: list[Any] = []

    def gather(arguments: Any) -> None:
        given.append(arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "gather", gather)
    with pytest.raises(KeyboardInterrupt):
        report.main(list(last.arguments))
    assert given[0].features == [tmp_path / "f"]
    assert given[0].training == tmp_path / "decoder" / "training.pt"
    assert given[0].codec_log == tmp_path / "codec" / "log.jsonl"
    assert given[0].sound_log is None, "no new speech, no stage of sound"
    assert given[0].stages == tmp_path / "stages.jsonl"


def test_takes_are_judged_before_anything_is_learned_unless_that_is_not_wanted(tmp_path: Path) -> None:
    names = [stage.name for stage in cli.stages(cli.parser().parse_args(["--work", str(tmp_path)]), tmp_path)]
    assert names == ["teacher", "judge", "analyse", "codebooks", "codec", "sound", "decoder", "export", "report"]
    without = cli.parser().parse_args(["--work", str(tmp_path), "--no-judge"])
    assert "judge" not in [stage.name for stage in cli.stages(without, tmp_path)]


def test_what_is_said_of_the_published_training_is_what_its_report_says() -> None:
    published = (ROOT / "docs" / "training" / "report.md").read_text(encoding="utf-8")

    def figure(row: str) -> float:
        """Of the published weights: the last column."""
        found = re.search(rf"^\| {row} \|.*\| \D*([\d.]+)[^|]*\|$", published, re.MULTILINE)
        assert found is not None, row
        return float(found[1])

    assert figure("decoder: updates") == cli.STEPS
    assert figure("codec: updates") == cli.CODEC_STEPS
    assert figure("codec: updates by its sound") == cli.SOUND_STEPS
    assert round(figure("teacher's speech, as spoken"), 1) == cli.HOURS
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    hours = figure("updates alone, one core") / 60
    assert f"took {hours:.1f} hours of one core for the updates" in readme


def test_times_of_stages_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Done:
        returncode = 0

    monkeypatch.setattr("engine.train.cli.subprocess.run", lambda command, env: Done())
    (tmp_path / "features.jsonl").touch()
    assert cli.main(["--work", str(tmp_path), "--hours", "0", "--features", str(tmp_path)]) == 0
    lines = [json.loads(line) for line in (tmp_path / cli.STAGES).read_text(encoding="utf-8").splitlines()]
    assert [line["stage"] for line in lines] == ["codebooks", "codec", "decoder", "export", "report"]
    assert all(line["seconds"] >= 0 for line in lines)
