"""Takes that the teacher itself got wrong: a recogniser listens, and what it wrote is compared in phonemes.

Takes are heard by the half minute, because the recogniser takes as long for one word as for that. Those that are not
understood so are heard again alone, and only by that may a take be dropped. It writes ``judged.jsonl``: ``shard, start,
voice, text, expected, heard, errors, is_alone``; ``expected`` and ``errors`` count phonemes. Whether a take is dropped
follows from them when they are read.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from engine.train.closeness import errors, letters, sounds
from engine.train.reading import phonemes_of

JUDGED = "judged.jsonl"
RATE_HZ = 16_000
WINDOW_SAMPLES = 28 * RATE_HZ
"""The recogniser's window has 30 s."""
SHORTEST_SAMPLES = RATE_HZ
"""The recogniser wants some context: silence is added."""
UNDERSTOOD = 0.2
"""Errors per phoneme up to which a take needs no second hearing."""
WRONG, WRONG_SHORT = 0.5, 0.9
"""Errors per phoneme above which a take is dropped; a word alone and letters can be spelled in many ways."""
SHORT = 12
"""Phonemes up to which a take is short."""

Hear = Callable[[NDArray[np.float32]], str]
"""What is said in samples at ``RATE_HZ``."""


@dataclass(frozen=True)
class Verdict:
    """On one take."""

    shard: str
    start: int
    voice: str
    text: str
    expected: int
    heard: str
    errors: int
    is_alone: bool

    @property
    def is_dropped(self) -> bool:
        """Whether the teacher got it clearly wrong."""
        limit = WRONG_SHORT if self.expected <= SHORT else WRONG
        return self.is_alone and self.errors > limit * self.expected


def judged(folder: Path) -> list[Verdict]:
    """Verdicts on the takes of ``folder``; none if nobody listened to it."""
    path = folder / JUDGED
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [Verdict(**json.loads(line)) for line in lines]


def dropped(folder: Path) -> set[tuple[str, str]]:
    """Shard and text of the takes of ``folder`` that must not be learned from."""
    return {(verdict.shard, verdict.text) for verdict in judged(folder) if verdict.is_dropped}


def judge(takes: Sequence[dict[str, Any]], waves: Sequence[NDArray[np.float32]], hear: Hear) -> list[Verdict]:
    """Verdicts on ``takes`` (lines of an index) with sound ``waves`` [samples] at ``RATE_HZ``."""
    verdicts = []
    for window in windows([len(wave) for wave in waves]):
        expected = [sounds(takes[i]["phonemes"]) for i in window]
        heard = hear(np.concatenate([waves[i] for i in window]))
        counts = errors(expected, sounds(phonemes_of(heard)))
        for i, said, count in zip(window, expected, counts, strict=True):
            text, is_alone = heard, len(window) == 1
            if count > UNDERSTOOD * len(said) and not is_alone:
                silence = np.zeros(max(0, SHORTEST_SAMPLES - len(waves[i])), np.float32)
                text, is_alone = hear(np.concatenate([waves[i], silence])), True
                count = errors_alone(takes[i]["text"], said, text)
            facts = {name: takes[i][name] for name in ("shard", "start", "voice", "text")}
            verdicts.append(Verdict(**facts, expected=len(said), heard=text, errors=count, is_alone=is_alone))
    return verdicts


def errors_alone(text: str, said: str, heard: str) -> int:
    """Errors in ``heard``, counted as those of the sounds ``said`` or of the letters of ``text``, whichever are fewer.

    A recogniser writes "B, Q, 53, 81" as "BQ5381", which is read as another number.
    """
    written = letters(text)
    misspelt = errors([written], letters(heard))[0] / max(1, len(written))
    return min(errors([said], sounds(phonemes_of(heard)))[0], math.ceil(misspelt * len(said)))


def windows(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Numbers of neighbouring takes with ``lengths`` in samples that fit into a window; a longer one is alone."""
    window: list[int] = []
    for i, length in enumerate(lengths):
        if window and sum(lengths[j] for j in window) + length > WINDOW_SAMPLES:
            yield window
            window = []
        window.append(i)
    if window:
        yield window


def whisper(folder: Path) -> Hear:
    """Whisper (int8, greedy, one thread) from the CTranslate2 files in ``folder``."""
    from faster_whisper import WhisperModel

    model = WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1, num_workers=1)

    def hear(sound: NDArray[np.float32]) -> str:
        segments, _ = model.transcribe(
            sound,
            language="en",
            beam_size=1,
            temperature=0.0,
            without_timestamps=True,
            condition_on_previous_text=False,
        )
        return " ".join(segment.text.strip() for segment in segments)

    return hear


def listen(speech: Path, out: Path, hear: Hear) -> None:
    """Judge every new shard of ``speech``; ``out`` gets ``judged.jsonl``."""
    out.mkdir(parents=True, exist_ok=True)
    done = {verdict.shard for verdict in judged(out)}
    entries = [json.loads(line) for line in (speech / "index.jsonl").read_text(encoding="utf-8").splitlines()]
    for shard in sorted({entry["shard"] for entry in entries} - done):
        audio, rate = soundfile.read(speech / shard, dtype="float32")
        takes = [entry for entry in entries if entry["shard"] == shard]
        waves = [soxr.resample(audio[take["start"] : take["start"] + take["samples"]], rate, RATE_HZ) for take in takes]
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
