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
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.codec.understudy import CODEBOOK_STREAMS, FeatureDecoder, UnderstudyCodec
from engine.codec.vocoder import FFT_SIZE, LOG_F0, NUM_BANDS, NUM_CEPSTRA, SAMPLE_RATE_HZ, SUBFRAMES_PER_FRAME, VOICED
from engine.train.data import NUM_NEAREST
from engine.train.features import load_takes
from engine.train.quantiser import Quantiser
from engine.train.texts import is_held_out

MEL_BINS = 80
CODE_NOISE = 0.2
"""Share of refining codes replaced by a near one: the decoder in front will not choose perfectly."""
WEIGHTS = {"cepstra": 1.0, "bands": 0.3, "log_f0": 4.0, "voiced": 0.5}


class Discriminator(nn.Module):
    """Patches of log spectrum [B, 1, T, 80] told from the teacher's; returns every layer for feature matching."""

    def __init__(self) -> None:
        super().__init__()
        channels = (2, 24, 48, 96, 96)
        self.layers = nn.ModuleList(
            nn.utils.parametrizations.weight_norm(nn.Conv2d(a, b, (5, 5), stride=(2, 2), padding=2))
            for a, b in zip(channels, channels[1:], strict=False)
        )
        self.last = nn.utils.parametrizations.weight_norm(nn.Conv2d(channels[-1], 1, 3, padding=1))

    def forward(self, x: Tensor) -> list[Tensor]:
        """``x`` [B, 1, T, 80]; its slope in time is a second channel."""
        slope = F.pad(x[:, :, 1:] - x[:, :, :-1], (0, 0, 1, 0))
        x = torch.cat([x, 2 * slope], 1)
        outputs = []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.1)
            outputs.append(x)
        return [*outputs, self.last(x)]


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
        index = (torch.linspace(0, 1, MEL_BINS) ** 1.7 * 512).round().long()
        self.to_log_spectrum = self.codec.vocoder.get_buffer("envelope_basis")[:, index] / 6
        self.discriminator = Discriminator()
        parameters = [p for p in self.codec.features.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(parameters, lr=args.lr, betas=(0.8, 0.98), weight_decay=0.01)
        self.critic_optimiser = torch.optim.AdamW(self.discriminator.parameters(), lr=2e-4, betas=(0.8, 0.98))
        self.step = 0
        self.checkpoint = args.out / "codec-training.pt"
        if self.checkpoint.exists():
            state = torch.load(self.checkpoint, weights_only=True)
            self.codec.load_state_dict(state["codec"])
            self.discriminator.load_state_dict(state["discriminator"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.critic_optimiser.load_state_dict(state["critic_optimiser"])
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
        self.neighbours = [
            torch.cdist(book, book).topk(NUM_NEAREST, largest=False).indices for book in quantiser.codebooks
        ]
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
        noisy = torch.stack(codes)
        for i in range(2, noisy.shape[1]):
            near = self.neighbours[i][noisy[:, i]].gather(2, torch.randint(NUM_NEAREST, (*noisy[:, i].shape, 1)))[
                ..., 0
            ]
            noisy[:, i] = torch.where(torch.rand(near.shape) < CODE_NOISE, near, noisy[:, i])
        return noisy, torch.stack(targets)

    def reconstruct(self, codes: Tensor) -> Tensor:
        """Parameters of ``codes`` from empty windows."""
        network = self.codec.features
        out: Tensor = network(network.dequantise(codes), network.empty_windows(len(codes)))[0]
        return out

    def distance(self, made: Tensor, target: Tensor) -> dict[str, Tensor]:
        """L1 per kind of parameter; cepstra also by their slope in time; pitch where it is voiced."""
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

    def log_spectrum(self, parameters: Tensor) -> Tensor:
        """[B, 1, 8F, 80], about unit range."""
        return (parameters[..., :NUM_CEPSTRA] @ self.to_log_spectrum + 2)[:, None]

    def train_step(self) -> dict[str, float]:
        """One update of decoder and, once it has started, discriminator."""
        scale = min(1.0, (self.step + 1) / 200) * max(0.05, 1 - self.step / self.args.steps)
        for group in self.optimiser.param_groups:
            group["lr"] = self.args.lr * scale
        codes, target = self.batch()
        made = self.reconstruct(codes)
        parts = self.distance(made, target)
        total = torch.stack([WEIGHTS[name] * part for name, part in parts.items()]).sum()
        report = {name: part.item() for name, part in parts.items()}
        if self.step >= self.args.adversarial_from:
            real, fake = self.log_spectrum(target), self.log_spectrum(made)
            critic = self.discriminator(real)[-1], self.discriminator(fake.detach())[-1]
            critic_loss = F.relu(1 - critic[0]).mean() + F.relu(1 + critic[1]).mean()
            self.critic_optimiser.zero_grad()
            critic_loss.backward()  # type: ignore[no-untyped-call]
            self.critic_optimiser.step()
            self.discriminator.requires_grad_(False)
            judged, reference = self.discriminator(fake), self.discriminator(real)
            matching = torch.stack(
                [(a - b).abs().mean() for a, b in zip(judged[:-1], reference[:-1], strict=True)]
            ).sum()
            adversarial = -judged[-1].mean()
            total = total + self.args.adversarial * (adversarial + 2 * matching)
            self.discriminator.requires_grad_(True)
            report |= {"critic": critic_loss.item(), "adversarial": adversarial.item(), "matching": matching.item()}
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
            parts = [self.distance(self.reconstruct(codes.T[None]), target[None]) for codes, target in self.held[:24]]
        return {name: round(float(np.mean([part[name].item() for part in parts])), 4) for name in parts[0]}

    def save(self) -> None:
        """Write the checkpoint and the codec as it stands."""
        state: dict[str, Any] = {"codec": self.codec.state_dict(), "discriminator": self.discriminator.state_dict()}
        state |= {"optimiser": self.optimiser.state_dict(), "critic_optimiser": self.critic_optimiser.state_dict()}
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
