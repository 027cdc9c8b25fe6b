"""What readers are worth beside their teacher: words, naturalness, whose voice it is, how it is spoken.

All comparisons are paired: same text, same voice.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from clients.bench.judges import Judges
from clients.bench.prosody import Prosody
from clients.bench.quality import judged, wer_above
from clients.bench.sound import Sound
from clients.bench.speakers import SpeakerJudge, Takes, likeness
from clients.bench.spread import Estimate, mean, ratio
from clients.bench.store import Reading, Store
from clients.bench.takes import Reader


@dataclass(frozen=True)
class Measured:
    """All that was measured of one reader's takes."""

    reader: Reader
    readings: list[Reading]
    sounds: list[Sound]

    def of(self, voice: str | None = None, texts: Iterable[str] | None = None) -> "Measured":
        """The part that is of one voice (None: all) and says one of ``texts`` (None: any)."""
        wanted = None if texts is None else set(texts)

        def has(take: Reading | Sound) -> bool:
            return voice in (None, take.voice) and (wanted is None or take.text in wanted)

        return Measured(self.reader, [r for r in self.readings if has(r)], [s for s in self.sounds if has(s)])

    @property
    def speakers(self) -> Takes:
        """Where each audible take lies among speakers."""
        return {(sound.voice, sound.text): vector for sound in self.sounds if (vector := sound.vector) is not None}


@dataclass
class Instruments:
    """Those who listen."""

    judges: Judges
    speakers: SpeakerJudge


def measure(
    reader: Reader,
    texts: Sequence[str],
    seed: int,
    instruments: Instruments,
    readings: Store[Reading],
    sounds: Store[Sound],
    advance: Callable[[], None] = lambda: None,
) -> Measured:
    """Every voice of ``reader`` reads every text; what an earlier run has measured is taken from the stores."""
    found = Measured(reader, [], [])
    for number, text in enumerate(texts):
        for voice in reader.voices:
            take_seed = seed * 1_000_003 + number
            reading, sound = readings.get(voice, take_seed, text), sounds.get(voice, take_seed, text)
            if reading is None or sound is None:
                take = reader.read(text, voice, take_seed)
                if reading is None:
                    reading = judged(reader, voice, take_seed, text, take, instruments.judges)
                    readings.add(reading)
                if sound is None:
                    sound = Sound.of(reader, voice, take_seed, text, take, instruments.speakers)
                    sounds.add(sound)
            found.readings.append(reading)
            found.sounds.append(sound)
            advance()
    return found


@dataclass(frozen=True)
class Row:
    """Figures of one reader, or of one voice of it, over some texts."""

    name: str
    takes: int
    wer: Estimate
    wer_above: Estimate | None
    """Above the teacher's, of the takes that both have."""
    failed: int
    mos: Estimate | None
    mos_above: Estimate | None
    speaker: Estimate | None
    """Cosine with the teacher's takes of other texts in the same voice."""
    pitch_range: float
    """Mean of the takes, in semitones."""
    pitch_share: Estimate | None
    """Of the teacher's."""
    energy_range: float
    """Mean of the takes, in decibels."""
    energy_share: Estimate | None
    pause_s: float | None
    """Mean at a mark within a text; None: no text had one."""
    pause_share: Estimate | None
    paused: float | None
    """Share of such marks at which there is a pause."""
    end_s: float
    """Mean silence behind the speech."""
    length_share: Estimate | None

    @classmethod
    def of(cls, name: str, mine: Measured, teacher: Measured) -> "Row":
        """From the takes of a reader and of the teacher."""
        manners = [manner for sound in mine.sounds if (manner := sound.manner) is not None]
        pauses = [pause for manner in manners for pause in manner.pauses_s]
        rated = [(r.text, r.mos) for r in mine.readings if r.mos is not None]
        is_teacher = mine.reader.identity == teacher.reader.identity
        return cls(
            name=name,
            takes=len(mine.readings),
            wer=ratio(
                [r.errors for r in mine.readings],
                [r.words for r in mine.readings],
                clusters=[r.text for r in mine.readings],
            ),
            wer_above=None if is_teacher else wer_above(mine.readings, teacher.readings),
            failed=sum(r.failed is not None for r in mine.readings),
            mos=mean([mos for _, mos in rated], clusters=[text for text, _ in rated]) if rated else None,
            mos_above=None if is_teacher else _mos_above(mine, teacher),
            speaker=likeness(mine.speakers, teacher.speakers),
            pitch_range=_mean([m.pitch_range for m in manners if m.pitch_range is not None]),
            pitch_share=None if is_teacher else _share(mine, teacher, lambda m: m.pitch_range),
            energy_range=_mean([m.energy_range for m in manners]),
            energy_share=None if is_teacher else _share(mine, teacher, lambda m: m.energy_range),
            pause_s=_mean(pauses) if pauses else None,
            pause_share=None if is_teacher else _share(mine, teacher, lambda m: sum(m.pauses_s)),
            paused=sum(pause > 0 for pause in pauses) / len(pauses) if pauses else None,
            end_s=_mean([m.after_s for m in manners]),
            length_share=None if is_teacher else _length_share(mine, teacher),
        )

    def as_json(self) -> dict[str, Any]:
        """For the JSON line."""
        return asdict(self)


def voices_alike(measured: Measured) -> dict[str, dict[str, float]]:
    """Cosine of each voice's mean take with that of each other: below 1 as far as they are different people."""
    found = measured.speakers
    voices = dict.fromkeys(voice for voice, _ in found)
    centres = {voice: np.mean([vector for (v, _), vector in found.items() if v == voice], axis=0) for voice in voices}
    units = {voice: centre / np.linalg.norm(centre) for voice, centre in centres.items()}
    return {a: {b: float(units[a] @ units[b]) for b in units if b != a} for a in units}


def _share(mine: Measured, teacher: Measured, figure: Callable[[Prosody], float | None]) -> Estimate | None:
    """Sum of a figure over the takes that both have, of the teacher's sum."""

    def figures(measured: Measured) -> dict[tuple[str, str], float]:
        manners = {(s.voice, s.text): manner for s in measured.sounds if (manner := s.manner) is not None}
        return {key: value for key, manner in manners.items() if (value := figure(manner)) is not None}

    theirs = figures(teacher)
    pairs = [(key[1], value, theirs[key]) for key, value in figures(mine).items() if key in theirs]
    if not sum(other for _, _, other in pairs):
        return None
    texts, values, others = zip(*pairs, strict=True)
    return ratio(values, others, clusters=texts)


def _length_share(mine: Measured, teacher: Measured) -> Estimate | None:
    theirs = {(r.voice, r.text): r.audio_s for r in teacher.readings}
    pairs = [(r.text, r.audio_s, theirs[r.voice, r.text]) for r in mine.readings if (r.voice, r.text) in theirs]
    if not pairs:
        return None
    texts, lengths, others = zip(*pairs, strict=True)
    return ratio(lengths, others, clusters=texts)


def _mos_above(mine: Measured, teacher: Measured) -> Estimate | None:
    theirs = {(r.voice, r.text): r.mos for r in teacher.readings if r.mos is not None}
    pairs = [
        (r.text, r.mos - theirs[r.voice, r.text])
        for r in mine.readings
        if r.mos is not None and (r.voice, r.text) in theirs
    ]
    return mean([gap for _, gap in pairs], clusters=[text for text, _ in pairs]) if pairs else None


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
