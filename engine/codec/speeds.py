"""How much faster and slower a codec can speak the same frames, at the same pitch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Speeds:
    """A frame at speed s has 1 / s of its usual samples: whole ones in each of its parts of ``hop`` samples."""

    slowest: float
    fastest: float
    hop: int

    def nearest(self, speed: float) -> float:
        """The speed nearest to ``speed`` that can be spoken: times of a frame at it are whole samples."""
        return self.hop / self.samples(speed)

    def samples(self, speed: float) -> int:
        """Samples that ``hop`` samples become."""
        return round(self.hop / min(max(speed, self.slowest), self.fastest))
