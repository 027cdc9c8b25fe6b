"""``footlights llm``: against a real speech server, and a chat server that speaks the OpenAI way."""

import asyncio
import http.server
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from clients.commands.chat_source import ChatError, OpenAIChat, RecordedChat, Turn, text_of
from clients.commands.sinks import WavFile
from clients.llm import Conversation
from clients.sdk import connect

ROOT = Path(__file__).resolve().parents[2]
RECORDING = ROOT / "clients" / "recordings" / "answer.sse"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


class ChatHandler(http.server.BaseHTTPRequestHandler):
    """Answers with the words of the question's number, one every 20 ms."""

    requests: list[dict[str, Any]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append({"path": self.path, "key": self.headers.get("Authorization"), **body})
        if body["model"] == "nobody":
            self.send_error(404, "no such model")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for number in range(12):
            chunk = {"choices": [{"delta": {"content": f"word{number} "}}]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            time.sleep(0.02)
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture(scope="module")
def chat() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), ChatHandler) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_address[1]}/v1"
        served.shutdown()
        thread.join()


def llm(*arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "clients.cli", "llm", *arguments],
        cwd=ROOT,
        env=ENVIRONMENT,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )


class Slow:
    """Words that never end."""

    async def answer(self, turns: list[Turn]) -> AsyncIterator[str]:
        number = 0
        while True:
            yield f"word{number} "
            number += 1
            await asyncio.sleep(0.01)


def test_an_answer_is_spoken(server: str, chat: str, tmp_path: Path) -> None:
    wav = tmp_path / "answer.wav"
    done = llm("hello", "you", "--url", chat, "--model", "m", "--llm-key", "k", "-s", server, "-o", str(wav))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [f"word{number}" for number in range(12)]
    assert wav.stat().st_size == pytest.approx(12 * 0.2 * 48_000, abs=100)
    request = ChatHandler.requests[-1]
    assert (request["path"], request["key"], request["stream"]) == ("/v1/chat/completions", "Bearer k", True)
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert request["messages"][1]["content"] == "hello you"


def test_a_recorded_answer_needs_no_model(server: str, tmp_path: Path) -> None:
    done = llm("hello", "--recorded", str(RECORDING), "-s", server, "-o", str(tmp_path / "a.wav"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Good evening.")
    assert "$6.50" in done.stdout


async def test_what_was_heard_stays_in_the_conversation(server: str, tmp_path: Path) -> None:
    async with connect(server) as session:
        sink = WavFile(tmp_path / "a.wav", session.sample_rate)
        conversation = Conversation(session, Slow(), sink)
        interrupted = asyncio.Event()
        asyncio.get_running_loop().call_later(1.0, interrupted.set)
        report = await conversation.ask("Talk.", interrupted)
        sink.close()
    assert report is not None
    heard = report.spoken.split()
    assert 2 <= len(heard) <= 5
    assert heard == [f"word{number}" for number in range(len(heard))]
    assert report.unspoken
    assert [(turn.role, turn.content) for turn in conversation.turns[1:]] == [
        ("user", "Talk."),
        ("assistant", report.spoken),
    ]


def test_a_line_interrupts_the_answer_before_it(server: str, chat: str, tmp_path: Path) -> None:
    ChatHandler.requests.clear()
    done = llm("--url", chat, "--model", "m", "-s", server, "-o", str(tmp_path / "a.wav"), stdin="one\ntwo\n")
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first.startswith("heard: ")
    assert second.split()[-1] == "word11"
    # The first request may reach the model after the second: it was dropped before it was sent.
    asked = [[message["role"] for message in request["messages"]] for request in ChatHandler.requests]
    assert ["system", "user", "assistant", "user"] in asked


def test_what_can_go_wrong_is_told_in_a_line(server: str, chat: str, tmp_path: Path) -> None:
    wav = str(tmp_path / "a.wav")
    missing = llm("hi", "--url", chat, "--model", "nobody", "-s", server, "-o", wav)
    assert missing.returncode == 1
    assert "answers 404" in missing.stderr
    assert "Traceback" not in missing.stderr
    nowhere = llm("hi", "--url", "http://127.0.0.1:9/v1", "--model", "m", "-s", server, "-o", wav)
    assert nowhere.returncode == 1
    assert "no language model at" in nowhere.stderr
    assert llm("hi", "-s", server).returncode == 2


def test_the_help_teaches() -> None:
    done = llm("--help")
    for word in ("--recorded", "OPENAI_API_KEY", "interrupt", "not heard"):
        assert word in done.stdout


async def test_errors_in_the_stream() -> None:
    assert text_of('data: {"choices": [{"delta": {"content": "a"}}]}') == "a"
    assert [text_of(line) for line in (": comment", "", "event: x", "data: [DONE]", 'data: {"choices": []}')] == [
        ""
    ] * 5
    with pytest.raises(ChatError, match="overloaded"):
        text_of('data: {"error": "overloaded"}')
    with pytest.raises(ChatError, match="not a chat stream"):
        text_of("data: <html>")
    with pytest.raises(ChatError, match="no language model"):
        await anext(aiter(OpenAIChat("nonsense://x", "m").answer([])))


async def test_the_recording_is_an_answer() -> None:
    pieces = [piece async for piece in RecordedChat(RECORDING).answer([])]
    assert len(pieces) > 30
    assert "".join(pieces).startswith("Good evening.")
