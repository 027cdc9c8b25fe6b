"""Turns spoken before as the rows of a renewed context: between the voice's own and the next turn.

Axes: T rows, C codebooks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.prompt import PromptBuilder
from engine.streams.base import SpokenTurn, Window


@dataclass(frozen=True)
class Recalled:
    """Rows [T, 1 + C] of turns that were spoken, and the window beside each of them (None: it has none)."""

    rows: Tensor
    windows: tuple[Window | None, ...]

    @classmethod
    def of(cls, turn: SpokenTurn, builder: PromptBuilder, tag: str = "") -> "Recalled":
        """One turn; ``tag`` goes before its text."""
        rows = builder.history(tag + turn.text, torch.tensor(turn.codes).t())
        # Rows of the question come first; its last one is that which the first frame was made from.
        before = len(builder.turn_ids(tag + turn.text)) - 1
        after = len(rows) - before - len(turn.windows)
        return cls(rows, (*[None] * before, *turn.windows, *[None] * after))

    @classmethod
    def joined(cls, turns: "Sequence[Recalled]") -> "Recalled | None":
        """Turns one after the other; None for none."""
        if not turns:
            return None
        return cls(torch.cat([turn.rows for turn in turns]), tuple(w for turn in turns for w in turn.windows))


def fitting(turns: Sequence[Recalled], most_rows: int) -> list[Recalled]:
    """Those of ``turns`` that have ``most_rows`` together: the first one, which holds the voice, before the last."""
    kept = list[Recalled]()
    for turn in turns:
        if sum(len(each.rows) for each in (*kept, turn)) <= most_rows:
            kept.append(turn)
    return kept
