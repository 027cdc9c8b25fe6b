"""The soft limit: quiet samples untouched, loud ones below full scale, in order."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from engine.codec.limit import CEILING, KNEE, soft_limit
from realtime.audio import to_pcm_s16le


@settings(deadline=None)
@given(arrays(np.float64, st.integers(0, 50), elements=st.floats(-1e6, 1e6)))
def test_quiet_stays_and_loud_is_bent(samples: NDArray[np.float64]) -> None:
    limited = soft_limit(samples)
    is_quiet = np.abs(samples) <= KNEE
    assert np.array_equal(limited[is_quiet], samples[is_quiet])
    assert (np.abs(limited) <= CEILING).all()
    assert (np.sign(limited) == np.sign(samples)).all()
    assert np.array_equal(soft_limit(samples[:1]), limited[:1])


def test_a_loud_wave_keeps_its_form() -> None:
    samples = np.linspace(-1.5, 1.5, 3001)
    limited = soft_limit(samples)
    assert (np.diff(limited) > 0).all()
    slopes = np.diff(limited) / np.diff(samples)
    assert np.abs(np.diff(slopes)).max() < 0.01
    pcm = np.frombuffer(to_pcm_s16le(limited.astype(np.float32)), "<i2")
    assert np.abs(pcm).max() < 32767
