"""Keys, origins and hosts, over real sockets where a browser or a thief would come."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from realtime.crew import WorkerSettings
from realtime.guard import is_loopback
from realtime.protocol import SUBPROTOCOL, SessionReady, SessionStart, decode_server, encode, key_subprotocol
from tests.realtime.running import RunningServer, running

KEY = "sésame, open"


@pytest.fixture(scope="module")
def locked() -> Iterator[RunningServer]:
    worker = WorkerSettings(has_standby=False)
    with running(worker=worker, api_key=KEY, allowed_origins=("https://Stage.example",)) as made:
        yield made


async def is_let_in(server: RunningServer, **options: Any) -> bool:
    try:
        async with connect(server.stream_url, proxy=None, **options) as connection:
            await connection.send(encode(SessionStart(1)))
            return isinstance(decode_server(await connection.recv()), SessionReady)
    except InvalidStatus as refused:
        response = refused.response
    assert response.status_code in (401, 403)
    assert b'"error"' in response.body
    return False


def offers(*names: str) -> list[Subprotocol]:
    return [Subprotocol(name) for name in names]


class TestKey:
    async def test_programs_send_a_header(self, locked: RunningServer) -> None:
        key = KEY.encode().decode("latin-1")
        assert await is_let_in(locked, additional_headers={"Authorization": f"Bearer {key}"})

    async def test_browsers_offer_a_subprotocol(self, locked: RunningServer) -> None:
        async with connect(
            locked.stream_url, proxy=None, subprotocols=offers(SUBPROTOCOL, key_subprotocol(KEY))
        ) as connection:
            assert connection.subprotocol == SUBPROTOCOL

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"additional_headers": {"Authorization": "Bearer wrong"}},
            {"additional_headers": {"Authorization": "Bearer "}},
            {"additional_headers": {"Authorization": "Basic open"}},
            {"additional_headers": {"Authorization": "open"}},
            {"subprotocols": offers(SUBPROTOCOL)},
            {"subprotocols": offers(SUBPROTOCOL, key_subprotocol("wrong"))},
            {"subprotocols": offers(SUBPROTOCOL, "footlights.key.!!!")},
        ],
    )
    async def test_others_stay_out(self, locked: RunningServer, options: dict[str, Any]) -> None:
        assert not await is_let_in(locked, **options)

    async def test_a_key_in_the_url_is_not_read(self, locked: RunningServer) -> None:
        with pytest.raises(InvalidStatus):
            async with connect(f"{locked.stream_url}?key=open", proxy=None):
                pass

    async def test_http(self, locked: RunningServer) -> None:
        headers = {b"Authorization": b"Bearer " + KEY.encode()}
        async with httpx.AsyncClient(base_url=locked.url, trust_env=False) as http:
            for path in ("/v1/voices", "/metrics", "/no/such/path"):
                answer = await http.get(path)
                assert answer.status_code == 401
                assert answer.headers["WWW-Authenticate"] == "Bearer"
                assert answer.json()["error"]["code"] == "unauthorized"
            for path in ("/v1/voices", "/metrics"):
                assert (await http.get(path, headers=headers)).status_code == 200
            for path in ("/", "/healthz", "/readyz", "/app.js"):
                assert (await http.get(path)).status_code == 200


class TestOrigin:
    @pytest.mark.parametrize(
        ("origin", "is_allowed"),
        [
            ("http://127.0.0.1:{port}", True),
            ("http://127.0.0.1:1", False),
            ("https://evil.example", False),
            ("null", False),
            ("http://127.0.0.1:{port}.evil.example", False),
        ],
    )
    async def test_pages_come_from_here(self, server: RunningServer, origin: str, is_allowed: bool) -> None:
        given = Origin(origin.format(port=server.port))
        assert await is_let_in(server, origin=given) is is_allowed

    async def test_pages_that_are_listed(self, locked: RunningServer) -> None:
        subprotocols = offers(SUBPROTOCOL, key_subprotocol(KEY))
        assert await is_let_in(locked, origin=Origin("https://stage.example"), subprotocols=subprotocols)
        assert not await is_let_in(locked, origin=Origin("https://stage.example"))


class TestHost:
    @pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", "", "10.0.0.1", "["])
    async def test_a_name_that_points_here_is_not_enough(self, server: RunningServer, host: str) -> None:
        async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
            answer = await http.get("/v1/voices", headers={"Host": host})
            assert answer.status_code in (400, 403)

    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8060", "127.0.0.1", "127.9.9.9:1", "[::1]:8060"])
    async def test_loopback_names(self, server: RunningServer, host: str) -> None:
        async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
            assert (await http.get("/v1/voices", headers={"Host": host})).status_code == 200

    async def test_with_a_key_any_name_will_do(self, locked: RunningServer) -> None:
        headers = {b"Authorization": b"Bearer " + KEY.encode(), b"Host": b"voice.example"}
        async with httpx.AsyncClient(base_url=locked.url, trust_env=False) as http:
            assert (await http.get("/v1/voices", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("[::1]", True), ("localhost", True), ("0.0.0.0", False), ("::", False)]
    + [("example.com", False), ("", False), ("192.168.1.5", False)],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
