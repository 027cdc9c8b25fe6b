"""How well a reader reads: words understood, failed takes, naturalness, length; with spread, beside its peers."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clients.bench.judges import Judges
from clients.bench.spread import Estimate, mean, ratio
from clients.bench.store import Reading, Store
from clients.bench.takes import Reader, Take
from clients.bench.words import word_errors
from engine.core import real_time_factor

WORST = 5
Keep = Callable[[Reader, str, int, Take], None]
"""Gets the takes that are made: reader, voice, number of the sentence, take."""


@dataclass(frozen=True)
class Quality:
    """Figures of one reader over all its voices."""

    reader: str
    about: str
    takes: int
    reused: int
    """Takes of them that an earlier run had made: their speed is of that run."""
    wer: Estimate
    failed: dict[str, int]
    mos: Estimate | None
    mos_by_voice: dict[str, float]
    wer_by_voice: dict[str, float]
    length_ratio: Estimate
    """Length of the audio to the expected one."""
    rtf: float
    rtf_cpu: float
    worst: list[Reading]

    @property
    def failed_share(self) -> float:
        """Share of the takes that are unusable."""
        return sum(self.failed.values()) / self.takes

    def as_json(self) -> dict[str, Any]:
        """For the JSON line."""
        return {
            "about": self.about,
            "takes": self.takes,
            "reused": self.reused,
            "wer": self.wer.as_json(),
            "wer_by_voice": self.wer_by_voice,
            "failed_share": self.failed_share,
            "failed": self.failed,
            "mos": self.mos.as_json() if self.mos else None,
            "mos_by_voice": self.mos_by_voice,
            "length_ratio": self.length_ratio.as_json(),
            "rtf": self.rtf,
            "rtf_cpu": self.rtf_cpu,
        }


def read_all(
    reader: Reader,
    texts: Sequence[str],
    seed: int,
    judges: Judges,
    store: Store[Reading],
    *,
    advance: Callable[[], None] = lambda: None,
    keep: Keep | None = None,
) -> tuple[list[Reading], int]:
    """Every voice reads every text, each with a seed of its own; gives the readings and how many were in ``store``.

    ``keep`` needs the samples, so with it nothing is taken from the store.
    """
    readings: list[Reading] = []
    reused = 0
    for voice in reader.voices:
        for number, text in enumerate(texts):
            take_seed = seed * 1_000_003 + number
            reading = store.get(voice, take_seed, text) if keep is None else None
            if reading is None:
                take = reader.read(text, voice, take_seed)
                if keep is not None:
                    keep(reader, voice, number, take)
                reading = judged(reader, voice, take_seed, text, take, judges)
                store.add(reading)
            else:
                reused += 1
            readings.append(reading)
            advance()
    return readings, reused


def summarise(reader: Reader, readings: Sequence[Reading], reused: int) -> Quality:
    """Figures of the readings of one reader, failed takes included."""
    sentences = [reading.text for reading in readings]
    audible = [(reading.text, reading.mos) for reading in readings if reading.mos is not None]
    audio_s = sum(reading.audio_s for reading in readings)
    by_voice = {voice: [r for r in readings if r.voice == voice] for voice in reader.voices}
    expected = [reading.expected_s for reading in readings]
    return Quality(
        reader=reader.name,
        about=reader.about,
        takes=len(readings),
        reused=reused,
        wer=ratio([r.errors for r in readings], [r.words for r in readings], clusters=sentences),
        failed=dict(Counter(reading.failed for reading in readings if reading.failed is not None)),
        mos=mean([mos for _, mos in audible], clusters=[text for text, _ in audible]) if audible else None,
        mos_by_voice={v: _mean([r.mos for r in group if r.mos is not None]) for v, group in by_voice.items()},
        wer_by_voice={v: sum(r.errors for r in group) / sum(r.words for r in group) for v, group in by_voice.items()},
        length_ratio=ratio([reading.audio_s for reading in readings], expected, clusters=sentences),
        rtf=real_time_factor(sum(reading.compute_s for reading in readings), audio_s),
        rtf_cpu=real_time_factor(sum(reading.cpu_s for reading in readings), audio_s),
        worst=sorted(readings, key=lambda r: (r.failed is None, -r.errors / max(1, r.words)))[:WORST],
    )


def wer_above(readings: Sequence[Reading], others: Sequence[Reading]) -> Estimate | None:
    """WER of ``readings`` minus that of ``others`` on the takes that both have: same sentence, same voice.

    Paired, so that a hard sentence is hard for both. None if there are none.
    """
    other = {(reading.voice, reading.text): reading for reading in others}
    pairs = [(reading, other[key]) for reading in readings if (key := (reading.voice, reading.text)) in other]
    if not pairs:
        return None
    errors = [mine.errors - theirs.errors for mine, theirs in pairs]
    return ratio(errors, [mine.words for mine, _ in pairs], clusters=[mine.text for mine, _ in pairs])


def wav_keeper(folder: Path) -> Keep:
    """Writes every take into ``folder`` as ``reader-voice-number.wav``."""
    import wave

    folder.mkdir(parents=True, exist_ok=True)

    def keep(reader: Reader, voice: str, number: int, take: Take) -> None:
        name = f"{reader.name}-{voice}-{number + 1:03}.wav".replace(" ", "-")
        with wave.open(str(folder / name), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(take.sample_rate)
            file.writeframes((np.clip(take.samples, -1, 1) * 32767).astype("<i2").tobytes())

    return keep


def judged(reader: Reader, voice: str, seed: int, text: str, take: Take, judges: Judges) -> Reading:
    """The verdict on ``take``; silence needs no judge."""
    if not take.samples.any():
        silence = word_errors(text, "")
        return Reading.of(reader, voice, seed, text, take, "", silence, None)
    verdict = judges.judge(text, take.samples, take.sample_rate)
    return Reading.of(reader, voice, seed, text, take, verdict.heard, verdict.errors, verdict.mos)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
