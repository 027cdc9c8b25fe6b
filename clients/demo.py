"""``make speak``: a text is written word by word, as a language model writes, and spoken meanwhile.

A short program on top of the SDK. It starts a server of its own; with one that runs already, `connect` is enough.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clients.commands.sinks import NoSpeakersError, Sink, Speakers, WavFile
from clients.commands.status import StatusLine
from clients.sdk import AudioEvent, ClientError, connect

TEXT = (
    "Good evening. I began to speak when only the first words of this text had been written. "
    "The rest is still being typed while you listen, the way a language model answers. "
    "So nobody has to wait for the end of a sentence."
)
WORDS_PER_S = 8.0
AUDIBLE = 100
"""Smallest sample, of 32768, that counts as sound (-50 dB)."""
DEFAULT_FILE = Path("footlights.wav")
EPILOG = 'Next: make serve, a page that speaks while you type. Or: .venv/bin/footlights say "Your text."'


@dataclass
class Progress:
    """How far the writer is, and when the first sound came."""

    words: int
    written: int = 0
    started_s: float = 0.0
    playing_s: float | None = None
    """When playing could begin."""
    ttfa_ms: float | None = None
    """From the first word to the first audible sample."""
    written_then: int = 0
    """Words written by then."""


def main(argv: list[str] | None = None) -> int:
    """Write and speak; returns the exit status."""
    arguments = parser().parse_args(argv)
    try:
        asyncio.run(rehearse(arguments.text, arguments.pace, arguments.output))
    except ClientError as error:
        print(f"footlights: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def parser() -> argparse.ArgumentParser:
    """The arguments of the program."""
    made = argparse.ArgumentParser(prog="python -m clients.demo", description="Speak a text while it is being written.")
    made.add_argument("text", nargs="?", default=TEXT)
    made.add_argument("--pace", type=float, default=WORDS_PER_S, metavar="N", help="words written per second")
    made.add_argument("-o", "--output", type=Path, metavar="FILE", help="write a WAV file instead of playing")
    return made


async def rehearse(text: str, pace: float, output: Path | None) -> None:
    """Write ``text`` to standard output, ``pace`` words a second, and speak it into ``output`` or the speakers.

    Raises:
        ClientError: no model, or it cannot speak this text.
    """
    from clients.commands.private_server import private_server

    async with AsyncExitStack() as stack:
        async with StatusLine(sys.stderr).spinning("loading the voice"):
            url = await stack.enter_async_context(private_server())
        session = await stack.enter_async_context(connect(url))
        sink, file = open_sink(output, session.sample_rate)
        stack.callback(sink.close)
        context = await stack.enter_async_context(session.context(acknowledge=True))
        progress = Progress(words=len(text.split()))
        context.speak(write(text, pace, progress))
        speech_ms = 0.0
        async for event in context:
            if isinstance(event, AudioEvent):
                listen(event, progress)
                await sink.write(event.pcm)
                speech_ms = event.end_ms
        await sink.drain()
    print("\n")
    print(summary(progress, speech_ms, file))


def open_sink(output: Path | None, sample_rate: int) -> tuple[Sink, Path | None]:
    """The speakers, or a file where one is asked for or there are no speakers."""
    if output is None:
        try:
            return Speakers(sample_rate), None
        except NoSpeakersError as error:
            output = DEFAULT_FILE
            print(f"no speakers here ({error}): writing {output}\n", file=sys.stderr)
    return WavFile(output, sample_rate), output


async def write(text: str, pace: float, progress: Progress) -> AsyncIterator[str]:
    """The text as somebody writes it."""
    progress.started_s = time.monotonic()
    for word in text.split():
        print(word, end=" ", flush=True)
        progress.written += 1
        yield word + " "
        await asyncio.sleep(1 / pace)


def listen(event: AudioEvent, progress: Progress) -> None:
    """Note the first sound, in the text at the place where it came."""
    if progress.ttfa_ms is not None:
        return
    now_s = time.monotonic()
    if progress.playing_s is None:
        progress.playing_s = now_s
    loud = np.flatnonzero(np.abs(np.frombuffer(event.pcm, "<i2").astype(np.int32)) >= AUDIBLE)
    if len(loud):
        due_s = max(now_s, progress.playing_s + event.start_ms / 1000) + float(loud[0]) / event.sample_rate
        progress.ttfa_ms = 1000 * (due_s - progress.started_s)
        progress.written_then = progress.written
        print("[first sound]", end=" ", flush=True)


def summary(progress: Progress, speech_ms: float, file: Path | None) -> str:
    """What happened, and what to do next."""
    if progress.ttfa_ms is None:
        return f"There was nothing to say in this text.\n{EPILOG}"
    first = f"First sound {progress.ttfa_ms:.0f} ms after the first word, with {progress.written_then} of "
    lines = [f"{first}{progress.words} words written; {speech_ms / 1000:.1f} s of speech."]
    if file is not None:
        lines.append(f"Listen to it: {file}")
    return "\n".join([*lines, EPILOG])


if __name__ == "__main__":
    sys.exit(main())
