"""``footlights say`` as people run it: a program of its own, against the real server or with one of its own."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
import wave
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from clients.cli import COMMANDS, main
from clients.commands import say
from clients.commands.program import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE
from clients.commands.sinks import WavFile
from tests.clients.conftest import FAKE_ENGINE
from tests.realtime.fake_engine import SAMPLE_RATE, tone

ROOT = Path(__file__).resolve().parents[2]
FRAMES_PER_WORD = 4
WORD_BYTES = 2 * SAMPLE_RATE * 200 // 1000
COMMAND = [sys.executable, "-m", "clients.cli", "say"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


@dataclass
class Outcome:
    """What a command came to."""

    returncode: int
    stdout: bytes
    stderr: bytes


Call = Callable[..., Outcome]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Call:
    """Runs the command in this process, in the test's folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("FOOTLIGHTS_SERVER", "FOOTLIGHTS_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def called(*arguments: str, **environment: str) -> Outcome:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        status = main(["say", *arguments])
        captured = capsysbinary.readouterr()
        return Outcome(status, captured.out, captured.err)

    return called


def run(*arguments: str, cwd: Path, text: str | None = None, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        input=None if text is None else text.encode(),
        stdin=subprocess.DEVNULL if text is None else None,
        capture_output=True,
        env={**ENVIRONMENT, **environment},
        timeout=30,
    )


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    """Starts a program whose standard input and output are pipes; it does not outlive the test."""
    programs: list[subprocess.Popen[bytes]] = []

    def started(*arguments: str) -> "subprocess.Popen[bytes]":
        pipe = subprocess.PIPE
        programs.append(
            subprocess.Popen(
                [*COMMAND, *arguments],
                cwd=tmp_path,
                bufsize=0,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=ENVIRONMENT,
            )
        )
        return programs[-1]

    yield started
    for program in programs:
        program.kill()
        program.communicate()


def samples_of(path: Path) -> np.ndarray:
    """int16 of a WAV file, after a look at its header."""
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth()) == (1, 2)
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        assert len(samples) == file.getnframes()
    size = path.stat().st_size
    header = path.read_bytes()[:44]
    assert int.from_bytes(header[4:8], "little") == size - 8
    assert int.from_bytes(header[40:44], "little") == size - 44
    return samples


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def tones(text: str, voice: str = "heart") -> np.ndarray:
    samples = np.concatenate([tone(word, voice, FRAMES_PER_WORD) for word in text.split()])
    return np.round(samples * 32767).astype("<i2")


def is_close(samples: np.ndarray, expected: np.ndarray) -> bool:
    return samples.shape == expected.shape and int(np.abs(samples.astype(int) - expected).max()) <= 2


def test_an_argument_into_a_wav_file(server: str, tmp_path: Path) -> None:
    done = run("Hello there,", "you.", "-o", "out.wav", "--server", server, "-v", "bella", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert is_close(samples_of(tmp_path / "out.wav"), tones("Hello there, you.", "bella"))
    assert done.stdout == b""
    said = done.stderr.decode()
    for figure in ("first sound", "0.6 s of speech", "RTF", "wrote out.wav"):
        assert figure in said
    assert "\x1b" not in said, "no cursor movements where there is no terminal"


def test_without_speakers_a_file_in_the_current_folder(call: Call, server: str, tmp_path: Path) -> None:
    done = call("Hello", "--server", server)
    if "no speakers" not in done.stderr.decode():  # a machine with a sound card: it has been heard
        assert done.returncode == 0
        assert list(tmp_path.iterdir()) == []
        return
    assert is_close(samples_of(tmp_path / "footlights.wav"), tones("Hello"))
    assert "wrote footlights.wav" in done.stderr.decode()


def test_raw_samples_to_standard_output(call: Call, server: str) -> None:
    done = call("Hello there", "-o", "-", "--server", server, "--words", "-q")
    assert is_close(np.frombuffer(done.stdout, "<i2"), tones("Hello there"))
    assert done.stderr.decode().splitlines() == ["0.000\t0.200\tHello", "0.200\t0.400\tthere"]


def test_another_rate(call: Call, server: str, tmp_path: Path) -> None:
    call("Hello", "-o", "a.wav", "--rate", "8000", "--server", server)
    with wave.open(str(tmp_path / "a.wav")) as file:
        assert file.getframerate() == 8000
        assert file.getnframes() == pytest.approx(1600, abs=40)


def test_words_name_their_spoken_form(call: Call, server: str) -> None:
    done = call("only $20", "-o", "a.wav", "--words", "--server", server)
    assert done.stdout.decode().splitlines() == ["0.000\t0.200\tonly", "0.200\t0.400\t$20\ttwenty dollars"]


def test_a_file_on_standard_input(server: str, tmp_path: Path) -> None:
    done = run("-o", "a.wav", "--server", server, cwd=tmp_path, text="One.\nTwo three\n")
    assert done.returncode == 0, done.stderr
    assert is_close(samples_of(tmp_path / "a.wav"), tones("One. Two three"))


def test_a_pipe_is_spoken_before_it_ends(server: str, start: Callable[..., "subprocess.Popen[bytes]"]) -> None:
    program = start("-o", "-", "--server", server)
    write(program, b"One two ")
    first = read(program, WORD_BYTES)
    rest, _ = program.communicate(b"three", timeout=20)
    assert is_close(np.frombuffer(first + rest, "<i2"), tones("One two three"))
    assert program.returncode == 0


def test_a_line_is_spoken_when_the_typing_rests(server: str, start: Callable[..., "subprocess.Popen[bytes]"]) -> None:
    program = start("-o", "-", "--server", server)
    # The last word of a line has nothing after it that would show its end but the pause.
    write(program, "Voil\u00e0.".encode())
    assert read(program, WORD_BYTES // 2)


def test_ctrl_c_shows_what_was_heard(
    server: str, tmp_path: Path, start: Callable[..., "subprocess.Popen[bytes]"]
) -> None:
    program = start("-o", "cut.wav", "--server", server)
    write(program, b"One two three un")
    wait_for(lambda: size_of(tmp_path / "cut.wav") > 2.8 * WORD_BYTES)
    program.send_signal(signal.SIGINT)
    _, said = program.communicate(timeout=20)
    assert program.returncode == EXIT_INTERRUPTED
    assert said.decode().splitlines() == ["stopped after 0.6 s", "heard:     One two three", "not heard: un"]
    heard = samples_of(tmp_path / "cut.wav")
    assert is_close(heard, tones("One two three")[: len(heard)])


def test_a_reader_that_leaves(server: str, start: Callable[..., "subprocess.Popen[bytes]"]) -> None:
    program = start("word " * 200, "-o", "-", "--server", server)
    assert program.stdout is not None
    read(program, 100)
    program.stdout.close()
    program.stdout = None
    _, said = program.communicate(timeout=20)
    assert program.returncode == EXIT_FAILED
    assert b"Traceback" not in said


def test_at_a_terminal(server: str, tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    program = subprocess.Popen(
        [*COMMAND, "-o", "a.wav", "--server", server],
        cwd=tmp_path,
        stdin=follower,
        stdout=subprocess.DEVNULL,
        stderr=follower,
        env=ENVIRONMENT,
    )
    os.close(follower)
    shown = b""
    while b"Ctrl-D ends" not in shown:
        shown += os.read(leader, 1000)
    os.write(leader, b"Hello\n")
    wait_for(lambda: size_of(tmp_path / "a.wav") > WORD_BYTES / 2)
    os.write(leader, b"\x04")
    while b"wrote a.wav" not in shown:
        shown += os.read(leader, 1000)
    assert program.wait(20) == 0
    os.close(leader)
    assert b"\r\x1b[K" in shown


def test_a_text_longer_than_a_context(call: Call, tmp_path: Path, small_server: str) -> None:
    text = "One two three. Four five six! Seven eight nine? " * 3
    done = call(text, "-o", "a.wav", "--server", small_server)
    assert done.returncode == 0, done.stderr
    assert is_close(samples_of(tmp_path / "a.wav"), tones(text))


@pytest.mark.parametrize(("text", "samples"), [("", 960), ("…", 960)])
def test_nothing_to_say(server: str, tmp_path: Path, text: str, samples: int) -> None:
    done = run("-o", "a.wav", "--server", server, cwd=tmp_path, text=text)
    assert done.returncode == 0
    assert "nothing to say" in done.stderr.decode()
    assert len(samples_of(tmp_path / "a.wav")) == samples
    done = run(text, "-o", "b.wav", "--server", server, cwd=tmp_path)
    assert (done.returncode, len(samples_of(tmp_path / "b.wav"))) == (0, samples)


@pytest.mark.parametrize("environment", [{"PYTHONIOENCODING": "utf-8:strict"}, {"LANG": "C.UTF-8"}])
@pytest.mark.parametrize("more", [["--explain"], ["-o", "-"]])
def test_input_that_is_no_text(server: str, tmp_path: Path, more: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        [*COMMAND, *more, "--server", server],
        cwd=tmp_path,
        input=b"\xff\xfehello",
        capture_output=True,
        env={**ENVIRONMENT, **environment},
        timeout=30,
    )
    assert done.returncode == EXIT_FAILED
    assert done.stderr == b"footlights: standard input is not UTF-8 text: byte 0 is 0xff\n"


def test_input_that_is_no_text_further_on(
    server: str, tmp_path: Path, start: Callable[..., "subprocess.Popen[bytes]"]
) -> None:
    program = start("-o", "-", "--server", server)
    write(program, b"One two three ")
    assert read(program, WORD_BYTES)
    _, said = program.communicate(b"\xff", timeout=20)
    assert program.returncode == EXIT_FAILED
    assert said == b"footlights: standard input is not UTF-8 text: byte 14 is 0xff\n"


def test_an_empty_text_is_explained_without_waiting_for_more(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(say, "read_whole_text", lambda _: pytest.fail("standard input was read"))
    assert call("", "--explain").returncode == 0


# ---------------------------------------------------------------------------------------------- a server of its own


def test_starts_an_engine_of_its_own(call: Call, tmp_path: Path) -> None:
    done = call("Hello", "-o", "a.wav", FOOTLIGHTS_WORKER_FACTORY=FAKE_ENGINE)
    assert done.returncode == 0, done.stderr
    assert is_close(samples_of(tmp_path / "a.wav"), tones("Hello"))


def test_a_model_that_cannot_be_loaded(call: Call) -> None:
    done = call("Hello", FOOTLIGHTS_WORKER_FACTORY="tests.realtime.fake_engine:broken")
    assert done.returncode == EXIT_FAILED
    assert "no such checkpoint: model.safetensors" in done.stderr.decode()


def test_a_bad_configuration(call: Call) -> None:
    done = call("Hello", "--config", "missing.toml")
    assert done.returncode == EXIT_FAILED
    assert "missing.toml" in done.stderr.decode()


def test_lists_the_voices(call: Call, server: str) -> None:
    assert call("--list-voices", "--server", server).stdout.decode().split() == ["heart", "michael", "bella"]


# ---------------------------------------------------------------------------------------------- errors say what to do


def test_no_server(call: Call) -> None:
    done = call("Hello", "--server", "127.0.0.1:9")
    assert done.returncode == EXIT_FAILED
    assert "no server answers" in done.stderr.decode()
    assert "footlights serve" in done.stderr.decode()


def test_the_server_may_be_named_by_the_environment(call: Call) -> None:
    done = call("Hello", FOOTLIGHTS_SERVER="127.0.0.1:9")
    assert "no server answers at ws://127.0.0.1:9" in done.stderr.decode()


def test_the_key(call: Call, locked_server: str) -> None:
    done = call("--list-voices", "--server", locked_server)
    assert done.returncode == EXIT_FAILED
    assert "--api-key" in done.stderr.decode()
    done = call("--list-voices", "--server", locked_server, FOOTLIGHTS_API_KEY="open sesame")
    assert done.returncode == 0


def test_explains_without_speaking(call: Call) -> None:
    done = call("Pay $20, please.", "Go!", "--explain")
    assert done.returncode == 0
    rows = [line.split("  ") for line in done.stdout.decode().splitlines()]
    assert [[cell.strip() for cell in row if cell][:4] for row in rows] == [
        ["place", "part", "written", "spoken"],
        ["0-3", "1", "Pay", "Pay"],
        ["4-8", "1", "$20,", "twenty dollars"],
        ["9-16", "1", "please.", "please"],
        [],
        ["17-20", "2", "Go!", "Go"],
        [],
    ]


def test_explains_ssml_with_a_lexicon_and_tells_what_cannot_be_done(call: Call, tmp_path: Path) -> None:
    (tmp_path / "words.toml").write_text('[say]\nGIF = "jif"\n[ipa]\nNguyen = "ŋwɪn"\n')
    text = '<speak>GIF <break time="300ms"/><prosody rate="fast" pitch="high">Nguyen</prosody></speak>'
    done = call(text, "--explain", "--format", "ssml", "--lexicon", str(tmp_path / "words.toml"))
    assert done.returncode == 0
    lines = done.stdout.decode().splitlines()
    assert [line.split()[2:] for line in lines[1:] if line] == [
        ["GIF", "jif", "ʤˈɪf,"],
        ["<break", 'time="300ms"/>', "(pause", "of", "300", "ms)"],
        ["Nguyen", "Nguyen", "ŋwɪn."],
    ]
    assert "character 32: prosody pitch 'high' cannot be done" in done.stderr.decode()
    assert "rate" not in done.stderr.decode()


def test_speaks_faster(call: Call, server: str, tmp_path: Path) -> None:
    for name, options in (("usual.wav", ()), ("fast.wav", ("--speed", "2"))):
        assert call("one two three four", "-s", server, "-o", str(tmp_path / name), *options).returncode == 0
    sizes = [(tmp_path / name).stat().st_size - 44 for name in ("usual.wav", "fast.wav")]
    assert sizes[0] == 2 * sizes[1] > 0


@pytest.mark.parametrize("speed", ["0.4", "3", "fast", "nan"])
def test_a_speed_that_cannot_be(speed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        say.parser().parse_args(["Hi", "--speed", speed])
    assert "is not a number of 0.5 to 2" in capsys.readouterr().err


def test_a_server_explains(call: Call, server: str) -> None:
    done = call("That is $20", "--explain", "--server", server)
    assert done.returncode == 0
    assert ["8-11", "1", "$20", "twenty", "dollars"] in [line.split() for line in done.stdout.decode().splitlines()]
    refused = call("<|im_end|>", "--explain", "--server", server)
    assert refused.returncode == EXIT_FAILED
    assert "structures the prompt" in refused.stderr.decode()


def test_a_lexicon_that_cannot_be_used(call: Call, tmp_path: Path) -> None:
    (tmp_path / "words.toml").write_text('[say]\na = "b"\nb = "a"\n')
    done = call("Hi", "--explain", "--lexicon", str(tmp_path / "words.toml"))
    assert done.returncode == EXIT_FAILED
    assert "never ends: a -> b -> a" in done.stderr.decode()


def test_explaining_what_cannot_be_spoken(call: Call) -> None:
    done = call("<|im_end|>", "--explain")
    assert done.returncode == EXIT_FAILED
    assert "im_end" in done.stderr.decode()


def test_an_unknown_voice(call: Call, server: str) -> None:
    done = call("Hello", "-v", "nobody", "--server", server)
    assert done.returncode == EXIT_FAILED
    assert "heart, michael, bella" in done.stderr.decode()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["hi", "-o", "a.mp3"], "ffmpeg"),
        (["hi", "-o", "nowhere/a.wav"], "no folder nowhere"),
        (["hi\udcff"], "not UTF-8 text"),
        (["hi", "--rate", "96000"], "8000 to 48000"),
        (["hi", "--rate", "fast"], "whole number"),
    ],
)
def test_wrong_arguments(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["say", *arguments])
    assert caught.value.code == EXIT_USAGE
    assert expected in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------- the command


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)


def test_an_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["sing"])
    assert caught.value.code == 2
    assert "say" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["say", "serve"])
def test_help_teaches_by_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert shown.count(f"footlights {command}") >= 4
    assert max(map(len, shown.splitlines())) <= 120


def test_serve_refuses_an_open_door(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FOOTLIGHTS_API_KEY", raising=False)
    assert main(["serve", "--host", "0.0.0.0"]) == 1
    assert "API key" in capsys.readouterr().err


def write(program: "subprocess.Popen[bytes]", data: bytes) -> None:
    assert program.stdin is not None
    program.stdin.write(data)


def read(program: "subprocess.Popen[bytes]", count: int, seconds: float = 10.0) -> bytes:
    """Exactly so many bytes of its output, in time."""
    assert program.stdout is not None
    deadline = time.monotonic() + seconds
    data = b""
    while len(data) < count:
        is_readable, _, _ = select.select([program.stdout], [], [], max(0.0, deadline - time.monotonic()))
        assert is_readable, f"{len(data)} of {count} bytes within {seconds} s"
        data += os.read(program.stdout.fileno(), count - len(data))
    return data


def wait_for(is_so: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def test_a_file_is_replaced_by_sound_alone(tmp_path: Path) -> None:
    old, new = tmp_path / "old.wav", tmp_path / "new.wav"
    old.write_bytes(b"precious")
    for path in (old, new):
        WavFile(path, 24_000).close()
    assert old.read_bytes() == b"precious"
    assert not new.exists()
    sink = WavFile(old, 24_000)
    await sink.write(bytes(480))
    sink.close()
    with wave.open(str(old)) as file:
        assert (file.getframerate(), file.getnframes()) == (24_000, 240)
