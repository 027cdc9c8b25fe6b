"""The one place where asyncio meets the worker: commands go in, events come back to their listener.

All methods are called on the event loop. A worker that dies fails the utterances it held with `Failed("worker_lost")`
and is replaced (`crew`); commands given meanwhile wait for the new one.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.core import AudioChunk, Cancelled, Failed, Finished, ModelInfo, Recording
from realtime.commands import (
    Abort,
    Add,
    AddVoice,
    Command,
    Explain,
    Explained,
    LookAtVoices,
    RemoveVoice,
    Report,
    VoiceAnswer,
    WorkerEvent,
)
from realtime.crew import Crew, WorkerSettings
from realtime.faults import describe
from realtime.metrics import Metrics

logger = logging.getLogger(__name__)

Listener = Callable[[WorkerEvent], None]
TERMINAL = (Finished, Cancelled, Failed, Explained)


class Bridge:
    """Commands of all sessions to the worker, its events to their listeners. ``submit`` never blocks."""

    def __init__(self, config: WorkerSettings, metrics: Metrics) -> None:
        self._config = config
        self._metrics = metrics
        self._crew: Crew | None = None
        self._listeners: dict[str, Listener] = {}
        self._aborted_at_s: dict[str, float] = {}
        self._lost_at_s: float | None = None
        self._voice_requests: dict[int, asyncio.Future[VoiceAnswer]] = {}
        self._numbers = itertools.count()
        self.info: ModelInfo | None = None
        """The model, once a worker was warm."""
        self.on_info: Callable[[ModelInfo], None] = lambda info: None
        """Called when the voices of the model are others than before."""
        metrics.command_queue.set_function(lambda: self._crew.queue_length if self._crew is not None else 0)

    # ------------------------------------------------------------------------------------------ life

    async def start(self) -> None:
        """Starts the first worker; does not wait for it (see `wait_ready`)."""
        assert self._crew is None, "started twice"
        self._crew = Crew(self._config, on_report=self._deliver, on_ready=self._now_ready, on_lost=self._now_lost)
        self._crew.start()

    async def stop(self) -> None:
        """Ends the worker. Utterances still open get `Failed("shutting_down")`."""
        crew, self._crew = self._crew, None
        if crew is not None:
            self._fail_all("shutting_down", "the server is shutting down")
            self._metrics.worker_ready.set(0)
            await crew.stop()

    async def wait_ready(self) -> ModelInfo:
        """Waits for the first warm worker and gives its model.

        Raises:
            WorkerStartError: the first worker could not make its engine; its message says why. Tries go on.
        """
        assert self._crew is not None, "not started"
        return await self._crew.wait_ready()

    @property
    def is_ready(self) -> bool:
        """Is a worker warm right now?"""
        return self._crew is not None and self._crew.is_ready

    @property
    def worker_pid(self) -> int | None:
        """Process id of the worker, None while there is none."""
        return self._crew.worker_pid if self._crew is not None else None

    @property
    def standby_pid(self) -> int | None:
        """Process id of the worker that waits to replace it."""
        return self._crew.standby_pid if self._crew is not None else None

    @property
    def restarts(self) -> int:
        """Workers replaced after their death."""
        return self._crew.restarts if self._crew is not None else 0

    @property
    def open_utterances(self) -> int:
        """Utterances that have not ended."""
        return len(self._listeners)

    # ------------------------------------------------------------------------------------------ commands

    def submit(self, command: Command, listener: Listener | None = None) -> None:
        """Sends the command; an `Add` needs the ``listener`` for the utterance's events, the last of them terminal, and
        so does an `Explain`, which has but one event.

        Commands for an utterance that has ended are void. After an `Abort` the listener is not called again.
        """
        utterance_id = command.utterance_id
        if isinstance(command, Add | Explain):
            assert listener is not None, utterance_id
            assert utterance_id not in self._listeners, utterance_id
            self._listeners[utterance_id] = listener
        elif utterance_id not in self._listeners:
            return
        if isinstance(command, Abort):
            del self._listeners[utterance_id]
            self._aborted_at_s[utterance_id] = time.perf_counter()
        self._metrics.utterances.set(len(self._listeners))
        if self._crew is None or not self._crew.send(command):
            self._fail_all("worker_lost", "the speech worker does not run; try again later")

    async def add_voice(self, name: str, recordings: Sequence[Recording]) -> VoiceAnswer:
        """Has a voice made, which takes seconds; tells how it ended."""
        return await self._ask(AddVoice(next(self._numbers), name, tuple(recordings)))

    async def remove_voice(self, name: str) -> VoiceAnswer:
        """Has a voice deleted; tells how it ended."""
        return await self._ask(RemoveVoice(next(self._numbers), name))

    async def _ask(self, command: AddVoice | RemoveVoice) -> VoiceAnswer:
        if self._crew is None or not self._crew.send(command):
            return VoiceAnswer(command.request, "worker_lost", "the speech worker does not run; try again later")
        answer: asyncio.Future[VoiceAnswer] = asyncio.get_running_loop().create_future()
        self._voice_requests[command.request] = answer
        try:
            return await answer
        finally:
            self._voice_requests.pop(command.request, None)

    # ------------------------------------------------------------------------------------------ events

    def _now_ready(self, info: ModelInfo) -> None:
        # A standby knows the voices of the time it was made; what there is now comes with the answer.
        self.info = info if self.info is None else replace(info, voices=self.info.voices, cloned=self.info.cloned)
        assert self._crew is not None, "a worker of nobody"
        self._crew.send(LookAtVoices())
        self._metrics.worker_ready.set(1)
        if self._lost_at_s is not None:
            down_s, self._lost_at_s = time.perf_counter() - self._lost_at_s, None
            self._metrics.worker_down_seconds.observe(down_s)
            self._metrics.worker_restarts.inc()
            logger.info("worker ready again after %.2f s", down_s)

    def _now_lost(self) -> None:
        self._metrics.worker_ready.set(0)
        if self._lost_at_s is None:
            self._lost_at_s = time.perf_counter()
        self._fail_all("worker_lost", "the speech worker was lost; try again")

    def _deliver(self, report: Report) -> None:
        if report.step_s is not None:
            self._metrics.step_seconds.observe(report.step_s)
            if self.info is not None and any(isinstance(event, AudioChunk) for event in report.events):
                self._metrics.step_frame_share.observe(1000 * report.step_s / self.info.frame_ms)
        if report.tally is not None:
            self._metrics.add_tally(report.tally)
        if report.info is not None and report.info != self.info:
            self.info = report.info
            self.on_info(report.info)
        for answer in report.answers:
            request = self._voice_requests.get(answer.request)
            if request is not None and not request.done():
                request.set_result(answer)
        for event in report.events:
            if isinstance(event, TERMINAL):
                self._observe_stop(event.utterance_id)
                listener = self._listeners.pop(event.utterance_id, None)
                self._metrics.utterances.set(len(self._listeners))
            else:
                listener = self._listeners.get(event.utterance_id)
            if listener is not None:
                _call(listener, event)

    def _observe_stop(self, utterance_id: str) -> None:
        aborted_at_s = self._aborted_at_s.pop(utterance_id, None)
        if aborted_at_s is not None:
            self._metrics.stop_seconds.observe(time.perf_counter() - aborted_at_s)

    def _fail_all(self, code: str, message: str) -> None:
        listeners, self._listeners = self._listeners, {}
        self._aborted_at_s.clear()
        self._metrics.utterances.set(0)
        for number, request in self._voice_requests.items():
            if not request.done():
                request.set_result(VoiceAnswer(number, code, message))
        for utterance_id, listener in listeners.items():
            _call(listener, Failed(utterance_id, code, message, retryable=True))


def _call(listener: Listener, event: WorkerEvent) -> None:
    try:
        listener(event)
    except Exception as error:
        # A fault in one session must not take the events of the others with it.
        logger.error("listener of %s: %s on %s", event.utterance_id, describe(error), type(event).__name__)
