"""``say`` through speakers: a sound card that is a thread which takes samples in real time and keeps them."""

import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable

import numpy as np
import pytest

from clients.cli import main
from clients.commands import program
from clients.commands.sinks import NoSpeakersError, Speakers
from tests.clients.conftest import running, settings_for
from tests.realtime.fake_engine import SAMPLE_RATE, tone

BLOCK = 240  # samples: 10 ms


class PortAudioError(Exception):
    """As in sounddevice."""


class Card:
    """Stands for ``sounddevice.RawOutputStream``; class attributes tell what was heard, by all of them."""

    latency = 0.02
    played = bytearray()
    sounding = threading.Event()

    def __init__(self, *, samplerate: int, callback: Callable[..., None], **_: object) -> None:
        self._rate = samplerate
        self._callback = callback
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def close(self) -> None:
        assert self._stopped.is_set()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            due += BLOCK / self._rate
            block = bytearray(2 * BLOCK)
            self._callback(memoryview(block), BLOCK, None, None)
            if any(block):
                Card.sounding.set()
            Card.played += block


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> type[Card]:
    Card.played = bytearray()
    Card.sounding.clear()
    module = types.SimpleNamespace(
        PortAudioError=PortAudioError, RawOutputStream=Card, query_devices=lambda kind: {"name": "thread"}
    )
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    return Card


def heard() -> np.ndarray:
    """int16 from the first sound to the last."""
    samples = np.frombuffer(bytes(Card.played), "<i2")
    sounding = np.flatnonzero(samples)
    return samples[sounding[0] : sounding[-1] + 1]


def expected(text: str) -> np.ndarray:
    samples = np.concatenate([tone(word, "heart", 4) for word in text.split()])
    samples = np.round(samples * 32767).astype("<i2")
    sounding = np.flatnonzero(samples)
    return samples[sounding[0] : sounding[-1] + 1]


def test_all_is_heard_without_a_gap(server: str, card: type[Card], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["say", "One two three", "--server", server, "--words"]) == 0
    assert np.abs(heard().astype(int) - expected("One two three")).max() <= 2
    shown = capsys.readouterr()
    assert [line.split("\t")[2] for line in shown.out.splitlines()] == ["One", "two", "three"]
    assert "underruns 0" in shown.err


def test_ctrl_c_reports_what_the_card_had_played(
    server: str, card: type[Card], capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        assert card.sounding.wait(10)
        time.sleep(0.5)  # in the third word of 200 ms
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    text = "One two three four five six seven eight nine ten"
    status = main(["say", text, "--server", server, "--words"])
    assert status == program.EXIT_INTERRUPTED
    shown = capsys.readouterr()
    spoken, unspoken = (line.partition(":")[2].split() for line in shown.err.splitlines()[1:3])
    played_ms = 1000 * len(heard()) / SAMPLE_RATE
    assert spoken == ["One", "two", "three"][: len(spoken)]
    assert len(spoken) in (2, 3)
    assert [*spoken, *unspoken] == text.split()
    assert played_ms < 900, "silence at once"
    # A word that has begun is shown, one that was cut off before its beginning is not.
    assert len(shown.out.splitlines()) in (len(spoken), len(spoken) + 1)


def test_a_slow_engine_is_seen_as_underruns(card: type[Card], capsys: pytest.CaptureFixture[str]) -> None:
    with running(settings_for(step_s=0.09)) as server:  # for 50 ms of speech
        assert main(["say", "One two three four", "--server", server]) == 0
    shown = capsys.readouterr().err
    assert int(shown.partition("underruns ")[2].split()[0]) > 0


def test_a_card_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch, card: type[Card]) -> None:
    def refuse(**_: object) -> None:
        raise PortAudioError("device busy")

    monkeypatch.setattr(sys.modules["sounddevice"], "RawOutputStream", refuse)
    with pytest.raises(NoSpeakersError, match="device busy"):
        Speakers(SAMPLE_RATE)


def test_no_device(monkeypatch: pytest.MonkeyPatch, card: type[Card]) -> None:
    def query_devices(kind: str) -> None:
        raise ValueError("No default output device")

    monkeypatch.setattr(sys.modules["sounddevice"], "query_devices", query_devices)
    with pytest.raises(NoSpeakersError, match="No default output device"):
        Speakers(SAMPLE_RATE)


def test_no_sound_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(NoSpeakersError, match="libportaudio2"):
        Speakers(SAMPLE_RATE)
