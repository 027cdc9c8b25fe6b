"""Speech for programs without an event loop: `speak` gives all samples, `stream` gives them as they come."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable

from clients.sdk.events import AudioEvent
from clients.sdk.session import DEFAULT_URL, connect

DEFAULT_SAMPLE_RATE = 24_000


def speak(
    text: str | Iterable[str],
    *,
    server: str = DEFAULT_URL,
    voice: str | None = None,
    sample_rate: int = DEFAULT_SAMPLE_RATE,
    api_key: str | None = None,
) -> bytes:
    """The whole text as pcm_s16le, mono, at ``sample_rate``.

    Raises:
        ClientError: see `clients.sdk.errors`.
    """
    return b"".join(stream(text, server=server, voice=voice, sample_rate=sample_rate, api_key=api_key))


def stream(
    text: str | Iterable[str],
    *,
    server: str = DEFAULT_URL,
    voice: str | None = None,
    sample_rate: int = DEFAULT_SAMPLE_RATE,
    api_key: str | None = None,
) -> Generator[bytes, None, None]:
    """Pieces of pcm_s16le, mono, as they are spoken, while ``text`` is still being drawn from its iterable.

    The iterable is drawn from another thread. Closing the iterator early cancels the speech.

    Raises:
        ClientError: see `clients.sdk.errors`.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="footlights client", daemon=True)
    thread.start()
    pieces = _pieces([text] if isinstance(text, str) else text, server, voice, sample_rate, api_key)
    try:
        while (piece := _wait(pieces, loop)) is not None:
            yield piece
    finally:
        asyncio.run_coroutine_threadsafe(pieces.aclose(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _wait(pieces: AsyncGenerator[bytes], loop: asyncio.AbstractEventLoop) -> bytes | None:
    """The next piece, None at the end. Interrupted, it leaves nothing of ``pieces`` running."""
    left = threading.Event()

    async def draw() -> bytes | None:
        try:
            return await anext(pieces, None)
        finally:
            left.set()

    drawn = asyncio.run_coroutine_threadsafe(draw(), loop)
    try:
        return drawn.result()
    except KeyboardInterrupt:
        drawn.cancel()
        left.wait()
        raise


async def _pieces(
    text: Iterable[str], server: str, voice: str | None, sample_rate: int, api_key: str | None
) -> AsyncGenerator[bytes]:
    async with (
        connect(server, voice=voice, sample_rate=sample_rate, words=False, api_key=api_key) as session,
        session.context(acknowledge=True) as context,
    ):
        context.speak(_drawn(text))
        async for event in context:
            if isinstance(event, AudioEvent):
                yield event.pcm


async def _drawn(text: Iterable[str]) -> AsyncIterator[str]:
    """The pieces of a blocking iterable, drawn in a thread so that the connection stays alive meanwhile."""
    pieces = iter(text)
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece
