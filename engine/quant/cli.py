"""``footlights quantize``: a smaller copy of a checkpoint, 8 or 4 bits, chosen part by part."""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from engine.command import run_command
from engine.progress import progress
from engine.quant.scheme import BITS, GROUPS, METHODS, PartScheme, Scheme

SENTENCES = 48
EXAMPLES = """\
examples:
  footlights quantize drama-3 drama-3-int4               experts 4 bits, the rest 8: the recommended choice
  footlights quantize drama-3 small --method gptq        codes chosen for what the model itself says
  footlights quantize drama-3 small --method awq         large inputs get a finer grid
  footlights quantize drama-3 large --experts 8          8 bits throughout
  footlights serve --model drama-3-int4                  the copy is loaded like any checkpoint

Norms, router, shared-expert gate and the a/b projections keep their precision. An interrupted run goes on where it
was when the same command is repeated; an unfinished copy does not load.
"""


def parser() -> argparse.ArgumentParser:
    """The arguments of ``footlights quantize``."""
    made = argparse.ArgumentParser(
        "footlights quantize",
        description="Make a smaller copy of a checkpoint: 8 or 4 bits, chosen part by part.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("source", type=Path, metavar="SRC", help="a checkpoint folder")
    made.add_argument("destination", type=Path, metavar="DST", help="a new folder")
    for part, bits in (("experts", 4), ("dense", 8), ("tower", 8), ("heads", 8)):
        made.add_argument(f"--{part}", type=int, choices=BITS, default=bits, help=f"bits of their weights ({bits})")
    made.add_argument("--method", choices=METHODS, default="rtn", help="how 4-bit codes are chosen (rtn)")
    made.add_argument("--group", type=int, choices=GROUPS, default=64, help="inputs that share a 4-bit scale (64)")
    made.add_argument(
        "--sentences",
        type=_positive,
        default=SENTENCES,
        metavar="N",
        help=f"that gptq and awq let the model say ({SENTENCES})",
    )
    return made


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not above 0")
    return number


def main(argv: list[str]) -> int:
    """Quantise; returns the exit status."""
    arguments = parser().parse_args(argv)
    return run_command("footlights quantize", lambda: _run(arguments), "the same command goes on from here")


def how_to_take_voices(source: Path, destination: Path, voices: Sequence[str]) -> str:
    """What to do about voices from recordings."""
    from engine.voices.opening import VOICES_FOLDER

    into = destination / VOICES_FOLDER
    files = " ".join(shlex.quote(str(source / VOICES_FOLDER / f"{name}.safetensors")) for name in voices)
    return "\n".join(
        (
            "left out: voices from recordings, which hold the original's memory. To make them anew from their codes:",
            f"  mkdir -p {shlex.quote(str(into))} && cp {files} {shlex.quote(str(into))}",
            *(f"  footlights voice remake {name} --model {shlex.quote(str(destination))}" for name in voices),
        )
    )


def _run(arguments: argparse.Namespace) -> None:
    from engine.checkpoint.reader import CheckpointReader
    from engine.quant.calibrated import calibrate
    from engine.quant.convert import quantise, tensor_count
    from engine.quant.rounding import Rounding, to_nearest

    def part(bits: int) -> PartScheme:
        return PartScheme(bits, arguments.group, arguments.method)

    scheme = Scheme(*(part(bits) for bits in (arguments.experts, arguments.dense, arguments.tower, arguments.heads)))

    def make_rounding(reader: CheckpointReader, folder: Path) -> Rounding:
        if arguments.method == "rtn":
            return to_nearest
        return calibrate(arguments.source, reader, arguments.sentences, scheme, folder, progress)

    count = tensor_count(arguments.source)
    with progress("quantising", count) as advance:
        sentences = 0 if arguments.method == "rtn" else arguments.sentences
        made = quantise(arguments.source, arguments.destination, scheme, make_rounding, advance, sentences)
    share = made.quantised / made.source
    print(
        f"{arguments.destination}: {made.quantised / 1e6:,.0f} MB of weights, {share:.0%} of {made.source / 1e6:,.0f}"
    )
    if made.voices:
        print(how_to_take_voices(arguments.source, arguments.destination, made.voices))
