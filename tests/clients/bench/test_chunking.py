"""The bench of speaking while the text is written: how it is written, what is counted, what is shown."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from clients.bench.chunking import ARMS, STALL_S, STALL_TOKENS, Outcome, Spoken, chunking_plot, table, written
from clients.bench.timeline import Arrival, Timeline
from clients.bench.words import WordErrors

RATE = 24_000
TEXT = " ".join(["The lamp is on, and the door stands open to the street while the rain goes on and on."] * 3)


def spoken(first_s: float, errors: int | None = None) -> Spoken:
    """A second of sound in two messages, the first at ``first_s``, after a tenth of silence; 20 frames, 5 in vain."""
    sound = np.full(RATE // 2, 0.1, np.float32)
    silence_first = sound.copy()
    silence_first[: RATE // 10] = 0
    arrivals = [Arrival(first_s, silence_first), Arrival(first_s + 0.1, sound)]
    timeline = Timeline(RATE, first_text_s=1.0, third_word_s=1.2, last_text_s=3.0, arrivals=arrivals, is_done=True)
    take = Spoken("text", timeline, np.concatenate([silence_first, sound]), 20, 5, 0.25)
    return take if errors is None else replace(take, errors=WordErrors(errors, 10), mos=4.0)


def test_text_comes_in_bursts_at_its_pace_and_stalls() -> None:
    pieces = written(TEXT, 30.0, seed=3)
    times = np.array([at for at, _ in pieces])
    assert "".join(piece for _, piece in pieces) == TEXT
    assert times[0] == 0
    gaps = np.diff(times)
    assert (gaps >= 0).all()
    assert gaps[STALL_TOKENS - 1] >= STALL_S
    assert np.median(gaps) < 1 / 30 < gaps.mean(), "most come at once, some after a while"
    assert written(TEXT, 30.0, seed=3) == pieces
    assert written(TEXT, 30.0, seed=4) != pieces


def test_figures_of_an_arm() -> None:
    outcome = Outcome.of(ARMS[0], [spoken(1.5, errors=1), spoken(1.7, errors=2)])
    assert outcome.first_text_ms == pytest.approx([500, 700])
    assert outcome.third_word_ms == pytest.approx([300, 500])
    assert outcome.discarded_share == pytest.approx(0.2)
    assert outcome.rtf == pytest.approx(0.25)
    assert outcome.underruns == 0
    assert outcome.wer is not None
    assert outcome.wer.value == pytest.approx(0.15)
    assert Outcome.of(ARMS[0], [spoken(1.5)]).wer is None


@pytest.mark.parametrize("errors", [None, 1])
def test_arms_are_shown_beside_the_baseline_and_drawn(tmp_path: Path, errors: int | None) -> None:
    waits = {"aligned": 1.25, "guess": 1.3, "clause": 1.5, "sentence": 2.0, "whole": 4.0}
    outcomes = [Outcome.of(arm, [spoken(waits[arm.name], errors)] * 2) for arm in ARMS]
    console = Console(width=250, record=True)
    console.print(table(outcomes))
    rows = {line.split("│")[1].strip(): line for line in console.export_text().splitlines() if "│" in line}
    assert "0.25" in rows["aligned"], "a quarter of the sentence arm's"
    assert "1.00" in rows["sentence"]
    chunking_plot(outcomes, tmp_path / "chunking.png")
    assert (tmp_path / "chunking.png").read_bytes()[:4] == b"\x89PNG"
