"""Who makes a frame now: pure bookkeeping over deadlines, no tensors, no text.

Each utterance has a play-out deadline: the moment its listener runs dry, if playing began with the first chunk and
never stopped. The listener who runs dry first is served first; an utterance that is far enough ahead waits.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass


@dataclass
class Playout:
    """Progress of one listener."""

    deadline_s: float
    """When the audio made so far has been played; before the first chunk: when the utterance was added."""
    is_paused: bool = False
    most_lead_s: float = math.inf
    """How far ahead of its listener this one is made at most."""


class Scheduler:
    """Earliest deadline first, at most ``max_batch`` at once, nobody more than ``max_lead_s`` ahead.

    ``clock`` returns seconds and never runs backwards.
    """

    def __init__(self, max_batch: int, max_lead_s: float, clock: Callable[[], float]) -> None:
        assert max_batch >= 1, max_batch
        assert max_lead_s > 0, max_lead_s
        self.max_batch = max_batch
        self.max_lead_s = max_lead_s
        self._clock = clock
        self._playouts: dict[str, Playout] = {}

    def __contains__(self, utterance_id: str) -> bool:
        return utterance_id in self._playouts

    def __len__(self) -> int:
        return len(self._playouts)

    def add(self, utterance_id: str) -> None:
        """Take a new utterance in; without audio it is due at once."""
        assert utterance_id not in self._playouts, utterance_id
        self._playouts[utterance_id] = Playout(deadline_s=self._clock())

    def remove(self, utterance_id: str) -> None:
        """Forget an utterance."""
        del self._playouts[utterance_id]

    def pause(self, utterance_id: str) -> None:
        """Pass an utterance over until ``resume``; its listener reads slowly."""
        self._playouts[utterance_id].is_paused = True

    def resume(self, utterance_id: str) -> None:
        """Serve a paused utterance again."""
        self._playouts[utterance_id].is_paused = False

    def record(self, utterance_id: str, audio_s: float) -> None:
        """Note that ``audio_s`` seconds were handed to the listener now.

        A listener that has run dry plays them from now on, so lateness is never carried over.
        """
        playout = self._playouts[utterance_id]
        playout.deadline_s = max(playout.deadline_s, self._clock()) + audio_s

    def retract(self, utterance_id: str, audio_s: float) -> None:
        """Take back ``audio_s`` seconds that were recorded and have not been played."""
        self._playouts[utterance_id].deadline_s -= audio_s

    def limit_lead(self, utterance_id: str, most_s: float) -> None:
        """Never make this utterance further ahead of its listener than that."""
        self._playouts[utterance_id].most_lead_s = most_s

    def lead_s(self, utterance_id: str) -> float:
        """Seconds of audio the listener still has; 0 when it has run dry or heard nothing yet."""
        return max(0.0, self._playouts[utterance_id].deadline_s - self._clock())

    def is_paused(self, utterance_id: str) -> bool:
        """Whether the utterance is passed over."""
        return self._playouts[utterance_id].is_paused

    def select(self, ready: Iterable[str]) -> list[str]:
        """The at most ``max_batch`` of ``ready`` to serve now, most urgent first; ties go to the one added first."""
        now = self._clock()
        due = [name for name in ready if not self._playouts[name].is_paused and self._wait_s(name, now) <= 0]
        return self.by_deadline(due)[: self.max_batch]

    def by_deadline(self, names: Iterable[str]) -> list[str]:
        """``names``, most urgent first; ties go to the one added first."""
        order = {name: place for place, name in enumerate(self._playouts)}
        return sorted(names, key=lambda name: (self._playouts[name].deadline_s, order[name]))

    def next_due_s(self, ready: Iterable[str], held: Mapping[str, float] | None = None) -> float | None:
        """Seconds until one of ``ready`` may be served: 0 means now, None never (without an event from outside).

        Those ``held`` are due when their listener has no more than that many seconds left.
        """
        waits = [max(0.0, self._wait_s(name, self._clock())) for name in ready if not self._playouts[name].is_paused]
        waits += [
            max(0.0, self._playouts[name].deadline_s - self._clock() - lead_s)
            for name, lead_s in (held or {}).items()
            if not self._playouts[name].is_paused
        ]
        return min(waits, default=None)

    def _wait_s(self, name: str, now: float) -> float:
        """Seconds until the utterance is no longer too far ahead; negative: it is not."""
        playout = self._playouts[name]
        return playout.deadline_s - now - min(self.max_lead_s, playout.most_lead_s)
