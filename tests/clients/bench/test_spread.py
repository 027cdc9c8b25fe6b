import numpy as np
import pytest

from clients.bench.spread import mean, percentiles, ratio


def test_percentiles_interpolate() -> None:
    assert percentiles([1, 2, 3]) == {"p50": 2.0, "p95": pytest.approx(2.9)}
    assert percentiles([]) == {}


def test_ratio_weighs_by_the_bottom() -> None:
    estimate = ratio([1, 0], [10, 90])
    assert estimate.value == 0.01
    assert estimate.low == 0.0
    assert estimate.high == 0.1


def test_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    samples = [rng.random(60) < 0.2 for _ in range(200)]
    hits = sum((e := mean(sample)).low <= 0.2 <= e.high for sample in samples)
    assert 0.88 <= hits / 200 <= 0.99


def test_readings_of_one_sentence_count_as_one_trial() -> None:
    values = [0.0, 1.0] * 30
    alone, copies = mean(values), mean(values * 9, clusters=list(range(60)) * 9)
    assert copies.value == alone.value
    assert (copies.low, copies.high) == (alone.low, alone.high)
    independent = mean(values * 9)
    assert independent.high - independent.low < 0.5 * (copies.high - copies.low)


def test_same_seed_same_interval() -> None:
    assert mean([1, 2, 3, 4], seed=3) == mean([1, 2, 3, 4], seed=3)


@pytest.mark.parametrize(("top", "bottom"), [([], []), ([1], [0])])
def test_nothing_is_no_estimate(top: list[float], bottom: list[float]) -> None:
    with pytest.raises(ValueError, match="nothing"):
        ratio(top, bottom)
