"""PNG pictures of the figures, for the documentation."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.bench.chunking import Outcome
from clients.bench.decode import BatchSpeed
from clients.bench.drift import Line, by_minute
from clients.bench.online import Crowd, Latency
from clients.bench.quality import Quality
from clients.bench.spread import Estimate

COLOURS = ("#b3362b", "#2f5d8a", "#6f8f3f", "#8a6d2f", "#6b5b95")
DOTS_PER_INCH = 140


def quality_plot(qualities: Sequence[Quality], path: Path) -> None:
    """Word errors, naturalness and cost, a bar a reader, with 95 % intervals."""
    figure, (errors, mos, cost) = _figure(3)
    names = [quality.reader for quality in qualities]
    _bars(errors, names, [quality.wer for quality in qualities], "words wrong (%)", scale=100)
    rated = [(quality.reader, quality.mos) for quality in qualities if quality.mos is not None]
    _bars(mos, [name for name, _ in rated], [estimate for _, estimate in rated], "DistillMOS (1 to 5)")
    mos.set_ylim(1, 5)
    cost.bar(names, [quality.rtf_cpu for quality in qualities], color=COLOURS[: len(names)])
    cost.set_title("core-seconds a second of audio", fontsize=10)
    save(figure, path)


def speed_plot(speeds: Sequence[BatchSpeed], latencies: Sequence[Latency], crowds: Sequence[Crowd], path: Path) -> None:
    """Step times against the frame, time to first audio, pauses by number of listeners."""
    figure, (steps, first, pauses) = _figure(3)
    if speeds:
        labels = [str(speed.batch) for speed in speeds]
        steps.boxplot([speed.step_ms for speed in speeds], tick_labels=labels, whis=(5, 95), showfliers=False)
        steps.axhline(speeds[0].frame_ms, color=COLOURS[0], linestyle="--", label="one frame")
        steps.legend(fontsize=8)
    steps.set_title("ms a step, by streams in a batch", fontsize=10)
    for latency, colour in zip(latencies, COLOURS, strict=False):
        values = np.sort(latency.third_word_audible_ms)
        shares = np.arange(1, len(values) + 1) / max(1, len(values))
        first.step(values, shares, color=colour, label=f"{latency.tokens_per_s:g} tokens/s", where="post")
    first.set_title("ms from third word to first audible sample", fontsize=10)
    first.set_ylabel("share of streams")
    if latencies:
        first.legend(fontsize=8)
    pauses.plot([crowd.listeners for crowd in crowds], [crowd.longest_ms for crowd in crowds], "o-", color=COLOURS[1])
    pauses.set_title("longest pause (ms), by listeners", fontsize=10)
    save(figure, path)


def chunking_plot(outcomes: Sequence[Outcome], path: Path) -> None:
    """From the first text to the first sound, by arm; with judges, word errors and naturalness beside it."""
    is_judged = all(outcome.wer and outcome.mos for outcome in outcomes)
    figure, axes = _figure(3 if is_judged else 1)
    first = axes[0] if is_judged else axes
    names = [outcome.arm.name for outcome in outcomes]
    first.boxplot([o.first_text_ms for o in outcomes], tick_labels=names, whis=(5, 95), showfliers=False)
    first.set_title("ms from first text to first sound", fontsize=10)
    first.set_yscale("log")
    if is_judged:
        _bars(axes[1], names, [o.wer for o in outcomes if o.wer], "words wrong (%)", scale=100)
        _bars(axes[2], names, [o.mos for o in outcomes if o.mos], "DistillMOS (1 to 5)")
    save(figure, path)


def drift_plot(lines: Sequence[Line], path: Path) -> None:
    """Pitch, level and, where it was judged, the speaker, minute by minute, each as the distance from its mean."""
    is_judged = lines[0].speaker is not None
    figure, axes = _figure(3 if is_judged else 2)
    _course(axes[0], lines, lambda line: line.pitch, "pitch (semitones)", reach=1)
    _course(axes[1], lines, lambda line: line.level_db, "level (dB)", reach=2)
    if is_judged:
        centre = np.mean([line.speaker for line in lines if line.speaker is not None and line.round == 0], axis=0)
        centre /= np.linalg.norm(centre)
        _course(axes[2], lines, lambda line: _cosine(line, centre), "likeness to the first minutes", reach=0.1)
    save(figure, path)


def _cosine(line: Line, centre: NDArray[np.float32]) -> float | None:
    return None if line.speaker is None else float(line.speaker @ centre)


def _course(
    axes: Any, lines: Sequence[Line], measure: Callable[[Line], float | None], title: str, reach: float
) -> None:
    minutes, values = by_minute(lines, measure)
    axes.axhline(0, color="#999999", linewidth=0.8)
    axes.plot(minutes, values, "o-", color=COLOURS[1], markersize=3)
    most = max(reach, 1.1 * max(map(abs, values)))
    axes.set_ylim(-most, most)
    axes.set_xlabel("minute")
    axes.set_title(title, fontsize=10)


def _bars(axes: Any, names: Sequence[str], estimates: Sequence[Estimate], title: str, scale: float = 1) -> None:
    values = np.array([[e.value, e.value - e.low, e.high - e.value] for e in estimates]).reshape(-1, 3).T * scale
    axes.bar(names, values[0], yerr=np.maximum(values[1:], 0), color=COLOURS[: len(names)], capsize=4)
    axes.set_title(title, fontsize=10)


def _figure(panels: int) -> Any:
    made, axes = grid(1, panels, (4 * panels, 3.2))
    return made, axes[0] if panels > 1 else axes[0, 0]


def grid(rows: int, columns: int, size: tuple[float, float], **options: Any) -> Any:
    """A figure of ``size`` inches, and its axes [rows, columns]."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot.subplots(rows, columns, figsize=size, constrained_layout=True, squeeze=False, **options)


def save(figure: Any, path: Path, dots_per_inch: int = DOTS_PER_INCH) -> None:
    """Write and forget it."""
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=dots_per_inch)
    pyplot.close(figure)
