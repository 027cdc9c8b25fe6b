"""The lines of a scene spoken to one game: several characters on one connection, cut short when the player acts."""

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from clients.npc.scene import Character
from clients.sdk import AudioEvent, ClientError, Context, DoneEvent, HeardReport, Session, WordsEvent

HEADER = struct.Struct("<HHI")
"""Before the samples of a binary message: index of the character, number of the line, position of the first sample."""
EVERYBODY = "*"

Send = Callable[[str | bytes], Awaitable[None]]


@dataclass
class Line:
    """A line that is being spoken, or was sent and is still being heard."""

    number: int
    text: str
    context: Context
    task: "asyncio.Task[None] | None" = None
    heard_ms: float = 0.0
    all_ms: float | None = None
    """Its length, once all was sent."""
    is_heard: asyncio.Event = field(default_factory=asyncio.Event)


class Performance:
    """One game's scene. ``send`` takes JSON text and binary audio for the game."""

    def __init__(self, session: Session, characters: list[Character], send: Send) -> None:
        self._session = session
        self._characters = {character.name: character for character in characters}
        self._send = send
        self._lines: dict[str, Line] = {}
        self._count = 0

    async def begin(self) -> None:
        """Tell the game who is there."""
        cast = [
            {"name": character.name, "index": index, "actions": character.actions}
            for index, character in enumerate(self._characters.values())
        ]
        await self._tell("scene", sample_rate=self._session.sample_rate, characters=cast)

    async def receive(self, text: str) -> None:
        """A message of the game. What cannot be read is answered with a ``problem``."""
        try:
            message = json.loads(text)
            kind, name = message["type"], message["character"]
            if name != EVERYBODY and name not in self._characters:
                raise KeyError(name)
            if kind == "act":
                await self._act(name, str(message["action"]))
            elif kind == "heard":
                self._heard(name, int(message["line"]), float(message["ms"]))
            else:
                raise ValueError(kind)
        except (ValueError, TypeError, KeyError) as error:
            await self._tell("problem", message=f"not understood: {text[:80]} ({type(error).__name__})")

    async def end(self) -> None:
        """The game has left."""
        for line in self._lines.values():
            assert line.task is not None
            line.task.cancel()
        await asyncio.gather(*(line.task for line in self._lines.values() if line.task), return_exceptions=True)

    async def _act(self, name: str, action: str) -> None:
        """The player acts: whoever is meant falls silent at once, then answers."""
        names = list(self._characters) if name == EVERYBODY else [name]
        await asyncio.gather(*(self._cut(each) for each in names))
        for each in names:
            text = self._characters[each].answer(action)
            if text is not None:
                await self._begin_line(each, text)

    async def _begin_line(self, name: str, text: str) -> None:
        self._count += 1
        context = self._session.context(f"{name}-{self._count}", voice=self._characters[name].voice)
        line = self._lines[name] = Line(self._count, text, context)
        await self._tell("line", character=name, line=line.number, text=text)
        line.task = asyncio.create_task(self._speak(name, line), name=f"{name} {line.number}")

    async def _speak(self, name: str, line: Line) -> None:
        index = list(self._characters).index(name)
        try:
            async with line.context as context:
                await context.append(line.text)
                await context.end()
                async for event in context:
                    match event:
                        case AudioEvent(pcm=pcm, first_sample=first):
                            await self._send(HEADER.pack(index, line.number & 0xFFFF, first) + pcm)
                        case WordsEvent(words=words):
                            said = [{"text": w.text, "start_ms": w.start_ms, "end_ms": w.end_ms} for w in words]
                            await self._tell("words", character=name, line=line.number, words=said)
                        case DoneEvent(audio_ms=audio_ms):
                            line.all_ms = audio_ms
                            await self._tell("over", character=name, line=line.number, audio_ms=audio_ms)
                        case HeardReport():
                            return
                # Sent is not heard: until then the player may still cut it short.
                self._check(line)
                await line.is_heard.wait()
        except ClientError as error:
            await self._tell("problem", message=f"{name}: {error}")
        finally:
            if self._lines.get(name) is line:
                del self._lines[name]

    async def _cut(self, name: str) -> None:
        line = self._lines.get(name)
        if line is None:
            return
        report = await line.context.cancel(line.heard_ms)
        self._characters[name].unsaid = report.unspoken
        line.is_heard.set()
        assert line.task is not None
        await line.task
        await self._tell("cut", character=name, line=line.number, heard=report.spoken, unheard=report.unspoken)

    def _heard(self, name: str, number: int, ms: float) -> None:
        line = self._lines.get(name)
        if line is not None and line.number == number:
            line.heard_ms = max(line.heard_ms, ms)
            self._check(line)

    def _check(self, line: Line) -> None:
        # A player that reports whole milliseconds may never name the last part of one.
        if line.all_ms is not None and line.heard_ms >= line.all_ms - 1:
            line.is_heard.set()

    async def _tell(self, kind: str, **fields: Any) -> None:
        await self._send(json.dumps({"type": kind, **fields}))
