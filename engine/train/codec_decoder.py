"""Stage 4 of the recipe (beside stage 3): train the codec's decoder on frozen codes, in the parameter domain.

First towards the teacher's parameters (L1 on level and slope), then also against a small discriminator on log spectra,
which puts back the texture that a mean takes away. No waveform is needed: the vocoder behind it is fixed arithmetic.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.codec.understudy import CODEBOOK_STREAMS, FeatureDecoder, UnderstudyCodec
from engine.codec.vocoder import FFT_SIZE, LOG_F0, NUM_BANDS, NUM_CEPSTRA, SAMPLE_RATE_HZ, SUBFRAMES_PER_FRAME, VOICED
from engine.train.critic import Critic
from engine.train.data import NUM_NEAREST
from engine.train.features import load_takes
from engine.train.quantiser import Quantiser
from engine.train.texts import is_held_out

CODE_NOISE = 0.2
"""Share of refining codes replaced by a near one: the decoder in front will not choose perfectly."""
WEIGHTS = {"cepstra": 1.0, "bands": 0.3, "log_f0": 4.0, "voiced": 0.5}


def analysis_tables() -> dict[str, Tensor]:
    """The vocoder's linear maps, read off the analysis library: envelope and bands over frequency."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pyworld
    unit = np.vstack([np.zeros(NUM_CEPSTRA), np.eye(NUM_CEPSTRA)])
    envelope = np.log(pyworld.decode_spectral_envelope(unit, SAMPLE_RATE_HZ, FFT_SIZE))
    # The library leaves out frames it takes for unvoiced (all bands near 0 dB), hence the offset from -30 dB.
    bands = np.vstack([np.full(NUM_BANDS, -30.0), -30.0 + np.eye(NUM_BANDS)])
    decibels = 20 * np.log10(pyworld.decode_aperiodicity(bands, SAMPLE_RATE_HZ, FFT_SIZE))
    basis = decibels[1:] - decibels[0]
    tables = {
        "envelope_basis": envelope[1:] - envelope[0],
        "band_basis": basis,
        "band_offset": decibels[0] + 30.0 * basis.sum(0),
    }
    return {name: torch.from_numpy(table).float() for name, table in tables.items()}


def install_quantiser(decoder: FeatureDecoder, quantiser: Quantiser) -> None:
    """Copy the fitted codebooks and components into the decoder's buffers."""
    for i, codebook in enumerate(quantiser.codebooks):
        decoder.get_buffer(f"codebook_{i}").copy_(codebook)
    scale = []
    for stream in ("spectrum", "source"):
        decoder.get_buffer(f"{stream}_mean").copy_(quantiser.mean[stream])
        decoder.get_buffer(f"{stream}_components").copy_(quantiser.components[stream])
        first = quantiser.codebooks[CODEBOOK_STREAMS.index(stream)]
        scale.append(first.std(0).clamp(min=first.std() * 0.1).reciprocal())
    decoder.get_buffer("input_scale").copy_(torch.cat(scale))


def nearest_codes(quantiser: Quantiser) -> list[Tensor]:
    """For each codebook [V, N]: each code's near ones."""
    return [torch.cdist(book, book).topk(NUM_NEAREST, largest=False).indices for book in quantiser.codebooks]


def with_code_noise(codes: Tensor, nearest: list[Tensor]) -> Tensor:
    """``codes`` [B, C, F] with some of the refining ones replaced by a near one."""
    noisy = codes.clone()
    for i in range(2, codes.shape[1]):
        choice = torch.randint(NUM_NEAREST, (*codes[:, i].shape, 1))
        near = nearest[i][codes[:, i]].gather(2, choice)[..., 0]
        noisy[:, i] = torch.where(torch.rand(near.shape) < CODE_NOISE, near, codes[:, i])
    return noisy


def parameter_distances(made: Tensor, target: Tensor) -> dict[str, Tensor]:
    """L1 per kind of parameter; cepstra also by their slope in time; pitch where it is voiced. Both [B, S, D]."""
    cepstra, true = made[..., :NUM_CEPSTRA], target[..., :NUM_CEPSTRA]
    slope = (cepstra.diff(dim=1) - true.diff(dim=1)).abs().mean()
    voiced = target[..., VOICED]
    bands = slice(NUM_CEPSTRA, NUM_CEPSTRA + NUM_BANDS)
    return {
        "cepstra": NUM_CEPSTRA / 4 * ((cepstra - true).abs().mean() + slope),
        "bands": ((made[..., bands] - target[..., bands]).abs() * voiced[..., None]).mean(),
        "log_f0": ((made[..., LOG_F0] - target[..., LOG_F0]).abs() * voiced).mean(),
        "voiced": (made[..., VOICED] - voiced).abs().mean(),
    }


def parameter_loss(distances: dict[str, Tensor]) -> Tensor:
    """The distances as one number to be lowered."""
    return torch.stack([WEIGHTS[name] * part for name, part in distances.items()]).sum()


class CodecTrainer:
    """State of a run; resumable."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        torch.manual_seed(args.seed)
        self.rng = np.random.default_rng(args.seed)
        quantiser = Quantiser.load(args.quantiser)
        self.codec = UnderstudyCodec()
        for name, table in analysis_tables().items():
            self.codec.vocoder.get_buffer(name).copy_(table)
        self.critic = Critic(self.codec.vocoder)
        parameters = [p for p in self.codec.features.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(parameters, lr=args.lr, betas=(0.8, 0.98), weight_decay=0.01)
        self.step = 0
        self.checkpoint = args.out / "codec-training.pt"
        if self.checkpoint.exists():
            state = torch.load(self.checkpoint, weights_only=True)
            self.codec.load_state_dict(state["codec"])
            self.critic.discriminator.load_state_dict(state["discriminator"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.critic.optimiser.load_state_dict(state["critic_optimiser"])
            self.step = state["step"]
        # Behind the earlier state: its codebooks may have been improved since.
        install_quantiser(self.codec.features, quantiser)
        self.train: list[tuple[Tensor, Tensor]] = []
        self.held: list[tuple[Tensor, Tensor]] = []
        for folder in args.features:
            for take in load_takes(folder):
                codes, _ = quantiser.encode(take.features)
                whole = torch.from_numpy(take.features[: len(codes) * SUBFRAMES_PER_FRAME])
                (self.held if is_held_out(take.text) else self.train).append((codes, whole))
        self.neighbours = nearest_codes(quantiser)
        print(f"{len(self.train)} takes, {len(self.held)} held out, from step {self.step}", flush=True)

    def batch(self) -> tuple[Tensor, Tensor]:
        """Codes [B, C, F] with some noise and the parameters [B, 8F, 45] they stand for."""
        frames = self.args.frames
        codes: list[Tensor] = []
        targets: list[Tensor] = []
        while len(codes) < self.args.batch:
            code, target = self.train[self.rng.integers(len(self.train))]
            if len(code) <= frames:
                continue
            start = int(self.rng.integers(len(code) - frames))
            codes.append(code[start : start + frames].T)
            targets.append(target[start * SUBFRAMES_PER_FRAME : (start + frames) * SUBFRAMES_PER_FRAME])
        return with_code_noise(torch.stack(codes), self.neighbours), torch.stack(targets)

    def reconstruct(self, codes: Tensor) -> Tensor:
        """Parameters of ``codes`` from empty windows."""
        network = self.codec.features
        out: Tensor = network(network.dequantise(codes), network.empty_windows(len(codes)))[0]
        return out

    def train_step(self) -> dict[str, float]:
        """One update of decoder and, once it has started, discriminator."""
        scale = min(1.0, (self.step + 1) / 200) * max(0.05, 1 - self.step / self.args.steps)
        for group in self.optimiser.param_groups:
            group["lr"] = self.args.lr * scale
        codes, target = self.batch()
        made = self.reconstruct(codes)
        parts = parameter_distances(made, target)
        total = parameter_loss(parts)
        report = {name: part.item() for name, part in parts.items()}
        if self.step >= self.args.adversarial_from:
            report["critic"] = self.critic.learn(made, target)
            judged = self.critic.losses(made, target)
            total = total + self.args.adversarial * self.critic.total(judged)
            report |= {name: part.item() for name, part in judged.items()}
        self.optimiser.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.codec.features.parameters(), 5.0)
        self.optimiser.step()
        self.step += 1
        return report

    def validate(self) -> dict[str, float]:
        """Distances on held-out takes, whole and with clean codes."""
        if not self.held:
            return {}
        with torch.no_grad():
            parts = [
                parameter_distances(self.reconstruct(codes.T[None]), target[None]) for codes, target in self.held[:24]
            ]
        return {name: round(float(np.mean([part[name].item() for part in parts])), 4) for name in parts[0]}

    def save(self) -> None:
        """Write the checkpoint and the codec as it stands."""
        state: dict[str, Any] = {
            "codec": self.codec.state_dict(),
            "discriminator": self.critic.discriminator.state_dict(),
        }
        state |= {"optimiser": self.optimiser.state_dict(), "critic_optimiser": self.critic.optimiser.state_dict()}
        torch.save(state | {"step": self.step}, self.checkpoint.with_suffix(".partial"))
        self.checkpoint.with_suffix(".partial").rename(self.checkpoint)
        export(self.codec, self.args.out / "codec.safetensors")

    def run(self) -> None:
        """Train to ``--steps``, logging JSON lines to ``log.jsonl``."""
        recent: list[dict[str, float]] = []
        started = last = time.monotonic()
        while self.step < self.args.steps:
            recent.append(self.train_step())
            if self.step % self.args.log_every == 0:
                keys = recent[-1].keys()
                entry = {"step": self.step, "seconds": round(time.monotonic() - started, 1)} | {
                    key: round(float(np.mean([r[key] for r in recent if key in r])), 4) for key in keys
                }
                line = json.dumps(entry | {"validation": self.validate()})
                with (self.args.out / "log.jsonl").open("a") as out:
                    out.write(line + "\n")
                print(line, flush=True)
                recent = []
            if time.monotonic() - last > 120:
                self.save()
                last = time.monotonic()
        self.save()


def export(codec: UnderstudyCodec, path: Path) -> None:
    """Write ``codec.safetensors`` in bfloat16, but for the vocoder's tables and the components (float32)."""
    exact = ("vocoder", "_mean", "_components", "input_scale")
    tensors = {
        name: (tensor if any(part in name for part in exact) else tensor.to(torch.bfloat16)).contiguous()
        for name, tensor in codec.state_dict().items()
    }
    metadata = {"width": str(codec.features.width), "blocks": str(codec.features.num_blocks)}
    partial = path.with_suffix(".partial")
    save_file(tensors, partial, metadata)
    partial.rename(path)


def main() -> None:
    """Command line: ``python -m engine.train.codec_decoder --help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, nargs="+", required=True)
    parser.add_argument("--quantiser", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--adversarial-from", type=int, default=1500)
    parser.add_argument("--adversarial", type=float, default=0.1)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--frames", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--log-every", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    CodecTrainer(args).run()


if __name__ == "__main__":
    main()
