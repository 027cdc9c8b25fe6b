"""``footlights captions`` as people run it, against a real server; and its formats."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from clients.captions import Caption, Track, main, parse_cues, parse_line, to_vtt
from realtime.protocol import Word
from tests.realtime.fake_engine import SAMPLE_RATE

ROOT = Path(__file__).resolve().parents[2]
HEADER_BYTES = 44
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
SRT = """1
00:00:00,000 --> 00:00:01,000
One <i>two</i>

2
00:00:00,600 --> 00:00:02,000
three
four.
"""


def captions(
    *arguments: str, stdin: str = "", may_go_on: Callable[[], bool] = lambda: True
) -> "subprocess.CompletedProcess[str]":
    """Runs the command; a line of its input comes when it ``may_go_on`` after the one before."""
    with subprocess.Popen(
        [sys.executable, "-m", "clients.cli", "captions", *arguments],
        cwd=ROOT,
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        for number, line in enumerate(stdin.splitlines(keepends=True)):
            while number and not may_go_on() and process.poll() is None:
                time.sleep(0.02)
            process.stdin.write(line)
            process.stdin.flush()
        out, error = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, error)


def read(wav: Path) -> NDArray[np.int16]:
    """Samples of a file that may still be written."""
    data = wav.read_bytes()[HEADER_BYTES:]
    return np.frombuffer(data[: len(data) // 2 * 2], "<i2")


def words_of(vtt: str) -> list[str]:
    return re.findall(r"<[\d:.]+>(\S+)", vtt)


def test_captions_that_change_are_spoken_as_they_end(server: str, tmp_path: Path) -> None:
    said = (
        '{"text": "One two three four five six seven eight"}\n'
        '{"text": "One two three four five six other words"}\n'
        '{"text": "One two three four five six other words.", "final": true}\n'
        '{"text": "Nine ten.", "final": true}\n'
    )
    wav, vtt = tmp_path / "out.wav", tmp_path / "out.vtt"
    done = captions("-s", server, "-o", str(wav), "--vtt", str(vtt), stdin=said)
    assert (done.returncode, done.stderr) == (0, "")
    words = ["One", "two", "three", "four", "five", "six", "other", "words.", "Nine", "ten."]
    text = vtt.read_text()
    assert text.startswith("WEBVTT\n\n00:00:0")
    assert words_of(text) == words
    samples = read(wav)
    assert np.count_nonzero(samples) == pytest.approx(len(words) * 0.2 * SAMPLE_RATE, rel=0.02)
    assert len(samples) >= len(words) * 0.2 * SAMPLE_RATE


def test_what_was_heard_cannot_be_changed_and_it_says_so(server: str, tmp_path: Path) -> None:
    said = '{"text": "One two three four "}\n{"text": "Six seven eight nine ten.", "final": true}\n'
    wav, vtt = tmp_path / "out.wav", tmp_path / "out.vtt"

    def has_heard_two_words() -> bool:
        return wav.exists() and int(np.count_nonzero(read(wav))) > 0.4 * SAMPLE_RATE

    done = captions("-s", server, "-o", str(wav), "--vtt", str(vtt), stdin=said, may_go_on=has_heard_two_words)
    assert done.returncode == 0
    assert "too late to change" in done.stderr
    words = words_of(vtt.read_text())
    assert words[:2] == ["One", "two"]
    assert words[-1] == "ten."


def test_a_subtitle_file_in_real_time(server: str, tmp_path: Path) -> None:
    source, vtt = tmp_path / "in.srt", tmp_path / "out.vtt"
    source.write_text(SRT)
    started = time.monotonic()
    done = captions("-s", server, "--replay", str(source), "-o", str(tmp_path / "out.wav"), "--vtt", str(vtt))
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - started > 0.6
    assert words_of(vtt.read_text()) == ["One", "two", "three", "four."]


def test_a_dub_fits_under_its_film(server: str, tmp_path: Path) -> None:
    source, wav, vtt = tmp_path / "in.srt", tmp_path / "out.wav", tmp_path / "out.vtt"
    source.write_text("1\n00:00:01,000 --> 00:00:01,500\nOne two.\n\n2\n00:00:03,000 --> 00:00:04,000\nThree four.\n")
    done = captions("-s", server, "--replay", str(source), "-o", str(wav), "--vtt", str(vtt))
    assert (done.returncode, done.stderr) == (0, "")
    cues = parse_cues(vtt.read_text())
    assert [text for _, text in cues] == ["One two.", "Three four."]
    sounds = np.flatnonzero(read(wav)) / SAMPLE_RATE
    second = sounds[sounds > 2.5]
    for (start_s, _), (due_s, heard_s) in zip(cues, [(1, sounds[0]), (3, second[0])], strict=True):
        assert start_s == pytest.approx(heard_s, abs=0.01)
        assert due_s <= heard_s < due_s + 1
    first_end_s = re.findall(r"--> 00:00:([\d.]+)", vtt.read_text())[0]
    assert float(first_end_s) == pytest.approx(sounds[sounds <= 2.5][-1], abs=0.01)


def test_what_falls_behind_is_skipped_and_told(server: str, tmp_path: Path) -> None:
    said = '{"text": "' + "word " * 60 + 'end.", "final": true}\n'
    vtt = tmp_path / "out.vtt"
    done = captions("-s", server, "--max-lag", "2", "-o", str(tmp_path / "out.wav"), "--vtt", str(vtt), stdin=said)
    assert done.returncode == 0
    assert "skipped: word" in done.stderr
    words = words_of(vtt.read_text())
    assert words[-1] == "end."
    assert len(words) < 30


@pytest.mark.parametrize("line", ["", "no", "[]", '{"text": 3}', '{"final": true}', '{"text": "a", "final": 1}'])
def test_lines_that_are_no_captions(line: str) -> None:
    with pytest.raises(ValueError, match="caption"):
        parse_line(line)


def test_input_that_is_no_captions_fails_with_the_line(server: str, tmp_path: Path) -> None:
    done = captions("-s", server, "-o", str(tmp_path / "out.wav"), stdin="hello\n")
    assert done.returncode == 1
    assert done.stderr.startswith("footlights: not a caption: 'hello'")


def test_the_help_teaches() -> None:
    done = captions("--help")
    for word in (
        '"final": true',
        "--replay",
        "--vtt",
        "--max-lag",
        "0.5 to 600 seconds",
        "--hurry <",
        "FOOTLIGHTS_SERVER",
    ):
        assert word in " ".join(done.stdout.split())


def test_cues_of_both_kinds() -> None:
    assert parse_cues(SRT) == [(0.0, "One two"), (0.6, "three four.")]
    assert parse_cues("WEBVTT\n\nNOTE hi\n\n01:02.500 --> 01:03.000 align:start\nText") == [(62.5, "Text")]
    with pytest.raises(ValueError, match="no cues"):
        parse_cues("nothing")


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        (r"{\an8}Up here.", "Up here."),
        (r"{\pos(192,250)\c&HFF&}One {\i1}two{\i0}.", "One two."),
        ("Salt &amp; pepper &lt;b&gt;", "Salt & pepper <b>"),
        ("AT&T &amp;amp; Q&A", "AT&T &amp; Q&A"),
        ("<v Roger>Hi, <c.loud>you</c> <00:00:01.000>there", "Hi, you there"),
        ("3 < 4, {really}", "3 < 4, {really}"),
    ],
)
def test_a_cue_is_what_is_seen(written: str, seen: str) -> None:
    for file in (f"1\n00:00:00,000 --> 00:00:01,000\n{written}\n", f"WEBVTT\n\n00:00.000 --> 00:01.000\n{written}\n"):
        assert parse_cues(file) == [(0.0, seen)]


def test_what_is_written_reads_as_it_was() -> None:
    words = [Word(text, text, 100.0 * i, 100.0 * i + 90, 0, 1) for i, text in enumerate(["Salt", "&", "<b>", "&amp;"])]
    assert parse_cues(to_vtt(words)) == [(0.0, "Salt & <b> &amp;")]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--max-lag", "0.1"], "0.1 is not a number of 0.5 to 600 seconds"),
        (["--max-lag", "601"], "0.5 to 600 seconds"),
        (["--max-lag", "nan"], "0.5 to 600 seconds"),
        (["-o", "x.mp3"], "only .wav files are written"),
        (["-o", "nowhere/x.wav"], "there is no folder nowhere"),
        (["--vtt", "nowhere/x.vtt"], "there is no folder nowhere"),
        (["--hurry"], "--hurry needs --max-lag"),
    ],
)
def test_wrong_arguments(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert told in capsys.readouterr().err


def test_a_track_is_one_text() -> None:
    track = Track()
    assert track.show(Caption(" Good eve")) == "Good eve"
    assert track.show(Caption("Good evening.", is_final=True)) == "Good evening. "
    assert track.show(Caption("", is_final=True)) == "Good evening. "
    assert track.show(Caption("All")) == "Good evening. All"


def test_webvtt_cues_end_with_sentences_silences_and_lines() -> None:
    def word(text: str, start_ms: float) -> Word:
        return Word(text, text, start_ms, start_ms + 100, 0, 1)

    text = to_vtt([word("One.", 0), word("a<b", 200), word("late", 3_600_000)])
    assert text == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:00.100\n<00:00:00.000>One.\n\n"
        "00:00:00.200 --> 00:00:00.300\n<00:00:00.200>a&lt;b\n\n"
        "01:00:00.000 --> 01:00:00.100\n<01:00:00.000>late\n"
    )
