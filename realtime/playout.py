"""Where the listener is: a model of its play-out, corrected by what it acknowledges. No I/O, no clock of its own.

Times ending in ``_s`` are of a monotonic clock; positions in ms count from the first sample of the context.
"""


class Playout:
    """The listener is taken to start with the first audio and to play without pause while it has any."""

    def __init__(self) -> None:
        self.queued_ms = 0.0
        """Audio made for the listener so far."""
        self.sent_ms = 0.0
        """Audio handed to the transport so far; never more than ``queued_ms``."""
        self.acknowledged_ms: float | None = None
        self._acknowledged_at_s = 0.0
        self._started_s: float | None = None

    def push(self, ms: float, now_s: float) -> float:
        """More audio was made. Returns how long (s) the listener had run dry before it, 0.0 if it had not."""
        gap_s = 0.0
        if self._started_s is None:
            self._started_s = now_s
        else:
            gap_s = max(0.0, now_s - (self._started_s + self.queued_ms / 1000))
            self._started_s += gap_s
        self.queued_ms += ms
        return gap_s

    def sent(self, position_ms: float) -> None:
        """Audio up to here has left."""
        self.sent_ms = max(self.sent_ms, position_ms)

    def acknowledge(self, ms: float, now_s: float) -> None:
        """The listener says that it has heard this much. Clamped to what was sent; it never goes back."""
        self.acknowledged_ms = max(self.acknowledged_ms or 0.0, min(ms, self.sent_ms))
        self._acknowledged_at_s = now_s

    def heard_ms(self, now_s: float) -> float:
        """What the listener has heard: as acknowledged, else as much as it can have played by now."""
        if self.acknowledged_ms is not None:
            return self.acknowledged_ms
        if self._started_s is None:
            return 0.0
        return min(self.sent_ms, 1000 * (now_s - self._started_s))

    def bound_ms(self, now_s: float) -> float:
        """What the listener can have heard at most, playing on from its last acknowledgement."""
        if self._started_s is None:
            return 0.0
        since_s, base_ms = self._last_known()
        return min(self.sent_ms, base_ms + 1000 * (now_s - since_s))

    def rewind(self, ms: float) -> None:
        """Audio from here on is void."""
        self.queued_ms = min(self.queued_ms, ms)
        self.sent_ms = min(self.sent_ms, ms)
        if self.acknowledged_ms is not None:
            self.acknowledged_ms = min(self.acknowledged_ms, ms)

    def lead_ms(self, now_s: float) -> float:
        """Audio made and not yet played, counting on from the last acknowledgement."""
        if self._started_s is None:
            return 0.0
        since_s, base_ms = self._last_known()
        return max(0.0, self.queued_ms - base_ms - 1000 * (now_s - since_s))

    def _last_known(self) -> tuple[float, float]:
        assert self._started_s is not None
        if self.acknowledged_ms is None:
            return self._started_s, 0.0
        return self._acknowledged_at_s, self.acknowledged_ms
