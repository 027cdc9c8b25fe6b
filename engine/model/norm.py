"""Root-mean-square norm with its gain kept ready to multiply with."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def rms_norm(x: Tensor, gain: Tensor | None, eps: float) -> Tensor:
    """``x * rsqrt(mean(x^2) + eps) * gain`` over the last axis, computed in float32, returned in ``x``'s dtype."""
    if x.dtype != torch.float32:
        return rms_norm(x.float(), gain, eps).to(x.dtype)
    return F.rms_norm(x, (x.shape[-1],), gain, eps)


class RMSNorm(nn.Module):
    """RMS norm over the last axis.

    The files store zero-centred weights; ``gain`` is ``1 + weight`` and always float32, because near 1 bfloat16 has
    steps of 1/128.
    """

    __call__: Callable[..., Tensor]

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Norm of ``x`` [..., dim]."""
        return rms_norm(x, self.gain, self.eps)
