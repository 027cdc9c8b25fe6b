"""Who is served: invariants over any history, and the order of deadlines."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.scheduler import Scheduler


class FakeClock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_whoever_runs_dry_first_is_served_first(clock: FakeClock) -> None:
    scheduler = Scheduler(max_batch=2, max_lead_s=10, clock=clock)
    for name, lead_s in (("long", 3.0), ("short", 1.0), ("middle", 2.0)):
        scheduler.add(name)
        scheduler.record(name, lead_s)
    assert scheduler.select(["long", "short", "middle"]) == ["short", "middle"]


def test_new_utterance_comes_before_any_that_has_audio(clock: FakeClock) -> None:
    scheduler = Scheduler(max_batch=1, max_lead_s=10, clock=clock)
    scheduler.add("playing")
    scheduler.record("playing", 0.05)
    scheduler.add("new")
    assert scheduler.select(["playing", "new"]) == ["new"]


def test_ties_go_to_the_one_added_first_whatever_order_they_are_named_in(clock: FakeClock) -> None:
    scheduler = Scheduler(max_batch=3, max_lead_s=10, clock=clock)
    for name in ("one", "two", "three"):
        scheduler.add(name)
    assert scheduler.select(["three", "one", "two"]) == ["one", "two", "three"]


def test_generation_stops_at_the_lead_and_goes_on_when_the_listener_catches_up(clock: FakeClock) -> None:
    scheduler = Scheduler(max_batch=1, max_lead_s=1.0, clock=clock)
    scheduler.add("a")
    scheduler.record("a", 1.5)
    assert scheduler.select(["a"]) == []
    assert scheduler.next_due_s(["a"]) == pytest.approx(0.5)
    clock.now_s += 0.5
    assert scheduler.next_due_s(["a"]) == 0
    assert scheduler.select(["a"]) == ["a"]


def test_a_listener_that_ran_dry_starts_again_from_now(clock: FakeClock) -> None:
    scheduler = Scheduler(max_batch=2, max_lead_s=10, clock=clock)
    scheduler.add("late")
    scheduler.record("late", 0.1)
    clock.now_s += 5
    scheduler.record("late", 0.1)
    assert scheduler.lead_s("late") == pytest.approx(0.1)


def test_paused_is_passed_over_until_resumed(clock: FakeClock) -> None:
    scheduler = Scheduler(max_batch=2, max_lead_s=10, clock=clock)
    scheduler.add("a")
    scheduler.add("b")
    scheduler.pause("a")
    assert scheduler.select(["a", "b"]) == ["b"]
    assert scheduler.next_due_s(["a"]) is None
    scheduler.resume("a")
    assert scheduler.select(["a", "b"]) == ["a", "b"]


def test_without_a_limit_nobody_waits(clock: FakeClock) -> None:
    scheduler = Scheduler(max_batch=1, max_lead_s=math.inf, clock=clock)
    scheduler.add("a")
    scheduler.record("a", 1e6)
    assert scheduler.select(["a"]) == ["a"]
    assert scheduler.next_due_s(["a"]) == 0


NAMES = "abcdef"
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "pause", "resume", "record", "tick"]),
        st.sampled_from(NAMES),
        st.floats(0, 3, allow_nan=False),
    ),
    max_size=60,
)


@given(
    actions=ACTIONS, ready=st.sets(st.sampled_from(NAMES)), max_batch=st.integers(1, 4), max_lead_s=st.floats(0.1, 4)
)
def test_invariants_hold_after_any_history(
    actions: list[tuple[str, str, float]], ready: set[str], max_batch: int, max_lead_s: float
) -> None:
    clock = FakeClock()
    scheduler = Scheduler(max_batch, max_lead_s, clock)
    deadlines: dict[str, float] = {}
    paused: set[str] = set()
    for action, name, amount in actions:
        if action == "tick":
            clock.now_s += amount
        elif action == "add" and name not in scheduler:
            scheduler.add(name)
            deadlines[name] = clock.now_s
        elif name in scheduler:
            if action == "remove":
                scheduler.remove(name)
                del deadlines[name]
                paused.discard(name)
            elif action == "record":
                scheduler.record(name, amount)
                deadlines[name] = max(deadlines[name], clock.now_s) + amount
            elif action == "pause":
                scheduler.pause(name)
                paused.add(name)
            elif action == "resume":
                scheduler.resume(name)
                paused.discard(name)
    candidates = sorted(ready & set(deadlines))
    chosen = scheduler.select(candidates)
    servable = [n for n in candidates if n not in paused and deadlines[n] - clock.now_s <= max_lead_s]
    assert len(chosen) == min(max_batch, len(servable))
    assert set(chosen) <= set(servable)
    assert len(set(chosen)) == len(chosen)
    assert [deadlines[n] for n in chosen] == sorted(deadlines[n] for n in chosen)
    for passed_over in set(servable) - set(chosen):
        assert all(deadlines[n] <= deadlines[passed_over] for n in chosen)
    assert (scheduler.next_due_s(candidates) == 0) == bool(chosen)
    assert (scheduler.next_due_s(candidates) is None) == all(n in paused for n in candidates)


@given(frames=st.integers(50, 200), streams=st.integers(2, 5))
def test_a_machine_that_is_fast_enough_starves_nobody(frames: int, streams: int) -> None:
    """Streams of equal rate, one served a tick, capacity above demand: every lead stays positive after its start."""
    clock = FakeClock()
    scheduler = Scheduler(max_batch=1, max_lead_s=0.5, clock=clock)
    names = [f"s{i}" for i in range(streams)]
    for name in names:
        scheduler.add(name)
    started: set[str] = set()
    for _ in range(frames):
        for name in scheduler.select(names):
            scheduler.record(name, 0.05)
            started.add(name)
        clock.now_s += 0.05 / (streams + 1)
        assert all(scheduler.lead_s(name) > 0 for name in started)
