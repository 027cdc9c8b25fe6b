"""The one place where asyncio meets the worker: commands go in, events come back to their listener, deaths are healed.

All methods are called on the event loop. A worker that dies fails the utterances it held with `Failed("worker_lost")`
and is replaced; commands given meanwhile wait for the new one.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.core import AudioChunk, Cancelled, Failed, Finished, ModelInfo
from engine.errors import FootlightsError
from realtime.commands import (
    Abort,
    Add,
    Command,
    Imported,
    Probe,
    Ready,
    Report,
    Start,
    StartFailed,
    Stop,
    WorkerEvent,
)
from realtime.metrics import Metrics
from realtime.worker_process import Message, WorkerProcess

logger = logging.getLogger(__name__)

Listener = Callable[[WorkerEvent], None]
TERMINAL = (Finished, Cancelled, Failed)
MAX_BACKOFF_S = 30.0


class WorkerStartError(FootlightsError):
    """The first worker could not make its engine."""

    code = "bad_config"


@dataclass(frozen=True)
class BridgeConfig:
    """How to make and to watch the worker."""

    factory: str = "engine.engine:load_understudy"
    arguments: dict[str, object] = field(default_factory=dict)
    has_standby: bool = True
    """Keep a second process that has imported the code (not loaded the model), so that a restart is fast."""
    probe_s: float = 5.0
    stall_s: float = 30.0
    """A worker without a sign of life for this long is killed."""
    stop_s: float = 5.0
    backoff_s: float = 0.5
    """Pause before a new attempt if a worker died before it was ready; doubles up to ``MAX_BACKOFF_S``."""


class _Worker:
    """A worker process and what the loop knows of it."""

    def __init__(self, factory: str, receive: Callable[["_Worker", Message], None]) -> None:
        loop = asyncio.get_running_loop()

        def post(callback: Callable[..., None], *arguments: object) -> None:
            # A reader thread may outlive the loop by a moment.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(callback, *arguments)

        self.ready = asyncio.Event()
        self.lost = asyncio.Event()
        self.last_sign_s = time.monotonic()
        self.start_failure: str | None = None
        self.process = WorkerProcess(
            factory, on_message=lambda message: post(receive, self, message), on_lost=lambda: post(self.lost.set)
        )
        self.process.start()


class Bridge:
    """Owns the worker process. ``submit`` never blocks; events arrive by callback on the loop."""

    def __init__(self, config: BridgeConfig, metrics: Metrics) -> None:
        self._config = config
        self._metrics = metrics
        self._listeners: dict[str, Listener] = {}
        self._aborted_at_s: dict[str, float] = {}
        self._worker: _Worker | None = None
        self._standby: _Worker | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._first_start: asyncio.Future[ModelInfo] | None = None
        self._lost_at_s: float | None = None
        self.info: ModelInfo | None = None
        """The model, once a worker was warm."""
        self.restarts = 0

    # ------------------------------------------------------------------------------------------ life

    async def start(self) -> None:
        """Starts the first worker; does not wait for it (see `wait_ready`)."""
        assert self._supervisor is None, "started twice"
        self._first_start = asyncio.get_running_loop().create_future()
        self._worker = self._start_worker()
        self._supervisor = asyncio.create_task(self._supervise(), name="footlights-supervisor")

    async def stop(self) -> None:
        """Ends the worker. Utterances still open get `Failed("shutting_down")`."""
        if self._supervisor is None:
            return
        self._supervisor.cancel()
        await asyncio.gather(self._supervisor, return_exceptions=True)
        self._supervisor = None
        self._fail_all("shutting_down", "the server is shutting down")
        workers = [worker for worker in (self._worker, self._standby) if worker is not None]
        self._worker = self._standby = None
        self._metrics.worker_ready.set(0)
        for worker in workers:
            worker.process.send(Stop())
        for worker in workers:
            await asyncio.to_thread(worker.process.join, self._config.stop_s)

    @property
    def is_ready(self) -> bool:
        """Is a worker warm right now?"""
        return self._worker is not None and self._worker.ready.is_set() and not self._worker.lost.is_set()

    @property
    def worker_pid(self) -> int | None:
        """Process id of the worker, None while there is none."""
        return self._worker.process.pid if self._worker is not None else None

    @property
    def open_utterances(self) -> int:
        """Utterances that have not ended."""
        return len(self._listeners)

    async def wait_ready(self) -> ModelInfo:
        """Waits for the first warm worker and gives its model.

        Raises:
            WorkerStartError: the first worker could not make its engine; its message says why. Tries go on.
        """
        assert self._first_start is not None, "not started"
        return await asyncio.shield(self._first_start)

    # ------------------------------------------------------------------------------------------ commands

    def submit(self, command: Command, listener: Listener | None = None) -> None:
        """Sends the command; an `Add` needs the ``listener`` for the utterance's events, the last of them terminal.

        Commands for an utterance that has ended are void. After an `Abort` the listener is not called again.
        """
        utterance_id = command.utterance_id
        if isinstance(command, Add):
            assert listener is not None, utterance_id
            assert utterance_id not in self._listeners, utterance_id
            self._listeners[utterance_id] = listener
        elif utterance_id not in self._listeners:
            return
        if isinstance(command, Abort):
            del self._listeners[utterance_id]
            self._aborted_at_s[utterance_id] = time.perf_counter()
        self._metrics.utterances.set(len(self._listeners))
        if self._worker is None:
            self._fail_all("worker_lost", "the speech worker does not run; try again later")
        else:
            self._worker.process.send(command)
            self._metrics.command_queue.set(self._worker.process.queue_length)

    # ------------------------------------------------------------------------------------------ events

    def _receive(self, worker: _Worker, message: Message) -> None:
        worker.last_sign_s = time.monotonic()
        match message:
            case Imported():
                logger.debug("worker %s has imported the engine", worker.process.pid)
            case StartFailed(text):
                worker.start_failure = text
            case Ready(info, warm_s):
                worker.ready.set()
                self._now_ready(info, warm_s)
            case Report():
                self._deliver(message)

    def _now_ready(self, info: ModelInfo, warm_s: float) -> None:
        self.info = info
        if self._first_start is not None and not self._first_start.done():
            self._first_start.set_result(info)
        self._metrics.worker_ready.set(1)
        if self._lost_at_s is not None:
            down_s, self._lost_at_s = time.perf_counter() - self._lost_at_s, None
            self._metrics.worker_down_seconds.observe(down_s)
            logger.info("worker ready again after %.2f s", down_s)
        logger.info("model %s warm in %.2f s", info.name, warm_s)
        if self._config.has_standby and self._standby is None:
            self._standby = self._start_worker(is_standby=True)

    def _deliver(self, report: Report) -> None:
        if report.step_s is not None:
            self._metrics.step_seconds.observe(report.step_s)
            if self.info is not None and any(isinstance(event, AudioChunk) for event in report.events):
                self._metrics.step_frame_share.observe(1000 * report.step_s / self.info.frame_ms)
        for event in report.events:
            if isinstance(event, TERMINAL):
                self._observe_stop(event.utterance_id)
                listener = self._listeners.pop(event.utterance_id, None)
                self._metrics.utterances.set(len(self._listeners))
            else:
                listener = self._listeners.get(event.utterance_id)
            if listener is not None:
                self._call(listener, event)

    def _observe_stop(self, utterance_id: str) -> None:
        aborted_at_s = self._aborted_at_s.pop(utterance_id, None)
        if aborted_at_s is not None:
            self._metrics.stop_seconds.observe(time.perf_counter() - aborted_at_s)

    def _call(self, listener: Listener, event: WorkerEvent) -> None:
        try:
            listener(event)
        except Exception:
            # A fault in one session must not take the events of the others with it.
            logger.exception("the listener of %s failed on %s", event.utterance_id, type(event).__name__)

    def _fail_all(self, code: str, message: str) -> None:
        listeners, self._listeners = self._listeners, {}
        self._aborted_at_s.clear()
        self._metrics.utterances.set(0)
        for utterance_id, listener in listeners.items():
            self._call(listener, Failed(utterance_id, code, message, retryable=True))

    # ------------------------------------------------------------------------------------------ workers

    def _start_worker(self, *, is_standby: bool = False) -> _Worker:
        worker = _Worker(self._config.factory, self._receive)
        if not is_standby:
            worker.process.send(Start(self._config.arguments))
        return worker

    async def _supervise(self) -> None:
        failures = 0
        while True:
            worker = self._worker
            assert worker is not None
            await self._watch(worker)
            has_been_ready = worker.ready.is_set()
            self._metrics.worker_ready.set(0)
            self._lost_at_s = self._lost_at_s or time.perf_counter()
            self._worker = None
            if has_been_ready:
                failures = 0
                self._worker = self._replacement()
                self.restarts += 1
                self._metrics.worker_restarts.inc()
            self._fail_all("worker_lost", "the speech worker was lost; try again")
            exit_code = await asyncio.to_thread(worker.process.join, self._config.stop_s)
            logger.error("worker lost, exit code %s: %s", exit_code, worker.start_failure or "no reason given")
            if not has_been_ready:
                self._start_failed(worker.start_failure or f"exit code {exit_code}")
                await asyncio.sleep(min(MAX_BACKOFF_S, self._config.backoff_s * 2**failures))
                failures += 1
                self._worker = self._start_worker()

    def _start_failed(self, reason: str) -> None:
        assert self._first_start is not None
        if not self._first_start.done():
            self._first_start.set_exception(WorkerStartError(f"the speech worker did not start: {reason}"))
            # Whether anyone waits for it is the caller's choice.
            self._first_start.exception()

    def _replacement(self) -> _Worker:
        standby, self._standby = self._standby, None
        if standby is None or standby.lost.is_set():
            return self._start_worker()
        standby.process.send(Start(self._config.arguments))
        return standby

    async def _watch(self, worker: _Worker) -> None:
        """Returns when the worker is lost; kills one that shows no sign of life once it has been ready."""
        number = 0
        while not worker.lost.is_set():
            try:
                async with asyncio.timeout(self._config.probe_s):
                    await worker.lost.wait()
            except TimeoutError:
                if not worker.ready.is_set():
                    continue
                if time.monotonic() - worker.last_sign_s > self._config.stall_s:
                    logger.error(
                        "worker %s hangs: no sign of life for %.0f s", worker.process.pid, self._config.stall_s
                    )
                    worker.process.kill()
                number += 1
                worker.process.send(Probe(number))
