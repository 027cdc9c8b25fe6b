"""Keeps one worker process alive, with a standby and a spare behind it: starts, watches, replaces."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from engine.core import ModelInfo
from engine.errors import FootlightsError
from realtime.commands import Command, Imported, Probe, Ready, Report, Start, StartFailed, Stop, VoiceCommand
from realtime.worker_process import Message, WorkerProcess

logger = logging.getLogger(__name__)

MAX_BACKOFF_S = 30.0


@dataclass(frozen=True)
class WorkerSettings:
    """How to make and to watch the worker: section ``[worker]`` of the configuration."""

    factory: str = "engine.engine:load_engine"
    arguments: dict[str, object] = field(default_factory=dict)
    """Keywords of the factory."""
    model: str | None = None
    """Folder of the checkpoint, short for the keyword ``folder``; None: the factory's default, the understudy."""
    lexicon: str | None = None
    """File of pronunciations, short for the keyword ``lexicon``."""
    voices: str | None = None
    """Folder of the voices made of recordings, short for the keyword ``voices``; None: in the checkpoint's folder."""
    has_standby: bool = True
    """Keep a second process, so that a restart is fast."""
    is_standby_warm: bool = True
    """The standby has its model loaded too: no time is lost, but the memory of a second model. Else it has its code.

    Behind a warm standby waits a spare that has its code alone, for a second loss before the next standby is warm.
    """
    standby_delay_s: float = 1.0
    """A standby is made this long after a worker went into service, which has the processors to itself until then."""
    probe_s: float = 5.0
    stall_s: float = 30.0
    """A worker without a sign of life for this long is killed."""
    stop_s: float = 5.0
    backoff_s: float = 0.5
    """Pause before a new attempt if a worker died before it was ready; doubles up to `MAX_BACKOFF_S`."""

    @property
    def factory_arguments(self) -> dict[str, object]:
        """What the factory is called with."""
        given = {"folder": self.model, "voices": self.voices, "lexicon": self.lexicon}
        return self.arguments | {name: value for name, value in given.items() if value is not None}


class WorkerStartError(FootlightsError):
    """The first worker could not make its engine."""

    code = "bad_config"


class Worker:
    """A worker process and what the loop knows of it."""

    def __init__(
        self, factory: str, receive: Callable[["Worker", Message], None], lose: Callable[["Worker"], None]
    ) -> None:
        loop = asyncio.get_running_loop()

        def post(callback: Callable[..., None], *arguments: object) -> None:
            # A reader thread may outlive the loop by a moment.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(callback, *arguments)

        self.imported = asyncio.Event()
        self.ready = asyncio.Event()
        self.lost = asyncio.Event()
        self.info: ModelInfo | None = None
        """The model, once it is ready."""
        self.is_asked_to_start = False
        self.start_failure: str | None = None
        self.last_sign_s = time.monotonic()
        self.process = WorkerProcess(
            factory, on_message=lambda message: post(receive, self, message), on_lost=lambda: post(lose, self)
        )
        self.process.start()

    def ask_to_start(self, arguments: dict[str, object]) -> None:
        """Has the engine made, once."""
        if not self.is_asked_to_start:
            self.is_asked_to_start = True
            self.process.send(Start(arguments))


class Crew:
    """The worker in service, its standby and its spare.

    ``on_report`` gets what the worker in service sends; ``on_ready`` its model whenever one is warm and in service;
    ``on_lost`` is called when it has died, before the next one takes commands.
    """

    def __init__(
        self,
        config: WorkerSettings,
        *,
        on_report: Callable[[Report], None],
        on_ready: Callable[[ModelInfo], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._config = config
        self._on_report = on_report
        self._on_ready = on_ready
        self._on_lost = on_lost
        self._worker: Worker | None = None
        self._standby: Worker | None = None
        self._spare: Worker | None = None
        self._has_changed = asyncio.Event()
        """Somebody became ready or was lost, so the reserve may be short."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._first_start: asyncio.Future[ModelInfo] = asyncio.get_running_loop().create_future()
        self.restarts = 0

    # ------------------------------------------------------------------------------------------ life

    def start(self) -> None:
        """Starts the first worker; does not wait for it."""
        self._worker = self._hire()
        self._worker.ask_to_start(self._config.factory_arguments)
        self._keep(self._supervise())
        if self._config.has_standby:
            self._keep(self._keep_reserve())

    async def stop(self) -> None:
        """Ends all processes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        workers = [worker for worker in (self._worker, self._standby, self._spare) if worker is not None]
        self._worker = self._standby = self._spare = None
        for worker in workers:
            worker.process.send(Stop())
        for worker in workers:
            await asyncio.to_thread(worker.process.join, self._config.stop_s)

    async def wait_ready(self) -> ModelInfo:
        """Waits for the first warm worker and gives its model. Raises `WorkerStartError`; tries go on."""
        return await asyncio.shield(self._first_start)

    @property
    def is_ready(self) -> bool:
        """Is a worker warm right now?"""
        return self._worker is not None and self._worker.ready.is_set() and not self._worker.lost.is_set()

    @property
    def worker_pid(self) -> int | None:
        """Process id of the worker in service."""
        return self._worker.process.pid if self._worker is not None else None

    @property
    def standby_pid(self) -> int | None:
        """Process id of the standby."""
        return self._standby.process.pid if self._standby is not None else None

    @property
    def queue_length(self) -> int:
        """Commands not yet on the pipe."""
        return self._worker.process.queue_length if self._worker is not None else 0

    def send(self, command: Command | VoiceCommand) -> bool:
        """Gives the command to the worker in service, which may still be warming; False if there is none."""
        if self._worker is None:
            return False
        self._worker.process.send(command)
        return True

    # ------------------------------------------------------------------------------------------ messages

    def _receive(self, worker: Worker, message: Message) -> None:
        worker.last_sign_s = time.monotonic()
        match message:
            case Imported():
                worker.imported.set()
            case StartFailed(text):
                worker.start_failure = text
            case Ready(info, warm_s):
                logger.info("worker %s: model %s warm in %.2f s", worker.process.pid, info.name, warm_s)
                worker.info = info
                worker.ready.set()
                self._has_changed.set()
                if worker is self._worker:
                    self._in_service(info)
            case Report():
                self._on_report(message)

    def _in_service(self, info: ModelInfo) -> None:
        if not self._first_start.done():
            self._first_start.set_result(info)
        self._on_ready(info)

    # ------------------------------------------------------------------------------------------ deaths

    async def _supervise(self) -> None:
        failures = 0
        while True:
            worker = self._worker
            assert worker is not None
            await self._watch(worker)
            was_ready = worker.ready.is_set()
            self._worker = None
            self._on_lost()
            if was_ready:
                failures = 0
                self.restarts += 1
                self._promote()
            exit_code = await asyncio.to_thread(worker.process.join, self._config.stop_s)
            reason = worker.start_failure or f"exit code {exit_code}"
            logger.error("worker lost: %s", reason)
            if not was_ready:
                self._start_failed(reason)
                await asyncio.sleep(min(MAX_BACKOFF_S, self._config.backoff_s * 2**failures))
                failures += 1
                self._worker = self._hire()
                self._worker.ask_to_start(self._config.factory_arguments)

    def _promote(self) -> None:
        """Puts the standby into service, else the spare, else a new worker."""
        self._dismiss_lost()
        if self._standby is not None:
            self._worker, self._standby = self._standby, None
        else:
            self._worker, self._spare = self._spare or self._hire(), None
        self._worker.ask_to_start(self._config.factory_arguments)
        if self._worker.info is not None:
            self._in_service(self._worker.info)
        self._has_changed.set()

    async def _keep_reserve(self) -> None:
        """Keeps a standby behind a worker in service and a spare behind a warm standby, one start at a time."""
        while True:
            await self._has_changed.wait()
            self._has_changed.clear()
            await asyncio.sleep(self._config.standby_delay_s)
            if not self._dismiss_lost():
                # It could not even start, and its successors will hardly do better.
                await asyncio.sleep(MAX_BACKOFF_S)
            if not self.is_ready:
                continue
            if self._standby is None:
                self._standby, self._spare = self._spare or self._hire(), None
                if self._config.is_standby_warm:
                    self._standby.ask_to_start(self._config.factory_arguments)
            elif self._spare is None and self._standby.ready.is_set():
                self._spare = self._hire()

    def _dismiss_lost(self) -> bool:
        """Takes those that have died out of the reserve; False if one of them never got as far as to be of use."""
        lost = [worker for worker in (self._standby, self._spare) if worker is not None and worker.lost.is_set()]
        for worker in lost:
            logger.error("worker %s of the reserve lost", worker.process.pid)
            self._keep(self._bury(worker))
        if self._standby in lost:
            self._standby = None
        if self._spare in lost:
            self._spare = None
        return all(worker.ready.is_set() or not worker.is_asked_to_start for worker in lost)

    def _start_failed(self, reason: str) -> None:
        if not self._first_start.done():
            self._first_start.set_exception(WorkerStartError(f"the speech worker did not start: {reason}"))
            # Whether anyone waits for it is the caller's choice.
            self._first_start.exception()

    async def _watch(self, worker: Worker) -> None:
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
                    logger.error("worker %s hangs: no sign of life for %g s", worker.process.pid, self._config.stall_s)
                    worker.process.kill()
                number += 1
                worker.process.send(Probe(number))

    async def _bury(self, worker: Worker) -> None:
        await asyncio.to_thread(worker.process.join, self._config.stop_s)

    # ------------------------------------------------------------------------------------------ helpers

    def _hire(self) -> Worker:
        return Worker(self._config.factory, self._receive, self._lose)

    def _lose(self, worker: Worker) -> None:
        worker.lost.set()
        self._has_changed.set()

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
