"""Is what a heard report says what was heard? Speech cut off at random, its report, and a recogniser on what was left.

Run as ``python -m clients.bench.interruptions``. The report is that of a server (`realtime.heard`) for the word times
of the engine; the recogniser gets the audio up to the cut. It errs, too: so what it heard is laid against every
beginning of the text, and the beginning with the fewest word errors is what a listener has heard, of several the one
nearest to the report.
"""

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray

from clients.bench import decode, report, sentences
from clients.bench.environment import one_thread
from clients.bench.judges import JUDGE_RATE_HZ, Recogniser
from clients.bench.words import edit_distance, normalise
from engine.core import AudioChunk, Failed, Utterance, WordTiming
from engine.engine import Engine
from engine.errors import ConfigError
from engine.progress import progress
from realtime.heard import heard_characters

EACH = 5
"""Interruptions of one sentence."""
SILENCE_S = 0.5
"""Behind the cut: a recogniser wants to hear that it is over."""


def spoken(engine: Engine, text: str, voice: str, seed: int) -> tuple[NDArray[np.float32], list[WordTiming]]:
    """All samples of ``text`` and the times of its words. Raises ``ConfigError`` if it cannot be spoken."""
    engine.add(Utterance("u", voice, sampling=replace(engine.runner.sampling, seed=seed)))
    engine.append_text("u", text)
    engine.finish("u")
    pieces, words = list[NDArray[np.float32]](), dict[int, WordTiming]()
    while engine.has_work():
        for event in engine.step():
            if isinstance(event, AudioChunk):
                pieces.append(event.samples)
                words.update((word.char_start, word) for word in event.words)
            elif isinstance(event, Failed):
                raise ConfigError(event.message)
    return np.concatenate(pieces), [words[start] for start in sorted(words)]


def words_apart(text: str, said: int, heard: str) -> int:
    """Words by which a report of the first ``said`` characters of ``text`` goes beyond what was ``heard``."""
    expected, reported = normalise(text), len(normalise(text[:said]))
    errors = [edit_distance(expected[:count], normalise(heard)) for count in range(len(expected) + 1)]
    nearest = min(range(len(errors)), key=lambda count: (errors[count], abs(count - reported)))
    return reported - nearest


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a checkpoint folder; default: the built-in voice")
    parser.add_argument("--text-stream", choices=["aligned", "turns"])
    parser.add_argument("--interruptions", type=int, default=200)
    parser.add_argument("--voice", default="heart")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    arguments = parser.parse_args(argv)
    one_thread()
    recogniser, random_ = Recogniser(), random.Random(arguments.seed)
    folder = arguments.model or decode.DEFAULT_MODEL
    engine = decode.open_engine(folder, arguments.text_stream)
    settings = {"checkpoint": decode.checkpoint_hash(folder), **{k: str(v) for k, v in vars(arguments).items()}}
    where = report.header(report.console(), "heard reports beside what a recogniser hears", settings)
    apart = Counter[int]()
    with progress("interruptions", arguments.interruptions) as advance:
        for number, text in enumerate(sentences.load()[: -(-arguments.interruptions // EACH)]):
            samples, words = spoken(engine, text, arguments.voice, arguments.seed + number)
            for _ in range(min(EACH, arguments.interruptions - apart.total())):
                cut = random_.randrange(len(samples))
                said = heard_characters(text, words, 1000 * cut / engine.info.sample_rate, is_finished=True)
                sound = soxr.resample(samples[:cut], engine.info.sample_rate, JUDGE_RATE_HZ).astype(np.float32)
                heard = recogniser.hear(np.pad(sound, (0, int(SILENCE_S * JUDGE_RATE_HZ))))
                apart[words_apart(text, said, heard)] += 1
                advance()
    within = sum(count for words_off, count in apart.items() if abs(words_off) <= 1)
    for words_off in sorted(apart):
        print(f"report {words_off:+d} words: {apart[words_off]}")
    result = {"interruptions": apart.total(), "within_one_word": within, "apart": dict(sorted(apart.items()))}
    report.finish(report.json_line("interruptions", where, settings, result), arguments.out / "interruptions.json")


if __name__ == "__main__":
    main()
