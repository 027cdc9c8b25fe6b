"""The figures of ``footlights bench voice`` as Markdown: on the terminal, and in the documentation."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from clients.bench.failures import Failures
from clients.bench.proof import Row
from clients.bench.spread import Estimate
from clients.bench.utterances import KINDS
from engine.errors import ConfigError

BEGIN, END = "<!-- figures of bench voice: begin -->", "<!-- figures of bench voice: end -->"


def rows_table(rows: Sequence[Row]) -> str:
    """A row a reader: words, naturalness, speaker."""
    head = ("reader", "takes", "WER", "above the teacher's", "failed", "DistillMOS", "above the teacher's", "speaker")
    return _table(
        head,
        [
            (
                row.name,
                str(row.takes),
                _percent(row.wer),
                _points(row.wer_above),
                str(row.failed),
                _interval(row.mos),
                _signed(row.mos_above),
                _interval(row.speaker),
            )
            for row in rows
        ],
    )


def manner_table(rows: Sequence[Row]) -> str:
    """A row a reader: how it is spoken."""
    head = (
        "reader",
        "pitch range, semitones",
        "of the teacher's",
        "energy range, dB",
        "of the teacher's",
        "pause at a mark",
        "of the teacher's",
        "marks with one",
        "silence at the end",
        "length, of the teacher's",
    )
    return _table(
        head,
        [
            (
                row.name,
                f"{row.pitch_range:.1f}",
                _interval(row.pitch_share),
                f"{row.energy_range:.1f}",
                _interval(row.energy_share),
                "-" if row.pause_s is None else f"{1000 * row.pause_s:.0f} ms",
                _interval(row.pause_share),
                "-" if row.paused is None else f"{100 * row.paused:.0f} %",
                f"{1000 * row.end_s:.0f} ms",
                _interval(row.length_share),
            )
            for row in rows
        ],
    )


def failures_table(failures: Failures) -> str:
    """A row a kind of utterance."""
    made = []
    for kind in (*KINDS, "all"):
        readings = [reading for line, reading in failures.readings if kind in (line.kind, "all")]
        failed = [reading for reading in readings if reading.failed is not None]
        kinds = ", ".join(f"{count} {name}" for name, count in Counter(r.failed for r in failed).items())
        shared = sum((reading.voice, reading.text) in failures.shared for reading in failed)
        made.append((kind, str(len(readings)), str(len(failed)), kinds or "-", str(shared)))
    return _table(("utterances", "takes", "failed", "how", "of them also failed by the teacher"), made)


def alike_table(alike: Mapping[str, Mapping[str, float]]) -> str:
    """Cosine of each voice with each other."""
    head = ("voice", *alike)
    return _table(head, [(a, *("-" if a == b else f"{alike[a][b]:.2f}" for b in alike)) for a in alike])


def insert(document: Path, figures: str) -> None:
    """Put ``figures`` between the marks of ``document``. Raises ``ConfigError`` if it has none."""
    text = document.read_text(encoding="utf-8") if document.exists() else ""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ConfigError(f"{document} has no lines {BEGIN} and {END} to put figures between")
    document.write_text(f"{before}{BEGIN}\n{figures.strip()}\n{END}{after}", encoding="utf-8")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"


def _interval(estimate: Estimate | None) -> str:
    return "-" if estimate is None else f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _signed(estimate: Estimate | None) -> str:
    return "-" if estimate is None else f"{estimate.value:+.2f} [{estimate.low:+.2f}, {estimate.high:+.2f}]"


def _percent(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.1f} % [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def _points(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    return f"{100 * estimate.value:+.1f} [{100 * estimate.low:+.1f}, {100 * estimate.high:+.1f}]"
