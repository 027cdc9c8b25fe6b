"""The post-filter: formants get sharper, what is not the envelope stays, a frame is a matter of its own."""

import torch

from engine.codec.post_filter import FIRST_SHARPENED, SHARPNESS, sharpen
from engine.codec.vocoder import NUM_CEPSTRA, NUM_FEATURES, SUBFRAMES_PER_FRAME


def parameters(batch: int = 2, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, SUBFRAMES_PER_FRAME, NUM_FEATURES, generator=generator)


def test_the_source_stays_as_it_is() -> None:
    given = parameters()
    assert torch.equal(sharpen(given)[..., NUM_CEPSTRA:], given[..., NUM_CEPSTRA:])


def test_a_steady_envelope_is_sharpened_and_nothing_else() -> None:
    given = parameters()[:, :1].expand(-1, SUBFRAMES_PER_FRAME, -1)
    expected = given.clone()
    expected[..., FIRST_SHARPENED:NUM_CEPSTRA] *= SHARPNESS
    torch.testing.assert_close(sharpen(given), expected)


def test_peaks_rise_over_valleys() -> None:
    frequency = torch.linspace(0, torch.pi, 513)
    basis = torch.cos(torch.arange(NUM_CEPSTRA)[:, None] * frequency)
    given = torch.zeros(1, SUBFRAMES_PER_FRAME, NUM_FEATURES)
    given[..., 8] = 1.0
    envelopes = [(each[0, 3, :NUM_CEPSTRA] @ basis) for each in (given, sharpen(given))]
    ranges = [float(envelope.max() - envelope.min()) for envelope in envelopes]
    assert ranges[1] > 1.2 * ranges[0]


def test_a_step_between_subframes_becomes_a_slope_and_keeps_its_ends() -> None:
    given = torch.zeros(1, SUBFRAMES_PER_FRAME, NUM_FEATURES)
    given[:, 4:, 1] = 1.0
    rising = sharpen(given)[0, :, 1]
    assert (rising.diff() >= 0).all()
    assert rising.diff().max() < 0.7
    assert rising[0] == 0
    assert rising[-1] == 1


def test_a_frame_is_sharpened_alike_alone_and_in_a_batch() -> None:
    given = parameters(batch=5)
    together = sharpen(given)
    for i in range(5):
        assert torch.equal(sharpen(given[i : i + 1])[0], together[i])
