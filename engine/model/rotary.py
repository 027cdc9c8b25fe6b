"""Rotary position embedding as ``x * cos + (x @ turn) * sin``, the same for both pairings of dimensions.

Axes: P positions, D head dimension.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.cache.kv import Span


@dataclass(frozen=True)
class Rotation:
    """Tables for the rows of one block: ``cos``, ``sin`` broadcastable to [B, T, heads, D], and ``turn`` [D, D]."""

    cos: Tensor
    sin: Tensor
    turn: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """Rotate ``x`` [B, T, heads, D]."""
        turned = torch.matmul(x, self.turn)
        return torch.addcmul(x * self.cos, turned, self.sin).to(x.dtype)


class Rotary:
    """Grown-on-demand tables of one geometry.

    Pairs are ``(j, j + rotary_dim / 2)``, or ``(2j, 2j + 1)`` when interleaved; pair j turns by
    ``position * base^(-2j / rotary_dim)``. Dimensions from ``rotary_dim`` on pass unchanged (cos 1, sin 0).
    Tables are made on the CPU whatever the default device is: computing on torch's ``meta`` would load 150 MB of
    Python into every process that makes a decoder without numbers.
    """

    def __init__(self, head_dim: int, rotary_dim: int, base: float, is_interleaved: bool) -> None:
        if is_interleaved:
            first, second = (torch.arange(start, rotary_dim, 2, device="cpu") for start in (0, 1))
        else:
            first, second = torch.arange(rotary_dim, device="cpu").chunk(2)
        self._first, self._second = first, second
        steps = torch.arange(0, rotary_dim, 2, dtype=torch.float32, device="cpu")
        self._frequencies = 1.0 / base ** (steps / rotary_dim)
        # (x @ turn)[first] = -x[second], (x @ turn)[second] = x[first].
        self._turn = torch.zeros(head_dim, head_dim, device="cpu")
        self._turn[second, first] = -1.0
        self._turn[first, second] = 1.0
        self._cos = torch.empty(0, head_dim, device="cpu")
        self._sin = torch.empty(0, head_dim, device="cpu")

    def _grow(self, positions: int, device: torch.device) -> None:
        if positions <= self._cos.shape[0] and device == self._cos.device:
            return
        size = max(positions, 2 * self._cos.shape[0], 512)
        with torch.inference_mode(False):
            angles = torch.arange(size, dtype=torch.float32)[:, None] * self._frequencies
            cos, sin = torch.ones(size, self._turn.shape[0]), torch.zeros(size, self._turn.shape[0])
            for index in (self._first, self._second):
                cos[:, index], sin[:, index] = angles.cos(), angles.sin()
            # The cosines last, since their size is what is asked for: a voice may be read in another thread meanwhile.
            self._sin, self._turn = sin.to(device), self._turn.to(device)
            self._cos = cos.to(device)

    def tables(self, positions: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the first ``positions``, each [P, D], on the CPU."""
        self._grow(positions, torch.device("cpu"))
        return self._cos[:positions], self._sin[:positions]

    def turned(self, x: Tensor) -> Tensor:
        """What the sines multiply, of the dimensions that rotate: ``x`` [..., D] -> [..., rotary_dim]."""
        return torch.matmul(x, self._turn)[..., : 2 * len(self._first)]

    def rows(self, count: int, span: Span | None, device: torch.device) -> Rotation:
        """Tables for a block of ``count`` rows: those of ``span``, or positions from 0 when there is no memory."""
        if span is None or span.is_uniform:
            start = 0 if span is None else span.start
            self._grow(start + count, device)
            return Rotation(self._cos[start : start + count, None], self._sin[start : start + count, None], self._turn)
        assert span.positions is not None
        self._grow(span.end + count, device)
        return Rotation(self._cos[span.positions][:, :, None], self._sin[span.positions][:, :, None], self._turn)
