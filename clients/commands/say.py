"""``footlights say``: speaks an argument, or standard input while it is being written."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from clients.commands.ask_explain import ask
from clients.commands.program import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    add_server,
    advice,
    make_parser,
    new_file,
    text_argument,
)
from clients.commands.reading_table import table
from clients.commands.sinks import NoSpeakersError, RawStream, Sink, Speakers, WavFile
from clients.commands.speaking import Figures, Speaking
from clients.commands.status import StatusLine
from clients.commands.text_source import Portions, TextError, given, read_text, read_whole_text
from clients.sdk import (
    AuthenticationError,
    ClientError,
    ConnectError,
    HeardReport,
    Pronunciation,
    Session,
    connect,
)
from realtime.protocol import MAX_SAMPLE_RATE, MAX_SPEED, MIN_SAMPLE_RATE, MIN_SPEED

RAW = "-"
DEFAULT_FILE = Path("footlights.wav")

DESCRIPTION = "Speak a text: an argument, or standard input while it is being written."
EPILOG = """\
examples:
  footlights say "Good evening."                    through the speakers
  footlights say "Good evening." -o evening.wav     into a WAV file
  footlights say < story.txt                        a file
  llm "Tell me a story" | footlights say            speech starts while the text is still being written
  footlights say                                    type; each line is spoken as you press Enter
  footlights say 'Pay $20 by 3/4.' --explain        how it will be read, without speaking
  footlights say --server ws://192.168.1.5:8060 hi  with a server that is running already
  footlights say "Hi." --rate 44100 -o - | ffmpeg -f s16le -ar 44100 -ac 1 -i - hi.mp3

Without --server the voice is loaded first, which takes some seconds; `footlights serve` keeps it loaded.
Ctrl-C stops at once and shows what was heard and what was not.

environment:
  FOOTLIGHTS_SERVER, FOOTLIGHTS_API_KEY   in place of --server, --api-key

exit status:
  0 all was spoken   1 it failed   2 wrong arguments   130 stopped by Ctrl-C
"""


def main(argv: list[str]) -> int:
    """Run the command; returns its exit status."""
    arguments = parser().parse_args(argv)
    try:
        if arguments.explain:
            return explain(arguments)
        return asyncio.run(_say(arguments))
    except (ClientError, TextError) as told:
        error = told.__cause__ if isinstance(told.__cause__, TextError) else told
        print(f"footlights: {error}{_advice(error, arguments)}", file=sys.stderr)
        return EXIT_FAILED
    except BrokenPipeError:
        # The reader of our output has left: that is its way of saying stop. Nothing more may be written there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except OSError as error:
        print(f"footlights: {error}", file=sys.stderr)
        return EXIT_FAILED


def parser() -> argparse.ArgumentParser:
    """The arguments of ``footlights say``."""
    made = make_parser("say", DESCRIPTION, EPILOG)
    made.add_argument(
        "text", nargs="*", type=text_argument, help="what to say; without it, or as '-', standard input is read"
    )
    made.add_argument("-v", "--voice", help="one of --list-voices")
    made.add_argument("-o", "--output", metavar="FILE", type=_output, help="write a WAV file; '-': raw pcm to stdout")
    made.add_argument("-r", "--rate", metavar="HZ", type=_rate, help="sample rate; default: the model's own")
    made.add_argument("--speed", metavar="X", type=_speed, help="0.5 to 2 times the voice's own, at the same pitch")
    add_server(made, default=None)
    made.add_argument("--config", metavar="FILE", help="configuration of `footlights serve`; not with --server")
    made.add_argument(
        "--model",
        metavar="FOLDER",
        help="checkpoint to speak with, or ORG/NAME[@REVISION] on the Hugging Face hub; not with --server",
    )
    made.add_argument(
        "-f", "--format", choices=("plain", "markdown", "ssml"), default="markdown", help="what is markup in the text"
    )
    made.add_argument("-l", "--lexicon", metavar="FILE", type=Path, help="how words are said (docs/text.md)")
    made.add_argument("--words", action="store_true", help="print each word when it is heard: start, end (s), word")
    made.add_argument("--list-voices", action="store_true", help="print the voices and stop")
    made.add_argument("--explain", action="store_true", help="print how the text will be read and stop")
    made.add_argument("-q", "--quiet", action="store_true", help="no progress and no figures")
    return made


def explain(arguments: argparse.Namespace) -> int:
    """Print each piece as written, as spoken and as sounds, with its place; an empty line ends a sentence."""
    text = _text(arguments)
    if text is None:
        text = read_whole_text(sys.stdin.fileno())
    lexicon = _lexicon(arguments.lexicon)
    if arguments.server is not None:
        explanation = ask(arguments.server, text, arguments.format, lexicon, arguments.api_key)
    else:
        explanation = _read_aloud(text, arguments.format, arguments.lexicon)
    print(table(explanation["pieces"]))
    for notice in explanation["notices"]:
        print(f"footlights: {notice}", file=sys.stderr)
    return EXIT_OK


def _read_aloud(text: str, text_format: str, lexicon: Path | None) -> dict[str, Any]:
    """The explanation of the understudy's own text front: no model is loaded."""
    from engine.core import TextFormat, Utterance
    from engine.errors import FootlightsError
    from engine.text.explain import explained
    from engine.text.reader import Reader

    try:
        reader = Reader.with_lexicon(lexicon, reads_phonemes=True, has_cues=False, speeds=(MIN_SPEED, MAX_SPEED))
        return asdict(explained(reader.front(Utterance("explain", "", text_format=TextFormat(text_format))), text))
    except FootlightsError as error:
        raise ClientError(str(error), code=error.code) from error


def _lexicon(path: Path | None) -> tuple[Pronunciation, ...]:
    """The entries of a file."""
    if path is None:
        return ()
    from engine.errors import LexiconError
    from engine.lexicon import read_lexicon

    try:
        return tuple(Pronunciation(entry.word, entry.say, entry.ipa) for entry in read_lexicon(path))
    except LexiconError as error:
        raise ClientError(str(error), code=error.code) from error


async def _say(arguments: argparse.Namespace) -> int:
    status = StatusLine(sys.stderr, is_quiet=arguments.quiet)
    async with (
        _server(arguments, status) as url,
        connect(
            url,
            voice=arguments.voice,
            sample_rate=arguments.rate,
            text_format=arguments.format,
            lexicon=_lexicon(arguments.lexicon),
            speed=arguments.speed,
            api_key=arguments.api_key,
        ) as session,
    ):
        if arguments.list_voices:
            print("\n".join(session.ready.voices))
            return EXIT_OK
        sink, where = _open_sink(arguments, session.sample_rate)
        try:
            return await _speak(arguments, session, sink, status, where)
        finally:
            sink.close()


async def _speak(
    arguments: argparse.Namespace, session: Session, sink: Sink, status: StatusLine, where: Path | None
) -> int:
    text = _text(arguments)
    if text is None and sys.stdin.isatty():
        print("Type; each line is spoken as you press Enter. Ctrl-D ends.", file=sys.stderr)
    source = read_text(sys.stdin.fileno()) if text is None else given(text)
    words = (sys.stderr if arguments.output == RAW else sys.stdout) if arguments.words else None
    speaking = Speaking(session, sink, status, words)
    with _interruptible(speaking):
        report = await speaking.run(Portions(source, session.ready.limits.context_characters))
    if report is not None:
        _print_report(report)
        return EXIT_INTERRUPTED
    if speaking.is_stopped:
        return EXIT_INTERRUPTED
    if not arguments.quiet:
        print(_summary(speaking.figures, is_whole=text is not None and not sink.is_live), file=sys.stderr)
    if where is not None:
        await sink.drain()
        print(f"wrote {where}", file=sys.stderr)
    return EXIT_OK


@asynccontextmanager
async def _server(arguments: argparse.Namespace, status: StatusLine) -> AsyncIterator[str]:
    """The address of the server that was named, or of one of our own while the block runs."""
    if arguments.server is not None:
        yield arguments.server
        return
    from clients.commands.private_server import find_voice_model, private_server

    if arguments.model is not None:
        arguments.model = find_voice_model(arguments.model, is_quiet=arguments.quiet)
    async with AsyncExitStack() as stack:
        async with status.spinning("loading the voice"):
            url = await stack.enter_async_context(private_server(arguments.config, arguments.model))
        yield url


def _open_sink(arguments: argparse.Namespace, sample_rate: int) -> tuple[Sink, Path | None]:
    """The sink, and the file it writes, if any."""
    if arguments.output == RAW:
        return RawStream(sys.stdout.buffer, sample_rate), None
    if arguments.output is not None:
        return WavFile(arguments.output, sample_rate), arguments.output
    try:
        return Speakers(sample_rate), None
    except NoSpeakersError as error:
        print(f"footlights: no speakers ({error}); writing {DEFAULT_FILE} here instead", file=sys.stderr)
        return WavFile(DEFAULT_FILE, sample_rate), DEFAULT_FILE


@contextmanager
def _interruptible(speaking: Speaking) -> Iterator[None]:
    """Ctrl-C stops the speech; a second one ends the program."""
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        speaking.stop()

    try:
        loop.add_signal_handler(signal.SIGINT, interrupt)
    except NotImplementedError:  # Windows: Ctrl-C ends the program
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _print_report(report: HeardReport) -> None:
    about = "" if report.precision == "exact" else " (estimated)"
    print(f"stopped after {report.played_ms / 1000:.1f} s{about}", file=sys.stderr)
    print(f"heard:     {report.spoken.strip() or 'nothing'}", file=sys.stderr)
    print(f"not heard: {report.unspoken.strip() or 'nothing'}", file=sys.stderr)


def _summary(figures: Figures, *, is_whole: bool) -> str:
    if figures.ttfa_ms is None:
        return "nothing to say in this text"
    parts = [f"first sound {figures.ttfa_ms:.0f} ms", f"{figures.speech_s:.1f} s of speech"]
    if is_whole:
        parts.append(f"made in {figures.wall_s:.1f} s (RTF {figures.real_time_factor:.2f})")
    else:
        parts.append(f"underruns {figures.underruns}")
    return " · ".join(parts)


def _advice(error: BaseException, arguments: argparse.Namespace) -> str:
    if isinstance(error, ConnectError) and not isinstance(error, AuthenticationError):
        if arguments.server is None:
            return ""
        return "\nStart a server with `footlights serve`, or leave out --server to speak without one."
    return advice(error)


def _text(arguments: argparse.Namespace) -> str | None:
    """The text given as arguments, None for standard input."""
    return None if arguments.text in ([], ["-"]) else " ".join(arguments.text)


def _output(given: str) -> str | Path:
    if given == RAW:
        return RAW
    if Path(given).suffix.lower() != ".wav":
        raise argparse.ArgumentTypeError(
            f"only .wav files are written; for others pipe raw samples into an encoder:\n"
            f'  footlights say "…" --rate 44100 -o - | ffmpeg -f s16le -ar 44100 -ac 1 -i - {given}'
        )
    return new_file(given)


def _speed(given: str) -> float:
    try:
        speed = float(given)
    except ValueError:
        speed = 0.0
    if not MIN_SPEED <= speed <= MAX_SPEED:
        raise argparse.ArgumentTypeError(f"{given} is not a number of {MIN_SPEED:g} to {MAX_SPEED:g}")
    return speed


def _rate(given: str) -> int:
    if not given.isdigit() or not MIN_SAMPLE_RATE <= int(given) <= MAX_SAMPLE_RATE:
        raise argparse.ArgumentTypeError(f"{given} is not a whole number of {MIN_SAMPLE_RATE} to {MAX_SAMPLE_RATE} Hz")
    return int(given)
