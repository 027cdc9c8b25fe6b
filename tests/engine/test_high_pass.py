"""The high-pass in blocks against the recursion."""

import numpy as np
import pytest
from scipy.signal import butter, sosfilt

from engine.codec.high_pass import HighPass


@pytest.mark.parametrize(("cutoff_hz", "block"), [(40, 60), (40, 1200), (300, 25), (40, 1)])
def test_equals_the_recursion(cutoff_hz: float, block: int) -> None:
    generator = np.random.default_rng(0)
    x, state, memory = generator.normal(size=(3, 5, 1200)), generator.normal(size=(3, 2)), np.zeros((1, 3, 2))
    memory[0] = state
    sections = butter(2, cutoff_hz, "highpass", fs=24_000, output="sos")
    high_pass = HighPass(cutoff_hz, 24_000, 1200, block)
    for frame in range(5):
        expected, memory = sosfilt(sections, x[:, frame], zi=memory)
        np.testing.assert_allclose(high_pass(x[:, frame], state), expected, atol=1e-9)
    np.testing.assert_allclose(state, memory[0], atol=1e-9)


def test_nothing_is_left_of_what_does_not_move() -> None:
    high_pass, state = HighPass(40, 24_000, 1200), np.zeros((1, 2))
    for _ in range(20):
        out = high_pass(np.ones((1, 1200)), state)
    assert np.abs(out).max() < 1e-6
