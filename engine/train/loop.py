"""Stage 3 of the recipe: train the decoder on coded takes. Resumable; one process, one thread by default."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.config import ModelConfig
from engine.errors import WeightsError
from engine.model.decoder import Decoder, initialise
from engine.train.data import CodedTake, ExampleBuilder, Sampler, encode_take, vary
from engine.train.features import UNITS_PER_HOUR, Take, load_takes
from engine.train.loss import compute_losses
from engine.train.quantiser import Quantiser
from engine.train.recipe import build_tokenizer, model_config
from engine.train.texts import is_held_out
from engine.train.weights import copied, showing
from engine.weights import load_decoder


def initialise_from_codebooks(decoder: Decoder, quantiser: Quantiser, seed: int) -> None:
    """Start code embeddings and heads from the codec's own geometry: near codes start near.

    Each codebook [V, P], scaled to unit rows on average, goes through one random map [P, H] per table.
    """
    generator = torch.Generator().manual_seed(seed)
    hidden = decoder.config.backbone.hidden_size
    start, size = decoder.config.semantic_start_token_id, decoder.config.codebook_size

    def table(codebook: torch.Tensor, rms: float) -> torch.Tensor:
        # Of very little speech the last codebooks have nothing left to refine.
        scaled = codebook / codebook.square().sum(1).mean().sqrt().clamp(min=1e-6)
        mixed = scaled @ torch.randn(codebook.shape[1], hidden, generator=generator)
        return mixed * rms

    with torch.no_grad():
        books = quantiser.codebooks
        decoder.embed_tokens.weight[start : start + size] = table(books[0], 1.0)
        for i, book in enumerate(books):
            decoder.codebook_embeddings.weight[i * size : (i + 1) * size] = table(book, 0.5)
        decoder.main_head.weight[:size] = table(books[0], hidden**-0.5)
        for head, book in zip(decoder.tower.heads, books[1:], strict=True):
            head.get_parameter("weight").copy_(table(book, hidden**-0.5))


def untrained(config: ModelConfig, quantiser: Quantiser, seed: int) -> Decoder:
    """A decoder that has learned nothing but the geometry of the codec."""
    decoder = Decoder(config)
    initialise(decoder, seed)
    initialise_from_codebooks(decoder, quantiser, seed)
    return decoder


def started(config: ModelConfig, folder: Path) -> Decoder:
    """The decoder of a checkpoint of that ``config``, to be trained on. Raises ``WeightsError``."""
    decoder, theirs = Decoder(config), load_decoder(folder)[0].state_dict()
    if theirs.keys() != decoder.state_dict().keys():
        raise WeightsError(f"{folder} is quantised: only what it was made from can be trained on")
    decoder.load_state_dict(theirs)
    return decoder


def optimisers(decoder: Decoder, lr: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the layers (Jordan et al. 2024), AdamW for everything else."""
    matrices: list[torch.nn.Parameter] = []
    rest: list[torch.nn.Parameter] = []
    for name, parameter in decoder.named_parameters():
        is_table = "embed" in name or "head" in name or "router" in name or "conv" in name
        (matrices if parameter.ndim == 2 and not is_table else rest).append(parameter)
    return [
        torch.optim.Muon(matrices, lr=lr, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=lr, betas=(0.9, 0.95), weight_decay=0.02),
    ]


def learning_rate(step: int, steps: int, warmup: int = 100, decay_share: float = 0.35) -> float:
    """Trapezoid: a short rise, flat, then a straight fall to 2 % over the last ``decay_share`` of the steps."""
    rise = min(1.0, (step + 1) / warmup)
    fall = min(1.0, (steps - step) / (decay_share * steps))
    return rise * max(0.02, fall)


def coded_variants(takes: list[Take], quantiser: Quantiser, count: int, rng: np.random.Generator) -> list[CodedTake]:
    """``count`` new variations of each take, encoded."""
    return [encode_take(vary(take, rng), quantiser) for take in takes for _ in range(count)]


class Trainer:
    """State of a run, saved and resumed as one file."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.quantiser = Quantiser.load(args.quantiser)
        self.config = model_config(args.hidden, args.layers)
        if args.start is not None:
            self.decoder = started(self.config, args.start)
        else:
            self.decoder = untrained(self.config, self.quantiser, args.seed)
        self.optimisers = optimisers(self.decoder, args.lr)
        self.average = copied(self.decoder)
        self.step = 0
        self.checkpoint = args.out / "training.pt"
        if self.checkpoint.exists():
            self._resume()
        self.noise = torch.Generator().manual_seed(args.seed + self.step)
        self.builder = ExampleBuilder(self.config, build_tokenizer(), np.random.default_rng(args.seed + self.step))
        self.sampler = self._draw()
        held = [encode_take(take, self.quantiser) for take in self._takes() if is_held_out(take.text)]
        held_builder = ExampleBuilder(self.config, self.builder.tokenizer, np.random.default_rng(0))
        held_sampler = Sampler(held, held_builder, args.rows, 0.0) if held else None
        self.validation = [held_sampler.batch() for _ in range(3)] if held_sampler else []

    def _takes(self) -> list[Take]:
        return [take for folder in self.args.features for take in load_takes(folder)]

    def _draw(self) -> Sampler:
        """A sampler of new variations, also of speech analysed meanwhile: what is seen often is learned by heart."""
        takes = [take for take in self._takes() if not is_held_out(take.text)]
        hours = sum(sum(take.durations) for take in takes) / UNITS_PER_HOUR
        print(f"{len(takes)} takes, {hours:.2f} h; step {self.step}", flush=True)
        coded = coded_variants(takes, self.quantiser, self.args.variants, self.builder.rng)
        return Sampler(coded, self.builder, self.args.rows, self.args.turn_share)

    def _resume(self) -> None:
        state = torch.load(self.checkpoint, weights_only=True)
        self.decoder.load_state_dict(state["decoder"])
        self.average = state["average"]
        for optimiser, stored in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(stored)
        self.step = state["step"]

    def save(self) -> None:
        """Write the checkpoint, atomically."""
        state = {
            "decoder": self.decoder.state_dict(),
            "average": self.average,
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "step": self.step,
        }
        partial = self.checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        partial.rename(self.checkpoint)

    def train_step(self) -> dict[str, Any]:
        """One update; returns the losses."""
        scale = learning_rate(self.step, self.args.steps)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = self.args.lr * scale
            optimiser.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.args.bf16):
            losses = compute_losses(self.decoder, self.sampler.batch(), self.noise)
        losses.total.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.decoder.parameters(), 5.0)
        for optimiser in self.optimisers:
            optimiser.step()
        keep = min(self.args.average, self.step / (self.step + 10))
        with torch.no_grad():
            for name, parameter in self.decoder.named_parameters():
                self.average[name].lerp_(parameter, 1 - keep)
        self.step += 1
        return {"main": losses.main, "codebooks": list(losses.codebooks), "end": losses.end} | {
            "pointer": losses.pointer,
            "balance": losses.balance,
            "norm": float(norm),
        }

    def validate(self) -> dict[str, Any]:
        """Losses of the averaged weights on held-out takes, history clean."""
        with torch.no_grad(), showing(self.decoder, self.average):
            parts = [compute_losses(self.decoder, batch, None) for batch in self.validation]
        return {
            "main": float(np.mean([p.main for p in parts])),
            "codebooks": np.mean([p.codebooks for p in parts], axis=0).tolist(),
            "pointer": float(np.mean([p.pointer for p in parts])),
        }

    def run(self) -> None:
        """Train to ``--steps``, logging JSON lines to ``log.jsonl``."""
        log = self.args.out / "log.jsonl"
        recent: list[dict[str, Any]] = []
        started, last_save = time.monotonic(), time.monotonic()
        while self.step < self.args.steps:
            recent.append(self.train_step())
            if self.step % self.args.log_every == 0 or self.step == self.args.steps:
                entry: dict[str, Any] = {"step": self.step, "seconds": round(time.monotonic() - started, 1)}
                for key in recent[0]:
                    entry[key] = np.round(np.mean([r[key] for r in recent], axis=0), 3).tolist()
                if self.validation:
                    entry["validation"] = self.validate()
                recent = []
                with log.open("a") as out:
                    out.write(json.dumps(entry) + "\n")
                print(json.dumps(entry), flush=True)
            if self.step % self.args.redraw == 0:
                self.sampler = self._draw()
            if time.monotonic() - last_save > 180:
                self.save()
                last_save = time.monotonic()
        self.save()


def main() -> None:
    """Command line: ``python -m engine.train.loop --help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, nargs="+", required=True, help="folders written by features.py")
    parser.add_argument("--quantiser", type=Path, required=True, help="written by fit_codec.py")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, metavar="FOLDER", help="a checkpoint whose decoder is trained on")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--rows", type=int, default=3000, help="rows in a batch")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--hidden", type=int, default=256, help="the size dial")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--variants", type=int, default=2, help="variations of each take (pitch, level, frame grid)")
    parser.add_argument("--redraw", type=int, default=300, help="updates after which the variations are drawn anew")
    parser.add_argument("--turn-share", type=float, default=0.3, help="examples in turn form (text rows first)")
    parser.add_argument("--average", type=float, default=0.99, help="decay of the averaged weights")
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    Trainer(args).run()


if __name__ == "__main__":
    main()
