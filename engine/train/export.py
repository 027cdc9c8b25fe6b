"""Last stage of the recipe: the averaged weights, the codec and the tokenizer as one checkpoint folder."""

import argparse
import json
import shutil
from pathlib import Path

import torch

from engine.model.decoder import Decoder
from engine.train.recipe import build_tokenizer, manifest, model_config
from engine.weights import save_decoder


def export_understudy(training: Path, codec: Path, out: Path, hidden: int, layers: int) -> int:
    """Write ``out`` (config.json, model.safetensors, codec.safetensors, tokenizer.json); returns its size in bytes."""
    config = model_config(hidden, layers)
    decoder = Decoder(config)
    state = torch.load(training, weights_only=True)
    decoder.load_state_dict(state["decoder"])
    with torch.no_grad():
        for name, parameter in decoder.named_parameters():
            parameter.copy_(state["average"][name])
    save_decoder(out, decoder, config)
    path = out / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    values["footlights"] = manifest() | {"notes": [f"trained for {state['step']} steps"]}
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    build_tokenizer().save(str(out / "tokenizer.json"), pretty=False)
    shutil.copyfile(codec, out / "codec.safetensors")
    return sum(file.stat().st_size for file in out.iterdir())


def main() -> None:
    """Command line: ``python -m engine.train.export --help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training", type=Path, required=True, help="training.pt of loop.py")
    parser.add_argument("--codec", type=Path, required=True, help="codec.safetensors of codec_decoder.py")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=8)
    args = parser.parse_args()
    size = export_understudy(args.training, args.codec, args.out, args.hidden, args.layers)
    print(f"{args.out}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
