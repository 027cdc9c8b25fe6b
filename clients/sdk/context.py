"""One context of a session: text goes in, events come out, and it can be cut short at any time."""

import asyncio
import contextlib
from collections.abc import AsyncIterable
from types import TracebackType
from typing import Protocol, Self

from clients.sdk.errors import AnswerError, ClientError
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
from clients.sdk.inbox import Inbox
from clients.sdk.manuscript import Manuscript
from clients.sdk.pauses import with_pauses
from realtime.protocol import (
    AudioDiscard,
    AudioMessage,
    AudioStart,
    Cancel,
    Cancelled,
    ClientMessage,
    ContextOpen,
    Done,
    Error,
    Heard,
    Played,
    SpeedChanged,
    TextAppend,
    TextEnd,
    TextFlush,
    TextNotice,
    TextRevise,
    TextRevised,
    TextSkipped,
    Words,
)

PIECE_CHARACTERS = 8_000
"""Longest text of one message. JSON may need 6 bytes a character; a message may have 64 KiB."""
CANCEL_TIMEOUT_S = 10.0
ACKNOWLEDGE_EVERY_MS = 100.0

ContextMessage = (
    AudioStart | Words | AudioDiscard | TextRevised | TextSkipped | SpeedChanged | TextNotice | Cancelled | Heard | Done
)


class Link(Protocol):
    """What a context needs of its session."""

    @property
    def sample_rate(self) -> int:
        """Of all audio of the session, in Hz."""

    async def send(self, message: ClientMessage) -> None:
        """Send a message, or raise `ConnectionLostError`."""

    def forget(self, context: "Context") -> None:
        """Drop what still comes for this context."""


class Context:
    """Text that shares a voice and a prosody. Use as ``async with``; iterate over it to get its events.

    Leaving the block before the end cancels the context. Several tasks may send while one iterates.
    """

    def __init__(self, link: Link, opening: ContextOpen, *, max_audio_bytes: int, acknowledge: bool) -> None:
        self.id = opening.context
        self.report: HeardReport | None = None
        """What was heard, once the context has been cancelled."""
        self._link = link
        self._opening = opening
        self._inbox = Inbox(max_audio_bytes)
        self._manuscript = Manuscript()
        self._acknowledge = acknowledge
        self._acknowledged_ms = 0.0
        self._taken_ms = 0.0
        self._sequence = 0
        self._is_cancelling = False
        self._answer: asyncio.Future[HeardReport] | None = None
        self._feeder: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._link.send(self._opening)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._feeder is not None:
            self._feeder.cancel()
            await asyncio.wait([self._feeder])
        if not self._inbox.is_closed and self._answer is None:
            # The block's own error, if any, is the one to be seen.
            with contextlib.suppress(ClientError):
                await self.cancel()
        # The session may be waiting for room in here.
        self._inbox.cut()
        self._link.forget(self)

    # -------------------------------------------------------------------------------------------- text in

    async def append(self, text: str) -> None:
        """More text, verbatim: the caller supplies the spaces. Any length, also a part of a word."""
        for start in range(0, len(text), PIECE_CHARACTERS):
            piece = text[start : start + PIECE_CHARACTERS]
            self._manuscript.append(piece)
            await self._link.send(TextAppend(piece, self.id))

    @property
    def text(self) -> str:
        """All that was given: appends and revisions, as if none had come too late."""
        return self._manuscript.text

    @property
    def spoken_text(self) -> str:
        """The text that word times and reports count in: another than `text` where a revision came too late."""
        return self._manuscript.spoken

    async def revise(self, start: int, text: str) -> None:
        """Replace everything from character ``start`` of `text` on. What has been heard stays; `RevisedEvent` tells.

        Raises:
            ValueError: there is no such character.
        """
        if not 0 <= start <= len(self.text):
            raise ValueError(f"no character {start} in a text of {len(self.text)}")
        head, rest = text[:PIECE_CHARACTERS], text[PIECE_CHARACTERS:]
        self._manuscript.revise(start, head)
        await self._link.send(TextRevise(head, start, self.id))
        await self.append(rest)

    async def change_to(self, text: str) -> None:
        """Make the whole text this one, by the shortest message that does: for captions, given whole each time."""
        start, changed = self._manuscript.change_to(text)
        if start < len(self.text):
            await self.revise(start, changed)
        else:
            await self.append(changed)

    async def flush(self) -> None:
        """Speak what was appended so far without waiting for more; more may follow."""
        await self._link.send(TextFlush(self.id))

    async def end(self) -> None:
        """No more text will come: the rest is spoken, then `DoneEvent` follows."""
        await self._link.send(TextEnd(self.id))

    def speak(self, source: AsyncIterable[str], *, flush_after_s: float | None = None) -> None:
        """Append all pieces of ``source`` as they come, then end; in the background, so that events can be iterated.

        ``flush_after_s``: when ``source`` pauses that long after a sentence or a line, speak to its end without
        waiting for more. If ``source`` raises, the context is cancelled and the iteration raises a `ClientError`
        whose cause is that exception.
        """
        assert self._feeder is None, "one source per context"
        self._feeder = asyncio.create_task(self._feed(source, flush_after_s), name=f"feed {self.id}")

    async def _feed(self, source: AsyncIterable[str], flush_after_s: float | None) -> None:
        try:
            async for piece in with_pauses(source, flush_after_s):
                if self._inbox.is_closed or self._is_cancelling:
                    return
                if piece is None:
                    await self.flush()
                else:
                    await self.append(piece)
            if not self._is_cancelling:
                await self.end()
        except ClientError as error:
            self._inbox.fail(error)
        except Exception as error:
            failure = ClientError(f"the text could not be read: {error}", context=self.id)
            failure.__cause__ = error
            with contextlib.suppress(ClientError):
                await self._ask_to_cancel(None)
            self._inbox.fail(failure)

    # -------------------------------------------------------------------------------------------- play-out

    async def played(self, ms: float) -> None:
        """Tell the server that the first ``ms`` of the context have been heard."""
        self._acknowledged_ms = ms
        await self._link.send(Played(ms, self.id))

    async def cancel(self, played_ms: float | None = None) -> HeardReport:
        """Stop now. ``played_ms``: how much the listener heard, if known; else the last `played` counts.

        Audio that was not taken is dropped, none arrives any more, and the iteration ends with the report. Works for
        a context that is done as well: sent is not heard.

        Raises:
            ClientError: the server does not know the context any more, or does not answer.
        """
        if self.report is not None:
            return self.report
        answer = await self._ask_to_cancel(played_ms)
        try:
            async with asyncio.timeout(CANCEL_TIMEOUT_S):
                return await asyncio.shield(answer)
        except TimeoutError as error:
            raise AnswerError(
                f"no answer to the cancellation within {CANCEL_TIMEOUT_S:g} s", context=self.id
            ) from error

    async def _ask_to_cancel(self, played_ms: float | None) -> "asyncio.Future[HeardReport]":
        self._is_cancelling = True
        self._inbox.cut()
        if self._answer is None or self._answer.done():
            self._answer = asyncio.get_running_loop().create_future()
            # Asked for or not, an error in it is never "unretrieved".
            self._answer.add_done_callback(lambda answer: answer.cancelled() or answer.exception())
            await self._link.send(Cancel(self.id, played_ms))
        return self._answer

    # -------------------------------------------------------------------------------------------- events out

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._acknowledge and self._taken_ms >= self._acknowledged_ms + ACKNOWLEDGE_EVERY_MS:
            await self.played(self._taken_ms)
        event = await self._inbox.get()
        if isinstance(event, AudioEvent):
            self._taken_ms = event.end_ms
        return event

    # -------------------------------------------------------------------------------------------- for the session

    def receive(self, message: ContextMessage) -> None:
        """A message of this context arrived."""
        match message:
            case Words(words=words) if not self._is_cancelling:
                self._inbox.put(WordsEvent(words))
            case AudioDiscard(from_ms=from_ms) if not self._is_cancelling:
                self._inbox.discard(round(from_ms * self._link.sample_rate / 1000))
                self._taken_ms = min(self._taken_ms, from_ms)
                self._acknowledged_ms = min(self._acknowledged_ms, from_ms)
                self._inbox.put(DiscardEvent(from_ms))
            case TextRevised():
                self._manuscript.answered(message.kept_to, message.resumes_at, message.revision)
                self._changed(message.kept_to, is_late=message.late)
            case TextSkipped():
                self._manuscript.skipped(message.kept_to, message.resumes_at)
                self._changed(message.kept_to, skipped=message.skipped)
            case SpeedChanged() if not self._is_cancelling:
                self._inbox.put(SpeedEvent(message.speed, message.lag_ms))
            case TextNotice() if not self._is_cancelling:
                self._inbox.put(NoticeEvent(message.message))
            # A cancelled context ends with its report, also when the cancellation came too late.
            case Done() if not self._is_cancelling:
                if message.audio_messages != self._sequence:
                    lost = f"{message.audio_messages} audio messages were sent, {self._sequence} arrived"
                    self.fail(AnswerError(lost, context=self.id))
                self._inbox.put(DoneEvent.from_message(message))
            case Cancelled() | Heard():
                self.report = HeardReport.from_message(message)
                if self._answer is not None and not self._answer.done():
                    self._answer.set_result(self.report)
                self._inbox.put(self.report)

    def _changed(self, kept_to: int, *, is_late: bool = False, skipped: str = "") -> None:
        if not self._is_cancelling:
            self._inbox.forget_words(kept_to)
            self._inbox.put(RevisedEvent(self.spoken_text, kept_to, is_late, skipped))

    def receive_audio(self, message: AudioMessage) -> None:
        """Audio of this context arrived."""
        if message.sequence != self._sequence:
            lost = f"audio message {self._sequence} is missing: {message.sequence} arrived"
            self.fail(AnswerError(lost, context=self.id))
        self._sequence += 1
        if not self._is_cancelling:
            self._inbox.put(AudioEvent(message.payload, message.first_sample, self._link.sample_rate))

    def receive_error(self, message: Error, error: ClientError) -> None:
        """An error about this context arrived."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        if message.terminal:
            self._inbox.fail(error)
        else:
            self._inbox.put(error)

    def fail(self, error: ClientError) -> None:
        """Nothing more will come."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self._inbox.fail(error)

    async def room(self) -> None:
        """Returns when more audio may be put in."""
        await self._inbox.room()
