"""Root-mean-square norm with its gain kept ready to multiply with."""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from engine.model.linear import Leaf


@lru_cache(maxsize=64)
def _floor(eps: float, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return torch.tensor(eps**0.5, device=device)


def _root_mean_square(x: Tensor, eps: float) -> Tensor:
    """``sqrt(mean(x^2) + eps)`` over the last axis, which is kept; in few passes and few kernels."""
    length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return length.mul_(x.shape[-1] ** -0.5).hypot_(_floor(eps, x.device))


class _RMSNorm(torch.autograd.Function):
    """The norm with a backward pass of its own: autograd's takes four times as long on a CPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor | None, eps: float) -> Tensor:
        inverse = _root_mean_square(x, eps).reciprocal_()
        ctx.save_for_backward(x, gain, inverse)
        out = x * inverse
        return out if gain is None else out.mul_(gain)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        x, gain, inverse = ctx.saved_tensors
        dim = x.shape[-1]
        product = gradient * x
        if gain is None:
            along, of_gain, out = product.sum(-1, keepdim=True), None, gradient * inverse
        else:
            along = torch.matmul(product, gain)[..., None]
            of_gain = torch.matmul(inverse.view(1, -1), product.view(-1, dim))[0]
            out = (gradient * gain).mul_(inverse)
        return out.addcmul_(x, along.mul_(inverse.pow(3)), value=-1 / dim), of_gain, None


def rms_norm(x: Tensor, gain: Tensor | None, eps: float) -> Tensor:
    """``x * rsqrt(mean(x^2) + eps) * gain`` over the last axis, computed in float32, returned in ``x``'s dtype."""
    if x.dtype is not torch.float32:
        return rms_norm(x.float(), gain, eps).to(x.dtype)
    if torch.is_grad_enabled():
        out: Tensor = _RMSNorm.apply(x, gain, eps)  # type: ignore[no-untyped-call]
        return out
    return (x if gain is None else x * gain) / _root_mean_square(x, eps)


class RMSNorm(Leaf):
    """RMS norm over the last axis.

    The files store zero-centred weights; ``gain`` is ``1 + weight`` and always float32, because near 1 bfloat16 has
    steps of 1/128.
    """

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Norm of ``x`` [..., dim]."""
        return rms_norm(x, self.gain, self.eps)
