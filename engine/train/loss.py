"""What the decoder is taught: soft codes, the end of a turn, the pointer, balanced experts.

Targets are soft: a frame's true vector lies between codebook entries, so the few nearest share the target by distance.
It is as if the vector itself were regressed, through a softmax; it needs far less speech than one-hot targets.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.model.decoder import Decoder
from engine.model.moe import load_balance_loss
from engine.train.data import Batch

HISTORY_NOISE = 0.25
"""Share of codes in the history that are replaced by a near one, so that sampled codes are nothing new."""
HISTORY_LOSS = 0.06
"""Share of history rows replaced by another row's codes."""


@dataclass(frozen=True)
class Losses:
    """Mean cross-entropies in nats (``main`` and ``codebooks`` above the entropy of their soft targets)."""

    total: Tensor
    main: float
    codebooks: tuple[float, ...]
    end: float
    pointer: float
    balance: float


def soft_cross_entropy(logits: Tensor, nearest: Tensor, weights: Tensor) -> Tensor:
    """Mean over rows of KL(target || softmax(logits)): ``logits`` [P, V], ``nearest`` and ``weights`` [P, N]."""
    log_probability = F.log_softmax(logits.float(), dim=-1).gather(1, nearest)
    return (weights * (weights.clamp(min=1e-8).log() - log_probability)).sum(1).mean()


def corrupt_history(rows: Tensor, batch: Batch, decoder: Decoder, generator: torch.Generator) -> Tensor:
    """Copy of ``rows`` with some audio codes replaced by near ones and some rows by other frames of the batch."""
    noisy = rows.clone()
    flat = noisy.view(-1, noisy.shape[-1])
    # Row at + 1 holds the frame predicted at row ``at``.
    where = batch.at + 1
    pick = torch.multinomial(batch.weights.flatten(0, 1), 1, generator=generator).view(*batch.weights.shape[:2], 1)
    near = batch.nearest.gather(2, pick)[..., 0]
    swap = torch.rand(near.shape, generator=generator) < HISTORY_NOISE
    codes = torch.where(swap, near, flat[where, 1:])
    lost = torch.rand(len(where), generator=generator) < HISTORY_LOSS
    codes[lost] = codes[torch.randint(len(where), (int(lost.sum()),), generator=generator)]
    flat[where] = torch.cat([decoder.config.semantic_start_token_id + codes[:, :1], codes], 1)
    return noisy


def compute_losses(decoder: Decoder, batch: Batch, generator: torch.Generator | None) -> Losses:
    """Losses of one batch; with a generator the history the decoder sees is corrupted, the targets are not."""
    history = None if generator is None else corrupt_history(batch.rows, batch, decoder, generator)
    out = decoder.forward_train(batch.rows, batch.window, history)
    main = out.main.flatten(0, 1)
    end_logits = main[batch.ends].float()
    end = F.cross_entropy(end_logits, torch.full((len(batch.ends),), end_logits.shape[1] - 1))
    parts = [
        soft_cross_entropy(logits.flatten(0, 1)[batch.at], batch.nearest[:, i], batch.weights[:, i])
        for i, logits in enumerate((out.main, *out.codebooks))
    ]
    assert out.pointer is not None
    pointer = F.cross_entropy(out.pointer.flatten(0, 1)[batch.moves_at].float(), batch.moves)
    spoken = torch.zeros(main.shape[0], dtype=torch.bool)
    spoken[batch.at] = True
    mask = spoken.view(batch.rows.shape[:2])
    balance = torch.stack([load_balance_loss(routing, mask) for routing in out.routing]).mean()
    codebooks = torch.stack(parts[1:])
    total = 2 * parts[0] + codebooks.sum() + 0.1 * end + 2 * pointer + 0.01 * balance
    return Losses(total, parts[0].item(), tuple(codebooks.tolist()), end.item(), pointer.item(), balance.item())
