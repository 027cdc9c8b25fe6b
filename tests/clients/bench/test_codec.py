"""The codec's benchmark on a small codec: every size is timed, operations are counted, the last line is JSON."""

import json
import shutil
from pathlib import Path

import pytest

from clients.bench import cli
from clients.bench.codec import gflop_per_s, measure, random_codec
from engine.codec.dac.config import DacConfig

GOLDEN = Path(__file__).parents[2] / "golden" / "drama3-tiny" / "codec"
SMALL = DacConfig.from_folder(GOLDEN)


def test_every_size_is_timed_as_often_as_asked() -> None:
    turns: list[None] = []
    speeds = measure(random_codec(SMALL), [1, 3], [1, 2], 4, lambda: turns.append(None))
    assert [(speed.batch, speed.frames) for speed in speeds] == [(1, 1), (1, 2), (3, 1), (3, 2)]
    assert len(turns) == 4
    for speed in speeds:
        assert len(speed.wall_s) == len(speed.cpu_s) == 4
        assert speed.audio_s == pytest.approx(speed.batch * speed.frames * 256 / 44_100)


def test_operations_do_not_depend_on_the_piece() -> None:
    one, four = gflop_per_s(SMALL, 1), gflop_per_s(SMALL, 4)
    assert one == pytest.approx(four, rel=0.01)
    assert one > 0


def test_the_command_measures_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("codec.pth", "codec_config.json"):
        shutil.copy(GOLDEN / name, tmp_path / name)
    arguments = ["codec", "--model", str(tmp_path), "--batches", "1,2", "--frames", "1", "--repeats", "2"]
    assert cli.main([*arguments, "--out", str(tmp_path / "out")]) == cli.EXIT_OK
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [piece["streams"] for piece in line["results"]["pieces"]] == [1, 2]
    assert all(piece["wall_ms"] > 0 for piece in line["results"]["pieces"])
    assert json.loads((tmp_path / "out" / "codec" / "codec.json").read_text()) == line


def test_a_checkpoint_without_a_codec_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["codec", "--model", str(tmp_path), "--out", str(tmp_path)]) == cli.EXIT_FAILED
    assert "codec.pth" in capsys.readouterr().err
