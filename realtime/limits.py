"""What the gateway will not exceed, and who may come in."""

from dataclasses import dataclass

from realtime.protocol import MAX_RECORDING_BYTES
from realtime.strict import bounded


@dataclass(frozen=True)
class LimitSettings:
    """Section ``[limits]`` of the configuration."""

    sessions: int = bounded(64, low=1)
    """Open sockets; more are told ``busy``."""
    contexts: int = bounded(32, low=1, high=1024)
    """Contexts of a session that have not ended."""
    context_characters: int = bounded(100_000, low=1, high=100_000)
    """Text of one context. Its report must fit in one message, hence the upper bound."""
    lead_ms: int = bounded(30_000, low=1_000)
    """A context's audio is made at most about this far ahead of its play-out."""
    revised_lead_ms: int = bounded(5_000, low=1_000)
    """As ``lead_ms``, for a context whose text was revised or must not lag: what is made in advance may be in vain."""
    revise_margin_ms: int = bounded(250, low=0, high=5_000)
    """A revision changes nothing that is heard within this time: its answer is on the way so long."""
    revise_every_s: float = bounded(0.05, low=0.0, high=5.0)
    """Revisions of a context are given to the engine at most this often; those that come meanwhile are merged."""
    outbox_high_bytes: int = bounded(256 * 1024, low=1024)
    """With this much unsent, the session's contexts are paused .."""
    outbox_low_bytes: int = bounded(64 * 1024, low=0)
    """.. until no more than this is left."""
    outbox_max_bytes: int = bounded(4 * 1024 * 1024, low=64 * 1024)
    """With more than this unsent in spite of the pause, the session is closed as a slow reader."""
    voice_bytes: int = bounded(MAX_RECORDING_BYTES + 1024 * 1024, low=64 * 1024, high=1024**3)
    """Of a request for a voice, recordings included."""
    bad_messages: int = bounded(100, low=1)
    """Messages a session may send that cannot be read."""
    start_s: float = bounded(10.0, low=0.1)
    """A socket must send ``session.start`` within this time."""
    close_s: float = bounded(5.0, low=0.1)
    """A client whose session was closed is given this long to read the last messages."""


class Admission:
    """Counts the sessions."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.sessions = 0
        self.is_draining = False
        """True once the server shuts down: nobody else comes in."""

    def try_enter(self) -> bool:
        """Takes a place; False if there is none."""
        if self.is_draining or self.sessions >= self._limit:
            return False
        self.sessions += 1
        return True

    def leave(self) -> None:
        """Gives a place back."""
        assert self.sessions > 0, self.sessions
        self.sessions -= 1
