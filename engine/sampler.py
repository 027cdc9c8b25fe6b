"""From logits to tokens: temperature, top-k, top-p, repetition-aware sampling, and the rule for trailing clicks.

Randomness is a number per draw, computed from the sequence's seed, its step and the draw's place in the step. So what
a sequence gets depends neither on its neighbours in a batch nor on what was drawn for it before.

Axes: B sequences, V candidates, R ranks (candidates in descending order).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.config import ModelConfig
from engine.core import SamplingParams

REPETITION_WINDOW = 16
"""Rows looked back on for a main token that was just used."""
MOST_CODE_CANDIDATES = 30
"""Cap on the candidates of codebooks 1 and up, whatever is asked for."""

SEED_STRIDE = 0x51ED2701
"""From the seed of an attempt to that of the next."""

_SECOND_DRAW = SamplingParams(temperature=1.0, top_p=0.95, top_k=30)
_WHOLE = SamplingParams(temperature=1.0, top_p=1.0)
_MAIN, _SECOND, _POINTER, _CODES = range(4)
"""Places of the draws in a step; codebook i is at ``_CODES + i``."""
_MASK = (1 << 64) - 1


def uniform(seed: int, step: int, place: int) -> float:
    """A number in [0, 1), the same for the same arguments (two rounds of the SplitMix64 finaliser).

    It has 23 bits, so that its float32 product with any float32 number is smaller than that number.
    """
    x = seed & _MASK
    for word in (step, place):
        x = (x + (word + 1) * 0x9E3779B97F4A7C15) & _MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
        x ^= x >> 31
    return (x >> 41) / (1 << 23)


@dataclass(frozen=True)
class Ranked:
    """Candidates that the filters kept: ``order`` [B, R] their columns, ``cumulative`` [B, R] running probabilities
    over *all* candidates, ``kept`` [B] how many leading ranks remain (at least 1).

    NumPy's, because picking a number from a few is no work worth starting an operation of a tensor library for.
    """

    order: NDArray[np.int64]
    cumulative: NDArray[np.float32]
    kept: tuple[int, ...]

    def draw(self, uniforms: Sequence[float]) -> list[int]:
        """One column per sequence, by the kept candidates' probabilities."""
        return [self.draw_row(b, number) for b, number in enumerate(uniforms)]

    def draw_row(self, row: int, number: float) -> int:
        """The column of one sequence for a ``uniform`` number."""
        cumulative = self.cumulative[row]
        # Points lie below the mass, so no rank without probability is reached.
        point = np.float32(number) * cumulative[self.kept[row] - 1]
        return int(self.order[row, cumulative.searchsorted(point, "right")])

    def probabilities(self, candidates: int) -> Tensor:
        """The distribution that ``draw`` draws from: [B, V]."""
        each = torch.from_numpy(np.diff(self.cumulative, prepend=np.float32(0)))
        each = each * (torch.arange(each.shape[1]) < torch.tensor(self.kept)[:, None])
        out = each.new_zeros(len(each), candidates)
        return out.scatter(1, torch.from_numpy(self.order), each / each.sum(1, keepdim=True))


@lru_cache(maxsize=256)
def _temperatures(params: tuple[SamplingParams, ...], device: torch.device) -> Tensor:
    """Temperatures [B, 1] of a batch, made once as long as it stays the same."""
    with torch.inference_mode(False):
        return torch.tensor([max(p.temperature, 1e-5) for p in params], device=device)[:, None]


@lru_cache(maxsize=1024)
def _of_codes(params: SamplingParams) -> SamplingParams:
    """The settings for codebooks 1 and up."""
    return replace(params, top_k=min(params.top_k or MOST_CODE_CANDIDATES, MOST_CODE_CANDIDATES))


def rank_candidates(logits: Tensor, params: Sequence[SamplingParams], keeps_crossing: bool) -> Ranked:
    """Filter ``logits`` [B, V] by the settings of each sequence.

    The running sum of top-p goes over all candidates, not over the top-k. ``keeps_crossing``: the candidate that
    crosses ``top_p`` stays (so the end of a turn stays within reach); otherwise it goes. The best always stays.
    """
    candidates = logits.shape[1]
    caps = [candidates if p.top_k is None else max(1, min(p.top_k, candidates)) for p in params]
    ranks = max(caps)
    # Softmax takes the largest logit off before it exponentiates, so tiny temperatures do no harm.
    probabilities = (logits.float() / _temperatures(tuple(params), logits.device)).softmax(1)
    each, order = probabilities.sort(1, descending=True) if ranks == candidates else probabilities.topk(ranks, 1)
    cumulative: NDArray[np.float32] = each.cumsum(1).cpu().numpy()
    kept = []
    for row, p, cap in zip(cumulative, params, caps, strict=True):
        within = int(row.searchsorted(np.float32(p.top_p), "right"))
        kept.append(max(1, min(within + keeps_crossing, cap)))
    return Ranked(order.cpu().numpy(), cumulative, tuple(kept))


@dataclass
class SamplerState:
    """What sampling remembers of one sequence: how far it is and the main tokens of its last rows."""

    params: SamplingParams
    step: int = 0
    """Frames drawn; part of the random numbers."""
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=REPETITION_WINDOW))
    """Main tokens of the last rows, text rows included."""

    def observe(self, main_tokens: Sequence[int]) -> None:
        """Note the main tokens of rows that were prefilled."""
        self.recent.extend(main_tokens)

    def advance(self, main_token: int) -> None:
        """Note the frame of this step; the next draws get new random numbers."""
        self.recent.append(main_token)
        self.step += 1

    def reseed(self, seed: int, attempt: int) -> None:
        """Draw other random numbers from now on than any other ``attempt`` with the same ``seed``."""
        self.params = replace(self.params, seed=seed + SEED_STRIDE * attempt)

    def copy(self) -> "SamplerState":
        """A state of its own, for a snapshot."""
        return SamplerState(self.params, self.step, self.recent.copy())

    @property
    def is_greedy(self) -> bool:
        """Whether the best candidate is taken everywhere: temperature 0."""
        return self.params.temperature == 0


class Sampler:
    """Draws main tokens, codes and pointer moves for a batch of sequences."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config

    def main_tokens(
        self, logits: Tensor, states: Sequence[SamplerState], may_end: Sequence[bool] | None = None
    ) -> Tensor:
        """Main tokens [B] (token ids, int64) from ``logits`` [B, V + 1] (semantic band, then the end of the turn).

        A semantic token that was among the last rows is replaced by a second draw with fixed settings; that one is
        taken as it is. ``may_end[b]`` false keeps sequence b from ending its turn.
        """
        if may_end is not None and not all(may_end):
            barred = torch.zeros_like(logits)
            barred[:, -1] = torch.tensor([0.0 if may else -torch.inf for may in may_end])
            logits = logits + barred
        ranked = rank_candidates(logits, [state.params for state in states], keeps_crossing=True)
        tokens = []
        for b, state in enumerate(states):
            if state.is_greedy:
                tokens.append(self._token(int(ranked.order[b, 0])))
                continue
            token = self._token(ranked.draw_row(b, uniform(state.params.seed, state.step, _MAIN)))
            if self.is_repetition(token, state.recent):
                second = rank_candidates(logits[b : b + 1], [_SECOND_DRAW], keeps_crossing=True)
                token = self._token(second.draw_row(0, uniform(state.params.seed, state.step, _SECOND)))
            tokens.append(token)
        return torch.tensor(tokens, dtype=torch.int64, device=logits.device)

    def is_repetition(self, token: int, recent: Sequence[int]) -> bool:
        """Whether the main token ``token`` is semantic and among ``recent``."""
        return self.config.is_semantic(token) and token in recent

    def codes(self, logits: Tensor, codebook: int, states: Sequence[SamplerState]) -> Tensor:
        """Codes [B] (int64) of ``codebook`` (1 and up) from ``logits`` [B, V]."""
        if all(state.is_greedy for state in states):
            return logits.argmax(1)
        ranked = rank_candidates(logits, [_of_codes(state.params) for state in states], keeps_crossing=False)
        drawn = ranked.draw([uniform(s.params.seed, s.step, _CODES + codebook) for s in states])
        return torch.tensor(drawn, device=logits.device)

    def moves(self, logits: Tensor, states: Sequence[SamplerState], allowed: Sequence[Sequence[bool]]) -> list[int]:
        """Pointer moves (classes ``2a + b``) from ``logits`` [B, 4], of those ``allowed`` [B][4] for each sequence.

        Drawn from the whole distribution, because a cut one would lose the rarer move and stand still for ever.
        """
        barred = torch.tensor([[0.0 if may else -torch.inf for may in row] for row in allowed], device=logits.device)
        logits = logits.float() + barred
        ranked = rank_candidates(logits, [_WHOLE] * len(states), keeps_crossing=True)
        drawn = ranked.draw([uniform(s.params.seed, s.step, _POINTER) for s in states])
        best = logits.argmax(1).tolist()
        return [best[b] if state.is_greedy else drawn[b] for b, state in enumerate(states)]

    def _token(self, candidate: int) -> int:
        is_end = candidate == self.config.codebook_size
        return self.config.eos_token_id if is_end else self.config.semantic_start_token_id + candidate


F = TypeVar("F")


class TrailingClick(Generic[F]):
    """Holds back a frame of semantic code 0 for one step: right before the end of a turn it would click.

    Frames go in with ``push`` and come out in order; ``end`` drops the held one, ``stop`` (the frame limit) gives it.
    """

    def __init__(self) -> None:
        self._held: list[F] = []

    def push(self, frame: F, semantic_code: int) -> list[F]:
        """Frames to be heard now that ``frame`` was made."""
        ready, self._held = self._held, []
        if semantic_code == 0:
            self._held = [frame]
            return ready
        return [*ready, frame]

    def copy(self) -> "TrailingClick[F]":
        """An independent copy."""
        twin = TrailingClick[F]()
        twin._held = [*self._held]
        return twin

    def end(self) -> None:
        """The turn has ended: a held frame is dropped."""
        self._held = []

    def stop(self) -> list[F]:
        """Frames still to be heard when generation stops without an end."""
        ready, self._held = self._held, []
        return ready
