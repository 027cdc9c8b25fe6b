"""Takes of a reader kept as files: the teacher's are needed again by whatever is measured against them."""

import hashlib
from pathlib import Path

import numpy as np
import soundfile

from clients.bench.takes import Reader, Take


class KeptReader:
    """``reader``, with each take made once and kept in ``folder`` as FLAC; its cost is that of the first time."""

    def __init__(self, reader: Reader, folder: Path) -> None:
        self._reader, self._folder = reader, folder
        self.name, self.about, self.voices = reader.name, reader.about, reader.voices
        self.folder, self.identity = reader.folder, reader.identity

    def read(self, text: str, voice: str, seed: int) -> Take:
        """See `Reader`."""
        key = hashlib.sha256(f"{self.identity} {voice} {seed} {text}".encode()).hexdigest()[:16]
        path = self._folder / f"{voice}-{key}.flac"
        if not path.exists():
            take = self._reader.read(text, voice, seed)
            self._folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            with soundfile.SoundFile(partial, "w", take.sample_rate, 1, "PCM_16", format="FLAC") as file:
                file.comment = f"{take.compute_s} {take.cpu_s} {take.failure or ''}"
                file.write(take.samples)
            partial.rename(path)
        with soundfile.SoundFile(path) as file:
            compute_s, cpu_s, failure = file.comment.split(" ", 2)
            samples = np.asarray(file.read(dtype="float32"), np.float32)
            return Take(samples, file.samplerate, float(compute_s), float(cpu_s), failure or None)
