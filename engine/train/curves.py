"""Training logs read back, and drawn (SVG, with matplotlib of the ``train`` extra)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TRAINING, HELD_OUT = "#2f5d8a", "#b3362b"

Log = list[dict[str, Any]]


def read_log(path: Path) -> Log:
    """Lines of a training, in the order of their updates; other lines are left out.

    A run that went on from an earlier checkpoint made some updates again: the later line is the one that counts.
    """
    if not path.is_file():
        return []
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.startswith("{")]
    return [entry for _, entry in sorted({line["step"]: line for line in lines}.items())]


def seconds(path: Path) -> float:
    """How long all runs of a log took together: the clock of each begins at nought."""
    if not path.is_file():
        return 0.0
    times = [json.loads(line)["seconds"] for line in path.read_text("utf-8").splitlines() if line.startswith("{")]
    ends = [now for now, then in zip(times, [*times[1:], 0.0], strict=True) if then <= now]
    return float(sum(ends))


def value(entry: Mapping[str, Any], name: str) -> float | None:
    """A figure of a line; a mean where it is several."""
    found = entry.get(name)
    return None if found is None else float(np.mean(found))


def series(log: Log, name: str, is_held_out: bool = False) -> tuple[list[int], list[float]]:
    """Updates and figures at them, where the log has them."""
    entries = [(entry["step"], entry.get("validation", {}) if is_held_out else entry) for entry in log]
    found = [(step, figure) for step, entry in entries if (figure := value(entry, name)) is not None]
    return [step for step, _ in found], [figure for _, figure in found]


def names(log: Log) -> list[str]:
    """Losses that were also measured on held-out speech; all of them if none was. ``log`` has a line at least."""
    found = log[-1].get("validation") or log[-1]
    return [name for name in found if name not in ("step", "seconds", "validation")]


def draw_losses(log: Log, path: Path) -> None:
    """A panel for each loss over updates, held-out speech beside training."""
    figure, axes = _figure(len(names(log)))
    for panel, name in zip(axes, names(log), strict=True):
        panel.plot(*series(log, name), color=TRAINING, label="training")
        held_out = series(log, name, is_held_out=True)
        if held_out[0]:
            panel.plot(*held_out, color=HELD_OUT, label="held out")
        panel.set_title(name, fontsize=10)
        panel.set_xlabel("updates")
        panel.legend(fontsize=8)
    _save(figure, path)


def draw_experts(shares: NDArray[np.float64], path: Path) -> None:
    """Shares [L, E] as colours, figures in them."""
    figure, (axes,) = _figure(1)
    even = 1 / shares.shape[1]
    axes.imshow(shares, cmap="RdBu_r", vmin=0, vmax=2 * even, aspect="auto")
    for (layer, expert), share in np.ndenumerate(shares):
        axes.text(expert, layer, f"{100 * share:.0f}", ha="center", va="center", fontsize=7)
    axes.set_xlabel("expert")
    axes.set_ylabel("layer")
    axes.set_title(f"share of choices, % (even: {100 * even:.1f})", fontsize=10)
    _save(figure, path)


def _figure(panels: int) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    # Else the same figures would make another file each time, as a date in it would.
    matplotlib.rcParams["svg.hashsalt"] = "footlights"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, panels, figsize=(4 * panels, 3.2), constrained_layout=True, squeeze=False)
    return figure, axes[0]


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
