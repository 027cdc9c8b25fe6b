"""Notices when a text pauses at a place where speech may pause too."""

import asyncio
import re
from collections.abc import AsyncIterable, AsyncIterator

_RESTING_PLACE = re.compile(r"(?:\n|[.!?…:;。！？])[\"'”’»)\]*_]*\s*\Z")
_TAIL_CHARACTERS = 16
"""Enough of the text's end to see a resting place, however finely it was cut."""


async def with_pauses(source: AsyncIterable[str], after_s: float | None) -> AsyncIterator[str | None]:
    """The pieces of ``source``, and None whenever it pauses for ``after_s`` after a sentence or a line."""
    pieces = aiter(source)
    tail = ""
    while True:
        coming = asyncio.ensure_future(anext(pieces, None))
        try:
            if after_s is not None and _RESTING_PLACE.search(tail):
                await asyncio.wait([coming], timeout=after_s)
                if not coming.done():
                    tail = ""
                    yield None
            piece = await coming
        finally:
            coming.cancel()
        if piece is None:
            return
        tail = (tail + piece)[-_TAIL_CHARACTERS:]
        yield piece
