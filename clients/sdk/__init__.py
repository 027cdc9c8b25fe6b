"""Async client of the native protocol. Needs `websockets` and nothing of the engine.

async with connect("ws://127.0.0.1:8060/v1/stream", voice="heart") as session, session.context() as context:
    context.speak(text_source)
    async for event in context:
        if isinstance(event, AudioEvent):
            play(event.pcm)
"""

from clients.sdk.context import Context
from clients.sdk.errors import (
    AnswerError,
    AuthenticationError,
    BusyError,
    ClientError,
    ConnectError,
    ConnectionLostError,
    ContextStateError,
    ServerError,
    TextError,
    UnknownLanguageError,
    UnknownVoiceError,
)
from clients.sdk.events import (
    AudioEvent,
    DiscardEvent,
    DoneEvent,
    Event,
    HeardReport,
    NoticeEvent,
    RevisedEvent,
    SpeedEvent,
    WordsEvent,
)
from clients.sdk.session import DEFAULT_URL, Session, connect
from clients.sdk.sync import speak, stream
from realtime.protocol import Pronunciation, Word

__all__ = [
    "DEFAULT_URL",
    "AnswerError",
    "AudioEvent",
    "AuthenticationError",
    "BusyError",
    "ClientError",
    "ConnectError",
    "ConnectionLostError",
    "Context",
    "ContextStateError",
    "DiscardEvent",
    "DoneEvent",
    "Event",
    "HeardReport",
    "NoticeEvent",
    "Pronunciation",
    "RevisedEvent",
    "ServerError",
    "Session",
    "SpeedEvent",
    "TextError",
    "UnknownLanguageError",
    "UnknownVoiceError",
    "Word",
    "WordsEvent",
    "connect",
    "speak",
    "stream",
]
