"""``footlights bench chunking``: what it costs and gains to speak before the text is there.

Text comes in bursts, as a language model writes it, to engines in this process: the aligned stream, and the turn form
by each of its policies. Time is the processor time of this thread, and waiting is skipped, so that what else runs on
the machine does not count; the network does not either.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from clients.bench import decode, report, sentences
from clients.bench.judges import Judges
from clients.bench.online import THIRD_WORD, token_of_word, tokens
from clients.bench.plots import bars, panels, save
from clients.bench.spread import Estimate, mean, percentiles, ratio
from clients.bench.timeline import PREBUFFER_S, Arrival, Timeline, replay
from clients.bench.words import WordErrors
from engine.core import AudioChunk, Cancelled, Failed, Finished, Policy, Utterance
from engine.engine import Engine
from engine.errors import ConfigError
from engine.loading import Parts, load_parts
from engine.progress import progress
from engine.scheduler import Scheduler
from engine.text.front import warm

SENTENCES = 3
"""Of one text."""
BURST = 0.5
"""Shape of the gaps between tokens (gamma): most come at once, some after a while."""
STALL_TOKENS, STALL_S = 25, 0.2
"""After so many tokens the writer thinks for a moment."""


@dataclass(frozen=True)
class Arm:
    """A way to speak streamed text."""

    name: str
    text_stream: str
    policy: Policy
    about: str


ARMS = (
    Arm("aligned", "aligned", Policy.EAGER, "text beside the audio"),
    Arm("guess", "turns", Policy.EAGER, "turns begun on a guess"),
    Arm("clause", "turns", Policy.CLAUSE, "a turn a clause"),
    Arm("sentence", "turns", Policy.SENTENCE, "a turn a sentence"),
    Arm("whole", "turns", Policy.WHOLE, "the whole text as one turn"),
)
BASELINE, REFERENCE = "sentence", "whole"


class ThreadClock:
    """Seconds of this thread's work, and of waiting that was skipped."""

    def __init__(self) -> None:
        self._skipped_s = 0.0

    def __call__(self) -> float:
        """Now."""
        return self._skipped_s + time.thread_time()

    def skip(self, seconds: float) -> None:
        """Let time pass in which nothing is done."""
        self._skipped_s += seconds


@dataclass(frozen=True)
class Spoken:
    """One text spoken by one arm."""

    text: str
    timeline: Timeline
    samples: NDArray[np.float32]
    frames: int
    discarded: int
    compute_s: float
    errors: WordErrors | None = None
    mos: float | None = None


def written(text: str, tokens_per_s: float, seed: int) -> list[tuple[float, str]]:
    """Pieces of ``text`` and when they come, in seconds: bursts and stalls around an even pace."""
    random = np.random.default_rng(seed)
    pieces = tokens(text)
    gaps = random.gamma(BURST, 1 / (BURST * tokens_per_s), len(pieces))
    gaps[0] = 0
    gaps[STALL_TOKENS::STALL_TOKENS] += STALL_S
    return list(zip(np.cumsum(gaps).tolist(), pieces, strict=True))


def speak(parts: Parts, arm: Arm, text: str, voice: str, tokens_per_s: float, seed: int) -> Spoken:
    """``text``, as it is written, by an engine of its own. Raises ``ConfigError`` if it cannot be spoken."""
    clock = ThreadClock()
    engine = Engine(parts, Scheduler(1, float("inf"), clock), timer=time.thread_time)
    engine.add(Utterance("u", voice, policy=arm.policy, sampling=replace(parts.runner.sampling, seed=seed)))
    timeline = Timeline(parts.info.sample_rate, first_text_s=clock())
    pending = [(timeline.first_text_s + at_s, piece) for at_s, piece in written(text, tokens_per_s, seed)]
    timeline.last_text_s = pending[-1][0]
    timeline.third_word_s = pending[token_of_word([piece for _, piece in pending], THIRD_WORD)][0]
    while not timeline.is_done:
        while pending and pending[0][0] <= clock():
            engine.append_text("u", pending.pop(0)[1])
            if not pending:
                engine.finish("u")
        idle_s = engine.idle_s()
        if idle_s != 0:
            # To the next piece of text, or to where the engine wants to go on.
            waits = [wait for wait in (idle_s, pending[0][0] - clock() if pending else None) if wait is not None]
            clock.skip(max(0.0, min(waits)))
            continue
        for event in engine.step():
            match event:
                case AudioChunk(samples=samples):
                    timeline.arrivals.append(Arrival(clock(), samples))
                case Finished():
                    timeline.is_done = True
                case Failed(message=message):
                    raise ConfigError(f"{arm.name}: {message}")
                case Cancelled():
                    raise ConfigError(f"{arm.name}: cancelled")
    samples = np.concatenate([arrival.samples for arrival in timeline.arrivals])
    stats = engine.stats()
    return Spoken(text, timeline, samples, stats.frames, stats.tally.discarded_frames, stats.compute_s)


@dataclass(frozen=True)
class Outcome:
    """Figures of one arm; times in ms."""

    arm: Arm
    texts: int
    first_text_ms: list[float]
    """From the first text to the first audible sample."""
    third_word_ms: list[float]
    underruns: int
    """With a player that waits 100 ms first."""
    discarded_share: float
    """Of all frames made."""
    rtf: float
    audio_s: float
    wer: Estimate | None
    mos: Estimate | None

    @classmethod
    def of(cls, arm: Arm, spoken: Sequence[Spoken]) -> "Outcome":
        """From all texts of an arm."""
        heard = [(s.timeline, sound) for s in spoken if (sound := s.timeline.first_sound) is not None]
        judged = [(s.text, s.errors, s.mos) for s in spoken if s.errors is not None and s.mos is not None]
        texts = [text for text, _, _ in judged]
        audio_s = sum(s.timeline.audio_s for s in spoken)
        made = sum(s.frames + s.discarded for s in spoken)
        return cls(
            arm=arm,
            texts=len(spoken),
            first_text_ms=[1000 * (sound.audible_s - t.first_text_s) for t, sound in heard],
            third_word_ms=[1000 * (sound.audible_s - t.third_word_s) for t, sound in heard],
            underruns=sum(replay(s.timeline.arrivals, s.timeline.sample_rate, PREBUFFER_S).underruns for s in spoken),
            discarded_share=sum(s.discarded for s in spoken) / made,
            rtf=sum(s.compute_s for s in spoken) / audio_s,
            audio_s=audio_s,
            wer=ratio([e.errors for _, e, _ in judged], [e.words for _, e, _ in judged], clusters=texts)
            if judged
            else None,
            mos=mean([mos for _, _, mos in judged], clusters=texts) if judged else None,
        )

    def as_json(self) -> dict[str, Any]:
        """For the JSON line."""
        return {
            "arm": self.arm.name,
            "texts": self.texts,
            "first_text_ms": percentiles(self.first_text_ms),
            "third_word_ms": percentiles(self.third_word_ms),
            "underruns": self.underruns,
            "discarded_share": self.discarded_share,
            "rtf_cpu": self.rtf,
            "audio_s": self.audio_s,
            "wer": self.wer.as_json() if self.wer else None,
            "mos": self.mos.as_json() if self.mos else None,
        }


def chunking(arguments: argparse.Namespace) -> None:
    """``footlights bench chunking``. Raises ``MissingError`` and ``FootlightsError``."""
    judges = None if arguments.unjudged else Judges()
    folder: Path = arguments.model or decode.DEFAULT_MODEL
    checkpoint = decode.checkpoint_hash(folder)
    console = report.console()
    settings: dict[str, object] = {
        "checkpoint": checkpoint,
        "texts": arguments.texts,
        "sentences": SENTENCES,
        "pace": arguments.pace,
        "voice": arguments.voice,
        "seed": arguments.seed,
        "arms": {arm.name: arm.about for arm in ARMS},
    }
    where = report.header(console, "footlights bench chunking", settings)
    texts = _texts(arguments.texts)
    warm()
    parts = {form: load_parts(folder, form) for form in ("aligned", "turns")}
    spoken: dict[str, list[Spoken]] = {arm.name: [] for arm in ARMS}
    with progress("chunking", (1 + len(texts)) * len(ARMS)) as advance:
        for number, text in enumerate(["One, two, three.", *texts]):
            # All arms take turns at each text, so that a slow moment of the machine hits them all.
            for arm in ARMS:
                seed = arguments.seed * 1_000_003 + number
                take = speak(parts[arm.text_stream], arm, text, arguments.voice, arguments.pace, seed)
                if number:
                    spoken[arm.name].append(_judged(take, judges))
                advance()
    outcomes = [Outcome.of(arm, spoken[arm.name]) for arm in ARMS]
    console.print(table(outcomes))
    out: Path = arguments.out / f"chunking-{checkpoint}"
    report.picture(console, out / "chunking.png", lambda path: chunking_plot(outcomes, path))
    report.finish(
        report.json_line("chunking", where, settings, {"arms": [outcome.as_json() for outcome in outcomes]}),
        out / "chunking.json",
    )


def _texts(count: int) -> list[str]:
    chosen = sentences.load()
    return [" ".join(chosen[(SENTENCES * i + k) % len(chosen)] for k in range(SENTENCES)) for i in range(count)]


def _judged(take: Spoken, judges: Judges | None) -> Spoken:
    if judges is None:
        return take
    verdict = judges.judge(take.text, take.samples, take.timeline.sample_rate)
    return Spoken(**{**vars(take), "errors": verdict.errors, "mos": verdict.mos})


def table(outcomes: Sequence[Outcome]) -> Table:
    """One row an arm; ratios to the sentence arm, differences to the whole text."""
    by_name = {outcome.arm.name: outcome for outcome in outcomes}
    baseline = float(np.median(by_name[BASELINE].first_text_ms))
    reference = by_name[REFERENCE]
    made = Table(title="speaking while the text is written")
    columns = ("arm", "first text to sound p50 / p95", f"to {BASELINE}", "third word p50 / p95", "underruns")
    for column in (*columns, "discarded", "RTF", "WER", f"to {REFERENCE}", "MOS", f"to {REFERENCE}"):
        made.add_column(column)
    for outcome in outcomes:
        first, third = percentiles(outcome.first_text_ms), percentiles(outcome.third_word_ms)
        made.add_row(
            outcome.arm.name,
            f"{first['p50']:.0f} / {first['p95']:.0f} ms",
            f"{first['p50'] / baseline:.2f}",
            f"{third['p50']:.0f} / {third['p95']:.0f} ms",
            str(outcome.underruns),
            f"{outcome.discarded_share:.1%}",
            f"{outcome.rtf:.2f}",
            f"{outcome.wer.value:.1%}" if outcome.wer else "",
            f"{outcome.wer.value - reference.wer.value:+.1%}" if outcome.wer and reference.wer else "",
            f"{outcome.mos.value:.2f}" if outcome.mos else "",
            f"{outcome.mos.value - reference.mos.value:+.2f}" if outcome.mos and reference.mos else "",
        )
    return made


def chunking_plot(outcomes: Sequence[Outcome], path: Path) -> None:
    """From the first text to the first sound, by arm; with judges, word errors and naturalness beside it."""
    is_judged = all(outcome.wer and outcome.mos for outcome in outcomes)
    figure, axes = panels(3 if is_judged else 1)
    first = axes[0] if is_judged else axes
    names = [outcome.arm.name for outcome in outcomes]
    first.boxplot([o.first_text_ms for o in outcomes], tick_labels=names, whis=(5, 95), showfliers=False)
    first.set_title("ms from first text to first sound", fontsize=10)
    first.set_yscale("log")
    if is_judged:
        bars(axes[1], names, [o.wer for o in outcomes if o.wer], "words wrong (%)", scale=100)
        bars(axes[2], names, [o.mos for o in outcomes if o.mos], "DistillMOS (1 to 5)")
    save(figure, path)
