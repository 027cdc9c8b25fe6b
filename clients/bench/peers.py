"""Other voices on the same sentences and the same machine, one thread each."""

import hashlib
import importlib
import importlib.metadata
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clients.bench.assets import KOKORO, PIPER, MissingError, require
from clients.bench.decode import source_hash
from clients.bench.takes import Reader, Take
from engine.text.phonemes import phonemise_sentence
from engine.train.recipe import TEACHER_STYLES, VOICES

if TYPE_CHECKING:
    from engine.train.teacher import Teacher

TEACHER_VOICE = dict(zip(VOICES, TEACHER_STYLES, strict=True))
TEACHER_NAME = "Kokoro-82M"


class KokoroReader:
    """The teacher, with our phonemes: what the understudy was trained to imitate. Raises ``MissingError``."""

    name = TEACHER_NAME
    about = "ONNX int8, our phonemes, 1 thread"

    def __init__(self, voices: Sequence[str]) -> None:
        folder = require(KOKORO) / "kokoro"
        self.voices = tuple(voice for voice in voices if voice in TEACHER_VOICE)
        self.folder = f"{self.name}-{_file_hash(folder / 'kokoro.onnx')}"
        self.identity = f"{self.folder}-{source_hash('text')}"
        self._teacher: Teacher = importlib.import_module("engine.train.teacher").Teacher(folder / "kokoro.onnx", folder)
        self._symbols: frozenset[str] = frozenset(importlib.import_module("engine.train.teacher").TEACHER_IDS)

    def read(self, text: str, voice: str, seed: int) -> Take:
        """See `Reader`. ``text`` has no figures; the seed does nothing."""
        started_s, cpu_started_s = time.perf_counter(), time.process_time()
        phonemes = "".join(symbol for symbol in phonemise_sentence(text) if symbol in self._symbols)
        samples, _ = self._teacher.speak(phonemes, TEACHER_VOICE[voice])
        return Take(
            np.asarray(samples, np.float32).reshape(-1),
            24_000,
            time.perf_counter() - started_s,
            time.process_time() - cpu_started_s,
        )


class PiperReader:
    """Piper with its own phonemes and defaults. Raises ``MissingError``."""

    name = "Piper"
    about = "en_US-joe-medium, ONNX float32, its own phonemes, 1 thread"
    voices = ("joe",)

    def __init__(self) -> None:
        model = require(PIPER) / "piper" / "en_US-joe-medium.onnx"
        self.folder = f"{self.name}-{_file_hash(model)}"
        self.identity = f"{self.folder}-{importlib.metadata.version('piper-tts')}"
        self._voice: Any = importlib.import_module("piper").PiperVoice.load(model)
        self._voice.session = _one_thread_session(model)

    def read(self, text: str, voice: str, seed: int) -> Take:
        """See `Reader`. It draws noise that cannot be seeded."""
        started_s, cpu_started_s = time.perf_counter(), time.process_time()
        chunks = list(self._voice.synthesize(text))
        samples = np.concatenate([chunk.audio_float_array for chunk in chunks]).astype(np.float32)
        return Take(
            samples, chunks[0].sample_rate, time.perf_counter() - started_s, time.process_time() - cpu_started_s
        )


def open_peers(voices: Sequence[str]) -> tuple[list[Reader], list[str]]:
    """The peers that are installed, and for each other one how to install it."""
    readers: list[Reader] = []
    absent: list[str] = []
    for make in (lambda: KokoroReader(voices), PiperReader):
        try:
            readers.append(make())
        except MissingError as error:
            absent.append(str(error))
    return readers, absent


def _one_thread_session(model: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]
