"""The engine without server and sockets: whole texts, one at a time or several in a batch, every step timed."""

import dataclasses
import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import engine as engine_package
from clients.bench.spread import percentiles
from clients.bench.takes import Take, most_s
from engine.core import AudioChunk, Cancelled, Failed, Finished, Utterance, real_time_factor
from engine.errors import ConfigError

if TYPE_CHECKING:
    from engine.engine import Engine

DEFAULT_MODEL = Path(engine_package.__path__[0]) / "understudy"


class EngineReader:
    """The engine as a `Reader`. ``checkpoint``: see `checkpoint_hash`; ``voices``: some of the model's.

    Raises ``ConfigError`` for a voice it has not.
    """

    def __init__(self, engine: "Engine", checkpoint: str, voices: Sequence[str]) -> None:
        missing = set(voices) - set(engine.info.voices)
        if missing:
            raise ConfigError(f"no voice {', '.join(sorted(missing))}; there are {', '.join(engine.info.voices)}")
        self.engine = engine
        self.name = engine.info.name
        self.folder = f"{engine.info.name}-{checkpoint}-{engine.info.text_stream}"
        self.identity = f"{self.folder}-{source_hash()}"
        self.about = f"{engine.info.text_stream} text stream"
        self.voices = tuple(voices)

    def read(self, text: str, voice: str, seed: int) -> Take:
        """See `Reader`."""
        return read_batch(self.engine, [text], voice, seed)[0]


@dataclass
class _Progress:
    """An utterance that is being read."""

    most_samples: float
    pieces: list[NDArray[np.float32]] = dataclasses.field(default_factory=list)
    samples: int = 0
    failure: str | None = None
    compute_s: float = 0.0
    cpu_s: float = 0.0
    step_ms: list[float] = dataclasses.field(default_factory=list)

    def hear(self, piece: NDArray[np.float32]) -> None:
        """One more chunk."""
        self.pieces.append(piece)
        self.samples += len(piece)


def read_batch(engine: "Engine", texts: Sequence[str], voice: str, seed: int) -> list[Take]:
    """Read ``texts`` at the same time, each to its end. Each take gets its share of the time that was computed.

    An utterance that does not end is aborted (failure ``no_end``). Raises what ``Engine.add`` and ``append_text`` do.
    """
    rate = engine.info.sample_rate
    running: dict[str, _Progress] = {}
    for number, text in enumerate(texts):
        name = f"bench-{number}"
        sampling = dataclasses.replace(engine.runner.sampling, seed=seed + number)
        engine.add(Utterance(name, voice, sampling=sampling))
        running[name] = _Progress(most_s(text) * rate)
    started_s, cpu_started_s = time.perf_counter(), time.process_time()
    for name, text in zip(running, texts, strict=True):
        engine.append_text(name, text)
        engine.finish(name)
    _charge(list(running.values()), started_s, cpu_started_s)
    open_names = set(running)
    while open_names:
        started_s, cpu_started_s = time.perf_counter(), time.process_time()
        events = engine.step()
        _charge([running[name] for name in open_names], started_s, cpu_started_s, is_step=True)
        for event in events:
            progress = running[event.utterance_id]
            match event:
                case AudioChunk(name, _, samples):
                    progress.hear(samples)
                    if progress.samples > progress.most_samples and name in open_names:
                        progress.failure = "no_end"
                        engine.abort(name)
                        open_names.discard(name)
                case Failed(name, code):
                    progress.failure = code
                    open_names.discard(name)
                case Finished(name) | Cancelled(name):
                    open_names.discard(name)
    if engine.has_work():
        engine.step()
    return [
        Take(np.concatenate([*p.pieces, np.zeros(0, np.float32)]), rate, p.compute_s, p.cpu_s, p.failure, p.step_ms)
        for p in running.values()
    ]


def _charge(who: list[_Progress], started_s: float, cpu_started_s: float, is_step: bool = False) -> None:
    wall_s, cpu_s = time.perf_counter() - started_s, time.process_time() - cpu_started_s
    for progress in who:
        progress.compute_s += wall_s / len(who)
        progress.cpu_s += cpu_s / len(who)
        if is_step:
            progress.step_ms.append(1000 * wall_s)


def open_engine(folder: Path, text_stream: str | None = None, max_batch: int = 8) -> "Engine":
    """The engine for a checkpoint folder, on one thread, ahead of time as far as it can. Raises ``FootlightsError``."""
    from engine.engine import load_engine

    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder} is no checkpoint folder: it has no config.json. Give one with --model.")
    return load_engine(folder, text_stream=text_stream, threads=1, max_batch=max_batch, max_lead_s=math.inf)


def checkpoint_hash(folder: Path) -> str:
    """Twelve hex digits that stand for the files of a checkpoint folder."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".md"):
        digest.update(str(path.relative_to(folder)).encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:12]


def source_hash(part: str = ".") -> str:
    """Eight hex digits that stand for the engine's code, or a part of it (``text``), without the recipe."""
    root = Path(engine_package.__path__[0]) / part
    digest = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*.py") if "train" not in path.relative_to(root).parts):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


@dataclass(frozen=True)
class BatchSpeed:
    """Speed of the engine with ``batch`` texts at once."""

    batch: int
    step_ms: list[float]
    frame_ms: float
    rtf: float
    """Compute seconds per second of audio of all texts together; below 1 / batch every stream is real time."""
    rtf_cpu: float

    @property
    def late_share(self) -> float:
        """Share of steps that took longer than the frame they made."""
        return sum(ms > self.frame_ms for ms in self.step_ms) / len(self.step_ms)

    def as_json(self) -> dict[str, object]:
        """For the JSON line."""
        return {
            "streams": self.batch,
            "steps": len(self.step_ms),
            "step_ms": percentiles(self.step_ms, (50, 95, 99)),
            "late_share": self.late_share,
            "rtf": self.rtf,
            "rtf_cpu": self.rtf_cpu,
        }


def batch_speed(engine: "Engine", texts: Sequence[str], batch: int, voice: str, seed: int) -> BatchSpeed:
    """Read ``texts`` in groups of ``batch``. The first steps of a group hold its prompt and count like all others."""
    takes: list[Take] = []
    step_ms: list[float] = []
    for start in range(0, len(texts) - batch + 1, batch):
        group = read_batch(engine, texts[start : start + batch], voice, seed)
        takes += group
        step_ms += max(group, key=lambda take: len(take.step_ms)).step_ms
    audio_s = sum(take.audio_s for take in takes)
    return BatchSpeed(
        batch,
        step_ms,
        engine.info.frame_ms,
        real_time_factor(sum(take.compute_s for take in takes), audio_s),
        real_time_factor(sum(take.cpu_s for take in takes), audio_s),
    )
