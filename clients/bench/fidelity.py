"""``footlights quality``: quantised models against the original: predictions, sound, cost."""

import argparse
import dataclasses
import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clients.bench.environment import one_thread
from engine.command import EXIT_INTERRUPTED, run_command

if TYPE_CHECKING:
    import torch

    from clients.bench.closeness import Closeness, Differences
    from clients.bench.judges import Judges
    from clients.bench.speakers import SpeakerJudge
    from clients.bench.store import Store
    from clients.bench.variants import Sounded, Variant
    from engine.quant.takes import Recorded

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
DESCRIPTION = "Compare quantised models with the original: predictions, words, sound, speaker, speed."
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

What is measured is kept in the folder of the results, take by take: an interrupted run goes on where it was.
"""


def parser() -> argparse.ArgumentParser:
    """The arguments of ``footlights quality``."""
    made = argparse.ArgumentParser(
        "footlights quality",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("original", type=Path, metavar="A", help="a checkpoint folder")
    made.add_argument("others", type=Path, nargs="*", metavar="B", help="checkpoint folders made of it")
    made.add_argument("--standard", action="store_true", help="make the usual precisions of A first, and compare those")
    made.add_argument("--bf16", action="store_true", help="the original in bfloat16 arithmetic, too")
    made.add_argument("--sentences", type=int, default=TAKES, metavar="N", help=f"each model reads them ({TAKES})")
    made.add_argument("--seed", type=int, default=1, help="of the sampler (1)")
    made.add_argument("--no-judges", action="store_true", help="predictions and speed alone")
    made.add_argument("--fresh", action="store_true", help="forget what earlier runs measured")
    made.add_argument("--out", type=Path, default=Path("runs/quality"), metavar="FOLDER", help="results go there")
    return made


def main(argv: list[str]) -> int:
    """Compare; returns the exit status."""
    arguments = parser().parse_args(argv)
    one_thread()
    return run_command("footlights quality", lambda: _run(arguments), "the same command goes on from here")


def _run(arguments: argparse.Namespace) -> None:
    import torch

    from clients.bench import report, sentences
    from clients.bench.fidelity_report import closeness_table, sound_table
    from clients.bench.variants import open_variant
    from engine.errors import ConfigError

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
    models = list(_models(arguments))
    variants = [open_variant(*model) for model in models]
    voices = common_voices(variants)
    if left_out := [voice for voice in variants[0].voices if voice not in voices]:
        print(f"not used, since not all have them: {', '.join(left_out)}", file=sys.stderr)
    for variant in variants:
        variant.voices = voices[: len(texts)]
    takes = _takes(arguments, texts, voices, variants[0])
    for variant, closeness in zip(variants[1:], _compare(arguments, takes, models, variants), strict=True):
        variant.closeness = closeness
    judges, speakers = (None, None) if arguments.no_judges else _judges()
    voices_apart = _read(arguments, variants, texts, voices, judges, speakers)
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
        if (folder / name / "config.json").exists():
            continue
        status = quantize([str(source), str(folder / name), *options])
        if status == EXIT_INTERRUPTED:
            raise KeyboardInterrupt
        if status:
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


def common_voices(variants: "Sequence[Variant]") -> tuple[str, ...]:
    """The original's voices that all have. Raises ``ConfigError`` if there is none."""
    from engine.errors import ConfigError

    voices = tuple(v for v in variants[0].voices if all(v in variant.voices for variant in variants))
    if not voices:
        lists = "; ".join(f"{variant.name}: {', '.join(variant.voices)}" for variant in variants)
        raise ConfigError(f"no voice that all models have ({lists})")
    return voices


def take_seed(seed: int, number: int) -> int:
    """Of sentence ``number`` of a run."""
    return seed * 1_000_003 + number


def _takes(
    arguments: argparse.Namespace, texts: Sequence[str], voices: Sequence[str], original: "Variant"
) -> "list[tuple[tuple[str, int, str], Recorded]]":
    """What the original says, by voice, seed and text: spoken now, or by an earlier run."""
    from engine.progress import progress
    from engine.quant.kept import KeptTensors
    from engine.quant.takes import load_speaker, record, takes_of_tensors, takes_to_tensors

    kept, speaker = KeptTensors(arguments.out / original.folder, "take"), None
    kept.make_folder()
    takes = []
    with progress("the original speaks", len(texts)) as advance:
        for number, text in enumerate(texts):
            key = voices[number % len(voices)], take_seed(arguments.seed, number), text
            name = hashlib.sha256(repr((original.identity, key)).encode()).hexdigest()[:16]
            tensors = None if arguments.fresh else kept.get(name)
            if tensors is None:
                speaker = speaker or load_speaker(arguments.original)
                tensors = takes_to_tensors(record(speaker, [text], key[1], voices=key[:1]))
                kept.put(name, tensors)
            takes += [(key, take) for take in takes_of_tensors(tensors)[-1:]]
            advance()
    return takes


def _compare(
    arguments: argparse.Namespace,
    takes: "Sequence[tuple[tuple[str, int, str], Recorded]]",
    models: "Sequence[tuple[str, Path, torch.dtype | None]]",
    variants: "Sequence[Variant]",
) -> "list[Closeness]":
    """Closeness of all variants but the first, which is the original."""
    from clients.bench.closeness import compare
    from clients.bench.store import Store
    from clients.bench.variants import Compared
    from engine.progress import progress
    from engine.quant.modules import prepare
    from engine.weights import load_decoder

    stores: list[Store[Compared]] = [
        Store(
            arguments.out / variant.folder / f"against-{variants[0].folder}.jsonl",
            Compared,
            variant,
            is_fresh=arguments.fresh,
        )
        for variant in variants[1:]
    ]

    def recall(other: int, number: int, find: "Callable[[], Differences]") -> "Differences":
        key = takes[number][0]
        known = stores[other].get(*key)
        if known is None:
            known = Compared(variants[1 + other].identity, Compared.CURRENT, *key, find())
            stores[other].add(known)
        return known.differences

    with progress("predictions", len(takes)) as advance:
        decoders = [prepare(load_decoder(folder, dtype)[0]) for _, folder, dtype in models]
        return compare(decoders[0], decoders[1:], [take for _, take in takes], advance, recall)


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
    arguments: argparse.Namespace,
    variants: "Sequence[Variant]",
    texts: Sequence[str],
    voices: Sequence[str],
    judges: "Judges | None",
    speakers: "SpeakerJudge | None",
) -> float | None:
    """Every variant reads every text, voices and variants taking turns. Gives how alike the voices are, if judged."""
    import numpy as np

    from clients.bench.quality import summarise, wer_above
    from clients.bench.speakers import likeness, voices_apart
    from clients.bench.store import Store
    from clients.bench.variants import Sounded
    from engine.progress import progress

    sounded: dict[str, list[Sounded]] = {variant.name: [] for variant in variants}
    stores: list[Store[Sounded]] = [
        Store(arguments.out / variant.folder / "takes.jsonl", Sounded, variant, is_fresh=arguments.fresh)
        for variant in variants
    ]
    with progress("reading", len(texts) * len(variants)) as advance:
        for number, text in enumerate(texts):
            key = voices[number % len(voices)], take_seed(arguments.seed, number), text
            for variant, store in zip(variants, stores, strict=True):
                sounded[variant.name].append(sound(variant, store, key, judges, speakers))
                advance()
    heard = {
        name: {(take.voice, take.text): np.asarray(take.speaker, np.float32) for take in takes if take.speaker}
        for name, takes in sounded.items()
    }
    readings = {
        name: [reading for take in takes if (reading := take.reading) is not None] for name, takes in sounded.items()
    }
    for variant in variants:
        variant.cpu_ms = [take.cpu_ms for take in sounded[variant.name] if take.cpu_ms is not None]
        if judges is not None:
            variant.quality = summarise(variant, readings[variant.name], 0)
            if variant is not variants[0]:
                variant.wer_above = wer_above(readings[variant.name], readings[variants[0].name])
        variant.likeness = likeness(heard[variant.name], heard[variants[0].name]) if speakers is not None else None
    return voices_apart(heard[variants[0].name]) if speakers is not None else None


def sound(
    variant: "Variant",
    store: "Store[Sounded]",
    key: tuple[str, int, str],
    judges: "Judges | None",
    speakers: "SpeakerJudge | None",
) -> "Sounded":
    """A take of ``variant`` by voice, seed and text: made and judged now, or by an earlier run with these judges."""
    from clients.bench.quality import judged
    from clients.bench.variants import Sounded

    known = store.get(*key)
    if known is not None and known.suffices(has_judges=judges is not None, has_speakers=speakers is not None):
        return known
    voice, seed, text = key
    take = variant.read(text, voice, seed)
    verdict: dict[str, Any] | None = None
    if judges is not None:
        verdict = dataclasses.asdict(judged(variant, voice, seed, text, take, judges))
    is_silent = not take.samples.any()
    vector = speakers.embed(take.samples, take.sample_rate).tolist() if speakers and not is_silent else None
    known = Sounded(variant.identity, Sounded.CURRENT, *key, variant.cpu_ms_of(take), is_silent, verdict, vector)
    store.add(known)
    return known
