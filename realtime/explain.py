"""`POST /v1/explain`: how a text would be read, without speaking it."""

import asyncio
import itertools
import json
from dataclasses import asdict, dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from engine.core import Explanation, Failed, Policy, TextFormat, Utterance
from realtime.bridge import Bridge
from realtime.commands import Explain, Explained, WorkerEvent
from realtime.pronunciation import entries_of
from realtime.protocol import MAX_NAME_CHARACTERS, PolicyName, Pronunciation, TextFormatName
from realtime.strict import FieldError, bounded, read

MOST_BYTES = 128 * 1024
MOST_CHARACTERS = 20_000
MOST_AT_ONCE = 4
TIMEOUT_S = 30.0
STATUSES = {"internal": 500, "worker_lost": 503, "shutting_down": 503}
"""HTTP status of a failure by its code; others are the request's own, 422."""


@dataclass(frozen=True)
class Question:
    """Body of the request; fields as in `session.start`."""

    text: str = bounded(low=0, high=MOST_CHARACTERS)
    language: str | None = bounded(None, low=1, high=MAX_NAME_CHARACTERS)
    policy: PolicyName = "eager"
    text_format: TextFormatName = "markdown"
    lexicon: tuple[Pronunciation, ...] | None = None


class ExplainRoute:
    """The request, for one bridge; `MOST_AT_ONCE` at a time."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._numbers = itertools.count()
        self._open = 0

    async def answer(self, request: Request) -> Response:
        """Answers with pieces and notices, or an error."""
        info = self._bridge.info
        if info is None:
            return _refusal(503, "busy", "the model is still being loaded")
        if self._open >= MOST_AT_ONCE:
            return _refusal(429, "busy", f"{MOST_AT_ONCE} texts are being read; try again")
        self._open += 1
        try:
            body = await _body(request)
            if body is None:
                return _refusal(413, "message_too_large", f"at most {MOST_BYTES} bytes")
            question = read(Question, json.loads(body))
            utterance = Utterance(
                f"explain.{next(self._numbers)}",
                voice=info.voices[0],
                language=question.language or info.languages[0],
                policy=Policy(question.policy),
                text_format=TextFormat(question.text_format),
                lexicon=entries_of(question.lexicon or ()),
            )
            answer = await self._ask(Explain(utterance, question.text))
        except (FieldError, ValueError, RecursionError) as error:
            return _refusal(400, "bad_message", str(error) or "the body is not JSON")
        except TimeoutError:
            return _refusal(503, "busy", "the text was not read in time; try again")
        finally:
            self._open -= 1
        if isinstance(answer, Failed):
            return _refusal(STATUSES.get(answer.code, 422), answer.code, answer.message)
        return JSONResponse(_plain(answer))

    async def _ask(self, command: Explain) -> Explanation | Failed:
        answer: asyncio.Future[Explanation | Failed] = asyncio.get_running_loop().create_future()

        def listen(event: WorkerEvent) -> None:
            if isinstance(event, Explained | Failed) and not answer.done():
                answer.set_result(event.explanation if isinstance(event, Explained) else event)

        self._bridge.submit(command, listen)
        async with asyncio.timeout(TIMEOUT_S):
            return await answer


async def _body(request: Request) -> bytes | None:
    """The body, None if it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            return None
    return bytes(body)


def _plain(explanation: Explanation) -> dict[str, object]:
    pieces = [asdict(piece) for piece in explanation.pieces]
    spoken = " ".join(piece.spoken for piece in explanation.pieces if piece.spoken)
    return {"spoken": spoken, "pieces": pieces, "notices": list(explanation.notices)}


def _refusal(status: int, code: str, message: str) -> Response:
    return JSONResponse({"error": {"code": code, "message": message}}, status)
