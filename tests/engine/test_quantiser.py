"""Codebooks improved from earlier ones, so that a decoder trained on the earlier codes can go on."""

import numpy as np
import torch

from engine.codec.understudy import CODEBOOK_STREAMS
from engine.codec.vocoder import NUM_FEATURES, SUBFRAMES_PER_FRAME
from engine.train.quantiser import Quantiser, fit, k_means


def test_improved_codebooks_keep_their_order() -> None:
    generator = torch.Generator().manual_seed(1)
    centres = torch.tensor([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    vectors = centres.repeat(40, 1) + torch.randn(120, 2, generator=generator) * 0.1
    earlier = centres[[2, 0, 1]] + 0.5
    improved = k_means(vectors, 3, 5, generator, start=earlier)
    torch.testing.assert_close(improved, centres[[2, 0, 1]], atol=0.1, rtol=0)
    torch.testing.assert_close(earlier, centres[[2, 0, 1]] + 0.5)


def test_a_fit_that_goes_on_keeps_components_and_lowers_the_error() -> None:
    rng = np.random.default_rng(2)
    takes = [rng.normal(size=(SUBFRAMES_PER_FRAME * 60, NUM_FEATURES)).astype(np.float32) for _ in range(4)]
    first = fit(takes, size=8, iterations=1)
    moved = [take + np.float32(0.3) for take in takes]
    later = fit(moved, size=8, iterations=10, start=first)
    for stream in first.mean:
        torch.testing.assert_close(later.mean[stream], first.mean[stream], atol=0, rtol=0)
        torch.testing.assert_close(later.components[stream], first.components[stream], atol=0, rtol=0)
    last = len(CODEBOOK_STREAMS) - 1

    def error(quantiser: Quantiser) -> float:
        return sum(float(quantiser.encode(take)[1][last].square().sum(1).mean()) for take in moved)

    assert error(later) < error(first)
