"""When the audio of a context is heard, silences included."""

from bisect import bisect

EDGE_MS = 20.0
"""A word that begins or ends this close to a silence touches it: times are rounded, and a server keeps the last few
ms of speech back, in case that more follows."""


class Timeline:
    """Maps ms of a context's audio to ms since the start of listening."""

    def __init__(self) -> None:
        self._at_ms = [0.0]
        self._behind_ms = [0.0]

    @property
    def behind_ms(self) -> float:
        """How much later than its place in the context the last audio is heard."""
        return self._behind_ms[-1]

    def place(self, at_ms: float, behind_ms: float) -> None:
        """The audio from ``at_ms`` on is heard that much later; what was placed from there on is void."""
        while self._at_ms and self._at_ms[-1] >= at_ms:
            self._at_ms.pop()
            self._behind_ms.pop()
        self._at_ms.append(at_ms)
        self._behind_ms.append(behind_ms)

    def start_ms(self, audio_ms: float) -> float:
        """When what begins there is heard: after a silence at that place."""
        return audio_ms + self._behind(audio_ms + EDGE_MS)

    def end_ms(self, audio_ms: float) -> float:
        """When what ends there has been heard: before a silence at that place."""
        return audio_ms + self._behind(audio_ms - EDGE_MS)

    def _behind(self, audio_ms: float) -> float:
        return self._behind_ms[max(0, bisect(self._at_ms, audio_ms) - 1)]
