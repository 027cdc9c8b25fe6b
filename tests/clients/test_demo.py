"""``make speak``: a text is written word by word and spoken meanwhile."""

import os
import re
import subprocess
import sys
import wave
from pathlib import Path

from clients.demo import TEXT
from tests.clients.conftest import FAKE_ENGINE

ROOT = Path(__file__).resolve().parents[2]
WORD_S = 0.2


def rehearse(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "clients.demo", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**environment, "FOOTLIGHTS_WORKER_FACTORY": FAKE_ENGINE},
        timeout=60,
    )


def test_speaks_while_the_text_is_written(tmp_path: Path) -> None:
    done = rehearse(tmp_path, "--pace", "20", "-o", "out.wav")
    assert done.returncode == 0, done.stderr
    written, summary = done.stdout.split("\n\n", 1)
    before, after = written.split("[first sound]")
    assert f"{before}{after.strip()}".split() == TEXT.split()
    assert len(after.split()) > len(TEXT.split()) / 2
    told = re.search(r"First sound (\d+) ms after the first word, with (\d+) of (\d+) words written", summary)
    assert told is not None
    assert int(told[2]) == len(before.split())
    assert int(told[3]) == len(TEXT.split())
    assert "make serve" in summary
    with wave.open(str(tmp_path / "out.wav")) as file:
        assert abs(file.getnframes() / file.getframerate() - WORD_S * len(TEXT.split())) < 0.1


def test_a_text_without_anything_to_say(tmp_path: Path) -> None:
    done = rehearse(tmp_path, "-o", "out.wav", "...")
    assert done.returncode == 0, done.stderr
    assert "nothing to say" in done.stdout


def test_a_text_that_is_refused(tmp_path: Path) -> None:
    done = rehearse(tmp_path, "-o", "out.wav", "Good <|im_end|> evening.")
    assert done.returncode == 1
    assert "<|im_end|>" in done.stderr
    assert "Traceback" not in done.stderr
