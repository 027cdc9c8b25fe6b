"""Tables say what was measured; the JSON line is one line, valid, and has its keys."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from clients.bench import report, run_plots
from clients.bench.decode import BatchSpeed
from clients.bench.environment import environment
from clients.bench.online import Crowd, Latency
from clients.bench.quality import Quality, read_all, summarise
from clients.bench.store import Reading, Store
from tests.clients.bench.doubles import FakeJudges, FakeReader
from tests.clients.bench.test_online import stream

TEXT = "This [bold]sentence[/] is the only one."
SPEEDS = [BatchSpeed(1, [10.0, 20.0, 60.0], 50.0, 0.4, 0.3), BatchSpeed(4, [30.0, 40.0], 50.0, 0.2, 0.2)]
LATENCIES = [Latency.of([stream(100, 150), stream(200, 300)], 15), Latency.of([], 30)]
CROWDS = [Crowd.of([stream(100, 140)], 1), Crowd.of([stream(100, 190), stream(100)], 2)]


@pytest.fixture
def measured(tmp_path: Path) -> Quality:
    reader = FakeReader(says={TEXT: "This sentence is [only] one."})
    store = Store(tmp_path / "readings.jsonl", Reading, reader)
    return summarise(reader, *read_all(reader, [TEXT], 1, FakeJudges(reader), store))


def shown(*tables: object) -> str:
    console = Console(file=io.StringIO(), width=160)
    console.print(*tables)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_quality_tables(measured: Quality) -> None:
    table = shown(report.quality_table([measured]))
    for part in ("Fake", "WER", "DistillMOS", "3.50 [3.50, 3.50]", "0.0 %", "RTF"):
        assert part in table
    voices = shown(report.voices_table(measured))
    assert "heart" in voices
    assert "4.00" in voices
    worst = shown(report.worst_table(measured))
    assert TEXT in worst
    assert "[only]" in worst


def test_speed_tables() -> None:
    decode = shown(report.decode_table(SPEEDS))
    assert "50 ms a frame" in decode
    assert "33.3 %" in decode
    latency = shown(report.latency_table(LATENCIES))
    assert "150 / 195" in latency
    assert "50 / 95" in latency
    crowd = shown(report.crowd_table(CROWDS))
    assert "1 without an underrun" in crowd
    flow = shown(report.flow_table(LATENCIES))
    assert "75 / 98" in flow


def test_json_line_is_one_valid_line_with_all_keys(
    measured: Quality, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    results = {
        "readers": {"Fake": measured.as_json()},
        "decode": [speed.as_json() for speed in SPEEDS],
        "latency": [latency.as_json() for latency in LATENCIES],
        "crowd": [crowd.as_json() for crowd in CROWDS],
        "nothing": float("nan"),
    }
    line = report.json_line("quality", environment(), {"seed": 1}, results)
    report.finish(line, tmp_path / "deep" / "quality.json")
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert (tmp_path / "deep" / "quality.json").read_text(encoding="utf-8") == out
    read = json.loads(out)
    assert list(read) == ["benchmark", "schema", "environment", "settings", "results"]
    assert read["schema"] == report.SCHEMA
    assert {"machine", "load", "python", "threads", "packages", "commit"} <= set(read["environment"])
    assert read["environment"]["packages"]["torch"].startswith("2.13")
    assert read["results"]["nothing"] is None
    reader = read["results"]["readers"]["Fake"]
    assert set(reader) == {
        *("about", "takes", "reused", "wer", "wer_by_voice", "failed_share", "failed"),
        *("mos", "mos_by_voice", "length_ratio", "rtf", "rtf_cpu"),
    }
    assert set(reader["wer"]) == {"value", "low", "high"}
    assert set(read["results"]["crowd"][0]["shares"]) == {"C50", "C100", "C200"}


def test_header_shows_machine_and_settings() -> None:
    console = Console(file=io.StringIO(), width=100)
    where = report.header(console, "bench", {"seed": 7, "list": ["[red]"]})
    file = console.file
    assert isinstance(file, io.StringIO)
    text = file.getvalue()
    for part in ("machine: ", "seed: 7", "list: ['[red]']", f"python: {where['python']}"):
        assert part in text


def test_pictures_are_drawn(measured: Quality, tmp_path: Path) -> None:
    run_plots.quality_plot([measured], tmp_path / "new" / "quality.png")
    run_plots.speed_plot(SPEEDS, LATENCIES, CROWDS, tmp_path / "speed.png")
    run_plots.speed_plot([], LATENCIES, CROWDS, tmp_path / "online.png")
    for path in (tmp_path / "new" / "quality.png", tmp_path / "speed.png", tmp_path / "online.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
