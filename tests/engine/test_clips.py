"""Recordings to samples: formats, limits, and files made to hurt."""

import io
import os
import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from engine.errors import ClipError
from engine.voices import clip_process
from engine.voices.clip_process import read_clip_apart
from engine.voices.clips import (
    LEAST_RATE_HZ,
    MOST_BYTES,
    MOST_S,
    check_sound,
    clipped_share,
    loudest_dbfs,
    read_clip,
)

RATE = 44_100


def tone(seconds: float, rate: int = RATE, level: float = 0.3, hertz: float = 220.0) -> NDArray[np.float32]:
    samples: NDArray[np.float32] = (level * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)).astype(
        np.float32
    )
    return samples


def stored(samples: NDArray[Any], rate: int = RATE, file_format: str = "WAV", subtype: str | None = None) -> bytes:
    buffer = io.BytesIO()
    channels = samples.shape[1] if samples.ndim > 1 else 1
    with soundfile.SoundFile(buffer, "w", rate, channels, subtype, format=file_format) as file:
        # In pieces: the library overflows its stack on minutes of Vorbis at once.
        for start in range(0, len(samples), rate):
            file.write(samples[start : start + rate])
    return buffer.getvalue()


def claiming(nbytes: int) -> bytes:
    """A recording of 2 s whose header claims so many bytes of sound."""
    data = bytearray(stored(tone(2), subtype="PCM_16"))
    place = data.index(b"data") + 4
    data[4:8] = struct.pack("<I", min(nbytes + 36, 2**32 - 1))
    data[place : place + 4] = struct.pack("<I", nbytes)
    return bytes(data)


class TestReading:
    @pytest.mark.parametrize(
        ("file_format", "subtype", "tolerance"),
        [
            ("WAV", "PCM_16", 1e-4),
            ("WAV", "FLOAT", 1e-6),
            ("WAVEX", "PCM_24", 1e-6),
            ("FLAC", "PCM_16", 1e-4),
            ("OGG", "VORBIS", 0.05),
            ("MP3", None, 0.05),
        ],
    )
    def test_formats(self, file_format: str, subtype: str | None, tolerance: float) -> None:
        samples = tone(2)
        clip = read_clip(stored(samples, file_format=file_format, subtype=subtype), RATE)
        assert clip.sample_rate == clip.source_rate == RATE
        assert clip.samples.dtype == np.float32
        assert abs(len(clip.samples) - len(samples)) <= 2304
        middle = slice(RATE // 2, RATE)
        if len(clip.samples) == len(samples):
            assert np.abs(clip.samples[middle] - samples[middle]).max() < tolerance
        assert abs(loudest_dbfs(clip.samples, RATE) - 20 * np.log10(0.3)) < 0.3

    @pytest.mark.parametrize("rate", [LEAST_RATE_HZ, 16_000, 22_050, 48_000, 96_000])
    def test_any_rate_becomes_the_codecs(self, rate: int) -> None:
        clip = read_clip(stored(tone(2, rate), rate), RATE)
        assert (clip.sample_rate, clip.source_rate) == (RATE, rate)
        assert abs(clip.duration_s - 2) < 0.001
        spectrum = np.abs(np.fft.rfft(clip.samples * np.hanning(len(clip.samples))))
        assert abs(np.argmax(spectrum) / clip.duration_s - 220) < 1

    def test_a_telephones_rate_is_noted(self) -> None:
        (note,) = read_clip(stored(tone(2, 8_000), 8_000), RATE).notes
        assert "8000 Hz" in note
        assert read_clip(stored(tone(2)), RATE).notes == ()

    def test_stereo_is_the_mean(self) -> None:
        left, right = tone(1, hertz=220), tone(1, hertz=330)
        clip = read_clip(stored(np.stack((left, right), 1), subtype="FLOAT"), RATE)
        assert np.allclose(clip.samples, (left + right) / 2, atol=1e-6)

    def test_the_shortest_and_the_longest(self) -> None:
        assert read_clip(stored(tone(1)), RATE).duration_s == 1
        assert read_clip(stored(tone(MOST_S, 8_000), 8_000), 8_000).duration_s == MOST_S


REFUSED = {
    "no bytes": (b"", "empty"),
    "no samples": (stored(tone(0)), "empty; it must be 1 to 60 s"),
    "short": (stored(tone(0.5)), "0.50 s long; it must be 1 to 60 s"),
    "long": (stored(tone(61, 8_000), 8_000), "longer than 60 s"),
    "ten minutes": (stored(tone(600, 8_000), 8_000, "OGG"), "longer than 60 s"),
    "silent": (stored(np.zeros(2 * RATE, np.float32)), r"silent.*-45 are the least"),
    "quiet": (stored(tone(2, level=0.002)), "silent"),
    "an offset alone": (stored(np.full(2 * RATE, 0.5, np.float32)), "silent"),
    "clipped": (stored(np.clip(tone(2, level=3.0), -1, 1)), r"clipped.*0.1 % are the most"),
    "louder than full scale": (stored(tone(2, level=2.0), subtype="FLOAT"), "clipped"),
    "NaN": (stored(np.where(np.arange(2 * RATE) == RATE, np.nan, tone(2)), subtype="FLOAT"), "no numbers"),
    "infinite": (stored(np.where(np.arange(2 * RATE) == RATE, np.inf, tone(2)), subtype="FLOAT"), "no numbers"),
    "4 kHz": (stored(tone(2, 4_000), 4_000), "8000 to 192000 Hz; this has 4000"),
    "many channels": (stored(np.tile(tone(1)[:, None], (1, 9))), "8 channels at most; this has 9"),
    "a video": (b"\0\0\0\x20ftypisom" + bytes(4096), "a video"),
    "a WebM": (b"\x1aE\xdf\xa3" + bytes(4096), "WebM"),
    "an AVI": (b"RIFF\x10\0\0\0AVI LIST" + bytes(4096), "AVI"),
    "an AIFF": (stored(tone(1), file_format="AIFF"), "AIFF"),
    "text": (b"hello " * 100, "something else"),
    "a WAV without content": (b"RIFF\x24\0\0\0WAVE" + bytes(100), "cannot be read"),
    "a truncated header": (stored(tone(1))[:20], "cut off: its header claims"),
    "nothing but an MP3's tag": (b"ID3" + bytes(1000), "cannot be read|empty"),
    "a FLAC of noise": (b"fLaC" + np.random.default_rng(0).bytes(20_000), "cannot be read|empty"),
    "an Ogg of noise": (b"OggS" + np.random.default_rng(0).bytes(20_000), "cannot be read|empty"),
}


class TestRefusals:
    @pytest.mark.parametrize("case", REFUSED, ids=str)
    def test_bad_recordings(self, case: str) -> None:
        data, says = REFUSED[case]
        with pytest.raises(ClipError, match=says) as caught:
            read_clip(data, RATE)
        assert caught.value.code == "bad_clip"

    def test_too_many_bytes(self) -> None:
        with pytest.raises(ClipError, match=str(MOST_BYTES)):
            read_clip(bytes(MOST_BYTES + 1), RATE)

    def test_a_header_that_claims_a_gigabyte(self) -> None:
        with pytest.raises(ClipError, match="cut off: its header claims 1073741868 bytes, and it has"):
            read_clip(claiming(2**30), RATE)

    @pytest.mark.parametrize("nbytes", [2**30, 2 * 2 * RATE + 1000])
    def test_sound_that_claims_more_than_the_file(self, nbytes: int) -> None:
        """As a program leaves it that mends the size of the file alone."""
        data = bytearray(claiming(nbytes))
        data[4:8] = struct.pack("<I", len(data) - 8)
        with pytest.raises(ClipError, match=f"cut off: its header claims {nbytes + 44} bytes, and it has"):
            read_clip(bytes(data), RATE)

    @pytest.mark.parametrize("file_format", ["WAV", "FLAC", "OGG", "MP3"])
    @pytest.mark.parametrize("share", [0.6, 0.9])
    def test_a_file_that_was_cut_off(self, file_format: str, share: float) -> None:
        """A voice would be made of the wrong words: the transcript has them all."""
        data = stored(tone(4), file_format=file_format)
        assert abs(read_clip(data, RATE).duration_s - 4) < 0.1
        with pytest.raises(ClipError, match="cut off|cannot be read"):
            read_clip(data[: int(share * len(data))], RATE)

    @pytest.mark.parametrize("claimed", [2**31 - 2**16, 2**32 - 1])
    def test_a_header_of_a_program_that_did_not_know_the_size(self, claimed: int) -> None:
        """What is there is read, what is claimed is not allocated."""
        assert abs(read_clip(claiming(claimed), RATE).duration_s - 2) < 0.01

    def test_a_claim_of_many_channels_and_a_high_rate(self) -> None:
        data = bytearray(stored(tone(2), subtype="PCM_16"))
        place = data.index(b"fmt ") + 8
        data[place + 2 : place + 8] = struct.pack("<HI", 1000, 2**31 - 1)
        with pytest.raises(ClipError):
            read_clip(bytes(data), RATE)

    def test_a_peak_now_and_then_is_no_clipping(self) -> None:
        samples = tone(2)
        samples[1000:1010] = 1.0
        assert 0 < clipped_share(samples) < 0.001
        check_sound(samples, RATE)


class TestApart:
    def test_the_samples_are_the_same(self) -> None:
        data = stored(tone(2, 48_000), 48_000)
        here, apart = read_clip(data, RATE), read_clip_apart(data, RATE)
        assert np.array_equal(here.samples, apart.samples)
        assert apart.source_rate == 48_000

    def test_errors_come_back(self) -> None:
        with pytest.raises(ClipError, match="silent"):
            read_clip_apart(REFUSED["silent"][0], RATE)

    def test_a_decoder_that_crashes_costs_the_recording_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "executable", "/bin/false")
        with pytest.raises(ClipError, match="gave up"):
            read_clip_apart(stored(tone(1)), RATE)

    def test_a_decoder_that_hangs_is_ended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def hang(*arguments: Any, **options: Any) -> None:
            raise subprocess.TimeoutExpired("decoder", options["timeout"])

        monkeypatch.setattr(subprocess, "run", hang)
        with pytest.raises(ClipError, match="within 30 s"):
            read_clip_apart(stored(tone(1)), RATE)

    def test_it_knows_no_secrets_and_has_little_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FOOTLIGHTS_API_KEY", "open-sesame")
        seen: dict[str, Any] = {}
        run = subprocess.run

        def watch(*arguments: Any, **options: Any) -> Any:
            seen.update(options)
            return run(*arguments, **options)

        monkeypatch.setattr(subprocess, "run", watch)
        read_clip_apart(stored(tone(1)), RATE)
        assert "open-sesame" not in seen["env"].values()
        code = f"import {clip_process.__name__} as m; m._limit_self(); bytearray(3 * 1024**3)"
        done = run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False)
        assert "MemoryError" in done.stderr

    def test_it_imports_no_model(self) -> None:
        code = f"import sys, {clip_process.__name__}; print('torch' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "False"
