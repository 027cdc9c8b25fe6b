"""Takes that the teacher itself got wrong: a recogniser listens, and what it wrote is compared in phonemes.

Takes are heard by the half minute, because the recogniser takes as long for one word as for that. Those that are not
understood so are heard again with others that were not, then alone, and only by that may a take be dropped. It writes
``judged.jsonl``: ``shard, start, voice, text, expected, heard, errors, is_alone``; ``expected`` and ``errors`` count
phonemes. Whether a take is dropped follows from them when they are read (``verdicts.py``).
"""

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from engine.train.closeness import errors, letters, sounds
from engine.train.features import SAMPLES_PER_UNIT
from engine.train.reading import phonemes_of
from engine.train.recogniser import RATE_HZ, Hear, whisper
from engine.train.verdicts import JUDGED, Verdict, judged

WINDOW_SAMPLES = 29 * RATE_HZ
"""The recogniser's window has 30 s."""
SHORTEST_SAMPLES = RATE_HZ
"""The recogniser wants some context: silence is added."""
UNDERSTOOD = 0.2
"""Errors per phoneme up to which a take needs no second hearing."""
HEARD_TOGETHER = 2
"""How often a take is heard with others before it is heard alone."""
KEPT_UNITS = 4
"""Silence kept before the first sound of a take."""


def judge(takes: Sequence[dict[str, Any]], waves: Sequence[NDArray[np.float32]], hear: Hear) -> list[Verdict]:
    """Verdicts on ``takes`` (lines of an index) with sound ``waves`` [samples] at ``RATE_HZ``."""
    said = [sounds(take["phonemes"]) for take in takes]
    verdicts: dict[int, Verdict] = {}

    def decide(i: int, heard: str, count: int, is_alone: bool) -> None:
        facts = {name: takes[i][name] for name in ("shard", "start", "voice", "text")}
        verdicts[i] = Verdict(**facts, expected=len(said[i]), heard=heard, errors=count, is_alone=is_alone)

    # What is lost among many is mostly found among few.
    for _ in range(HEARD_TOGETHER):
        pending = [i for i in range(len(takes)) if i not in verdicts]
        for window in windows(pending, [len(waves[i]) for i in pending]):
            if len(window) == 1:
                continue
            heard = hear(np.concatenate([waves[i] for i in window]))
            counts = errors([said[i] for i in window], sounds(phonemes_of(heard)))
            for i, count in zip(window, counts, strict=True):
                if count <= UNDERSTOOD * len(said[i]):
                    decide(i, heard, count, is_alone=False)
    for i in [i for i in range(len(takes)) if i not in verdicts]:
        silence = np.zeros(max(0, SHORTEST_SAMPLES - len(waves[i])), np.float32)
        heard = hear(np.concatenate([waves[i], silence]))
        decide(i, heard, errors_alone(takes[i]["text"], said[i], heard), is_alone=True)
    return [verdicts[i] for i in range(len(takes))]


def errors_alone(text: str, said: str, heard: str) -> int:
    """Errors in ``heard``, counted as those of the sounds ``said`` or of the letters of ``text``, whichever are fewer.

    A recogniser writes "B, Q, 53, 81" as "BQ5381", which is read as another number.
    """
    written = letters(text)
    misspelt = errors([written], letters(heard))[0] / max(1, len(written))
    return min(errors([said], sounds(phonemes_of(heard)))[0], math.ceil(misspelt * len(said)))


def windows(numbers: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """``numbers`` of takes with ``lengths`` in samples, as many as fit into a window; a longer one is alone."""
    window: list[int] = []
    filled = 0
    for number, length in zip(numbers, lengths, strict=True):
        if window and filled + length > WINDOW_SAMPLES:
            yield window
            window, filled = [], 0
        window.append(number)
        filled += length
    if window:
        yield window


def sound_of(take: dict[str, Any], audio: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    """Samples of ``take`` at ``RATE_HZ``, most of the silence before it left out."""
    start = take["start"] + max(0, take["durations"][0] - KEPT_UNITS) * SAMPLES_PER_UNIT
    wave: NDArray[np.float32] = soxr.resample(audio[start : take["start"] + take["samples"]], rate, RATE_HZ)
    return wave


def listen(speech: Path, out: Path, hear: Hear) -> None:
    """Judge every new shard of ``speech``; ``out`` gets ``judged.jsonl``."""
    out.mkdir(parents=True, exist_ok=True)
    done = {verdict.shard for verdict in judged(out)}
    entries = [json.loads(line) for line in (speech / "index.jsonl").read_text(encoding="utf-8").splitlines()]
    for shard in sorted({entry["shard"] for entry in entries} - done):
        audio, rate = soundfile.read(speech / shard, dtype="float32")
        takes = [entry for entry in entries if entry["shard"] == shard]
        waves = [sound_of(take, audio, rate) for take in takes]
        verdicts = judge(takes, waves, hear)
        with (out / JUDGED).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(verdict), ensure_ascii=False) + "\n" for verdict in verdicts)
        failed = sum(verdict.is_dropped for verdict in verdicts)
        again = sum(verdict.is_alone for verdict in verdicts)
        print(f"{shard}: {len(verdicts)} takes, {again} heard alone, {failed} dropped", flush=True)


def main() -> None:
    """Command line: judge every new shard of a speech folder; safe to repeat while shards are being added."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speech", type=Path, required=True, help="folder with index.jsonl and shards")
    parser.add_argument("--recogniser", type=Path, required=True, help="folder of Whisper's files for CTranslate2")
    parser.add_argument("--out", type=Path, required=True, help="folder of the analysed speech, for judged.jsonl")
    args = parser.parse_args()
    listen(args.speech, args.out, whisper(args.recogniser))


if __name__ == "__main__":
    main()
