"""``footlights captions``: captions that change are spoken while they are written, and come back with word times.

A caption track is one context. Each new state of the captions is sent as the whole text so far (`Context.change_to`);
the client library finds out what differs, and the server replaces what was not heard yet.
"""

import argparse
import asyncio
import html
import json
import re
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clients.commands.listener import Listener
from clients.commands.program import add_server, make_parser, new_file, run_program, wav_file
from clients.commands.sinks import open_sink
from clients.commands.text_source import read_text
from clients.commands.timeline import Timeline
from clients.sdk import Context, DoneEvent, HeardReport, RevisedEvent, Word, WordsEvent, connect
from realtime.protocol import MAX_LAG_MS, MIN_LAG_MS, LagPolicy

DEFAULT_FILE = Path("captions.wav")
CUE_CHARACTERS = 42
"""Longest line of a cue, as broadcasters have it."""
CUE_GAP_MS = 700.0
"""A silence that ends a cue."""
EPILOG = """\
input, one of:
  - lines of JSON on standard input, as a recogniser gives them:
      {"text": "Good evening to"}
      {"text": "Good evening, two hours ago"}                  it has understood better
      {"text": "Good evening, two hours ago.", "final": true}  settled; the next line starts a new caption
  - a subtitle file (--replay talk.srt), its cues at their times: a dub in real time

output:
  - the speech: speakers, or -o FILE.wav, which keeps time: from the start of the captions on it holds silence where
    nothing is to be heard, so a dub fits under its film
  - --vtt FILE: a WebVTT file of what was spoken, each word with its time in that file, or at which it was heard
  - on standard error, what came too late to be changed and what was skipped

examples:
  recogniser | footlights captions --server ws://127.0.0.1:8060
  footlights captions --replay talk.srt -o talk.wav --vtt talk.vtt --server ws://127.0.0.1:8060
  footlights captions --max-lag 3 < clients/recordings/captions.jsonl
  footlights captions --max-lag 3 --hurry < clients/recordings/captions.jsonl       faster first

environment:
  FOOTLIGHTS_SERVER, FOOTLIGHTS_API_KEY   in place of --server, --api-key
"""
_TIMES = re.compile(r"(?:(\d+):)?(\d\d):(\d\d)[,.](\d{3})\s*-->")
_TAG = re.compile(r"<(?=[/\w])[^>]*>|\{\\[^}]*\}")
"""Of WebVTT and HTML; of positions and styles as editors put them into .srt files (``{\\an8}``)."""
_ENTITY = re.compile(r"&#?\w+;")


class CaptionError(ValueError):
    """What should be captions is none."""


@dataclass(frozen=True)
class Caption:
    """One state of the caption that is being written; ``is_final``: the next one is another."""

    text: str
    is_final: bool = False


class Track:
    """All captions as one text."""

    def __init__(self) -> None:
        self.settled = ""

    def show(self, caption: Caption) -> str:
        """The whole text with this caption at its end."""
        # A word at the end of a caption that may change is not known to be whole: no white space behind it.
        text = self.settled + caption.text.strip()
        if caption.is_final:
            self.settled = text + " " if caption.text.strip() else self.settled
            return self.settled
        return text


def main(argv: list[str]) -> int:
    """Run the command; returns its exit status."""
    made = parser()
    arguments = made.parse_args(argv)
    if arguments.hurry and arguments.max_lag is None:
        made.error("--hurry needs --max-lag")
    return run_program(_run(arguments), CaptionError)


def parser() -> argparse.ArgumentParser:
    """The arguments of ``footlights captions``."""
    made = make_parser("captions", "Speak live captions while they are still being corrected.", EPILOG)
    made.add_argument("--replay", metavar="FILE", type=Path, help="an .srt or .vtt file in place of standard input")
    made.add_argument("-o", "--output", metavar="FILE", type=wav_file, help="write a WAV file, in real time")
    made.add_argument("--vtt", metavar="FILE", type=new_file, help="write what was spoken, with word times")
    lag = f"leave text out rather than fall further behind, {MIN_LAG_MS / 1000:g} to {MAX_LAG_MS / 1000:g} seconds"
    made.add_argument("--max-lag", metavar="S", type=_lag_s, help=lag)
    made.add_argument("--hurry", action="store_true", help="with --max-lag: speak faster before leaving anything out")
    made.add_argument("-v", "--voice", help="voice; default: the server's")
    add_server(made)
    return made


def _lag_s(given: str) -> float:
    try:
        lag_s = float(given)
    except ValueError:
        lag_s = 0.0
    if not MIN_LAG_MS <= 1000 * lag_s <= MAX_LAG_MS:
        raise argparse.ArgumentTypeError(
            f"{given} is not a number of {MIN_LAG_MS / 1000:g} to {MAX_LAG_MS / 1000:g} seconds"
        )
    return lag_s


async def _run(arguments: argparse.Namespace) -> None:
    if arguments.replay:
        # Read before the clock starts: times count from the start of the captions.
        captions = _replay(await asyncio.to_thread(_read_cues, arguments.replay))
    else:
        captions = _read(read_text(sys.stdin.fileno()))
    async with connect(arguments.server, voice=arguments.voice, api_key=arguments.api_key) as session:
        sink = open_sink(arguments.output, session.sample_rate, DEFAULT_FILE)
        max_lag_ms = None if arguments.max_lag is None else 1000 * arguments.max_lag
        try:
            policy: LagPolicy | None = "speed" if arguments.hurry else None
            async with session.context(max_lag_ms=max_lag_ms, lag_policy=policy) as context:
                words = await _speak(context, captions, Listener(context, sink, keeps_time=True))
        finally:
            sink.close()
    if arguments.vtt is not None:
        await asyncio.to_thread(arguments.vtt.write_text, to_vtt(words), encoding="utf-8")


async def _speak(context: Context, captions: AsyncIterator[Caption], listener: Listener) -> list[Word]:
    words: dict[int, Word] = {}
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_write(context, captions))
        playing = tasks.create_task(listener.run())
        async for event in context:
            listener.take(event)
            match event:
                case WordsEvent():
                    words.update((word.char_start, word) for word in event.words)
                case RevisedEvent():
                    words = {start: word for start, word in words.items() if start < event.kept_to}
                    _tell(event)
                case DoneEvent() | HeardReport():
                    break
        listener.finish()
        await playing
    return [_heard(word, listener.timeline) for _, word in sorted(words.items())]


def _heard(word: Word, timeline: Timeline) -> Word:
    """The word with the times at which it was heard."""
    return replace(word, start_ms=timeline.start_ms(word.start_ms), end_ms=timeline.end_ms(word.end_ms))


async def _write(context: Context, captions: AsyncIterator[Caption]) -> None:
    track = Track()
    async for caption in captions:
        await context.change_to(track.show(caption))
        if caption.is_final:
            await context.flush()
    await context.end()


def _tell(event: RevisedEvent) -> None:
    if event.skipped:
        print(f"skipped: {event.skipped.strip()}", file=sys.stderr)
    elif event.is_late:
        print(f"too late to change: …{event.text[: event.kept_to][-CUE_CHARACTERS:].strip()}", file=sys.stderr)


# ---------------------------------------------------------------------------------------------- captions in


async def _read(pieces: AsyncIterator[str]) -> AsyncIterator[Caption]:
    """Captions from lines of JSON, as they come."""
    rest = ""
    async for piece in pieces:
        *lines, rest = (rest + piece).split("\n")
        for line in filter(str.strip, lines):
            yield parse_line(line)
    if rest.strip():
        yield parse_line(rest)


def parse_line(line: str) -> Caption:
    """The caption of a line of JSON.

    Raises:
        CaptionError: it is none.
    """
    try:
        body = json.loads(line)
        text, is_final = body["text"], body.get("final", False)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CaptionError(f'not a caption: {line.strip()[:60]!r}; wanted: {{"text": "..", "final": true}}') from error
    if not isinstance(text, str) or not isinstance(is_final, bool):
        raise CaptionError(f"not a caption: {line.strip()[:60]!r}; text is a string, final is true or false")
    return Caption(text, is_final)


async def _replay(cues: Iterable[tuple[float, str]]) -> AsyncIterator[Caption]:
    """Cues at their times."""
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    for start_s, text in cues:
        await asyncio.sleep(max(0.0, started_s + start_s - loop.time()))
        yield Caption(text, is_final=True)


def _read_cues(path: Path) -> list[tuple[float, str]]:
    try:
        return parse_cues(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise CaptionError(f"{path} is not UTF-8: {error}") from error


def parse_cues(text: str) -> list[tuple[float, str]]:
    """Start (s) and text of each cue of an SRT or WebVTT file: what is seen, without tags, entities resolved.

    Raises:
        CaptionError: there is none.
    """
    cues = []
    for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        lines = block.strip().split("\n")
        at = next((number for number, line in enumerate(lines) if _TIMES.match(line)), None)
        if at is None:
            continue
        found = _TIMES.match(lines[at])
        assert found is not None
        hours, minutes, seconds, thousandths = (int(group or 0) for group in found.groups())
        said = " ".join(_seen(line) for line in lines[at + 1 :])
        cues.append((3600 * hours + 60 * minutes + seconds + thousandths / 1000, said))
    if not cues:
        raise CaptionError("no cues: is it an .srt or .vtt file?")
    return cues


def _seen(line: str) -> str:
    return _ENTITY.sub(lambda found: html.unescape(found[0]), _TAG.sub("", line)).strip()


# ---------------------------------------------------------------------------------------------- WebVTT out


def to_vtt(words: Sequence[Word]) -> str:
    """A WebVTT file: cues of a line each, every word after its time."""
    lines = ["WEBVTT", ""]
    for cue in _cues(words):
        said = [f"<{_clock(word.start_ms)}>{_escape(word.text)}" for word in cue]
        lines += [f"{_clock(cue[0].start_ms)} --> {_clock(cue[-1].end_ms)}", " ".join(said), ""]
    return "\n".join(lines)


def _cues(words: Iterable[Word]) -> list[list[Word]]:
    cues: list[list[Word]] = []
    characters = 0
    for word in words:
        last = cues[-1][-1] if cues else None
        ends = last is not None and (word.start_ms - last.end_ms > CUE_GAP_MS or last.text[-1:] in ".!?")
        if last is None or ends or characters + len(word.text) > CUE_CHARACTERS:
            cues.append([])
            characters = 0
        cues[-1].append(word)
        characters += len(word.text) + 1
    return cues


def _clock(ms: float) -> str:
    seconds, thousandths = divmod(round(ms), 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{thousandths:03}"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
