"""Where the sound goes: speakers, a WAV file, or raw samples on a stream. All take pcm_s16le, mono."""

import asyncio
import sys
import wave
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from clients.commands.playout import PlayoutBuffer

BYTES_PER_SAMPLE = 2
MAX_QUEUED_S = 30.0
POLL_S = 0.02


class NoSpeakersError(Exception):
    """There is no way to play sound here; the message says why."""


class Sink(Protocol):
    """What `say` needs of an output."""

    is_live: bool
    """It takes as long as it sounds."""

    @property
    def played_ms(self) -> float:
        """How much has been heard, or written."""

    @property
    def buffered_ms(self) -> float:
        """How much waits to be heard."""

    @property
    def dry_count(self) -> int:
        """How often nothing was there to be heard."""

    async def write(self, pcm: bytes) -> None:
        """Add samples; waits while there are too many."""

    async def drain(self) -> None:
        """Returns when all has been heard, or written."""

    def stop(self) -> None:
        """Drop what was not heard."""

    def close(self) -> None:
        """Let go of the device or file."""


class _Written:
    """What files and streams have in common: written is heard."""

    is_live = False
    buffered_ms = 0.0
    dry_count = 0

    def __init__(self, sample_rate: int) -> None:
        self._sample_rate = sample_rate
        self._samples = 0

    @property
    def played_ms(self) -> float:
        """How much has been written."""
        return 1000 * self._samples / self._sample_rate

    def _count(self, pcm: bytes) -> None:
        self._samples += len(pcm) // BYTES_PER_SAMPLE

    async def drain(self) -> None:
        """Nothing waits."""
        return

    def stop(self) -> None:
        """What is written stays."""
        return


class WavFile(_Written):
    """A WAV file whose header is true after every write, so that an interrupted file plays too.

    What was at ``path`` is replaced when speech comes, not before: a text that is refused costs nobody a file.
    """

    def __init__(self, path: Path, sample_rate: int) -> None:
        super().__init__(sample_rate)
        self._path, self._is_new = path, not path.exists()
        self._file = path.open("wb" if self._is_new else "r+b")
        self._wave: wave.Wave_write | None = None

    async def write(self, pcm: bytes) -> None:
        """Append samples and set the header right."""
        if self._wave is None:
            self._file.truncate(0)
            self._wave = wave.open(self._file, "wb")  # noqa: SIM115 - open as long as the sink
            self._wave.setparams((1, BYTES_PER_SAMPLE, self._sample_rate, 0, "NONE", ""))
        self._wave.writeframes(pcm)
        self._file.flush()
        self._count(pcm)

    def close(self) -> None:
        """Close the file; one that was made for speech that never came is removed."""
        if self._wave is not None:
            self._wave.close()
        self._file.close()
        if self._wave is None and self._is_new:
            self._path.unlink(missing_ok=True)


class RawStream(_Written):
    """Bare samples on a binary stream."""

    def __init__(self, stream: BinaryIO, sample_rate: int) -> None:
        super().__init__(sample_rate)
        self._stream = stream

    async def write(self, pcm: bytes) -> None:
        """Write samples; waits while the reader of the stream is slow."""
        # In a thread: a full pipe blocks, and the connection must stay alive.
        await asyncio.to_thread(self._put, pcm)
        self._count(pcm)

    def _put(self, pcm: bytes) -> None:
        self._stream.write(pcm)
        self._stream.flush()

    def close(self) -> None:
        """Flush the stream, which belongs to others."""
        self._stream.flush()


class Speakers:
    """The default output device."""

    is_live = True

    def __init__(self, sample_rate: int) -> None:
        sounddevice = import_sounddevice()
        self._sample_rate = sample_rate
        self._buffer = PlayoutBuffer(sample_rate)
        try:
            self._stream = sounddevice.RawOutputStream(
                samplerate=sample_rate, channels=1, dtype="int16", latency="low", callback=self._fill
            )
            self._stream.start()
        except sounddevice.PortAudioError as error:
            raise NoSpeakersError(str(error)) from error

    @property
    def played_ms(self) -> float:
        """Handed to the device, less what the device still holds."""
        heard = 1000 * self._buffer.played_samples / self._sample_rate - 1000 * self._stream.latency
        return max(0.0, float(heard))

    @property
    def buffered_ms(self) -> float:
        """Not handed to the device yet."""
        return 1000 * self._buffer.buffered_samples / self._sample_rate

    @property
    def dry_count(self) -> int:
        """How often the device wanted more than there was."""
        return self._buffer.dry_count

    async def write(self, pcm: bytes) -> None:
        """Queue samples; waits while there are more than half a minute."""
        self._buffer.write(pcm)
        while self.buffered_ms > 1000 * MAX_QUEUED_S:  # noqa: ASYNC110 - the device's thread must not wait for us
            await asyncio.sleep(POLL_S)

    async def drain(self) -> None:
        """Returns when the last sample has sounded."""
        self._buffer.end()
        while self._buffer.buffered_samples:  # noqa: ASYNC110 - as in `write`
            await asyncio.sleep(POLL_S)
        await asyncio.sleep(self._stream.latency)

    def stop(self) -> None:
        """Silence, now."""
        self._buffer.clear()

    def close(self) -> None:
        """Give the device back."""
        self._stream.stop()
        self._stream.close()

    def _fill(self, out: Any, samples: int, _time: object, _status: object) -> None:
        out[:] = self._buffer.read(samples)


def open_sink(path: Path | None, sample_rate: int, default: Path) -> Sink:
    """A WAV file at ``path``; without one the speakers, and where there are none a file at ``default``."""
    if path is not None:
        return WavFile(path, sample_rate)
    try:
        return Speakers(sample_rate)
    except NoSpeakersError as error:
        print(f"footlights: no speakers ({error}); writing {default} here instead", file=sys.stderr)
        return WavFile(default, sample_rate)


def import_sounddevice() -> Any:
    """The module, if there is an output device.

    Raises:
        NoSpeakersError: no library or no device.
    """
    try:
        import sounddevice
    except (ImportError, OSError) as error:
        raise NoSpeakersError(f"{error}; on Debian and Ubuntu: apt-get install libportaudio2") from error
    try:
        sounddevice.query_devices(kind="output")
    except (sounddevice.PortAudioError, ValueError) as error:
        raise NoSpeakersError(str(error)) from error
    return sounddevice
