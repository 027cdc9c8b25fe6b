"""Tables of ``footlights quality``: what each model predicts, how each reads."""

from collections.abc import Sequence

from rich.table import Table

from clients.bench.variants import Variant


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
    first = variants[0].median_cpu_ms
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
        cpu_ms = variant.median_cpu_ms
        speed = ["-", "-"] if first is None or cpu_ms is None else [f"{cpu_ms:.1f}", f"{first / cpu_ms:.2f}x"]
        table.add_row(variant.name, *cells, *speed)
    return table


def _cell(kl: float, top1: float) -> str:
    return f"{kl:.4f} ({100 * top1:.1f} %)"
