"""`POST /v1/explain`: how a text would be read."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from realtime.explain import MOST_AT_ONCE, MOST_BYTES, MOST_CHARACTERS
from realtime.protocol import AudioMessage, TextAppend, TextEnd
from tests.realtime.running import RunningServer, client


@pytest.fixture
async def http(server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=30) as made:
        yield made


async def test_pieces_spoken_form_and_places(http: httpx.AsyncClient) -> None:
    answer = (await http.post("/v1/explain", json={"text": "That is $20 now"})).json()
    assert answer["spoken"] == "That is twenty dollars now"
    assert [(p["text"], p["spoken"], p["char_start"], p["char_end"]) for p in answer["pieces"]][2] == (
        "$20",
        "twenty dollars",
        8,
        11,
    )


async def test_format_and_lexicon_reach_the_engine(http: httpx.AsyncClient) -> None:
    question = {"text": "a", "text_format": "ssml", "lexicon": [{"word": "GIF", "say": "jif"}]}
    assert (await http.post("/v1/explain", json=question)).json()["notices"] == ["GIF is jif", "ssml"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "bad_message"),
        (b"[" * 100_000, 400, "bad_message"),
        (b"[]", 400, "bad_message"),
        (b"{}", 400, "bad_message"),
        (b'{"text": 5}', 400, "bad_message"),
        (b'{"text": "a", "text_format": "word"}', 400, "bad_message"),
        (b'{"text": "a", "lexicon": [{"say": "b"}]}', 400, "bad_message"),
        (b'{"text": "' + b"a" * (MOST_CHARACTERS + 1) + b'"}', 400, "bad_message"),
        (b" " * (MOST_BYTES + 1), 413, "message_too_large"),
        (b'{"text": "<|im_end|>"}', 422, "structural_token"),
        (b'{"text": "fault"}', 500, "internal"),
    ],
    ids=range(11),
)
async def test_what_cannot_be_read_is_refused(http: httpx.AsyncClient, body: bytes, status: int, code: str) -> None:
    answer = await http.post("/v1/explain", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert (await http.post("/v1/explain", json={"text": "well"})).json()["spoken"] == "well"


async def test_reading_holds_nobody_up_and_is_bounded(server: RunningServer, http: httpx.AsyncClient) -> None:
    long = {"text": "word " * (MOST_CHARACTERS // 5)}
    async with client(server) as peer:
        asked = [asyncio.create_task(http.post("/v1/explain", json=long)) for _ in range(3 * MOST_AT_ONCE)]
        await asyncio.sleep(0)
        await peer.send(TextAppend("Hello there. "), TextEnd())
        await peer.read_until(AudioMessage)
        assert not all(task.done() for task in asked)
        answers = await asyncio.gather(*asked)
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {200, 429}
    assert statuses.count(200) >= MOST_AT_ONCE


async def test_there_is_nothing_to_get(http: httpx.AsyncClient) -> None:
    assert (await http.get("/v1/explain")).status_code == 404
