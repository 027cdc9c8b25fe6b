"""``footlights llm``: a language model's answer is spoken while it is written, and can be interrupted.

What an interrupted answer leaves in the conversation is what was heard of it: the model then knows what its listener
knows, and does not refer to what nobody heard.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from clients.commands.chat_source import ChatError, ChatSource, OpenAIChat, RecordedChat, Turn
from clients.commands.listener import Listener
from clients.commands.program import EXIT_USAGE, add_server, make_parser, run_program, text_argument, wav_file
from clients.commands.sinks import Sink, open_sink
from clients.commands.text_source import read_text
from clients.sdk import Context, DoneEvent, HeardReport, Session, connect

DEFAULT_FILE = Path("answer.wav")
FLUSH_AFTER_S = 0.3
SYSTEM = "Your answers are spoken. Be brief, and write as people talk: no lists, no headings, no markdown."
EPILOG = """\
examples:
  footlights llm "Why is the sky blue?" --url http://127.0.0.1:11434/v1 --model llama3.2
  footlights llm --url http://127.0.0.1:8000/v1 --model any      a conversation: type a line, hear the answer;
                                                                 type the next one to interrupt it
  footlights llm hello --recorded clients/recordings/answer.sse  without a language model

The heard part of an interrupted answer, and nothing else, stays in the conversation; it is printed as
  heard: Good evening. The fish | not heard: is fresh, and the soup ..

environment:
  OPENAI_BASE_URL, OPENAI_API_KEY         in place of --url, --llm-key
  FOOTLIGHTS_SERVER, FOOTLIGHTS_API_KEY   in place of --server, --api-key
"""


class Conversation:
    """Questions, and answers as far as they were heard."""

    def __init__(self, session: Session, source: ChatSource, sink: Sink, system: str = SYSTEM) -> None:
        self.turns = [Turn("system", system)]
        self._session = session
        self._source = source
        self._sink = sink

    async def ask(self, question: str, interrupted: asyncio.Event) -> HeardReport | None:
        """Speaks the answer; the report of what was heard if ``interrupted`` was set before its end.

        Raises:
            ClientError, ChatError: what was said until then is in ``turns``.
        """
        self.turns.append(Turn("user", question))
        async with self._session.context() as context:
            listener = Listener(context, self._sink)
            context.speak(self._source.answer(list(self.turns)), flush_after_s=FLUSH_AFTER_S)
            playing = asyncio.create_task(listener.run(), name="llm: play")
            stopping = asyncio.create_task(interrupted.wait(), name="llm: stop")
            taking = asyncio.create_task(_take(context, listener), name="llm: take")
            try:
                await asyncio.wait([stopping, playing, taking], return_when=asyncio.FIRST_COMPLETED)
                # Taking ends before playing does: sent is not heard.
                if taking.done() and not stopping.done():
                    taking.result()
                    await asyncio.wait([stopping, playing], return_when=asyncio.FIRST_COMPLETED)
                report = await context.cancel(listener.stop()) if stopping.done() else None
                await playing
            finally:
                for task in (playing, stopping, taking):
                    task.cancel()
                await asyncio.wait([playing, stopping, taking])
            self.turns.append(Turn("assistant", context.spoken_text if report is None else report.spoken))
        return report


async def _take(context: Context, listener: Listener) -> None:
    async for event in context:
        listener.take(event)
        if isinstance(event, DoneEvent | HeardReport):
            listener.finish()


def main(argv: list[str]) -> int:
    """Run the command; returns its exit status."""
    arguments = parser().parse_args(argv)
    if arguments.recorded is None and arguments.model is None:
        print("footlights llm: --model names the language model (or --recorded a file)", file=sys.stderr)
        return EXIT_USAGE
    return run_program(_run(arguments), ChatError)


def parser() -> argparse.ArgumentParser:
    """The arguments of ``footlights llm``."""
    made = make_parser("llm", "Speak what a language model writes, while it writes.", EPILOG)
    environment = os.environ.get
    made.add_argument(
        "question", nargs="*", type=text_argument, help="one question; without it, lines from standard input"
    )
    url = environment("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1")
    made.add_argument("--url", default=url, help="of the OpenAI-compatible server; default: %(default)s")
    made.add_argument("--model", help="name of the language model")
    made.add_argument("--llm-key", metavar="KEY", default=environment("OPENAI_API_KEY"), help="of the language model")
    made.add_argument("--system", metavar="TEXT", default=SYSTEM, help="what the model is told first")
    made.add_argument("--recorded", metavar="FILE", type=Path, help="a recorded stream in place of a language model")
    made.add_argument("-o", "--output", metavar="FILE", type=wav_file, help="write a WAV file, in real time")
    made.add_argument("-v", "--voice", help="voice; default: the server's")
    add_server(made)
    return made


async def _run(arguments: argparse.Namespace) -> None:
    source: ChatSource = (
        OpenAIChat(arguments.url, arguments.model, arguments.llm_key)
        if arguments.recorded is None
        else RecordedChat(arguments.recorded)
    )
    async with connect(arguments.server, voice=arguments.voice, api_key=arguments.api_key) as session:
        sink = open_sink(arguments.output, session.sample_rate, DEFAULT_FILE)
        try:
            conversation = Conversation(session, source, sink, arguments.system)
            if arguments.question:
                _tell(await conversation.ask(" ".join(arguments.question), asyncio.Event()), conversation)
            else:
                await _converse(conversation, _read_lines())
        finally:
            sink.close()


async def _converse(conversation: Conversation, lines: AsyncIterator[str]) -> None:
    """Each line is a question, and interrupts the answer to the one before."""
    asking: asyncio.Task[None] | None = None
    interrupted = asyncio.Event()

    async def ask(question: str, stop: asyncio.Event) -> None:
        _tell(await conversation.ask(question, stop), conversation)

    async for line in lines:
        interrupted.set()
        if asking is not None:
            await asking
        interrupted = asyncio.Event()
        asking = asyncio.create_task(ask(line, interrupted), name="llm: ask")
    if asking is not None:
        await asking


async def _read_lines() -> AsyncIterator[str]:
    rest = ""
    async for piece in read_text(sys.stdin.fileno()):
        *lines, rest = (rest + piece).split("\n")
        for line in filter(str.strip, lines):
            yield line.strip()
    if rest.strip():
        yield rest.strip()


def _tell(report: HeardReport | None, conversation: Conversation) -> None:
    if report is None:
        print(conversation.turns[-1].content.strip())
    else:
        print(f"heard: {report.spoken.strip()} | not heard: {report.unspoken.strip()}")
    sys.stdout.flush()
