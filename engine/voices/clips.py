"""A recording to take a voice from: bytes of a file to samples, or an error that names the limit.

Whatever a file's header claims, no more is read than a recording may hold, and only four formats get as far as the
library. Bytes of strangers are read in a process of its own (``engine/voices/clip_process.py``).

Axes: N samples, K channels.
"""

import io
from dataclasses import dataclass

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from engine.errors import ClipError

Samples = NDArray[np.float32]

MOST_BYTES = 32 * 1024 * 1024
"""Of a file: a minute of stereo at 48 kHz in 32-bit floats fits."""
LEAST_S, MOST_S = 1.0, 60.0
LEAST_RATE_HZ, MOST_RATE_HZ = 8_000, 192_000
MOST_CHANNELS = 8
DULL_RATE_HZ = 16_000
"""Below this a voice is made, but it will sound like a telephone."""

SILENT_DBFS = -45.0
"""A recording whose loudest ``LEVEL_MS`` are below this is silence or noise."""
LEVEL_MS = 400
FULL_SCALE = 0.9995
CLIPPED_RUN = 3
"""Samples at full scale in a row that a limiter or converter has cut off."""
MOST_CLIPPED = 0.001
"""Share of samples in such runs from which on a recording is distorted."""

UNKNOWN_BYTES = 0x7FFF_0000
"""From here on the size in a WAV's header means that whoever wrote it did not know it, as when it came from a pipe."""

FORMATS = ("WAV", "FLAC", "MP3", "OGG")
_BLOCK = 65_536
_SLACK_BYTES = 256
_SLACK_S = 0.1
"""Of an MP3: encoders count padding in one way or another."""
_MP3_LENGTHS = (b"Xing", b"Info")
"""Marks of a first frame that tells the length; of other files it is estimated."""
_OTHERS = (
    (4, b"ftyp", "a video or MP4/M4A file"),
    (0, b"\x1aE\xdf\xa3", "a Matroska or WebM file"),
    (8, b"AVI ", "an AVI video"),
    (0, b"FORM", "an AIFF file"),
    (0, b"\x30\x26\xb2\x75", "a Windows Media file"),
    (0, b"PK\x03\x04", "a ZIP archive"),
    (0, b"%PDF", "a PDF"),
    (0, b"\x89PNG", "a picture"),
    (0, b"\xff\xd8\xff", "a picture"),
)


@dataclass(frozen=True)
class Clip:
    """A recording, mono, at the rate that was asked for."""

    samples: Samples
    sample_rate: int
    source_rate: int
    """Samples per second in the file."""

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return len(self.samples) / self.sample_rate

    @property
    def notes(self) -> tuple[str, ...]:
        """What is allowed but will be heard."""
        if self.source_rate < DULL_RATE_HZ:
            return (f"the recording has {self.source_rate} Hz: the voice will sound as muffled as it is",)
        return ()


def read_clip(data: bytes, sample_rate: int) -> Clip:
    """The recording in ``data`` as mono samples at ``sample_rate``. Raises ``ClipError``."""
    _check_format(data)
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            rate, channels, name = int(file.samplerate), int(file.channels), str(file.format)
            if not any(name.startswith(known) for known in FORMATS):
                raise ClipError(f"a recording must be {_formats()}; this is {name}")
            if not LEAST_RATE_HZ <= rate <= MOST_RATE_HZ:
                raise ClipError(f"a recording must have {LEAST_RATE_HZ} to {MOST_RATE_HZ} Hz; this has {rate}")
            if channels > MOST_CHANNELS:
                raise ClipError(f"a recording may have {MOST_CHANNELS} channels at most; this has {channels}")
            samples = _read_mono(file, rate)
            told_s = file.frames / rate if name != "MP3" or any(mark in data for mark in _MP3_LENGTHS) else 0.0
            if (read_s := len(samples) / rate) + _SLACK_S < told_s:
                raise ClipError(f"the recording is cut off: its header tells of {told_s:.1f} s, it has {read_s:.1f} s")
    except (soundfile.LibsndfileError, RuntimeError, ValueError) as error:
        raise ClipError(f"the recording cannot be read as {_formats()}: {error}") from error
    check_sound(samples, rate)
    if rate != sample_rate:
        samples = soxr.resample(samples, rate, sample_rate, quality="VHQ")
    return Clip(np.clip(samples, -1, 1).astype(np.float32), sample_rate, rate)


def check_sound(samples: Samples, sample_rate: int) -> None:
    """Raise ``ClipError`` for samples [N] that are too short, silent, clipped or no numbers."""
    duration_s = len(samples) / sample_rate
    if not len(samples):
        raise ClipError(f"the recording is empty; it must be {LEAST_S:g} to {MOST_S:g} s long")
    if not np.isfinite(samples).all():
        raise ClipError("the recording has samples that are no numbers (NaN or infinite)")
    if duration_s < LEAST_S:
        raise ClipError(f"the recording is {duration_s:.2f} s long; it must be {LEAST_S:g} to {MOST_S:g} s")
    if (level := loudest_dbfs(samples, sample_rate)) < SILENT_DBFS:
        raise ClipError(
            f"the recording is silent: its loudest part has {level:.0f} dBFS, {SILENT_DBFS:.0f} are the least"
        )
    if (share := clipped_share(samples)) > MOST_CLIPPED:
        raise ClipError(
            f"the recording is clipped: {100 * share:.1f} % of its samples are cut off at full scale, "
            f"{100 * MOST_CLIPPED:g} % are the most; record it at a lower level"
        )


def loudest_dbfs(samples: Samples, sample_rate: int) -> float:
    """RMS level of the loudest ``LEVEL_MS``, without its offset, in dB below a sine of full scale."""
    length = max(1, min(len(samples), sample_rate * LEVEL_MS // 1000))
    sound = samples.astype(np.float64) - samples.mean(dtype=np.float64)
    power = np.concatenate(([0.0], np.cumsum(sound**2)))
    loudest = float((power[length:] - power[:-length]).max()) / length
    return float(10 * np.log10(max(2 * loudest, 1e-20)))


def clipped_share(samples: Samples) -> float:
    """Share of samples that lie in runs of ``CLIPPED_RUN`` or more at full scale."""
    full = np.concatenate(([0], (np.abs(samples) >= FULL_SCALE).astype(np.int8), [0]))
    edges = np.diff(full)
    runs = np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
    return float(runs[runs >= CLIPPED_RUN].sum()) / max(1, len(samples))


def _check_format(data: bytes) -> None:
    if not data:
        raise ClipError(f"the recording is empty; send {_formats()}")
    if len(data) > MOST_BYTES:
        raise ClipError(f"the recording has {len(data)} bytes; {MOST_BYTES} are the most")
    is_wav = data[:4] in (b"RIFF", b"RF64") and data[8:12] == b"WAVE"
    # Some programs count the header, too, or a byte that fills a word.
    if is_wav and len(data) + _SLACK_BYTES < (claimed := _claimed_bytes(data)):
        raise ClipError(f"the recording is cut off: its header claims {claimed} bytes, and it has {len(data)}")
    if data[:4] == b"OggS" and _is_cut_ogg(data):
        raise ClipError("the recording is cut off: its last page is not whole")
    # Of an MP3: a tag, or a frame's eleven set bits and a layer.
    is_mp3 = data[:3] == b"ID3" or (len(data) > 1 and data[0] == 0xFF and data[1] & 0xE0 == 0xE0 and data[1] & 0x06)
    if is_wav or is_mp3 or data[:4] in (b"fLaC", b"OggS"):
        return
    what = next((name for start, mark, name in _OTHERS if data[start : start + len(mark)] == mark), "something else")
    raise ClipError(f"a recording must be {_formats()}, whatever its file is called; this is {what}")


def _claimed_bytes(data: bytes) -> int:
    """Size of a WAV by its header, that of the file or of the sound in it; 0 where it does not know."""
    claims, place = [8 + int.from_bytes(data[4:8], "little")], 12
    while place + 8 <= len(data):
        kind, size = data[place : place + 4], int.from_bytes(data[place + 4 : place + 8], "little")
        place += 8 + size
        if kind == b"data":
            claims.append(place)
            break
        place += size % 2
    return max((claim for claim in claims if claim < UNKNOWN_BYTES), default=0)


def _is_cut_ogg(data: bytes) -> bool:
    """Whether its last page claims more than the file has of it."""
    start = data.rindex(b"OggS")
    if len(data) < (table := start + 27):
        return True
    body = table + data[table - 1]
    return body + sum(data[table:body]) > len(data)


def _read_mono(file: soundfile.SoundFile, rate: int) -> Samples:
    """The channels' mean [N], at most ``MOST_S`` of it."""
    most = int(MOST_S * rate)
    pieces, length = [], 0
    while len(block := file.read(_BLOCK, dtype="float32", always_2d=True)):
        length += len(block)
        if length > most:
            raise ClipError(f"the recording is longer than {MOST_S:g} s; cut out its best part")
        pieces.append(block.mean(1, dtype=np.float32))
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)


def _formats() -> str:
    return ", ".join(FORMATS[:-1]) + f" or {FORMATS[-1]}"
