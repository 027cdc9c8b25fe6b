"""Percentiles and bootstrap intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A value and the bounds of its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def as_json(self) -> dict[str, float]:
        """For the JSON line."""
        return {"value": self.value, "low": self.low, "high": self.high}


def percentiles(values: Sequence[float], points: Sequence[int] = (50, 95)) -> dict[str, float]:
    """``{"p50": .., "p95": ..}``; empty for no values."""
    if not values:
        return {}
    return {f"p{point}": float(np.percentile(values, point)) for point in points}


def ratio(top: ArrayLike, bottom: ArrayLike, *, clusters: Sequence[object] | None = None, seed: int = 0) -> Estimate:
    """``sum(top) / sum(bottom)``; both [N]. Resampled by row, or by all rows of one of ``clusters`` [N] together.

    Readings of one sentence by several voices are no independent trials: their sentence is the cluster. A mean is the
    ratio to ones. Raises ``ValueError`` for no rows or a bottom of 0.
    """
    tops, bottoms = np.asarray(top, np.float64), np.asarray(bottom, np.float64)
    if not len(tops) or not bottoms.sum():
        raise ValueError("nothing to take a ratio of")
    groups = range(len(tops)) if clusters is None else clusters
    order: Mapping[object, int] = {group: index for index, group in enumerate(dict.fromkeys(groups))}
    member = np.array([order[group] for group in groups])
    sums = np.stack([np.bincount(member, values, len(order)) for values in (tops, bottoms)], axis=-1)
    value = float(tops.sum() / bottoms.sum())
    draws = _resampled(sums, seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = draws[:, 0] / draws[:, 1]
    low, high = np.percentile(rates[np.isfinite(rates)], [50 - 50 * CONFIDENCE, 50 + 50 * CONFIDENCE])
    return Estimate(value, float(low), float(high))


def mean(values: ArrayLike, *, clusters: Sequence[object] | None = None, seed: int = 0) -> Estimate:
    """Mean of ``values`` [N]."""
    return ratio(values, np.ones(len(np.asarray(values))), clusters=clusters, seed=seed)


def _resampled(sums: NDArray[Any], seed: int) -> NDArray[np.float64]:
    """Sums [RESAMPLES, 2] over clusters drawn with replacement from [K, 2]."""
    rng = np.random.default_rng(seed)
    picks = rng.integers(len(sums), size=(RESAMPLES, len(sums)))
    return np.asarray(sums[picks].sum(axis=1))
