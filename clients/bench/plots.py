"""PNG pictures of the figures, for the documentation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clients.bench.spread import Estimate

COLOURS = ("#b3362b", "#2f5d8a", "#6f8f3f", "#8a6d2f", "#6b5b95")
DOTS_PER_INCH = 140


def bars(axes: Any, names: Sequence[str], estimates: Sequence[Estimate], title: str, scale: float = 1) -> None:
    """A bar for each name, with its interval."""
    values = np.array([[e.value, e.value - e.low, e.high - e.value] for e in estimates]).reshape(-1, 3).T * scale
    axes.bar(names, values[0], yerr=np.maximum(values[1:], 0), color=COLOURS[: len(names)], capsize=4)
    axes.set_title(title, fontsize=10)


def panels(count: int) -> Any:
    """A figure of ``count`` panels side by side, and their axes (one panel: its axes alone)."""
    made, axes = grid(1, count, (4 * count, 3.2))
    return made, axes[0] if count > 1 else axes[0, 0]


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
