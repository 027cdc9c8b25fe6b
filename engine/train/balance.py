"""How evenly the experts share the work, measured on speech that was held out.

Axes: L layers, E experts, B sequences, T rows.
"""

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from engine.model.decoder import Decoder
from engine.train.data import Batch


@torch.no_grad()
def expert_shares(decoder: Decoder, batches: Iterable[Batch]) -> NDArray[np.float64]:
    """Share of all choices that fell on each expert, [L, E], over the rows that predict a frame; rows sum to 1."""
    counts: torch.Tensor | None = None
    for batch in batches:
        out = decoder.forward_train(batch.rows, batch.window)
        found = []
        for routing in out.routing:
            chosen = routing.chosen.flatten(0, 1)[batch.at]
            found.append(torch.bincount(chosen.flatten(), minlength=routing.logits.shape[-1]))
        counts = torch.stack(found) if counts is None else counts + torch.stack(found)
    assert counts is not None, "no batch"
    return np.asarray((counts / counts.sum(1, keepdim=True).double()).numpy())


def unevenness(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each layer, [L]: the busiest expert's share over an even one; 1: all work alike."""
    return np.asarray(shares.max(axis=1) * shares.shape[1])
