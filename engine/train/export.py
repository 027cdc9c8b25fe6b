"""Last stage of the recipe: the averaged weights, the codec and the tokenizer as one checkpoint folder."""

import argparse
import json
import shutil
from pathlib import Path

import torch

from engine.model.decoder import Decoder
from engine.train.recipe import (
    LEANING,
    LEANS_ON,
    LEARNED_SHARE,
    VOICES,
    build_tokenizer,
    manifest,
    model_config,
    speaker_token,
)
from engine.train.weights import between, copied, put
from engine.weights import load_decoder, save_decoder


@torch.no_grad()
def trained_decoder(
    training: Path, hidden: int, layers: int, start: Path | None = None, learned: float = LEARNED_SHARE
) -> tuple[Decoder, int]:
    """The averaged weights of ``training.pt``, and after how many updates.

    ``start``: the checkpoint that was trained on; the weights lie ``learned`` of the way from its own to those.
    """
    decoder = Decoder(model_config(hidden, layers))
    state = torch.load(training, weights_only=True)
    decoder.load_state_dict(state["decoder"])
    weights = state["average"]
    if start is not None:
        weights = between(copied(load_decoder(start)[0]), weights, learned)
    put(decoder, weights)
    return decoder.eval(), state["step"]


@torch.no_grad()
def lean(decoder: Decoder, share: float) -> None:
    """Move each voice of ``LEANS_ON`` towards the other: its embedding beside the audio, and its tag in the prompt."""
    tokenizer, aligned = build_tokenizer(), decoder.aligned_text
    assert aligned is not None
    for name, other in LEANS_ON.items():
        here, there = VOICES.index(name), VOICES.index(other)
        voices, tags = aligned.voice_embedding.weight, decoder.embed_tokens.weight
        voices[here].lerp_(voices[there], share)
        tags[speaker_token(tokenizer, here)].lerp_(tags[speaker_token(tokenizer, there)], share)


def export_understudy(
    training: Path,
    codec: Path,
    out: Path,
    hidden: int,
    layers: int,
    *,
    start: Path | None = None,
    learned: float = LEARNED_SHARE,
    as_trained: bool = False,
    upright: bool = False,
) -> int:
    """Write ``out`` (config.json, model.safetensors, codec.safetensors, tokenizer.json); returns its size in bytes.

    ``start``: the checkpoint whose decoder was trained on, kept ``learned`` of the way; its voices lean already.
    ``as_trained``: no voice leans on another. ``upright``: those of ``start`` that do are put back.
    """
    decoder, step = trained_decoder(training, hidden, layers, start, learned)
    if not as_trained and start is None:
        lean(decoder, LEANING)
    elif upright:
        lean(decoder, -LEANING / (1 - LEANING))
    notes = [f"trained for {step} steps"]
    if start is not None:
        earlier = json.loads((start / "config.json").read_text(encoding="utf-8")).get("footlights", {})
        notes = [*earlier.get("notes", []), f"then for {step} more, {learned:g} of the way"]
    save_decoder(out, decoder, decoder.config)
    path = out / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    values["footlights"] = manifest() | {"notes": notes}
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    build_tokenizer().save(str(out / "tokenizer.json"), pretty=False)
    shutil.copyfile(codec, out / "codec.safetensors")
    return sum(file.stat().st_size for file in out.iterdir())


def main() -> None:
    """Command line: ``python -m engine.train.export --help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training", type=Path, required=True, help="training.pt of loop.py")
    parser.add_argument(
        "--codec", type=Path, required=True, help="codec.safetensors of codec_sound.py or codec_decoder.py"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--start", type=Path, metavar="FOLDER", help="the checkpoint whose decoder was trained on")
    parser.add_argument(
        "--learned", type=float, default=LEARNED_SHARE, help="share of the way from there (%(default)s)"
    )
    parser.add_argument("--as-trained", action="store_true", help="no voice of little speech leans on another")
    upright = "put back the voices of --start that lean: further training makes them more like the main ones"
    parser.add_argument("--upright", action="store_true", help=upright)
    args = parser.parse_args()
    size = export_understudy(
        *(args.training, args.codec, args.out, args.hidden, args.layers),
        start=args.start,
        learned=args.learned,
        as_trained=args.as_trained,
        upright=args.upright,
    )
    print(f"{args.out}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
