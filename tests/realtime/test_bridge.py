"""The bridge with real worker processes: events to their listener, death, hang, failed starts."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator

import pytest

from engine.core import AudioChunk, Failed, Finished, Revised, Utterance
from realtime.bridge import Bridge
from realtime.commands import Abort, Add, AppendText, Finish, Revise, WorkerEvent
from realtime.crew import Worker, WorkerSettings, WorkerStartError
from realtime.metrics import Metrics
from tests.realtime.running import until

FACTORY = "tests.realtime.fake_engine:make"
RESTART_S = 3.0
PATIENCE_S = 20.0


class Ear:
    """Collects the events of one utterance."""

    def __init__(self, bridge: Bridge, utterance_id: str) -> None:
        self.events: list[WorkerEvent] = []
        self.has_spoken = asyncio.Event()
        self.end: asyncio.Future[WorkerEvent] = asyncio.get_running_loop().create_future()
        bridge.submit(Add(Utterance(utterance_id, "heart")), self)

    def __call__(self, event: WorkerEvent) -> None:
        self.events.append(event)
        if isinstance(event, AudioChunk):
            self.has_spoken.set()
        elif not isinstance(event, Revised):
            self.end.set_result(event)

    async def speaking(self) -> None:
        await asyncio.wait_for(self.has_spoken.wait(), PATIENCE_S)

    async def ended(self) -> WorkerEvent:
        return await asyncio.wait_for(asyncio.shield(self.end), PATIENCE_S)


def say(bridge: Bridge, utterance_id: str, text: str, *, is_all: bool = True) -> Ear:
    ear = Ear(bridge, utterance_id)
    bridge.submit(AppendText(utterance_id, text, 0))
    if is_all:
        bridge.submit(Finish(utterance_id))
    return ear


async def start(config: WorkerSettings) -> Bridge:
    bridge = Bridge(config, Metrics())
    await bridge.start()
    return bridge


@pytest.fixture
async def bridge() -> AsyncIterator[Bridge]:
    bridge = await start(WorkerSettings(FACTORY, {"step_s": 0.002}, has_standby=False))
    await bridge.wait_ready()
    yield bridge
    await bridge.stop()


@pytest.fixture
async def doubled() -> AsyncIterator[Bridge]:
    """A bridge with a standby."""
    bridge = await start(WorkerSettings(FACTORY, {"step_s": 0.002}, standby_delay_s=0))
    await bridge.wait_ready()
    await standby_of(bridge)
    yield bridge
    await bridge.stop()


async def standby_of(bridge: Bridge) -> Worker:
    """The standby, warm."""
    await until(lambda: bridge.standby_pid is not None, PATIENCE_S)
    assert bridge._crew is not None
    standby = bridge._crew._standby
    assert standby is not None
    await asyncio.wait_for(standby.ready.wait(), PATIENCE_S)
    return standby


async def test_events_reach_their_listener_alone(bridge: Bridge) -> None:
    ears = [say(bridge, f"u{number}", "word " * number) for number in range(1, 5)]
    for number, ear in enumerate(ears, 1):
        assert isinstance(await ear.ended(), Finished)
        assert {event.utterance_id for event in ear.events} == {f"u{number}"}
        assert len(ear.events) == 4 * number + 1
    assert bridge.open_utterances == 0


async def test_after_an_abort_the_listener_hears_nothing(bridge: Bridge) -> None:
    ear = say(bridge, "u", "word " * 50)
    await ear.speaking()
    bridge.submit(Abort("u"))
    count = len(ear.events)
    assert isinstance(await say(bridge, "v", "word").ended(), Finished)
    assert len(ear.events) == count
    stops = bridge._metrics.registry.get_sample_value("footlights_stop_seconds_count")
    assert stops == 1


async def test_the_command_queue_is_told_as_it_is(bridge: Bridge) -> None:
    def queued() -> float | None:
        return bridge._metrics.registry.get_sample_value("footlights_command_queue")

    assert isinstance(await say(bridge, "u", "one").ended(), Finished)
    assert queued() == 0


async def test_what_the_engine_does_again_is_counted_across_workers(bridge: Bridge) -> None:
    def revisions() -> float | None:
        return bridge._metrics.registry.get_sample_value("footlights_engine_revisions_total")

    for count in (1, 2):
        ear = say(bridge, "u", "one two ", is_all=False)
        for command in (Revise("u", 4, "three ", 0.0, 8, 1), Finish("u")):
            bridge.submit(command)
        assert isinstance(await ear.ended(), Finished)
        assert revisions() == count
        assert bridge.worker_pid is not None
        os.kill(bridge.worker_pid, signal.SIGKILL)
        await until(lambda: not bridge.is_ready, PATIENCE_S)
        await until(lambda: bridge.is_ready, PATIENCE_S)


async def test_a_listener_that_fails_does_not_disturb_the_others(bridge: Bridge) -> None:
    def fail(event: WorkerEvent) -> None:
        raise RuntimeError("listener")

    bridge.submit(Add(Utterance("bad", "heart")), fail)
    bridge.submit(AppendText("bad", "word " * 5, 0))
    assert isinstance(await say(bridge, "good", "word " * 5).ended(), Finished)


async def test_kill_9_fails_all_that_speak_and_heals_fast(doubled: Bridge) -> None:
    ears = [say(doubled, f"u{number}", "word " * 500) for number in range(3)]
    for ear in ears:
        await ear.speaking()
    assert doubled.worker_pid is not None
    os.kill(doubled.worker_pid, signal.SIGKILL)
    started_s = time.perf_counter()
    for ear in ears:
        end = await ear.ended()
        assert isinstance(end, Failed)
        assert (end.code, end.retryable) == ("worker_lost", True)
    # Not told to wait: the next utterance is spoken by the next worker.
    assert isinstance(await say(doubled, "next", "word").ended(), Finished)
    assert time.perf_counter() - started_s < RESTART_S
    assert doubled.is_ready
    assert doubled.restarts == 1
    assert all(sum(isinstance(event, Failed) for event in ear.events) == 1 for ear in ears)


async def kill_while_speaking(bridge: Bridge, utterance_id: str) -> None:
    ear = say(bridge, utterance_id, "word " * 500)
    await ear.speaking()
    assert bridge.worker_pid is not None
    os.kill(bridge.worker_pid, signal.SIGKILL)
    assert isinstance(await ear.ended(), Failed)


async def test_a_warm_standby_takes_over_at_once() -> None:
    bridge = await start(WorkerSettings(FACTORY, {"step_s": 0.002, "warm_s": 1.0}, standby_delay_s=0))
    await bridge.wait_ready()
    pid = (await standby_of(bridge)).process.pid
    await kill_while_speaking(bridge, "killed")
    started_s = time.perf_counter()
    assert bridge.worker_pid == pid
    assert bridge.is_ready
    assert isinstance(await say(bridge, "u", "word").ended(), Finished)
    assert time.perf_counter() - started_s < 0.8
    assert (await standby_of(bridge)).process.pid != pid
    await bridge.stop()


async def test_it_heals_again_and_again(doubled: Bridge) -> None:
    for number in range(1, 4):
        await kill_while_speaking(doubled, f"killed {number}")
        assert isinstance(await say(doubled, f"u{number}", "word").ended(), Finished)
        assert doubled.restarts == number


async def test_a_second_loss_in_a_row_finds_a_spare() -> None:
    bridge = await start(WorkerSettings(FACTORY, {"step_s": 0.002, "warm_s": 1.0}, standby_delay_s=0))
    await bridge.wait_ready()
    await standby_of(bridge)
    crew = bridge._crew
    assert crew is not None
    await until(lambda: crew._spare is not None, PATIENCE_S)
    assert crew._spare is not None
    spare = crew._spare.process.pid
    await kill_while_speaking(bridge, "killed")
    await kill_while_speaking(bridge, "killed too")
    assert bridge.worker_pid == spare
    assert isinstance(await say(bridge, "u", "word").ended(), Finished)
    await standby_of(bridge)
    await bridge.stop()


async def test_a_lost_standby_is_replaced_before_it_is_needed(doubled: Bridge) -> None:
    standby = await standby_of(doubled)
    pid = standby.process.pid
    standby.process.kill()
    await asyncio.wait_for(standby.lost.wait(), PATIENCE_S)
    await until(lambda: doubled.standby_pid not in (None, pid), PATIENCE_S)
    await standby_of(doubled)
    assert doubled.restarts == 0


async def test_a_standby_lost_just_before_it_is_needed(doubled: Bridge) -> None:
    standby = await standby_of(doubled)
    standby.process.kill()
    await asyncio.wait_for(standby.lost.wait(), PATIENCE_S)
    await kill_while_speaking(doubled, "killed")
    assert isinstance(await say(doubled, "u", "word").ended(), Finished)


async def test_a_worker_that_exits_in_a_step_is_replaced() -> None:
    bridge = await start(WorkerSettings(FACTORY, has_standby=False))
    await bridge.wait_ready()
    end = await say(bridge, "u", "!exit ").ended()
    assert isinstance(end, Failed)
    assert end.code == "worker_lost"
    assert isinstance(await say(bridge, "v", "word").ended(), Finished)
    await bridge.stop()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_signals_to_the_whole_group_leave_the_worker_to_the_gateway(bridge: Bridge, number: int) -> None:
    ear = say(bridge, "u", "word " * 20)
    await ear.speaking()
    assert bridge.worker_pid is not None
    os.kill(bridge.worker_pid, number)
    assert isinstance(await ear.ended(), Finished)
    assert bridge.restarts == 0


async def test_a_worker_that_hangs_is_replaced() -> None:
    bridge = await start(WorkerSettings(FACTORY, has_standby=False, probe_s=0.1, stall_s=0.5))
    await bridge.wait_ready()
    end = await say(bridge, "u", "!hang ").ended()
    assert isinstance(end, Failed)
    assert end.code == "worker_lost"
    await bridge.stop()


async def test_a_slow_but_living_worker_is_left_alone() -> None:
    bridge = await start(WorkerSettings(FACTORY, {"step_s": 0.05}, has_standby=False, probe_s=0.05, stall_s=0.5))
    await bridge.wait_ready()
    assert isinstance(await say(bridge, "u", "word " * 5).ended(), Finished)
    await asyncio.sleep(0.7)
    assert bridge.restarts == 0
    await bridge.stop()


@pytest.mark.parametrize(
    ("factory", "reason"),
    [("tests.realtime.fake_engine:broken", "no such checkpoint"), ("no.such:engine", "no.such:engine")],
)
async def test_a_start_that_fails_says_why(factory: str, reason: str) -> None:
    bridge = await start(WorkerSettings(factory, backoff_s=5))
    with pytest.raises(WorkerStartError, match=reason):
        await bridge.wait_ready()
    end = await say(bridge, "u", "word").ended()
    assert isinstance(end, Failed)
    assert end.code == "worker_lost"
    await bridge.stop()


async def test_a_stop_fails_what_is_open_and_ends_the_processes(doubled: Bridge) -> None:
    ear = say(doubled, "u", "word " * 500)
    await ear.speaking()
    pids = [doubled.worker_pid, doubled.standby_pid]
    await doubled.stop()
    end = await ear.ended()
    assert isinstance(end, Failed)
    assert end.code == "shutting_down"
    for pid in pids:
        assert pid is not None
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_the_loop_stays_free_while_the_worker_is_busy() -> None:
    bridge = await start(WorkerSettings(FACTORY, {"step_s": 1.0, "frames_per_word": 1}, has_standby=False))
    await bridge.wait_ready()
    ear = say(bridge, "u", "word")
    longest_s = 0.0
    while not ear.end.done():
        before_s = time.perf_counter()
        bridge.submit(AppendText("u", "x" * 60_000, 1))
        await asyncio.sleep(0.01)
        longest_s = max(longest_s, time.perf_counter() - before_s)
    assert longest_s < 0.5
    await bridge.stop()
