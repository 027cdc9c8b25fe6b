"""``footlights bench drift``: whether a voice is the same after half an hour as it was at the beginning.

One utterance, spoken to one listener who hears it in real time. It says the same sentences round after round, so that a
sentence of the last round differs from its twin in the first by nothing but the time that speech has gone on. Clock:
the thread's processor time, waiting is skipped.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from clients.bench import decode, report, sentences
from clients.bench.chunking import ThreadClock
from clients.bench.judges import Judges
from clients.bench.plots import COLOURS, panels, save
from clients.bench.speakers import SpeakerJudge, Vector, likeness
from clients.bench.spread import Estimate, mean, ratio
from clients.bench.takes import expected_s
from clients.bench.waveform import Samples, loudness_db, pitches_hz, steps_at, voiced_step
from clients.bench.words import WordErrors
from engine.core import AudioChunk, Cancelled, Failed, Finished, Notice, Tally, Utterance
from engine.engine import Engine
from engine.errors import ConfigError
from engine.loading import load_parts
from engine.progress import progress
from engine.scheduler import Scheduler
from engine.text.front import warm

ROUND_S = 300.0
"""Speech of one round, about: the first and the last five minutes are compared."""
LEAD_S = 30.0
"""The engine is at most so far ahead of the listener, as a server's is."""
FEWEST_PITCHES = 8
"""Voiced pieces of a sentence with which its pitch counts."""
SEMITONES = 12


@dataclass(frozen=True)
class Speech:
    """One utterance, from beginning to end."""

    samples: Samples
    rate: int
    starts: list[int]
    """Sample at which the first word of each line begins."""
    joins: list[int]
    """Samples at which the decoder went on from something else than the frame before: a turn, a renewed context."""
    renewals: int
    tally: Tally
    compute_s: float

    def line(self, number: int) -> Samples:
        """Of the line's first word up to that of the next one."""
        return self.samples[self.starts[number] : [*self.starts, len(self.samples)][number + 1]]


def speak(
    engine: Engine,
    skip: Callable[[float], None],
    lines: Sequence[str],
    utterance: Utterance,
    advance: Callable[[], None],
) -> Speech:
    """``lines`` as one text, in real time; ``skip`` lets so many seconds of the engine's clock pass.

    ``advance`` is called for each line that has begun. Raises ``ConfigError`` if they cannot be spoken.
    """
    engine.add(utterance)
    name = utterance.utterance_id
    ends = np.cumsum([len(line) + 1 for line in lines]).tolist()
    engine.append_text(name, " ".join(lines))
    engine.finish(name)
    pieces, starts, joins = list[Samples](), list[int](), list[int]()
    rate, before, is_done = engine.info.sample_rate, engine.stats(), False
    started = before
    while not is_done:
        idle_s = engine.idle_s()
        assert idle_s is not None
        if idle_s:
            skip(idle_s)
            continue
        events, now = engine.step(), engine.stats()
        is_join = (now.prompt_rows, now.renewals) != (before.prompt_rows, before.renewals)
        before = now
        for event in events:
            match event:
                case AudioChunk(first_sample=first, samples=samples, words=words):
                    if is_join and first:
                        joins.append(first)
                    pieces.append(samples)
                    for word in words:
                        while len(starts) < len(lines) and word.char_start >= [0, *ends][len(starts)]:
                            starts.append(int(word.start_ms * rate / 1000))
                            advance()
                case Finished():
                    is_done = True
                case Failed(message=message):
                    raise ConfigError(f"after {sum(map(len, pieces)) / rate:.0f} s: {message}")
                case Cancelled() | Notice():
                    raise ConfigError(f"unexpected: {event}")
    tally = before.tally.since(started.tally)
    renewals, compute_s = before.renewals - started.renewals, before.compute_s - started.compute_s
    return Speech(np.concatenate(pieces), rate, starts, joins, renewals, tally, compute_s)


@dataclass(frozen=True)
class Line:
    """What was measured of one line."""

    text: str
    round: int
    minute: float
    """Of its beginning."""
    pitch: float | None
    """Median, in semitones above 1 Hz: differences are what counts. None where too little is voiced."""
    level_db: float
    speaker: Vector | None = None
    errors: WordErrors | None = None
    mos: float | None = None


@dataclass
class Ears:
    """What listens: judges of words and naturalness hear the first and the last round, the speaker's hears all."""

    judges: Judges | None = None
    speaker: SpeakerJudge | None = None
    judged: frozenset[int] = field(default_factory=frozenset)
    """Rounds that ``judges`` hear."""

    def listen(self, text: str, number: int, minute: float, samples: Samples, rate: int) -> Line:
        """To one line of round ``number``."""
        pitches = pitches_hz(samples, rate)
        verdict = self.judges.judge(text, samples, rate) if self.judges and number in self.judged else None
        return Line(
            text,
            number,
            minute,
            float(SEMITONES * np.log2(np.median(pitches))) if len(pitches) >= FEWEST_PITCHES else None,
            loudness_db(samples, rate),
            self.speaker.embed(samples, rate) if self.speaker else None,
            verdict.errors if verdict else None,
            verdict.mos if verdict else None,
        )


@dataclass(frozen=True)
class Drift:
    """Differences of the last round from the first, paired by sentence, with 95 % intervals; figures of both."""

    minutes: float
    pitch: Estimate
    """Semitones."""
    level_db: Estimate
    speaker: tuple[Estimate, Estimate] | None
    """Likeness to the first round's other sentences: of the first round, of the last."""
    wer: tuple[Estimate, Estimate] | None
    mos: tuple[Estimate, Estimate] | None
    joins: int
    loudest_join: float
    """Largest difference of neighbouring samples at a join, to the 99.9th percentile in the voiced part."""
    renewals: int
    tally: Tally
    rtf: float

    @classmethod
    def of(cls, speech: Speech, lines: Sequence[Line], rounds: int) -> "Drift":
        """From all lines. Raises ``ValueError`` if no sentence has a pitch in both rounds."""
        first, last = ([line for line in lines if line.round == n] for n in (0, rounds - 1))
        pairs = list(zip(first, last, strict=True))
        pitch = [b.pitch - a.pitch for a, b in pairs if a.pitch is not None and b.pitch is not None]
        voiced = voiced_step(speech.samples)
        audio_s = len(speech.samples) / speech.rate
        return cls(
            minutes=audio_s / 60,
            pitch=mean(pitch),
            level_db=mean([b.level_db - a.level_db for a, b in pairs]),
            speaker=_likenesses(first, last),
            wer=_both(first, last, _wer),
            mos=_both(first, last, _mos),
            joins=len(speech.joins),
            loudest_join=float(steps_at(speech.samples, speech.joins, speech.rate).max(initial=0) / max(voiced, 1e-9)),
            renewals=speech.renewals,
            tally=speech.tally,
            rtf=speech.compute_s / audio_s,
        )

    def as_json(self) -> dict[str, Any]:
        """For the JSON line."""
        return {
            "minutes": self.minutes,
            "pitch_semitones": self.pitch.as_json(),
            "level_db": self.level_db.as_json(),
            **{
                name: {"first": pair[0].as_json(), "last": pair[1].as_json()} if pair else None
                for name, pair in (("speaker", self.speaker), ("wer", self.wer), ("mos", self.mos))
            },
            "joins": self.joins,
            "loudest_join": self.loudest_join,
            "renewals": self.renewals,
            "tally": vars(self.tally),
            "rtf_cpu": self.rtf,
        }


def by_minute(lines: Sequence[Line], measure: Callable[[Line], float | None]) -> tuple[list[int], list[float]]:
    """Mean of each minute; what is said makes no difference: a sentence counts as its distance from its own mean."""
    values = [(line, value) for line in lines if (value := measure(line)) is not None]
    usual = {text: np.mean([v for line, v in values if line.text == text]) for text in {line.text for line in lines}}
    minutes = sorted({int(line.minute) for line, _ in values})
    return minutes, [
        float(np.mean([v - usual[line.text] for line, v in values if int(line.minute) == minute])) for minute in minutes
    ]


def _wer(lines: Sequence[Line]) -> Estimate | None:
    judged = [line.errors for line in lines if line.errors is not None]
    return ratio([e.errors for e in judged], [e.words for e in judged]) if judged else None


def _mos(lines: Sequence[Line]) -> Estimate | None:
    judged = [line.mos for line in lines if line.mos is not None]
    return mean(judged) if judged else None


def _both(
    first: Sequence[Line], last: Sequence[Line], figure: Callable[[Sequence[Line]], Estimate | None]
) -> tuple[Estimate, Estimate] | None:
    one, other = figure(first), figure(last)
    return (one, other) if one and other else None


def _likenesses(first: Sequence[Line], last: Sequence[Line]) -> tuple[Estimate, Estimate] | None:
    takes = [{("", line.text): line.speaker for line in lines if line.speaker is not None} for lines in (first, last)]
    one, other = (likeness(those, takes[0]) for those in takes)
    return (one, other) if one and other else None


def drift(arguments: argparse.Namespace) -> None:
    """``footlights bench drift``. Raises ``MissingError`` and ``FootlightsError``."""
    texts = _round(ROUND_S)
    rounds = max(2, round(60 * arguments.minutes / ROUND_S))
    ears = Ears()
    if not arguments.unjudged:
        ears = Ears(Judges(), SpeakerJudge(), frozenset({0, rounds - 1}))
    folder: Path = arguments.model or decode.DEFAULT_MODEL
    checkpoint = decode.checkpoint_hash(folder)
    console = report.console()
    settings: dict[str, object] = {
        "checkpoint": checkpoint,
        "text_stream": arguments.text_stream,
        "voice": arguments.voice,
        "rounds": rounds,
        "sentences": len(texts),
        "seed": arguments.seed,
    }
    where = report.header(console, "footlights bench drift", settings)
    warm()
    parts = load_parts(folder, arguments.text_stream)
    clock = ThreadClock()
    engine = Engine(parts, Scheduler(1, LEAD_S, clock), timer=time.thread_time)
    sampling = replace(parts.runner.sampling, seed=arguments.seed)
    with progress("speaking", rounds * len(texts)) as advance:
        speech = speak(engine, clock.skip, texts * rounds, Utterance("u", arguments.voice, sampling=sampling), advance)
    lines = []
    with progress("listening", rounds * len(texts)) as advance:
        for number, start in enumerate(speech.starts):
            line, text = divmod(number, len(texts))
            minute = start / speech.rate / 60
            lines.append(ears.listen(texts[text], line, minute, speech.line(number), speech.rate))
            advance()
    result = Drift.of(speech, lines, rounds)
    console.print(table(result))
    out: Path = arguments.out / f"drift-{checkpoint}-{parts.info.text_stream}"
    report.picture(console, out / "drift.png", lambda path: drift_plot(lines, path))
    report.finish(report.json_line("drift", where, settings, result.as_json()), out / "drift.json")


def _round(seconds: float) -> list[str]:
    """Held-out sentences that take about so long together."""
    chosen, total_s = list[str](), 0.0
    for text in sentences.load():
        if total_s >= seconds:
            break
        chosen.append(text)
        total_s += expected_s(text)
    return chosen


def table(result: Drift) -> Table:
    """One row a figure."""
    made = Table(
        title=f"{result.minutes:.1f} minutes in one utterance: the same sentences at its end and its beginning"
    )
    for column in ("figure", "first", "last", "difference (95 %)"):
        made.add_column(column)
    made.add_row("pitch", "", "", f"{result.pitch.value:+.2f} semitones ({_bounds(result.pitch)})")
    made.add_row("level", "", "", f"{result.level_db.value:+.2f} dB ({_bounds(result.level_db)})")
    for name, pair, scale in (("speaker", result.speaker, 1), ("WER, %", result.wer, 100), ("MOS", result.mos, 1)):
        if pair:
            one, other = pair[0].value * scale, pair[1].value * scale
            made.add_row(name, f"{one:.2f}", f"{other:.2f}", f"{other - one:+.2f}")
    made.add_row("joins, loudest to voiced 99.9 %", "", "", f"{result.joins}, {result.loudest_join:.2f}")
    made.add_row("contexts renewed", "", "", str(result.renewals))
    made.add_row("guards", "", "", ", ".join(f"{k} {v}" for k, v in vars(result.tally).items() if v) or "nothing")
    made.add_row("RTF (cpu)", "", "", f"{result.rtf:.3f}")
    return made


def _bounds(estimate: Estimate) -> str:
    return f"{estimate.low:+.2f} to {estimate.high:+.2f}"


def drift_plot(lines: Sequence[Line], path: Path) -> None:
    """Pitch, level and, where it was judged, the speaker, minute by minute, each as the distance from its mean."""
    is_judged = lines[0].speaker is not None
    figure, axes = panels(3 if is_judged else 2)
    _course(axes[0], lines, lambda line: line.pitch, "pitch (semitones)", reach=1)
    _course(axes[1], lines, lambda line: line.level_db, "level (dB)", reach=2)
    if is_judged:
        centre = np.mean([line.speaker for line in lines if line.speaker is not None and line.round == 0], axis=0)
        centre /= np.linalg.norm(centre)
        _course(axes[2], lines, lambda line: _cosine(line, centre), "likeness to the first minutes", reach=0.1)
    save(figure, path)


def _cosine(line: Line, centre: NDArray[np.float32]) -> float | None:
    return None if line.speaker is None else float(line.speaker @ centre)


def _course(
    axes: Any, lines: Sequence[Line], measure: Callable[[Line], float | None], title: str, reach: float
) -> None:
    minutes, values = by_minute(lines, measure)
    axes.axhline(0, color="#999999", linewidth=0.8)
    axes.plot(minutes, values, "o-", color=COLOURS[1], markersize=3)
    most = max(reach, 1.1 * max(map(abs, values)))
    axes.set_ylim(-most, most)
    axes.set_xlabel("minute")
    axes.set_title(title, fontsize=10)
