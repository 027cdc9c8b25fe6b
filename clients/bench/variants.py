"""A model in one precision, as ``footlights quality`` compares them, and what it keeps of each take of it."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from clients.bench.judges import IDENTITY as JUDGES
from clients.bench.speakers import IDENTITY as SPEAKERS
from clients.bench.store import Reading

if TYPE_CHECKING:
    import torch

    from clients.bench.closeness import Closeness
    from clients.bench.quality import Quality
    from clients.bench.spread import Estimate
    from clients.bench.takes import Take
    from engine.engine import Engine


@dataclass(frozen=True)
class Sounded:
    """One take that a model has read itself. A ``Record`` of the store."""

    CURRENT: ClassVar[str] = f"{JUDGES}/{SPEAKERS}"

    identity: str
    judges: str
    voice: str
    seed: int
    text: str
    cpu_ms: float | None
    """Processor time for each frame; None: there was none."""
    is_silent: bool
    verdict: Mapping[str, Any] | None
    """A ``Reading``; None: there were no judges."""
    speaker: Sequence[float] | None
    """Where the voice lies among speakers; None: there was nobody to tell, or nothing to hear."""

    @property
    def reading(self) -> Reading | None:
        """The verdict."""
        return None if self.verdict is None else Reading(**self.verdict)

    def suffices(self, *, has_judges: bool, has_speakers: bool) -> bool:
        """Whether it says all that the judges that are there could say."""
        is_judged = self.verdict is not None or not has_judges
        return is_judged and (self.speaker is not None or self.is_silent or not has_speakers)


@dataclass(frozen=True)
class Compared:
    """How a model's predictions differ from the original's over one take of the original. A ``Record`` of the store."""

    CURRENT: ClassVar[str] = "sums-1"

    identity: str
    judges: str
    voice: str
    seed: int
    text: str
    differences: Mapping[str, Sequence[float]]
    """See ``closeness.Differences``."""


@dataclass
class Variant:
    """One model in one precision; also a ``Reader`` of the bench."""

    name: str
    engine: "Engine"
    weight_bytes: int
    voices: tuple[str, ...]
    folder: str
    """See ``Reader``: of its files and of what it computes in."""
    identity: str
    """See ``Reader``: also of the engine's code."""
    closeness: "Closeness | None" = None
    """None: it is the original."""
    quality: "Quality | None" = None
    wer_above: "Estimate | None" = None
    """WER minus that of the original, sentence by sentence."""
    likeness: "Estimate | None" = None
    """Of its takes to the voices of the original."""
    cpu_ms: list[float] = field(default_factory=list)
    """Processor time for each frame, by sentence."""

    @property
    def about(self) -> str:
        """See ``Reader``."""
        return f"{self.weight_bytes / 1e6:.0f} MB of weights, 1 thread"

    @property
    def median_cpu_ms(self) -> float | None:
        """Of a frame; None if no sentence had one."""
        return statistics.median(self.cpu_ms) if self.cpu_ms else None

    def read(self, text: str, voice: str, seed: int) -> "Take":
        """See ``Reader``."""
        from clients.bench.decode import read_batch

        return read_batch(self.engine, [text], voice, seed)[0]

    def cpu_ms_of(self, take: "Take") -> float | None:
        """Processor time for each frame of a take of it; None: there was none."""
        frames = take.audio_s * 1000 / self.engine.info.frame_ms
        return 1000 * take.cpu_s / frames if frames >= 1 else None

    def as_json(self) -> dict[str, Any]:
        """For the JSON line."""
        return {
            "weight_bytes": self.weight_bytes,
            "cpu_ms_per_frame": self.median_cpu_ms,
            "closeness": self.closeness.as_json() if self.closeness else None,
            "quality": self.quality.as_json() if self.quality else None,
            "wer_above": self.wer_above.as_json() if self.wer_above else None,
            "speaker": self.likeness.as_json() if self.likeness else None,
        }


def open_variant(name: str, folder: Path, dtype: "torch.dtype | None") -> Variant:
    """The model in ``folder``, computing in ``dtype`` (None: as it is made). Raises what loading it raises."""
    from clients.bench.decode import checkpoint_hash, source_hash
    from engine.checkpoint.reader import open_checkpoint
    from engine.engine import Engine
    from engine.loading import load_parts
    from engine.scheduler import Scheduler

    with open_checkpoint(folder) as reader:
        weight_bytes = sum(reader.stored_bytes(tensor) for tensor in reader.names())
    parts = load_parts(folder, dtype=dtype)
    engine = Engine(parts, Scheduler(1, float("inf"), lambda: 0.0))
    as_what = "" if dtype is None else f"-{dtype}".replace("torch.", "")
    files = f"{parts.info.name}-{checkpoint_hash(folder)}{as_what}"
    return Variant(name, engine, weight_bytes, parts.info.voices, files, f"{files}-{source_hash()}")
