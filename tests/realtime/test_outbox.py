"""What waits to be sent: order, amounts, drops, congestion with hysteresis."""

import asyncio

import pytest

from realtime.limits import LimitSettings
from realtime.outbox import Closing, Outbox, Outgoing
from realtime.protocol import AudioMessage


def audio(index: int, size: int = 10) -> Outgoing:
    message = AudioMessage(index, 0, 0, bytes(size))
    return Outgoing(message.encode(), message)


@pytest.fixture
def outbox() -> Outbox:
    return Outbox(LimitSettings(outbox_high_bytes=1024, outbox_low_bytes=100, outbox_max_bytes=64 * 1024))


async def test_order(outbox: Outbox) -> None:
    items: list[Outgoing | Closing] = [Outgoing("a"), audio(1), Closing(1000, "")]
    for item in items:
        outbox.put(item)
    assert [await outbox.get() for _ in items] == items
    assert outbox.size == 0


async def test_a_reader_waits_for_the_next_item(outbox: Outbox) -> None:
    waiting = asyncio.create_task(outbox.get())
    await asyncio.sleep(0)
    outbox.put(Outgoing("late"))
    assert await waiting == Outgoing("late")


async def test_a_drop_takes_the_audio_of_one_context_alone(outbox: Outbox) -> None:
    items = [Outgoing("a"), audio(1), audio(2), audio(1), Outgoing("b")]
    for item in items:
        outbox.put(item)
    outbox.drop_audio(1)
    assert outbox.size == 2 + 26
    assert [await outbox.get() for _ in range(3)] == [items[0], items[2], items[4]]


async def test_a_drop_from_a_sample_on_cuts_the_message_it_lies_in(outbox: Outbox) -> None:
    for sequence in range(3):
        message = AudioMessage(1, sequence, 100 * sequence, bytes(200))
        outbox.put(Outgoing(message.encode(), message))
    outbox.drop_audio(1, 130)
    first, second = await outbox.get(), await outbox.get()
    assert isinstance(second, Outgoing)
    assert first == Outgoing(AudioMessage(1, 0, 0, bytes(200)).encode(), AudioMessage(1, 0, 0, bytes(200)))
    assert second.audio == AudioMessage(1, 1, 100, bytes(60))
    assert second.data == second.audio.encode()
    assert outbox.size == 0


async def test_a_drop_of_everything_leaves_the_reader_waiting(outbox: Outbox) -> None:
    outbox.put(audio(1))
    outbox.drop_audio(1)
    waiting = asyncio.create_task(outbox.get())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    waiting.cancel()


async def test_congestion_has_a_high_and_a_low_mark(outbox: Outbox) -> None:
    for _ in range(10):
        outbox.put(audio(1, 84))
    assert outbox.congestion_change() is None
    outbox.put(audio(1, 84))
    assert outbox.congestion_change() is True
    assert outbox.congestion_change() is None
    while outbox.size > 100:
        assert outbox.congestion_change() is None
        await outbox.get()
    assert outbox.congestion_change() is False
    assert outbox.congestion_change() is None


async def test_overflow(outbox: Outbox) -> None:
    outbox.put(Outgoing("x" * 64 * 1024))
    assert not outbox.is_overflowing
    outbox.put(Outgoing("x"))
    assert outbox.is_overflowing
