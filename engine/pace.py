"""How long steps take, and what follows from it for those who wait for text."""

import math

RESERVE_S = 0.1
"""Audio a listener should have while its next turn is begun, .."""
RESERVE_STEPS = 4
""".. and the time of so many steps: prompt rows, two frames, and somebody else's turn."""
STEP_WEIGHT = 0.1
"""Of a new step in the running mean of their times."""
BUSY = 0.8
"""Share of real time that steps take from which on nothing is begun on a guess."""


class Pace:
    """Times of steps, each at the batch it had."""

    def __init__(self, frame_ms: float) -> None:
        self._frame_s = frame_ms / 1000
        self.step_s = 0.0
        """Running mean."""

    def note(self, compute_s: float) -> None:
        """A step that served somebody took so long."""
        self.step_s += STEP_WEIGHT * (compute_s - self.step_s)

    @property
    def cost(self) -> float:
        """Seconds that a second of audio takes."""
        return self.step_s / self._frame_s

    def reserve_s(self, utterances: int, fastest: float) -> float:
        """Audio with which a listener's next turn has to be begun; endless when there is no time for guesses.

        ``fastest``: how many times faster than usual the fastest of ``utterances`` is heard.
        """
        is_busy = utterances > 1 and self.cost * fastest > BUSY
        return math.inf if is_busy else RESERVE_S + RESERVE_STEPS * self.step_s
