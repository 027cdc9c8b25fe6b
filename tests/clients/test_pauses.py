import asyncio
from collections.abc import AsyncIterator

import pytest

from clients.sdk.pauses import with_pauses

PAUSE_S = 0.02


async def pieces(*given: str | float) -> AsyncIterator[str]:
    """Texts, and how long to wait between them."""
    for each in given:
        if isinstance(each, str):
            yield each
        else:
            await asyncio.sleep(each)


async def heard(*given: str | float, after_s: float | None = PAUSE_S) -> list[str | None]:
    return [piece async for piece in with_pauses(pieces(*given), after_s)]


LONG = 4 * PAUSE_S


async def test_a_pause_after_a_sentence_is_noticed_once() -> None:
    assert await heard("One.", LONG, " Two") == ["One.", None, " Two"]


@pytest.mark.parametrize("end", ["!", "?", "…", ':"', ".)", "\n", ". ", "。", ".**"])
async def test_places_where_speech_may_rest(end: str) -> None:
    assert await heard(f"one{end}", LONG, "two") == [f"one{end}", None, "two"]


@pytest.mark.parametrize("end", ["", " ", ",", "-"])
async def test_a_pause_elsewhere_is_none(end: str) -> None:
    assert await heard(f"one{end}", LONG, "two") == [f"one{end}", "two"]


async def test_the_place_is_seen_however_the_text_is_cut() -> None:
    assert await heard("one", ".", '"', LONG, " two") == ["one", ".", '"', None, " two"]


async def test_no_pause_is_none() -> None:
    assert await heard("one. ", "two. ") == ["one. ", "two. "]


async def test_without_a_time_nothing_is_noticed() -> None:
    assert await heard("one.", LONG, "two", after_s=None) == ["one.", "two"]


async def test_an_error_of_the_source_passes() -> None:
    async def broken() -> AsyncIterator[str]:
        yield "one."
        raise ValueError("torn")

    with pytest.raises(ValueError, match="torn"):
        assert [piece async for piece in with_pauses(broken(), PAUSE_S)]
