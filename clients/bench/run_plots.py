"""Pictures of `footlights bench quality` and `speed`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from clients.bench.decode import BatchSpeed
from clients.bench.online import Crowd, Latency
from clients.bench.plots import COLOURS, bars, panels, save
from clients.bench.quality import Quality


def quality_plot(qualities: Sequence[Quality], path: Path) -> None:
    """Word errors, naturalness and cost, a bar a reader, with 95 % intervals."""
    figure, (errors, mos, cost) = panels(3)
    names = [quality.reader for quality in qualities]
    bars(errors, names, [quality.wer for quality in qualities], "words wrong (%)", scale=100)
    rated = [(quality.reader, quality.mos) for quality in qualities if quality.mos is not None]
    bars(mos, [name for name, _ in rated], [estimate for _, estimate in rated], "DistillMOS (1 to 5)")
    mos.set_ylim(1, 5)
    cost.bar(names, [quality.rtf_cpu for quality in qualities], color=COLOURS[: len(names)])
    cost.set_title("core-seconds a second of audio", fontsize=10)
    save(figure, path)


def speed_plot(speeds: Sequence[BatchSpeed], latencies: Sequence[Latency], crowds: Sequence[Crowd], path: Path) -> None:
    """Step times against the frame, time to first audio, pauses by number of listeners."""
    figure, (steps, first, pauses) = panels(3)
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
