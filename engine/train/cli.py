"""``footlights train``: the understudy from nothing, or trained on, stage by stage. Resumable."""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.codec.understudy import UnderstudyCodec
from engine.config import ModelConfig
from engine.config.model import CONFIG_FILE
from engine.errors import ConfigError, FootlightsError
from engine.train.assets import fetch_recogniser, fetch_teacher
from engine.train.loop import started
from engine.train.recipe import LEARNED_SHARE, TEACHER_STYLES, VOICES, model_config

SENTENCES = Path(__file__).with_name("sentences.txt")
HOURS, STEPS, CODEC_STEPS, SOUND_STEPS = 9.7, 6830, 6600, 1600
"""Of the published model: hours the teacher speaks, decoder updates, codec updates, and those by its sound.

Learned from are fewer: silence around takes is cut off, held-out texts are left out (``docs/training/report.md``)."""
FURTHER_LR = 1e-3
"""Peak of a run that goes on from a checkpoint, whose rate had fallen: half of what a new one rises to."""
STAGES = "stages.jsonl"
"""How long each stage took, in ``--work``; a stage that was resumed has several lines."""
MOST_HOURS = 1000
SIZE_UNIT, MOST_SIZE, MOST_LAYERS = 128, 4096, 1024
"""Of ``--size``: attention heads of 64 come in pairs that share a key. Of ``--layers``."""
DESCRIPTION = """\
Train the built-in voice, stage by stage: from nothing, or (--start) a checkpoint of it further. Stop it at any time;
the same command goes on where it was."""
EXAMPLES = """\
examples:
  footlights train --wordnet /usr/share/wordnet     everything, as the published model (Debian: wordnet-base)
  footlights train                                  the same with the project's own sentences alone: less speech
  footlights train --hours 0.2 --steps 30 --codec-steps 30 --sound-steps 30
                                                    a quick pass through every stage, to see that it works
  footlights train --wordnet /usr/share/wordnet --steps 9000
                                                    train an earlier run further
  footlights train --start engine/understudy --hours 2 --seed 2 --steps 500 --work runs/more
                                                    train the published model on, with two more hours
  ... --voices heart michael bella                  and only these voices in the new speech
  footlights train --size 384 --work runs/large     a larger model

Stages: teacher (Kokoro-82M reads sentences), judge (Whisper marks takes that the teacher got wrong: nothing is learned
from them), analyse (vocoder parameters), codebooks, codec, sound (the codec by its sound) and decoder (the long ones),
export, report (curves, hours, coverage, balance of experts, checksums). Every stage keeps its results under --work and
is skipped or resumed when they are there.
"""


@dataclass(frozen=True)
class Stage:
    """One step of the recipe: ``python -m module *arguments``."""

    name: str
    module: str
    arguments: tuple[str, ...]


def stages(args: argparse.Namespace, model: Path) -> Iterator[Stage]:
    """The recipe in order; a stage whose result exists and cannot grow is left out."""
    work: Path = args.work
    speech, codec = work / "speech", (args.start or work / "codec") / "codec.safetensors"
    sound = work / "sound"
    quantiser = codec if args.start else work / "quantiser.safetensors"
    features = [work / "features", *args.features]
    teacher = ["--model", model, "--voices", model.parent, "--sentences", SENTENCES, "--out", speech]
    if args.wordnet:
        teacher += ["--wordnet", args.wordnet]
    if args.voices:
        teacher += ["--styles", *(dict(zip(VOICES, TEACHER_STYLES, strict=True))[voice] for voice in args.voices)]
    if args.hours > 0:
        yield _stage("teacher", "teacher", *teacher, "--hours", args.hours, "--seed", args.seed)
        if args.judge:
            recogniser = ["--recogniser", work / "recogniser"]
            yield _stage("judge", "judge", "--speech", speech, "--out", work / "features", *recogniser)
        yield _stage("analyse", "analyse", "--speech", speech, "--out", work / "features")
    else:
        features = args.features
    if not quantiser.exists():
        yield _stage("codebooks", "fit_codec", "--features", *features, "--out", quantiser)
    shared = ["--features", *features, "--quantiser", quantiser, "--seed", args.seed]
    start = ["--start", args.start, "--lr", FURTHER_LR] if args.start else []
    if not args.start:
        yield _stage("codec", "codec_decoder", *shared, "--out", work / "codec", "--steps", args.codec_steps)
    has_sound = args.hours > 0 and args.sound_steps > 0
    if has_sound:
        spoken = ["--speech", speech, "--features", work / "features", "--seed", args.seed]
        yield _stage("sound", "codec_sound", *spoken, "--start", codec, "--out", sound, "--steps", args.sound_steps)
        codec = sound / "codec.safetensors"
    size = ["--hidden", args.size, "--layers", args.layers]
    yield _stage("decoder", "loop", *shared, "--out", work / "decoder", "--steps", args.steps, *start, *size)
    trained = ["--training", work / "decoder" / "training.pt", "--codec", codec]
    before = ["--start", args.start, "--learned", args.learned] if args.start else []
    yield _stage("export", "export", *trained, "--out", args.out, *size, *before)
    logs = ["--decoder-log", work / "decoder" / "log.jsonl", "--codec-log", work / "codec" / "log.jsonl"]
    logs += ["--sound-log", sound / "log.jsonl"] if has_sound else []
    made = ["--features", *features, "--quantiser", quantiser, *trained[:2], *logs, "--stages", work / STAGES]
    yield _stage("report", "report", *made, "--out", work / "report", *size, *before)


def check_start(folder: Path, size: int, layers: int) -> None:
    """Raises ``ConfigError`` or ``WeightsError`` where a run of this ``size`` cannot begin from ``folder``."""
    try:
        config = model_config(size, layers)
        if ModelConfig.from_file(folder / CONFIG_FILE) != config:
            raise ConfigError(f"{CONFIG_FILE} is not an understudy of --size {size} --layers {layers}")
        started(config, folder)
        UnderstudyCodec.load(folder / "codec.safetensors")
    except FootlightsError as error:
        raise type(error)(f"cannot start from {folder}: {error}") from error


def _stage(name: str, module: str, *arguments: object) -> Stage:
    return Stage(name, f"engine.train.{module}", tuple(str(argument) for argument in arguments))


def parser() -> argparse.ArgumentParser:
    """Arguments of the command."""
    parser = argparse.ArgumentParser(
        "footlights train",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--work", type=Path, default=Path("runs/train"), help="folder of everything (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("runs/train/understudy"), help="the checkpoint (%(default)s)")
    parser.add_argument(
        "--hours", type=_hours, default=HOURS, help="teacher speech to make (%(default)s); 0: only --features"
    )
    parser.add_argument(
        "--features",
        type=Path,
        metavar="FOLDER",
        nargs="*",
        default=[],
        help="further folders of analysed speech",
    )
    whose = f"voices of the new speech, of {', '.join(VOICES)} (all of them, the three main ones most of it)"
    parser.add_argument("--voices", choices=VOICES, metavar="NAME", nargs="+", default=[], help=whose)
    parser.add_argument(
        "--wordnet",
        type=Path,
        metavar="FOLDER",
        help="WordNet 3 data files: more sentences, and more varied",
    )
    parser.add_argument(
        "--no-judge", dest="judge", action="store_false", help="learn from all takes, also those the teacher got wrong"
    )
    parser.add_argument(
        "--start",
        type=Path,
        metavar="FOLDER",
        help="train this checkpoint on; its codes stay what they are, and --steps counts from 0",
    )
    learned = "with --start: how far of the way from its weights to the trained ones the result lies (%(default)s)"
    parser.add_argument("--learned", type=_share, metavar="SHARE", default=LEARNED_SHARE, help=learned)
    sizes = f"hidden size, the size dial: a multiple of {SIZE_UNIT} up to {MOST_SIZE} (%(default)s)"
    parser.add_argument("--size", type=_whole(SIZE_UNIT, MOST_SIZE, SIZE_UNIT), metavar="N", default=256, help=sizes)
    layers = f"backbone layers, 1 to {MOST_LAYERS} (%(default)s)"
    parser.add_argument("--layers", type=_whole(1, MOST_LAYERS), metavar="N", default=8, help=layers)
    updates = _whole(1, 10_000_000)
    parser.add_argument("--steps", type=updates, metavar="N", default=STEPS, help="decoder updates (%(default)s)")
    parser.add_argument("--codec-steps", type=updates, metavar="N", default=CODEC_STEPS, help="codec's (%(default)s)")
    sounds = "further ones of the codec, by its sound, on the new speech: none with --hours 0 (%(default)s)"
    parser.add_argument("--sound-steps", type=_whole(0, 10_000_000), metavar="N", default=SOUND_STEPS, help=sounds)
    parser.add_argument(
        "--threads", type=_whole(1, 1024), metavar="N", default=1, help="cores for each stage (%(default)s)"
    )
    seeds = "of texts and weights at the start; another one reads other texts (%(default)s)"
    parser.add_argument("--seed", type=_whole(0, 2**31), metavar="N", default=1, help=seeds)
    return parser


def _whole(least: int, most: int, unit: int = 1) -> Callable[[str], int]:
    kind = f"a multiple of {unit}" if unit > 1 else "a whole number"

    def read(given: str) -> int:
        if not given.isdecimal() or not least <= int(given) <= most or int(given) % unit:
            raise argparse.ArgumentTypeError(f"{given} is not {kind} from {least} to {most}")
        return int(given)

    return read


def _share(given: str) -> float:
    try:
        share = float(given)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{given} is not a number from 0 to 1")
    return share


def _hours(given: str) -> float:
    try:
        hours = float(given)
    except ValueError:
        hours = math.nan
    if not 0 <= hours <= MOST_HOURS:
        raise argparse.ArgumentTypeError(f"{given} is not a number from 0 to {MOST_HOURS}")
    return hours


def _unfit(args: argparse.Namespace) -> str | None:
    """Why a run cannot come to its end, as far as its arguments tell."""
    if args.hours == 0 and not args.features:
        return "--hours 0 makes no speech: name folders of analysed speech with --features"
    needed = [("--features", folder, "features.jsonl") for folder in args.features]
    if args.wordnet is not None:
        needed.append(("--wordnet", args.wordnet, "data.noun"))
    for argument, folder, file in needed:
        if not (folder / file).is_file():
            return f"argument {argument}: there is no {file} in {folder}"
    for argument, folder in (("--work", args.work), ("--out", args.out)):
        if folder.exists() and not folder.is_dir():
            return f"argument {argument}: {folder} is a file, not a folder"
    return None


def main(argv: list[str]) -> int:
    """Run the recipe; returns the exit status."""
    made = parser()
    args = made.parse_args(argv)
    if problem := _unfit(args):
        made.error(problem)
    environment = os.environ | {"OMP_NUM_THREADS": str(args.threads), "MKL_NUM_THREADS": str(args.threads)}
    try:
        if args.start is not None:
            check_start(args.start, args.size, args.layers)
        model = fetch_teacher(args.work / "teacher") if args.hours > 0 else args.work
        if args.hours > 0 and args.judge:
            fetch_recogniser(args.work / "recogniser")
    except FootlightsError as error:
        print(error, file=sys.stderr)
        return 1
    for stage in stages(args, model):
        print(f"== {stage.name}", flush=True)
        started = time.monotonic()
        status = subprocess.run([sys.executable, "-m", stage.module, *stage.arguments], env=environment).returncode
        if status != 0:
            print(f"{stage.name} stopped with status {status}; the same command goes on from here", file=sys.stderr)
            return 1
        spent_s = time.monotonic() - started
        with (args.work / STAGES).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"stage": stage.name, "seconds": round(spent_s, 1)}) + "\n")
        print(f"== {stage.name} done in {spent_s / 60:.1f} min", flush=True)
    print(f"How it went: {args.work / 'report' / 'report.md'}")
    print(f'Listen to it: footlights say --model {args.out} "Good evening."')
    return 0
