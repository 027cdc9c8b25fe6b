"""The doctor: facts of machine and model, a spoken test, and an exit status that tells."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from engine import doctor
from engine.engine import Engine
from engine.loading import load_parts
from engine.quant.half import is_supported
from engine.scheduler import Scheduler
from engine.weights import load_decoder
from tests.engine.doubles import FakeClock, SumCodec

GOLDEN = Path(__file__).parents[1] / "golden" / "drama3-tiny" / "checkpoint-bf16"

TEST = doctor.SelfTest(
    voice="heart",
    audio_s=4.0,
    rtf=0.2,
    ttfa_ms=90,
    peak=0.6,
    words=15,
    expected_words=15,
    prompt_rows=0,
    memory_bytes=1000,
)


@pytest.fixture
def machine() -> doctor.Machine:
    return replace(doctor.describe_machine("cpu"), cores=2, threads=1)


def test_a_healthy_machine_has_no_problems(machine: doctor.Machine) -> None:
    assert doctor.find_problems(machine, TEST) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rtf": 1.5}, "1.50 times slower"),
        ({"peak": 0.0}, "silent"),
        ({"peak": 1.0}, "clipped"),
        ({"words": 12}, "12 of 15 words"),
    ],
)
def test_each_problem_is_named(machine: doctor.Machine, changes: dict[str, float], says: str) -> None:
    (problem,) = doctor.find_problems(machine, replace(TEST, **changes))  # type: ignore[arg-type]
    assert says in problem


def test_more_threads_than_cores(machine: doctor.Machine) -> None:
    (problem,) = doctor.find_problems(replace(machine, threads=8), TEST)
    assert "at most 2" in problem


def golden_engine(*arguments: object, **options: object) -> Engine:
    return Engine(load_parts(GOLDEN, codec=SumCodec(4)), Scheduler(1, float("inf"), FakeClock()))


def test_a_model_is_loaded_and_described(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "load_engine", golden_engine)
    monkeypatch.setattr(doctor, "SENTENCE", "Yes, I do.")
    status = doctor.main(["--model", str(GOLDEN), "--json"])
    report = json.loads(capsys.readouterr().out)
    assert status == (1 if report["problems"] else 0)
    plain, config = load_decoder(GOLDEN)
    assert report["model"]["parameters"] == sum(config.parameter_counts().values())
    floats = sum(p.nbytes for p in plain.parameters())
    packed = any(name == "HalfLinear float16" for name in report["model"]["kernels"])
    assert packed == is_supported()
    # Tables take the place of products.
    assert floats / 2 < report["model"]["bytes"] < 1.2 * floats
    # The golden model was never trained: it does not end its turn.
    assert report["self_test"] is None
    assert report["problems"] == [problem for problem in report["problems"] if "cannot speak" in problem] != []


def test_the_built_in_model_is_heard(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.main(["--json"])
    test = json.loads(capsys.readouterr().out)["self_test"]
    assert test["words"] == test["expected_words"] == len(doctor.SENTENCE.split())
    assert 2 < test["audio_s"] < 15
    assert test["memory_bytes"] > 0
    assert test["rtf"] > 0


def test_a_folder_that_is_no_model_is_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["--model", str(tmp_path)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "wrong: the model cannot be loaded" in out
    assert "Machine" in out


def test_tables_show_facts_and_problems(machine: doctor.Machine) -> None:
    console = Console(record=True, width=120)
    model = doctor.describe(golden_engine(), load_s=1.0)
    doctor.show(doctor.Report(machine, model, TEST, ("it rains",)), console)
    text = console.export_text()
    for fact in ("Fish Audio Community License", "0.200", "90 ms", "-4.4 dBFS", "15 of 15", "wrong: it rains"):
        assert fact in text
    doctor.show(doctor.Report(machine, model, TEST, ()), console)
    assert "all is well" in console.export_text()
