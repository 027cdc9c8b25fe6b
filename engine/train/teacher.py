"""Speech to learn from: Kokoro-82M reads our sentences and tells how long each phoneme lasted.

The teacher (model and voices Apache-2.0) runs from its int8 ONNX export, one thread a process. It writes
``shard-*.flac`` (24 kHz mono) and ``index.jsonl`` in the layout of ``voice-data``: ``shard, start, samples, voice,
text, phonemes, durations``, durations in units of 600 samples for [silence, *phonemes, silence].
"""

import argparse
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import soundfile
from numpy.typing import NDArray

from engine.codec.vocoder import SAMPLE_RATE_HZ
from engine.train.corpus import lexicon_words, unheard
from engine.train.features import SAMPLES_PER_UNIT
from engine.train.reading import phonemes_of
from engine.train.recipe import TEACHER_STYLES
from engine.train.texts import covering, is_held_out, training_texts

DURATION_OUTPUT = "/encoder/Clip_output_0"
MAIN_VOICES, MAIN_SHARE = TEACHER_STYLES[:3], 8
"""Each is heard so many times as often as one of the others, the cast."""
UNUSED = "·"
TEACHER_SYMBOLS = (
    '·;:,.!?··—…"()“” ̃ʣʥʦʨᵝꭧAI·····O·Q·ST··W·Yᵊabcdef·hijklmnopqrstuvwxyzɑɐɒæ··βɔɕç·ɖðʤə·ɚɛɜ··ɟ·'
    "ɡ······ɥ·ɨɪʝ······ɯɰŋɳɲɴø·ɸθœ··ɹ·ɾɻ·ʁɽʂʃʈʧ·ʊʋ·ʌɣɤ·χʎ···ʒʔ·······ˈˌː···ʰ·ʲ····↓·→↗↘···ᵻ"
)
"""The teacher's phonemes, each at the place of its token id: a fact of its published configuration."""
TEACHER_IDS = {symbol: number for number, symbol in enumerate(TEACHER_SYMBOLS) if symbol != UNUSED}


class Teacher:
    """Kokoro-82M behind one call: phonemes and a voice in, waveform and durations out."""

    def __init__(self, model: Path, voices: Path) -> None:
        graph = onnx.load(str(model))
        graph.graph.output.append(onnx.helper.make_empty_tensor_value_info(DURATION_OUTPUT))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self._styles = {
            name: np.fromfile(voices / f"{name}.bin", dtype=np.float32).reshape(-1, 256) for name in TEACHER_STYLES
        }

    def speak(self, phonemes: str, voice: str) -> tuple[NDArray[np.float32], list[int]]:
        """Waveform [samples] at 24 kHz and the durations of [silence, *phonemes, silence] in units."""
        ids = [TEACHER_IDS[symbol] for symbol in phonemes]
        inputs = {
            "tokens": np.array([[0, *ids, 0]], dtype=np.int64),
            "style": self._styles[voice][len(ids) - 1][None],
            "speed": np.ones(1, np.float32),
        }
        audio, durations = self._session.run(["audio", DURATION_OUTPUT], inputs)
        return audio, [int(d) for d in durations[0]]


def _rare_words(heard: list[dict[str, Any]]) -> Iterator[str]:
    """Words and names with pairs of phonemes that what was ``heard`` lacks."""
    known = lexicon_words()
    lexicon = {
        word: phonemes
        for word, phonemes in known.items()
        # The lexicon has most words a second time with a capital.
        if re.fullmatch("[a-z][a-z'-]+|[A-Z][a-z]+", word) and (word.islower() or word.lower() not in known)
    }
    return unheard(lexicon, [entry["phonemes"] for entry in heard if not is_held_out(entry["text"])])


def _entries(index: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in index.read_text(encoding="utf-8").splitlines()]


def synthesise(args: argparse.Namespace) -> None:
    """Write shards until ``args.hours`` are reached, then stop; a restart continues after the last full shard."""
    args.out.mkdir(parents=True, exist_ok=True)
    index = args.out / "index.jsonl"
    done = _entries(index) if index.exists() else []
    heard = [*done, *(entry for folder in args.heard for entry in _entries(folder / "index.jsonl"))]
    seen = {entry["text"] for entry in heard}
    total = sum(entry["samples"] for entry in done)
    shard = 1 + max((int(entry["shard"][6:10]) for entry in done), default=-1)
    rng = random.Random(args.seed + shard)
    teacher = Teacher(args.model, args.voices)
    audio: list[NDArray[np.int16]] = []
    entries: list[dict[str, Any]] = []
    texts = training_texts(args.sentences, args.wordnet, args.seed, _rare_words(heard))
    new = (text for text in texts if text not in seen)
    shares = [MAIN_SHARE if style in MAIN_VOICES else 1 for style in args.styles]
    for text in covering(new, phonemes_of, [entry["phonemes"] for entry in heard]):
        phonemes = phonemes_of(text)
        if not 2 <= len(phonemes) <= 300:
            continue
        voice = rng.choices(args.styles, weights=shares)[0]
        wave, durations = teacher.speak(phonemes, voice)
        samples = SAMPLES_PER_UNIT * sum(durations)
        pcm = np.zeros(samples, np.int16)
        pcm[: len(wave)] = (np.clip(wave[:samples], -1, 1) * 32767).astype(np.int16)
        start = sum(len(piece) for piece in audio)
        entries.append(
            {"shard": f"shard-{shard:04d}.flac", "start": start, "samples": samples, "voice": voice, "text": text}
            | {"phonemes": phonemes, "durations": durations}
        )
        audio.append(pcm)
        if start + samples > args.shard_seconds * SAMPLE_RATE_HZ:
            soundfile.write(args.out / entries[0]["shard"], np.concatenate(audio), SAMPLE_RATE_HZ, subtype="PCM_16")
            with index.open("a", encoding="utf-8") as out:
                out.writelines(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
            total += start + samples
            print(f"{total / SAMPLE_RATE_HZ / 3600:.2f} h in {shard + 1} shards", flush=True)
            audio, entries, shard = [], [], shard + 1
            if total >= args.hours * 3600 * SAMPLE_RATE_HZ:
                return
    print(f"all sentences are read: {total / SAMPLE_RATE_HZ / 3600:.2f} h of {args.hours}; --wordnet gives more")


def main() -> None:
    """Command line: ``python -m engine.train.teacher --help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="Kokoro-82M int8 ONNX file")
    parser.add_argument("--voices", type=Path, required=True, help="folder of the teacher's style files (*.bin)")
    parser.add_argument("--sentences", type=Path, required=True, help="text file, one sentence a line")
    parser.add_argument("--wordnet", type=Path, help="folder of WordNet 3 data files, for more variety")
    parser.add_argument("--styles", nargs="+", choices=TEACHER_STYLES, default=TEACHER_STYLES, help="(default: all)")
    parser.add_argument("--out", type=Path, required=True, help="folder for shards and index.jsonl")
    parser.add_argument("--heard", type=Path, nargs="*", default=[], help="other such folders: not read once more")
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--shard-seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    synthesise(parser.parse_args())


if __name__ == "__main__":
    main()
