"""Stage 2 of the recipe: fit the codebooks on analysed speech and encode every take.

Writes ``quantiser.safetensors``; frozen once the decoder has been trained on its codes.
"""

import argparse
from pathlib import Path

import numpy as np
from safetensors.torch import save_file

from engine.train.features import load_takes
from engine.train.quantiser import Quantiser, fit
from engine.train.texts import is_held_out


def main() -> None:
    """Command line: ``python -m engine.train.fit_codec --help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, nargs="+", required=True, help="folders written by features.py")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--frames", type=int, default=160_000, help="fit on at most this many frames")
    parser.add_argument("--iterations", type=int, default=25)
    parser.add_argument(
        "--start", type=Path, metavar="QUANTISER", help="improve these codebooks: a decoder trained on them can go on"
    )
    args = parser.parse_args()
    takes = [take for folder in args.features for take in load_takes(folder) if not is_held_out(take.text)]
    order = np.random.default_rng(1).permutation(len(takes))
    features, frames = [], 0
    for i in order:
        if frames > args.frames:
            break
        features.append(takes[i].features)
        frames += len(takes[i].features) // 8
    print(f"fitting on {len(features)} takes, {frames} frames", flush=True)
    start = None if args.start is None else Quantiser.load(args.start)
    quantiser = fit(features, iterations=args.iterations, start=start)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    save_file(quantiser.state_dict(), args.out)


if __name__ == "__main__":
    main()
