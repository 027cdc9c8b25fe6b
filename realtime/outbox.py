"""What a connection has still to send: order, amount, and the drop of audio that nobody wants any more."""

import asyncio
from collections import deque
from dataclasses import dataclass

from realtime.limits import LimitSettings
from realtime.protocol import AudioMessage


@dataclass(frozen=True)
class Outgoing:
    """One message as it goes out; ``audio`` is its content if it is binary."""

    data: str | bytes
    audio: AudioMessage | None = None


@dataclass(frozen=True)
class Closing:
    """After everything before it: close."""

    code: int
    reason: str


class Outbox:
    """A queue of one reader, used on one event loop."""

    def __init__(self, limits: LimitSettings) -> None:
        self._limits = limits
        self._items: deque[Outgoing | Closing] = deque()
        self._has_items = asyncio.Event()
        self._is_congested = False
        self.size = 0
        """Bytes (characters of text messages) waiting."""

    def put(self, item: Outgoing | Closing) -> None:
        """Appends the item."""
        self._items.append(item)
        self.size += _size(item)
        self._has_items.set()

    async def get(self) -> Outgoing | Closing:
        """Removes and gives the oldest item, waiting for one."""
        while not self._items:
            self._has_items.clear()
            await self._has_items.wait()
        item = self._items.popleft()
        self.size -= _size(item)
        return item

    def drop_audio(self, index: int, first_sample: int = 0) -> None:
        """Removes the audio of that context index from that sample on."""
        kept = [cut for item in self._items if (cut := _before(item, index, first_sample)) is not None]
        self._items = deque(kept)
        self.size = sum(map(_size, kept))

    def congestion_change(self) -> bool | None:
        """True when it has become congested, False when it has become free, None while nothing changed."""
        is_congested = self.size > (
            self._limits.outbox_low_bytes if self._is_congested else self._limits.outbox_high_bytes
        )
        if is_congested == self._is_congested:
            return None
        self._is_congested = is_congested
        return is_congested

    @property
    def is_overflowing(self) -> bool:
        """Has the reader stopped reading?"""
        return self.size > self._limits.outbox_max_bytes


def _size(item: Outgoing | Closing) -> int:
    return len(item.data) if isinstance(item, Outgoing) else 0


def _before(item: Outgoing | Closing, index: int, first_sample: int) -> Outgoing | Closing | None:
    """The item without audio of that index from that sample on; None if nothing is left of it."""
    if not isinstance(item, Outgoing) or item.audio is None or item.audio.index != index:
        return item
    kept = item.audio.until(first_sample)
    return None if kept is None else Outgoing(kept.encode(), kept)
