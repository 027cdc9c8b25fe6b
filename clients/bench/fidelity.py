"""``footlights quality``: quantised models against the original: predictions, sound, cost."""

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from clients.bench.environment import one_thread

if TYPE_CHECKING:
    import torch

    from clients.bench.closeness import Closeness
    from clients.bench.judges import Judges
    from clients.bench.quality import Quality
    from clients.bench.speakers import SpeakerJudge, Takes
    from clients.bench.spread import Estimate
    from clients.bench.takes import Take
    from engine.engine import Engine

EXIT_OK, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130
TAKES = 24
STANDARD = {
    "int8": ["--experts", "8"],
    "int4": [],
    "int4-gptq": ["--method", "gptq"],
    "int4-awq": ["--method", "awq"],
    "int4-tower": ["--tower", "4"],
    "int4-tower-gptq": ["--tower", "4", "--method", "gptq"],
}
"""Options of ``footlights quantize``; what is not said is at 8 bits, experts at 4."""
TAKEN_NAMES = ("original", "bfloat16", "voices_apart")
"""What else results are called."""
EXAMPLES = """\
examples:
  footlights quality drama-3 drama-3-int4             the original, then what is compared with it
  footlights quality MODEL INT8 INT4 --sentences 48   several at once, on the same seeds
  footlights quality MODEL INT8 --bf16                also the original in bfloat16 arithmetic
  footlights quality MODEL --standard --bf16          the table of docs/quantization.md

KL and agreement: both models are given the frames that the original made. WER, failed takes and DistillMOS: each
reads the sentences itself (needs what `footlights bench setup` fetches; left out where it is missing). Speaker: cosine
of a take with the original's takes of other sentences in the same voice; for the original, too. Times are of the
processor, sentence by sentence in turn, so that a busy machine is busy for all.
"""


def parser() -> argparse.ArgumentParser:
    """The arguments of ``footlights quality``."""
    made = argparse.ArgumentParser(
        "footlights quality", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("original", type=Path, metavar="A", help="a checkpoint folder")
    made.add_argument("others", type=Path, nargs="*", metavar="B", help="checkpoint folders made of it")
    made.add_argument("--standard", action="store_true", help="make the usual precisions of A first, and compare those")
    made.add_argument("--bf16", action="store_true", help="the original in bfloat16 arithmetic, too")
    made.add_argument("--sentences", type=int, default=TAKES, metavar="N", help=f"each model reads them ({TAKES})")
    made.add_argument("--seed", type=int, default=1, help="of the sampler (1)")
    made.add_argument("--no-judges", action="store_true", help="predictions and speed alone")
    made.add_argument("--out", type=Path, default=Path("runs/quality"), metavar="FOLDER", help="results go there")
    return made


def main(argv: list[str]) -> int:
    """Compare; returns the exit status."""
    arguments = parser().parse_args(argv)
    one_thread()
    from engine.errors import FootlightsError

    try:
        _run(arguments)
    except FootlightsError as error:
        print(f"footlights quality: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("footlights quality: stopped", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_OK


@dataclass
class Variant:
    """One model in one precision; also a ``Reader`` of the bench."""

    name: str
    engine: "Engine"
    weight_bytes: int
    voices: tuple[str, ...]
    closeness: "Closeness | None" = None
    """None: it is the original."""
    quality: "Quality | None" = None
    wer_above: "Estimate | None" = None
    """WER minus that of the original, sentence by sentence."""
    likeness: "Estimate | None" = None
    """Of its takes to the voices of the original."""
    cpu_ms: list[float] = field(default_factory=list)
    """Processor time for each frame, by sentence."""

    @property
    def folder(self) -> str:
        """See ``Reader``."""
        return self.name

    @property
    def identity(self) -> str:
        """See ``Reader``."""
        return self.name

    @property
    def about(self) -> str:
        """See ``Reader``."""
        return f"{self.weight_bytes / 1e6:.0f} MB of weights, 1 thread"

    def read(self, text: str, voice: str, seed: int) -> "Take":
        """See ``Reader``."""
        from clients.bench.decode import read_batch

        take = read_batch(self.engine, [text], voice, seed)[0]
        frames = take.audio_s * 1000 / self.engine.info.frame_ms
        if frames >= 1:
            self.cpu_ms.append(1000 * take.cpu_s / frames)
        return take

    def as_json(self) -> dict[str, Any]:
        """For the JSON line."""
        return {
            "weight_bytes": self.weight_bytes,
            "cpu_ms_per_frame": statistics.median(self.cpu_ms) if self.cpu_ms else None,
            "closeness": self.closeness.as_json() if self.closeness else None,
            "quality": self.quality.as_json() if self.quality else None,
            "wer_above": self.wer_above.as_json() if self.wer_above else None,
            "speaker": self.likeness.as_json() if self.likeness else None,
        }


def _run(arguments: argparse.Namespace) -> None:
    import torch

    from clients.bench import report, sentences
    from clients.bench.closeness import compare
    from engine.errors import ConfigError
    from engine.loading import load_parts
    from engine.progress import progress
    from engine.quant.modules import prepare
    from engine.quant.takes import record
    from engine.weights import load_decoder

    torch.set_num_threads(1)
    console = report.console()
    try:
        texts = sentences.load(arguments.sentences)
    except ValueError as error:
        raise ConfigError(f"--sentences: {error}") from error
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"results cannot go to {arguments.out}: {error}") from error
    if arguments.standard:
        arguments.others += _standard(arguments.original, arguments.out)
    require_same_model(arguments.original, arguments.others)
    settings: dict[str, object] = {
        "original": str(arguments.original),
        "others": [str(folder) for folder in arguments.others],
        "sentences": len(texts),
        "seed": arguments.seed,
    }
    where = report.header(console, "footlights quality", settings)
    with progress("the original speaks", len(texts)) as advance:
        takes = record(load_parts(arguments.original), texts, arguments.seed, advance)
    models = list(_models(arguments))
    with progress("predictions", len(takes)) as advance:
        decoders = [prepare(load_decoder(folder, dtype)[0]) for _, folder, dtype in models]
        found = compare(decoders[0], decoders[1:], takes, advance)
    variants = [_open(name, folder, dtype) for name, folder, dtype in models]
    for variant, closeness in zip(variants[1:], found, strict=True):
        variant.closeness = closeness
    judges, speakers = (None, None) if arguments.no_judges else _judges()
    voices_apart = _read(variants, texts, arguments.seed, judges, speakers)
    console.print(closeness_table(variants))
    console.print(sound_table(variants))
    if voices_apart is not None:
        console.print(f"Speaker, if it were another voice of the original: {voices_apart:.2f}", highlight=False)
    results: dict[str, object] = {variant.name: variant.as_json() for variant in variants}
    results["voices_apart"] = voices_apart
    report.finish(report.json_line("fidelity", where, settings, results), arguments.out / "fidelity.json")


def _standard(source: Path, out: Path) -> list[Path]:
    """Copies of ``source`` in the usual precisions, as ``footlights quantize`` makes them; kept for the next run."""
    from clients.bench.decode import checkpoint_hash
    from engine.errors import ConfigError
    from engine.quant.cli import main as quantize

    folder = out / checkpoint_hash(source)
    for name, options in STANDARD.items():
        if not (folder / name / "config.json").exists() and quantize([str(source), str(folder / name), *options]):
            raise ConfigError(f"{source} could not be quantised")
    return [folder / name for name in STANDARD]


def _models(arguments: argparse.Namespace) -> Iterator[tuple[str, Path, "torch.dtype | None"]]:
    import torch

    yield "original", arguments.original, None
    if arguments.bf16:
        yield "bfloat16", arguments.original, torch.bfloat16
    for name, folder in zip(names_of(arguments.others), arguments.others, strict=True):
        yield name, folder, None


def require_same_model(original: Path, others: Sequence[Path]) -> None:
    """Raise ``ConfigError`` for the first of ``others`` that has another configuration than ``original``."""
    from engine.checkpoint.reader import open_checkpoint
    from engine.errors import ConfigError

    with open_checkpoint(original) as reader:
        wanted = reader.config
    for folder in others:
        with open_checkpoint(folder) as reader:
            if reader.config != wanted:
                raise ConfigError(f"{folder} is not made of {original}: its configuration is another")


def names_of(folders: Sequence[Path]) -> list[str]:
    """Names of models in the tables, all different: of the folder, or its path and a number where that is needed."""
    names: list[str] = []
    for folder in folders:
        path = str(folder)
        taken = {*TAKEN_NAMES, *names}
        numbered = (f"{path} ({number})" for number in range(2, len(folders) + 3))
        names.append(next(name for name in (folder.resolve().name, path, *numbered) if name not in taken))
    return names


def _open(name: str, folder: Path, dtype: "torch.dtype | None") -> Variant:
    from engine.checkpoint.reader import open_checkpoint
    from engine.engine import Engine
    from engine.loading import load_parts
    from engine.scheduler import Scheduler

    with open_checkpoint(folder) as reader:
        weight_bytes = sum(reader.stored_bytes(tensor) for tensor in reader.names())
    parts = load_parts(folder, dtype=dtype)
    engine = Engine(parts, Scheduler(1, float("inf"), lambda: 0.0))
    return Variant(name, engine, weight_bytes, parts.info.voices)


def _judges() -> "tuple[Judges | None, SpeakerJudge | None]":
    """Those that are installed; of the others it is said how to get them."""
    from clients.bench.assets import MissingError
    from clients.bench.judges import Judges
    from clients.bench.speakers import SpeakerJudge

    judges, speakers = None, None
    try:
        judges = Judges()
    except MissingError as error:
        print(f"without WER and DistillMOS: {error}", file=sys.stderr)
    try:
        speakers = SpeakerJudge()
    except MissingError as error:
        print(f"without speaker similarity: {error}", file=sys.stderr)
    return judges, speakers


def _read(
    variants: Sequence[Variant],
    texts: Sequence[str],
    seed: int,
    judges: "Judges | None",
    speakers: "SpeakerJudge | None",
) -> float | None:
    """Every variant reads every text, voices and variants taking turns. Gives how alike the voices are, if judged."""
    from clients.bench.quality import judged, summarise, wer_above
    from clients.bench.speakers import likeness, voices_apart
    from clients.bench.store import Reading
    from engine.progress import progress

    heard: dict[str, dict[tuple[str, str], Any]] = {variant.name: {} for variant in variants}
    readings: dict[str, list[Reading]] = {variant.name: [] for variant in variants}
    with progress("reading", len(texts) * len(variants)) as advance:
        for number, text in enumerate(texts):
            for variant in variants:
                voice, take_seed = variant.voices[number % len(variant.voices)], seed * 1_000_003 + number
                take = variant.read(text, voice, take_seed)
                if judges is not None:
                    readings[variant.name].append(judged(variant, voice, take_seed, text, take, judges))
                if speakers is not None and take.samples.any():
                    heard[variant.name][voice, text] = speakers.embed(take.samples, take.sample_rate)
                advance()
    original: Takes = heard[variants[0].name]
    for variant in variants:
        if judges is not None:
            variant.quality = summarise(variant, readings[variant.name], 0)
            if variant is not variants[0]:
                variant.wer_above = wer_above(readings[variant.name], readings[variants[0].name])
        variant.likeness = likeness(heard[variant.name], original)
    return voices_apart(original)


def closeness_table(variants: Sequence[Variant]) -> Table:
    """What each predicts, against the original."""
    table = Table(title="same frames, against the original: KL in nats (same first choice)")
    for column in ("model", "weights MB", "main token", "codes", "worst code", "pointer"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for variant in variants:
        cells = ["-"] * 4
        if (c := variant.closeness) is not None:
            worst = c.by_head[c.worst_code]
            pointer = c.by_head.get("pointer")
            cells = [
                _cell(c.by_head["main"].kl, c.by_head["main"].top1),
                _cell(c.codes.kl, c.codes.top1),
                f"{c.worst_code.removeprefix('code ')}: {_cell(worst.kl, worst.top1)}",
                _cell(pointer.kl, pointer.top1) if pointer else "-",
            ]
        table.add_row(variant.name, f"{variant.weight_bytes / 1e6:.1f}", *cells)
    return table


def sound_table(variants: Sequence[Variant]) -> Table:
    """How each reads, and what a frame costs."""
    table = Table(title="each reads the sentences itself; in brackets the 95 % interval")
    for column in ("model", "WER", "above the original", "failed", "DistillMOS", "speaker", "CPU ms a frame", "speed"):
        table.add_column(column, justify="left" if column == "model" else "right")
    first = statistics.median(variants[0].cpu_ms)
    for variant in variants:
        cells = ["-"] * 4
        if (q := variant.quality) is not None:
            wer = f"{100 * q.wer.value:.1f} % [{100 * q.wer.low:.1f}, {100 * q.wer.high:.1f}]"
            mos = f"{q.mos.value:.2f} [{q.mos.low:.2f}, {q.mos.high:.2f}]" if q.mos else "-"
            above = "-"
            if (a := variant.wer_above) is not None:
                above = f"{100 * a.value:+.1f} [{100 * a.low:+.1f}, {100 * a.high:+.1f}]"
            cells = [wer, above, f"{sum(q.failed.values())} of {q.takes}", mos]
        near = variant.likeness
        cells.append(f"{near.value:.3f} [{near.low:.3f}, {near.high:.3f}]" if near else "-")
        cpu_ms = statistics.median(variant.cpu_ms)
        table.add_row(variant.name, *cells, f"{cpu_ms:.1f}", f"{first / cpu_ms:.2f}x")
    return table


def _cell(kl: float, top1: float) -> str:
    return f"{kl:.4f} ({100 * top1:.1f} %)"
