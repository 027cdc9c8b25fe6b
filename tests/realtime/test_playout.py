"""The model of the listener's play-out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime.playout import Playout


def test_nothing_is_heard_before_the_first_audio() -> None:
    playout = Playout()
    assert playout.heard_ms(100.0) == 0
    assert playout.lead_ms(100.0) == 0


def test_play_out_starts_with_the_first_audio() -> None:
    playout = Playout()
    assert playout.push(1000, 10.0) == 0.0
    playout.sent(1000)
    assert playout.heard_ms(10.25) == 250
    assert playout.lead_ms(10.25) == 750
    assert playout.heard_ms(20.0) == 1000
    assert playout.lead_ms(20.0) == 0


def test_a_gap_moves_the_play_out() -> None:
    playout = Playout()
    playout.push(100, 10.0)
    assert round(playout.push(100, 10.5), 6) == 0.4
    playout.sent(200)
    assert round(playout.heard_ms(10.55), 6) == 150


def test_what_was_not_sent_was_not_heard() -> None:
    playout = Playout()
    playout.push(5000, 10.0)
    playout.sent(300)
    assert playout.heard_ms(12.0) == 300


def test_acknowledgements_win_and_are_clamped() -> None:
    playout = Playout()
    playout.push(5000, 10.0)
    playout.sent(1000)
    playout.acknowledge(400, 12.0)
    assert playout.heard_ms(12.0) == 400
    assert playout.heard_ms(14.0) == 400
    assert playout.lead_ms(12.5) == 4100
    playout.acknowledge(9000, 13.0)
    assert playout.heard_ms(13.0) == 1000
    playout.acknowledge(0, 14.0)
    assert playout.heard_ms(14.0) == 1000


@given(
    st.lists(
        st.tuples(st.sampled_from(["push", "sent", "acknowledge"]), st.floats(0, 1e5), st.floats(0, 10)), max_size=30
    )
)
def test_positions_stay_in_order(steps: list[tuple[str, float, float]]) -> None:
    playout, now_s, heard_ms = Playout(), 0.0, 0.0
    for name, ms, wait_s in steps:
        now_s += wait_s
        if name == "push":
            assert playout.push(ms, now_s) >= 0
        elif name == "sent":
            playout.sent(min(ms, playout.queued_ms))
        else:
            playout.acknowledge(ms, now_s)
        assert 0 <= playout.heard_ms(now_s) <= playout.sent_ms <= playout.queued_ms
        if playout.acknowledged_ms is not None:
            assert playout.heard_ms(now_s) >= playout.acknowledged_ms >= heard_ms
            heard_ms = playout.acknowledged_ms
        assert playout.lead_ms(now_s) >= 0


def test_what_can_have_been_heard_runs_on_from_the_last_acknowledgement() -> None:
    playout = Playout()
    assert playout.bound_ms(5.0) == 0
    playout.push(1000, 10.0)
    playout.sent(800)
    assert playout.bound_ms(10.3) == pytest.approx(300)
    playout.acknowledge(100, 10.3)
    assert playout.bound_ms(10.5) == pytest.approx(300)
    assert playout.bound_ms(99) == 800


def test_void_audio_was_neither_made_nor_sent_nor_heard() -> None:
    playout = Playout()
    playout.push(1000, 10.0)
    playout.sent(800)
    playout.acknowledge(700, 10.7)
    playout.rewind(600)
    assert (playout.queued_ms, playout.sent_ms, playout.acknowledged_ms) == (600, 600, 600)
    playout.push(100, 10.8)
    assert playout.queued_ms == 700
