"""How close a quantised model stays to the original: what both predict for the same frames, made by the original."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.model.decoder import Decoder
from engine.quant.takes import Recorded


@dataclass(frozen=True)
class Agreement:
    """Of one prediction over N rows: KL divergence from the original in nats, how often both rank the same first."""

    kl: float
    top1: float
    rows: int


@dataclass(frozen=True)
class Closeness:
    """Per prediction: ``main``, ``code 1`` .. ``code C-1`` and, with an aligned stream, ``pointer``."""

    by_head: dict[str, Agreement]

    @property
    def codes(self) -> Agreement:
        """Over all codes of the tower."""
        heads = [agreement for name, agreement in self.by_head.items() if name.startswith("code")]
        return Agreement(_mean([h.kl for h in heads]), _mean([h.top1 for h in heads]), sum(h.rows for h in heads))

    @property
    def worst_code(self) -> str:
        """The code that differs most."""
        codes = {name: agreement.kl for name, agreement in self.by_head.items() if name.startswith("code")}
        return max(codes, key=codes.__getitem__)

    def as_json(self) -> dict[str, Any]:
        """For the JSON line."""
        return {name: vars(agreement) for name, agreement in self.by_head.items()}


Differences = Mapping[str, Sequence[float]]
"""Of one take or many, by prediction: sum of the KL, rows that rank the same first, rows."""
Recall = Callable[[int, int, Callable[[], Differences]], Differences]
"""``recall(other, take, find)``: what an earlier run has found of a model and a take (by number), else ``find()``."""


class Sums:
    """Adds up agreement take by take."""

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = {}

    @property
    def differences(self) -> Differences:
        """Those added so far."""
        return self._sums

    def include(self, differences: Differences) -> None:
        """Add what was summed up elsewhere."""
        for name, values in differences.items():
            sums = self._sums.get(name, [0.0, 0.0, 0.0])
            self._sums[name] = [mine + theirs for mine, theirs in zip(sums, values, strict=True)]

    def add(self, name: str, original: Tensor, other: Tensor) -> None:
        """Logits [N, V] of one take."""
        p, q = (logits.double().log_softmax(-1) for logits in (original, other))
        sums = self._sums.setdefault(name, [0.0, 0.0, 0.0])
        sums[0] += float((p.exp() * (p - q)).sum())
        sums[1] += float((p.argmax(-1) == q.argmax(-1)).sum())
        sums[2] += len(p)

    def closeness(self) -> Closeness:
        """Means so far."""
        return Closeness({name: Agreement(kl / n, same / n, int(n)) for name, (kl, same, n) in self._sums.items()})


def compare(
    original: Decoder,
    others: Sequence[Decoder],
    takes: Sequence[Recorded],
    advance: Callable[[], None] = lambda: None,
    recall: Recall = lambda other, take, find: find(),
) -> list[Closeness]:
    """Closeness of each of ``others``, teacher-forced with the frames of ``takes``."""
    sums = [Sums() for _ in others]
    for number, take in enumerate(takes):
        for which, (total, find) in enumerate(zip(sums, _comparisons(original, others, take), strict=True)):
            total.include(recall(which, number, find))
        advance()
    return [total.closeness() for total in sums]


def _comparisons(original: Decoder, others: Sequence[Decoder], take: Recorded) -> Iterator[Callable[[], Differences]]:
    """For each of ``others``, what finds its differences; the original predicts once, if at all."""

    @cache
    @torch.inference_mode()
    def expected() -> dict[str, Tensor]:
        return dict(predictions(original, take))

    for other in others:

        @torch.inference_mode()
        def find(other: Decoder = other) -> Differences:
            sums = Sums()
            for name, logits in predictions(other, take):
                sums.add(name, expected()[name], logits)
            return sums.differences

        yield find


def predictions(decoder: Decoder, take: Recorded) -> Iterator[tuple[str, Tensor]]:
    """Logits [N, V] of everything that was drawn in ``take``, by name."""
    out = decoder.forward_train(take.rows[None], take.aligned)
    yield "main", out.main[0, take.spoken]
    for i, logits in enumerate(out.codebooks, 1):
        yield f"code {i}", logits[0, take.spoken]
    if out.pointer is not None:
        yield "pointer", out.pointer[0, take.spoken]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
