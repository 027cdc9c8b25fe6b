"""Samples between the network and a sound card, which asks for them from a thread of its own."""

import threading

BYTES_PER_SAMPLE = 2
START_MS = 40
RESUME_MS = 150


class PlayoutBuffer:
    """pcm_s16le, mono. Holds sound back until a little is there, more after it ran dry, so that it does not stutter."""

    def __init__(self, sample_rate: int) -> None:
        self._lock = threading.Lock()
        self._sample_rate = sample_rate
        self._pcm = bytearray()
        self._needed_bytes = self._bytes(START_MS)
        self._is_waiting = True
        self._is_ended = False
        self.played_samples = 0
        """Handed to the sound card."""
        self.dry_count = 0
        """Times it ran dry before `end`."""

    def write(self, pcm: bytes) -> None:
        """Add samples."""
        with self._lock:
            self._pcm += pcm
            self._is_ended = False

    def end(self) -> None:
        """No more is to be waited for; what is there is played to its end."""
        with self._lock:
            self._is_ended = True

    def clear(self) -> None:
        """Drop what was not played."""
        with self._lock:
            self._pcm.clear()
            self._is_ended = True

    def read(self, samples: int) -> bytes:
        """Exactly ``samples`` samples: speech, then silence where there is none."""
        with self._lock:
            if self._is_waiting and not self._is_ended and len(self._pcm) < self._needed_bytes:
                return bytes(samples * BYTES_PER_SAMPLE)
            pcm = bytes(self._pcm[: samples * BYTES_PER_SAMPLE])
            del self._pcm[: len(pcm)]
            self.played_samples += len(pcm) // BYTES_PER_SAMPLE
            is_dry = len(pcm) < samples * BYTES_PER_SAMPLE
            if is_dry and not self._is_ended:
                self.dry_count += 1
                self._needed_bytes = self._bytes(RESUME_MS)
            self._is_waiting = is_dry
            return pcm.ljust(samples * BYTES_PER_SAMPLE, b"\0")

    @property
    def buffered_samples(self) -> int:
        """Waiting to be played."""
        with self._lock:
            return len(self._pcm) // BYTES_PER_SAMPLE

    def _bytes(self, ms: float) -> int:
        return int(self._sample_rate * ms / 1000) * BYTES_PER_SAMPLE
