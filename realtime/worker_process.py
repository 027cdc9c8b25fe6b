"""One worker process seen from the gateway: a thread writes commands to its pipe, a thread reads its reports.

Neither sending nor receiving ever blocks the event loop, even while the worker is busy with a long step.
"""

import multiprocessing
import queue
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from realtime import worker
from realtime.commands import Command, Imported, Probe, Ready, Report, Start, StartFailed, Stop, VoiceCommand

Message = Imported | StartFailed | Ready | Report
_SPAWN = multiprocessing.get_context("spawn")


class WorkerProcess:
    """A spawned `worker.main`. ``on_message`` and ``on_lost`` are called from its reading thread."""

    def __init__(self, factory: str, on_message: Callable[[Message], None], on_lost: Callable[[], None]) -> None:
        self._on_message = on_message
        self._on_lost = on_lost
        self._commands: queue.SimpleQueue[Command | VoiceCommand | Start | Probe | Stop | None] = queue.SimpleQueue()
        self._connection, self._far_end = _SPAWN.Pipe()
        self._process = _SPAWN.Process(
            target=worker.main, args=(self._far_end, factory), name="footlights-worker", daemon=True
        )
        self._threads = [
            threading.Thread(target=target, name=f"footlights-{target.__name__.strip('_')}", daemon=True)
            for target in (self._write, self._read)
        ]

    @property
    def pid(self) -> int | None:
        """The process id, None before the start."""
        return self._process.pid

    @property
    def queue_length(self) -> int:
        """Commands not yet on the pipe."""
        return self._commands.qsize()

    def start(self) -> None:
        """Spawns the process (blocking for some milliseconds) and starts both threads."""
        self._process.start()
        # From here on only the worker holds its end, so its death is the end of the pipe.
        self._far_end.close()
        for thread in self._threads:
            thread.start()

    def send(self, command: Command | VoiceCommand | Start | Probe | Stop) -> None:
        """Puts the command on the way; lost with the worker if that dies."""
        self._commands.put(command)

    def kill(self) -> None:
        """Ends the process at once; `on_lost` follows."""
        self._process.kill()

    def join(self, timeout_s: float) -> int | None:
        """Waits for the end, after ``timeout_s`` by force, and frees all of it. Gives the exit code. Call it once."""
        self._process.join(timeout_s)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._commands.put(None)
        for thread in self._threads:
            thread.join()
        self._connection.close()
        exit_code = self._process.exitcode
        self._process.close()
        return exit_code

    def _write(self) -> None:
        while (command := self._commands.get()) is not None:
            if not _send(self._connection, command):
                return

    def _read(self) -> None:
        while True:
            try:
                message = self._connection.recv()
            except (EOFError, OSError):
                self._on_lost()
                return
            self._on_message(message)


def _send(connection: "Connection[Any, Any]", command: object) -> bool:
    try:
        connection.send(command)
    except OSError:
        return False
    return True
