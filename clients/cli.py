"""The ``footlights`` command: finds the subcommand and hands it the rest. Nothing is imported that is not run."""

import argparse
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass

from realtime.protocol import PROTOCOL_VERSION

EXIT_FAILED = 1


@dataclass(frozen=True)
class Command:
    """``target`` is ``module:function``; the function takes the arguments and returns the exit status."""

    summary: str
    target: str
    extra: str | None = None
    """What to install for it: an extra of the package."""


COMMANDS = {
    "say": Command("speak a text, or standard input while it is being written", "clients.commands.say:main"),
    "serve": Command("start the server and its web page", "clients.commands.serve:main"),
    "voice": Command("make voices of recordings, list them, remove them", "clients.commands.voice:main"),
    "captions": Command("speak live captions while they are still being corrected", "clients.captions:main"),
    "llm": Command("speak what a language model writes, while it writes", "clients.llm:main"),
    "npc": Command("dialogue server for games: characters who can be interrupted", "clients.npc.server:main"),
    "doctor": Command("check this machine: model, speed, what it can serve", "engine.doctor:main"),
    "inspect": Command("tell what a checkpoint is, and whether it fits here", "engine.checkpoint.inspect:main"),
    "bench": Command("measure latency, speed and quality", "clients.bench.cli:main", "eval"),
    "quantize": Command("make a smaller copy of a checkpoint: 8 and 4 bits, part by part", "engine.quant.cli:main"),
    "quality": Command("compare quantised models with the original", "clients.bench.fidelity:main", "eval"),
    "train": Command("train the built-in voice model, from nothing or further", "engine.train.cli:main", "train"),
}

EPILOG = """\
start here:
  footlights say "Good evening."      hear it, or get footlights.wav where there are no speakers
  footlights serve                    then open http://127.0.0.1:8060
  footlights COMMAND --help           arguments and examples of a command
"""


def main(argv: list[str] | None = None) -> int:
    """Run a subcommand; returns its exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] not in COMMANDS:
        parser().parse_args(arguments or ["--help"])
    name, *rest = arguments
    try:
        run = load(COMMANDS[name])
    except ModuleNotFoundError as error:
        print(f"footlights {name} needs the Python package {error.name!r}.{_advice(COMMANDS[name])}", file=sys.stderr)
        return EXIT_FAILED
    try:
        return run(rest)
    except KeyboardInterrupt:
        return 130


def load(command: Command) -> Callable[[list[str]], int]:
    """The function behind a command.

    Raises:
        ModuleNotFoundError: something it needs is not installed.
    """
    module, _, function = command.target.partition(":")
    loaded: Callable[[list[str]], int] = getattr(importlib.import_module(module), function)
    return loaded


def parser() -> argparse.ArgumentParser:
    """The top-level arguments, for help and for errors: `main` reads the rest itself."""
    made = argparse.ArgumentParser(
        prog="footlights",
        description="Real-time voice: text goes in while it is being written, speech comes out.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"footlights {_version()}, protocol {PROTOCOL_VERSION}")
    commands = made.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=command.summary)
    return made


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("footlights")
    except PackageNotFoundError:
        return "(not installed)"


def _advice(command: Command) -> str:
    return f" Install it with: pip install -e '.[{command.extra}]'" if command.extra else ""


if __name__ == "__main__":
    sys.exit(main())
