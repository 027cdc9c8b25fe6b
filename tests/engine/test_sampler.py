"""Sampling: the random numbers, the filters' edges, and independence of sequences."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.config import BackboneConfig, ModelConfig, TowerConfig
from engine.core import SamplingParams
from engine.sampler import REPETITION_WINDOW, Sampler, SamplerState, TrailingClick, rank_candidates, uniform

START, EOS, SIZE = 100, 7, 64
LARGEST = 1 - 2**-23
"""The largest number ``uniform`` can give."""


@pytest.fixture(scope="module")
def sampler() -> Sampler:
    backbone = BackboneConfig(
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        linear_num_key_heads=2,
        linear_key_head_dim=8,
        linear_num_value_heads=4,
        linear_value_head_dim=8,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
        vocab_size=START + SIZE,
    )
    tower = TowerConfig(
        dim=32,
        n_head=4,
        n_local_heads=2,
        head_dim=8,
        n_layer=1,
        intermediate_size=32,
        num_codebooks=4,
        vocab_size=SIZE,
        vq_backbone_codebooks=1,
    )
    return Sampler(ModelConfig(backbone, tower, semantic_start_token_id=START, eos_token_id=EOS))


def logits(batch: int, width: int = SIZE + 1, seed: int = 0) -> torch.Tensor:
    return torch.randn(batch, width, generator=torch.Generator().manual_seed(seed)) * 3


@given(st.integers(), st.integers(0, 10**6), st.integers(0, 40))
def test_uniform_is_in_range_and_repeats(seed: int, step: int, place: int) -> None:
    number = uniform(seed, step, place)
    assert 0 <= number < 1
    assert number == uniform(seed, step, place)


@pytest.mark.parametrize("axis", range(3))
def test_uniform_spreads_along_every_argument(axis: int) -> None:
    arguments = [3, 5, 2]
    counts = [0] * 10
    for i in range(5000):
        arguments[axis] = i
        counts[int(uniform(*arguments) * 10)] += 1
    # Five standard deviations of a binomial with 500 expected.
    assert max(abs(count - 500) for count in counts) < 5 * (5000 * 0.1 * 0.9) ** 0.5


def test_uniforms_of_neighbouring_draws_are_not_correlated() -> None:
    pairs = torch.tensor([(uniform(1, i, 0), uniform(1, i, 1)) for i in range(5000)])
    assert abs(float(torch.corrcoef(pairs.T)[0, 1])) < 0.07


def test_draws_follow_the_filtered_distribution() -> None:
    params = SamplingParams(temperature=1.2, top_p=0.9, top_k=8)
    ranked = rank_candidates(logits(1), [params], keeps_crossing=True)
    expected = ranked.probabilities(SIZE + 1)[0]
    drawn = Counter(ranked.draw([uniform(9, i, 0)])[0] for i in range(4000))
    assert set(drawn) == set(expected.nonzero()[:, 0].tolist())
    for column, count in drawn.items():
        p = float(expected[column])
        assert abs(count - 4000 * p) < 5 * (4000 * p * (1 - p)) ** 0.5


@pytest.mark.parametrize("number", [0.0, LARGEST])
def test_extreme_random_numbers_stay_within_the_kept(number: float) -> None:
    ranked = rank_candidates(logits(1), [SamplingParams(top_p=0.6)], keeps_crossing=False)
    rank = 0 if number == 0 else ranked.kept[0] - 1
    assert ranked.draw([number])[0] == int(ranked.order[0, rank])


def test_a_barred_candidate_is_never_drawn() -> None:
    barred = torch.tensor([[1.0, -torch.inf, 0.5, -torch.inf]])
    ranked = rank_candidates(barred, [SamplingParams(top_p=1.0)], keeps_crossing=True)
    assert ranked.draw([LARGEST]) == [2]


@pytest.mark.parametrize("keeps_crossing", [True, False])
def test_a_certain_candidate_survives_every_filter(keeps_crossing: bool) -> None:
    certain = torch.full((1, SIZE + 1), -50.0)
    certain[0, 11] = 50.0
    for params in (SamplingParams(top_p=0.01), SamplingParams(temperature=0.0), SamplingParams(top_k=1)):
        ranked = rank_candidates(certain, [params], keeps_crossing)
        assert ranked.kept == (1,)
        assert ranked.draw([0.9]) == [11]


def test_a_sequence_gets_the_same_alone_and_in_a_batch(sampler: Sampler) -> None:
    settings = [
        SamplingParams(seed=1),
        SamplingParams(temperature=0.0, seed=2),
        SamplingParams(temperature=0.7, top_p=0.8, top_k=5, seed=3),
    ]
    main, codes, pointer = logits(3), logits(3, SIZE, 1), logits(3, 4, 2)
    allowed = [(True, True, True, True), (True, False, True, False), (False, True, False, False)]
    for step in range(20):
        states = [SamplerState(p, step) for p in settings]
        together = sampler.main_tokens(main, states), sampler.codes(codes, 2, states)
        moves = sampler.moves(pointer, states, allowed)
        for b, state in enumerate(states):
            assert int(sampler.main_tokens(main[b : b + 1], [state])) == int(together[0][b])
            assert int(sampler.codes(codes[b : b + 1], 2, [state])) == int(together[1][b])
            assert sampler.moves(pointer[b : b + 1], [state], allowed[b : b + 1]) == [moves[b]]
            assert allowed[b][moves[b]]


def test_steps_and_seeds_give_other_draws(sampler: Sampler) -> None:
    flat = torch.zeros(1, SIZE + 1)
    by_step = {int(sampler.main_tokens(flat, [SamplerState(SamplingParams(seed=1), step)])) for step in range(20)}
    by_seed = {int(sampler.main_tokens(flat, [SamplerState(SamplingParams(seed=seed))])) for seed in range(20)}
    assert len(by_step) > 10
    assert len(by_seed) > 10


def test_temperature_zero_takes_the_best_everywhere_even_if_repeated(sampler: Sampler) -> None:
    main, codes, pointer = logits(1), logits(1, SIZE, 1), logits(1, 4, 2)
    state = SamplerState(SamplingParams(temperature=0.0))
    best = START + int(main[0, :-1].argmax())
    main[0, -1] = -9
    state.observe([best])
    assert int(sampler.main_tokens(main, [state])) == best
    assert int(sampler.codes(codes, 1, [state])) == int(codes.argmax())
    assert sampler.moves(pointer, [state], [(True,) * 4]) == [int(pointer.argmax())]


def test_a_repeated_token_is_drawn_again(sampler: Sampler) -> None:
    """The first draw is certain; after it was used, the second draw's settings decide."""
    main = torch.full((1, SIZE + 1), -20.0)
    main[0, 3], main[0, 4] = 5.0, 4.9
    settings = SamplingParams(temperature=0.01, top_p=0.5)
    fresh = {int(sampler.main_tokens(main, [SamplerState(settings, step)])) for step in range(30)}
    assert fresh == {START + 3}
    after = set()
    for step in range(30):
        state = SamplerState(settings, step)
        state.observe([START + 3])
        after.add(int(sampler.main_tokens(main, [state])))
    assert after == {START + 3, START + 4}


def test_the_window_forgets(sampler: Sampler) -> None:
    state = SamplerState(SamplingParams())
    state.observe([START])
    for _ in range(REPETITION_WINDOW):
        assert sampler.is_repetition(START, state.recent)
        state.advance(START + 9)
    assert not sampler.is_repetition(START, state.recent)
    assert state.step == REPETITION_WINDOW


def test_the_end_can_be_barred_for_some(sampler: Sampler) -> None:
    ending = torch.full((2, SIZE + 1), -20.0)
    ending[:, -1] = 20.0
    states = [SamplerState(SamplingParams(seed=seed)) for seed in (1, 2)]
    tokens = sampler.main_tokens(ending, states, may_end=[True, False]).tolist()
    assert tokens[0] == EOS
    assert START <= tokens[1] < START + SIZE


def test_codes_are_capped_whatever_is_asked_for(sampler: Sampler) -> None:
    flat = torch.linspace(0, 1e-3, SIZE)[None]
    states = [SamplerState(SamplingParams(top_p=1.0, top_k=60), step) for step in range(300)]
    drawn = {int(sampler.codes(flat, 1, [state])) for state in states}
    assert min(drawn) >= SIZE - 30
    assert len(drawn) > 20


def test_a_copied_state_goes_its_own_way() -> None:
    state = SamplerState(SamplingParams())
    state.advance(START)
    copy = state.copy()
    state.advance(START + 1)
    assert (copy.step, list(copy.recent)) == (1, [START])


def test_trailing_click_keeps_every_other_frame_in_order() -> None:
    rule: TrailingClick[str] = TrailingClick()
    assert rule.push("a", 0) == []
    assert rule.push("b", 0) == ["a"]
    assert rule.push("c", 5) == ["b", "c"]
    assert rule.push("d", 0) == []
    rule.end()
    assert rule.stop() == []
