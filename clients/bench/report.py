"""Figures for people (tables, pictures) and for programs (one JSON line, last)."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from clients.bench.decode import BatchSpeed
from clients.bench.environment import environment
from clients.bench.online import Crowd, Latency, real_time_streams
from clients.bench.quality import Quality
from clients.bench.spread import Estimate, percentiles

SCHEMA = 1
WIDTH = 120


def console() -> Console:
    """Standard output; wide enough for the tables where it is no terminal."""
    made = Console()
    return made if made.is_terminal else Console(width=WIDTH)


def header(console: Console, title: str, settings: Mapping[str, object]) -> dict[str, object]:
    """Print what is measured and on what; gives the latter, for `json_line`."""
    where = environment()
    console.rule(title)
    for name, value in {**where, **settings}.items():
        shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, Mapping) else str(value)
        console.print(f"[bold]{name}[/]: {escape(shown)}", highlight=False, soft_wrap=True)
    return where


def json_line(
    benchmark: str, where: Mapping[str, object], settings: Mapping[str, object], results: Mapping[str, object]
) -> str:
    """The last line of a run: one JSON object; numbers that are none become null."""
    line = {
        "benchmark": benchmark,
        "schema": SCHEMA,
        "environment": where,
        "settings": settings,
        "results": results,
    }
    return json.dumps(_finite(line), ensure_ascii=False, allow_nan=False)


def finish(line: str, path: Path) -> None:
    """Keep the JSON line in a file and print it, on standard output, last."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line + "\n", encoding="utf-8")
    print(line, flush=True)


def picture(console: Console, path: Path, draw: Callable[[Path], None]) -> None:
    """What ``draw(path)`` draws, if there is something to draw with."""
    try:
        draw(path)
    except ModuleNotFoundError as error:
        console.print(f"no picture: it needs {error.name}; install it with: pip install {error.name}")
    else:
        console.print(f"picture: {path}", highlight=False)


def quality_table(qualities: Sequence[Quality]) -> Table:
    """One row a reader."""
    table = Table(title="quality: held-out sentences; in brackets the 95 % interval")
    for column in ("reader", "takes", "WER", "failed", "DistillMOS", "length", "RTF", "RTF (cpu)"):
        table.add_column(column, justify="left" if column == "reader" else "right")
    for quality in qualities:
        table.add_row(
            quality.reader,
            str(quality.takes),
            _percent(quality.wer),
            _failures(quality),
            _interval(quality.mos) if quality.mos else "-",
            _interval(quality.length_ratio),
            f"{quality.rtf:.3f}",
            f"{quality.rtf_cpu:.3f}",
        )
    return table


def voices_table(quality: Quality) -> Table:
    """One row a voice of one reader."""
    table = Table(title=f"{quality.reader} by voice")
    for column in ("voice", "WER", "DistillMOS"):
        table.add_column(column, justify="left" if column == "voice" else "right")
    for voice, mos in quality.mos_by_voice.items():
        table.add_row(voice, f"{100 * quality.wer_by_voice[voice]:.1f} %", f"{mos:.2f}")
    return table


def worst_table(quality: Quality) -> Table:
    """Where a reader loses."""
    table = Table(title=f"{quality.reader}: worst takes")
    for column in ("voice", "errors", "failed", "text", "heard"):
        table.add_column(column, overflow="fold")
    for reading in quality.worst:
        errors = f"{reading.errors}/{reading.words}"
        table.add_row(reading.voice, errors, reading.failed or "", escape(reading.text), escape(reading.heard[:120]))
    return table


def decode_table(speeds: Sequence[BatchSpeed]) -> Table:
    """One row a batch size."""
    frame_ms = speeds[0].frame_ms
    table = Table(title=f"engine offline, one thread: ms a step, of {frame_ms:g} ms a frame")
    for column in ("streams", "steps", "p50", "p95", "p99", "late steps", "RTF (all)", "RTF (cpu)"):
        table.add_column(column, justify="right")
    for speed in speeds:
        points = percentiles(speed.step_ms, (50, 95, 99))
        table.add_row(
            str(speed.batch),
            str(len(speed.step_ms)),
            *(f"{value:.1f}" for value in points.values()),
            f"{100 * speed.late_share:.1f} %",
            f"{speed.rtf:.3f}",
            f"{speed.rtf_cpu:.3f}",
        )
    return table


def latency_table(latencies: Sequence[Latency]) -> Table:
    """Two rows a pace: from the first text, from the third word."""
    table = Table(title="first audio over a real connection, text streamed in: p50 / p95 in ms")
    for column in (
        "tokens/s",
        "since",
        "first byte",
        "audible here",
        "audible heard",
        "streams",
        "failed",
        "underruns",
    ):
        table.add_column(column, justify="left" if column == "since" else "right")
    for latency in latencies:
        counts = (str(latency.streams), str(latency.failed), str(latency.underruns))
        pace = f"{latency.tokens_per_s:g}"
        first = (latency.byte_ms, latency.audible_ms, latency.heard_ms)
        third = (latency.third_word_byte_ms, latency.third_word_audible_ms, latency.third_word_heard_ms)
        table.add_row(pace, "first text", *map(_points, first), *counts)
        table.add_row("", "third word", *map(_points, third), end_section=True)
    return table


def flow_table(latencies: Sequence[Latency]) -> Table:
    """How evenly the audio of the same streams came."""
    table = Table(title="between audio messages: p50 / p95 in ms")
    for column in ("tokens/s", "gap", "gap - audio before it", "silence at start"):
        table.add_column(column, justify="right")
    for latency in latencies:
        lists = (latency.gap_ms, latency.late_ms, latency.leading_silence_ms)
        table.add_row(f"{latency.tokens_per_s:g}", *map(_points, lists))
    return table


def crowd_table(crowds: Sequence[Crowd]) -> Table:
    """One row a number of listeners."""
    table = Table(title=f"listeners at once: {real_time_streams(crowds)} without an underrun")
    columns = ("listeners", "streams", "failed", "underruns", "after 100 ms", "longest ms", "C50", "C100", "C200")
    for column in (*columns, "RTF p50/p95", "audible p50/p95"):
        table.add_column(column, justify="right")
    for crowd in crowds:
        table.add_row(
            *(str(n) for n in (crowd.listeners, crowd.streams, crowd.failed, crowd.underruns)),
            str(crowd.underruns_prebuffered),
            f"{crowd.longest_ms:.0f}",
            *(f"{100 * share:.0f} %" for share in crowd.shares.values()),
            "/".join(f"{value:.2f}" for value in crowd.rtf.values()),
            "/".join(f"{value:.0f}" for value in crowd.audible_ms.values()),
        )
    return table


def _points(values: Sequence[float]) -> str:
    return " / ".join(f"{value:.0f}" for value in percentiles(values).values()) or "-"


def _percent(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.1f} % [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _failures(quality: Quality) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in quality.failed.items())
    return f"{100 * quality.failed_share:.1f} %" + (f"\n[dim]{kinds}[/]" if kinds else "")


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
