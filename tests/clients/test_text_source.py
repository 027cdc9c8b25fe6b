import asyncio
import os
from collections.abc import AsyncIterator

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from clients.commands.text_source import Portions, TextError, given, read_text, read_whole_text


async def portions_of(pieces: list[str], max_characters: int) -> list[str]:
    async def source() -> AsyncIterator[str]:
        for piece in pieces:
            yield piece

    portions = Portions(source(), max_characters)
    found = []
    while await portions.has_more():
        found.append("".join([piece async for piece in portions.portion()]))
        assert portions.text == found[-1]
        assert portions.is_over
    return found


@for_all(st.lists(st.text(alphabet="ab. \n", max_size=30), max_size=8), st.integers(1, 20))
def test_portions_keep_every_character_and_the_bound(pieces: list[str], max_characters: int) -> None:
    found = asyncio.run(portions_of(pieces, max_characters))
    assert "".join(found) == "".join(pieces)
    assert all(0 < len(portion) <= max_characters for portion in found)


async def test_a_short_text_is_one_portion() -> None:
    assert await portions_of(["Hello ", "there. ", "You."], 100) == ["Hello there. You."]


async def test_cuts_after_a_sentence_where_one_ends_near_the_bound() -> None:
    assert await portions_of(["One two three. Four five six."], 16) == ["One two three.", " Four five six."]


async def test_else_cuts_at_white_space() -> None:
    assert await portions_of(["alpha beta gamma delta"], 13) == ["alpha beta ", "gamma delta"]


async def test_text_of_a_pipe_comes_as_it_is_written() -> None:
    reading, writing = os.pipe()
    text = read_text(reading)
    os.write(writing, "gr\u00fc\u00df".encode()[:-1])
    assert await anext(text) == "gr\u00fc"
    os.write(writing, "\u00df".encode()[1:] + b" dich")
    assert await anext(text) == "\u00df dich"
    os.close(writing)
    assert [piece async for piece in text] == []
    os.close(reading)


async def text_of(reading: int) -> str:
    return "".join([piece async for piece in read_text(reading)])


def piped(data: bytes) -> int:
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    return reading


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"\xff\xfehello", "byte 0 is 0xff"),
        (b"gr\xc3\xbc\xdf.", "byte 4 is 0xdf"),
        (b"\xef\xbb\xbfa\xff", "byte 4 is 0xff"),
        (b"a" * 5000 + b"\xc3", "byte 5000 is 0xc3"),
        (b"a" * 4095 + b"\xc3(", "byte 4095 is 0xc3"),
    ],
)
async def test_what_is_not_utf_8_is_told_with_its_place(data: bytes, place: str) -> None:
    told = f"standard input is not UTF-8 text: {place}"
    whole, pieces = piped(data), piped(data)
    with pytest.raises(TextError, match=told):
        read_whole_text(whole)
    with pytest.raises(TextError, match=told):
        await text_of(pieces)
    # The other end of ``pieces`` stays open: the thread may still read there.
    os.close(whole)


async def test_a_byte_order_mark_is_no_text() -> None:
    reading, other = piped(b"\xef\xbb\xbfHi"), piped(b"\xef\xbb\xbfHi")
    assert read_whole_text(reading) == "Hi"
    assert await text_of(other) == "Hi"
    os.close(reading)
    os.close(other)


async def test_a_given_text_is_one_piece() -> None:
    assert [piece async for piece in given("Hello.")] == ["Hello."]
