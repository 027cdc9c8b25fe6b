"""Stage 1 of the recipe: speech to vocoder parameters (WORLD, Morise et al. 2016, through pyworld)."""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from engine.codec.vocoder import FFT_SIZE, NUM_CEPSTRA, SAMPLE_RATE_HZ, SUBFRAME_SAMPLES
from engine.train.labels import trim

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import pyworld

F0_RANGE_HZ = (60.0, 450.0)
ENVELOPE_FLOOR = 1e-8
"""Quieter than any ear: what lies below would only cost codes."""


def analyse(wave: NDArray[np.float64]) -> NDArray[np.float32]:
    """Parameters [S, NUM_FEATURES] of ``wave`` [samples], S = samples // 150 (log f0 interpolated where unvoiced)."""
    period_ms = 1000 * SUBFRAME_SAMPLES / SAMPLE_RATE_HZ
    # Not dio: it takes a quarter of the voiced subframes for unvoiced (docs/experiments.md).
    f0, times = pyworld.harvest(
        wave, SAMPLE_RATE_HZ, f0_floor=F0_RANGE_HZ[0], f0_ceil=F0_RANGE_HZ[1], frame_period=period_ms
    )
    f0 = pyworld.stonemask(wave, f0, times, SAMPLE_RATE_HZ)
    envelope = pyworld.cheaptrick(wave, f0, times, SAMPLE_RATE_HZ, fft_size=FFT_SIZE)
    aperiodicity = pyworld.d4c(wave, f0, times, SAMPLE_RATE_HZ, fft_size=FFT_SIZE)
    cepstra = pyworld.code_spectral_envelope(np.maximum(envelope, ENVELOPE_FLOOR), SAMPLE_RATE_HZ, NUM_CEPSTRA)
    bands = pyworld.code_aperiodicity(aperiodicity, SAMPLE_RATE_HZ) / 10
    voiced = f0 > 0
    if voiced.any():
        log_f0 = np.interp(np.arange(len(f0)), np.flatnonzero(voiced), np.log(f0[voiced]))
    else:
        log_f0 = np.full(len(f0), np.log(150.0))
    features = np.concatenate([cepstra, bands, log_f0[:, None], voiced[:, None]], axis=1)
    return features[: len(wave) // SUBFRAME_SAMPLES].astype(np.float32)


def main() -> None:
    """Command line: analyse every new shard of a speech folder; safe to repeat while shards are being added."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speech", type=Path, required=True, help="folder with index.jsonl and shards")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    index = args.out / "features.jsonl"
    done = {json.loads(line)["shard"] for line in index.read_text().splitlines()} if index.exists() else set()
    entries = [json.loads(line) for line in (args.speech / "index.jsonl").read_text(encoding="utf-8").splitlines()]
    for shard in sorted({entry["shard"] for entry in entries} - done):
        audio, rate = soundfile.read(args.speech / shard)
        assert rate == SAMPLE_RATE_HZ, rate
        pieces, lines, position = [], [], 0
        for entry in (entry for entry in entries if entry["shard"] == shard):
            wave, durations = trim(
                audio[entry["start"] : entry["start"] + entry["samples"]].astype(np.float64),
                entry["durations"],
                entry["phonemes"],
            )
            features = analyse(wave)
            pieces.append(features.astype(np.float16))
            span = {"file": f"{Path(shard).stem}.npz", "start": position, "stop": position + len(features)}
            position += len(features)
            keep = {key: entry[key] for key in ("shard", "voice", "text", "phonemes")}
            lines.append(json.dumps(keep | span | {"durations": durations}, ensure_ascii=False))
        np.savez(args.out / f"{Path(shard).stem}.npz", features=np.concatenate(pieces))
        with index.open("a", encoding="utf-8") as out:
            out.writelines(line + "\n" for line in lines)
        print(f"{shard}: {position * SUBFRAME_SAMPLES / SAMPLE_RATE_HZ:.0f} s", flush=True)


if __name__ == "__main__":
    main()
