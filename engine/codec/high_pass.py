"""A second-order high-pass filter over whole frames, as a few products of small matrices.

A recursion sample by sample is slow without a compiler. So a frame is cut into blocks: what a block answers to its own
samples, and what to the state it starts with, are both linear; the states of all blocks follow from those of the frame.

Axes: B sequences, N blocks of a frame, L samples of a block.
"""

import math

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


class HighPass:
    """Butterworth filter of second order. Its state is that of the transposed direct form II: [B, 2] float64."""

    def __init__(self, cutoff_hz: float, sample_rate_hz: int, frame: int, block: int = 60) -> None:
        k = math.tan(math.pi * cutoff_hz / sample_rate_hz)
        scale = 1 / (1 + math.sqrt(2) * k + k * k)
        a1, a2 = 2 * (k * k - 1) * scale, (1 - math.sqrt(2) * k + k * k) * scale
        # y = b0 x + z[0];  z' = step z + gain x
        step, gain = np.array([[-a1, 1], [-a2, 0]]), np.array([-2 - a1, 1 - a2]) * scale
        powers = [np.linalg.matrix_power(step, n) for n in range(block + 1)]
        self._block, self._blocks = block, frame // block
        assert self._blocks * block == frame, (frame, block)
        answer = np.array([scale, *(power[0] @ gain for power in powers[: block - 1])])
        offset = np.arange(block)[None] - np.arange(block)[:, None]
        self._answer = np.where(offset >= 0, answer[offset], 0.0)
        """[L, L]: a block's samples to its output from rest."""
        self._left_over = np.stack([power @ gain for power in powers[block - 1 :: -1]])
        """[L, 2]: a block's samples to the state they leave."""
        self._echo = np.stack([power[0] for power in powers[:block]], 1)
        """[2, L]: the state a block starts with to its output."""
        self._states = self._all_states(powers[block].T)

    def _all_states(self, over: Doubles) -> Doubles:
        """[2 + 2 N, 2 (N + 1)]: a frame's state and what its blocks leave to the state before each block and after all.

        ``over`` [2, 2] takes a state over a block.
        """
        count = self._blocks + 1
        powers = [np.linalg.matrix_power(over, n) for n in range(count)]
        out = np.zeros((count, 2, count, 2))
        for given in range(count):
            for wanted in range(given, count):
                out[given, :, wanted] = powers[wanted - given]
        return out.reshape(2 * count, 2 * count)

    def __call__(self, x: Doubles, state: Doubles) -> Doubles:
        """``x`` [B, N * L] filtered; ``state`` [B, 2] moves on in place."""
        blocks = x.reshape(-1, self._blocks, self._block)
        left_over = (blocks @ self._left_over).reshape(len(x), -1)
        states = (np.concatenate((state, left_over), 1) @ self._states).reshape(len(x), -1, 2)
        state[:] = states[:, -1]
        out: Doubles = (blocks @ self._answer + states[:, :-1] @ self._echo).reshape(x.shape)
        return out
