"""How a take sounds, as a record on disk: whose voice it is, and how it is spoken."""

import base64
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from clients.bench.prosody import Prosody, pitch, prosody
from clients.bench.speakers import SpeakerJudge, Vector
from clients.bench.takes import Reader, Take


@dataclass(frozen=True)
class Sound:
    """Figures of one take; both are None where there was nothing to hear."""

    CURRENT: ClassVar[str] = "resemblyzer-0.1.4/prosody-1"

    reader: str
    identity: str
    judges: str
    voice: str
    seed: int
    text: str
    prosody: dict[str, Any] | None
    """A `Prosody`, as JSON keeps it."""
    speaker: str | None
    """The speaker's vector: float16, base64."""

    @classmethod
    def of(cls, reader: Reader, voice: str, seed: int, text: str, take: Take, judge: SpeakerJudge) -> "Sound":
        """What ``take`` is."""
        figures, speaker = None, None
        if take.samples.any():
            contour = pitch(take.samples, take.sample_rate)
            figures = asdict(prosody(text, take.samples, take.sample_rate, contour))
            vector = judge.embed(take.samples, take.sample_rate)
            speaker = base64.b64encode(vector.astype("<f2").tobytes()).decode()
        return cls(reader.name, reader.identity, cls.CURRENT, voice, seed, text, figures, speaker)

    @property
    def manner(self) -> Prosody | None:
        """How it is spoken."""
        return Prosody(**self.prosody) if self.prosody is not None else None

    @property
    def vector(self) -> Vector | None:
        """Where it lies among speakers, of length 1."""
        if self.speaker is None:
            return None
        vector = np.frombuffer(base64.b64decode(self.speaker), "<f2").astype(np.float32)
        return np.asarray(vector / np.linalg.norm(vector))
