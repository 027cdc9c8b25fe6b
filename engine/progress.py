"""How far a run is: a bar on a terminal, a line now and then in a log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LOG_LINES = 10


@contextmanager
def progress(name: str, total: int) -> Iterator[Callable[[], None]]:
    """On standard error while the block runs; call what it gives after each of ``total`` steps."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Log(console, name, total).advance
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(name, total=total)
        yield lambda: bar.advance(task)


class _Log:
    def __init__(self, console: Console, name: str, total: int) -> None:
        self._console, self._name, self._total = console, name, total
        self._done = 0

    def advance(self) -> None:
        self._done += 1
        if self._done * LOG_LINES // self._total > (self._done - 1) * LOG_LINES // self._total:
            self._console.print(f"{self._name}: {self._done}/{self._total}", highlight=False)
