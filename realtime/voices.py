"""`/v1/voices`: which voices there are, new ones from recordings, old ones away. Recordings are not decoded here."""

import asyncio
import logging

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive

from engine.core import ModelInfo, Recording
from realtime.bridge import Bridge
from realtime.commands import VoiceAnswer
from realtime.limits import LimitSettings
from realtime.protocol import CONSENT_NOTICE

logger = logging.getLogger(__name__)

MOST_RECORDINGS = 8
MOST_FIELD_BYTES = 16 * 1024
STALL_S = 15.0
"""A body of which nothing arrives for so long is given up: others wait for their voice."""
ARRIVAL_S = 180.0
"""The same, for all of a body."""
STATUSES = {
    "bad_message": 400,
    "bad_voice": 400,
    "bad_text": 422,
    "structural_token": 422,
    "text_too_long": 422,
    "bad_clip": 422,
    "foreign_voice": 409,
    "voice_exists": 409,
    "unknown_voice": 404,
    "message_too_large": 413,
    "busy": 429,
    "no_cloning": 501,
    "worker_lost": 503,
    "shutting_down": 503,
}
"""HTTP status of an error by its code; others are 500."""


class RefusedError(Exception):
    """A request that goes no further; ``code`` as in ``STATUSES``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class VoiceRoutes:
    """The requests, for one bridge. One voice is made at a time."""

    def __init__(self, bridge: Bridge, limits: LimitSettings) -> None:
        self._bridge = bridge
        self._limits = limits
        self._is_busy = False

    async def collection(self, request: Request) -> Response:
        """`GET`: the model and its voices. `POST`: a new voice, from a multipart form."""
        info = self._bridge.info
        if info is None:
            return refusal("busy", "the model is still being loaded", 503)
        return await self._add(request) if request.method == "POST" else JSONResponse(describe(info))

    async def one(self, request: Request) -> Response:
        """`DELETE /v1/voices/{name}`."""
        answer = await self._bridge.remove_voice(request.path_params["name"])
        return _failure(answer) or Response(status_code=204)

    async def _add(self, request: Request) -> Response:
        if self._is_busy:
            return refusal("busy", "another voice is being made; try again in a moment")
        self._is_busy = True
        try:
            name, recordings = await self._read(request)
            answer = await self._bridge.add_voice(name, recordings)
        except RefusedError as error:
            return refusal(error.code, str(error))
        finally:
            self._is_busy = False
        if failure := _failure(answer):
            return failure
        logger.info("voice %s made of %d recordings", name, len(recordings))
        return JSONResponse({"id": name, "notice": CONSENT_NOTICE, "notes": list(answer.notes)}, 201)

    async def _read(self, request: Request) -> tuple[str, list[Recording]]:
        """Name and recordings of the form: ``name``, then for each recording ``audio`` and ``transcript``.

        Raises:
            RefusedError: too many bytes, not such a form, or it does not arrive.
        """
        most = self._limits.voice_bytes
        too_large = RefusedError("message_too_large", f"a request for a voice may have {most} bytes")
        if int(request.headers.get("content-length", "0")) > most:
            raise too_large
        bounded = Request(request.scope, _bounded(request.receive, most, too_large))
        try:
            async with (
                asyncio.timeout(ARRIVAL_S),
                bounded.form(
                    max_files=MOST_RECORDINGS, max_fields=MOST_RECORDINGS + 1, max_part_size=MOST_FIELD_BYTES
                ) as form,
            ):
                names, transcripts = form.getlist("name"), form.getlist("transcript")
                files = [file for file in form.getlist("audio") if isinstance(file, UploadFile)]
                if len(names) != 1 or not isinstance(names[0], str) or not files or len(files) != len(transcripts):
                    raise RefusedError(
                        "bad_message",
                        "send multipart/form-data with one field name and, for each recording, a file audio and a "
                        "field transcript",
                    )
                recordings = [
                    Recording(await file.read(), str(transcript))
                    for file, transcript in zip(files, transcripts, strict=True)
                ]
                return names[0], recordings
        except (HTTPException, MultiPartException) as error:
            raise RefusedError("bad_message", getattr(error, "detail", None) or str(error)) from error
        except TimeoutError as error:
            raise RefusedError("bad_message", "the recordings did not arrive in time: send them again") from error
        except ClientDisconnect as error:
            raise RefusedError("bad_message", "the connection ended before the recordings had arrived") from error


def describe(info: ModelInfo) -> dict[str, object]:
    """What `GET /v1/voices` tells of the model."""
    cloned = {voice.name: voice for voice in info.cloned if voice.problem is None}
    voices = [
        {"id": name, "recordings": cloned[name].recordings, "seconds": cloned[name].duration_s}
        if name in cloned
        else {"id": name}
        for name in info.voices
    ]
    return {
        "model": info.name,
        "voices": voices,
        "unusable_voices": [{"id": voice.name, "problem": voice.problem} for voice in info.cloned if voice.problem],
        "can_clone": info.can_clone,
        "languages": list(info.languages),
        "sample_rate": info.sample_rate,
        "frame_ms": info.frame_ms,
        "licence": info.licence,
        "notes": list(info.notes),
    }


def refusal(code: str, message: str, status: int | None = None) -> Response:
    """An error as HTTP answers it; its status by its code, unless it is given."""
    return JSONResponse({"error": {"code": code, "message": message}}, status or STATUSES.get(code, 500))


def _failure(answer: VoiceAnswer) -> Response | None:
    return None if answer.code is None else refusal(answer.code, answer.message)


def _bounded(receive: Receive, most: int, error: RefusedError) -> Receive:
    """``receive`` that raises ``error`` when the body grows beyond ``most`` bytes, whatever its header said, and
    ``TimeoutError`` when it does not come."""
    left = most

    async def bounded() -> Message:
        nonlocal left
        async with asyncio.timeout(STALL_S):
            message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise error
        return message

    return bounded
