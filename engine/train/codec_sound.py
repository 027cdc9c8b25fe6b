"""Stage 5 of the recipe: train the codec's decoder further, by its sound.

In stage 4 it learned the teacher's parameters, which count alike in every band and at every moment. Here the vocoder
makes sound of them, and what counts is the distance of that from the teacher's sound in mel bands, beside the distances
of stage 4 and a critic like the one there. Codes, codebooks and vocoder stay as they are: every decoder fits the codec
before and after.

The post-filter is left out. With it in the way the network learns to undo it (``docs/experiments.md``).
"""

import argparse
import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from torch import Tensor, nn

from engine.codec.understudy import UnderstudyCodec
from engine.codec.vocoder import NOISE_FRAMES, SAMPLES_PER_FRAME, SUBFRAMES_PER_FRAME
from engine.train.codec_decoder import export, nearest_codes, parameter_distances, parameter_loss, with_code_noise
from engine.train.critic import Critic
from engine.train.features import load_takes
from engine.train.labels import trim
from engine.train.quantiser import Quantiser
from engine.train.recipe import LEARNED_SHARE
from engine.train.synthesis import VOCODER_LAG_SAMPLES, MelDistance, synthesise, with_source, without_rumble
from engine.train.texts import is_held_out
from engine.train.weights import between, copied, showing

MEL_WEIGHT, PARAMETER_WEIGHT, ADVERSARIAL_WEIGHT = 2.0, 0.3, 0.05
CRITIC_ALONE = 200
"""Updates in which the critic learns and is not yet listened to."""
CONTEXT_FRAMES = 15
"""What the network has seen before the frames that sound: five blocks look three frames back each."""
AVERAGE = 0.995
"""Decay of the averaged weights."""


@dataclass(frozen=True)
class SoundTake:
    """``codes`` [F, C], ``parameters`` [8 F, D] and the sound itself, int16 [1200 F]."""

    codes: Tensor
    parameters: Tensor
    sound: Tensor


def load_sound_takes(features: Path, speech: Path, quantiser: Quantiser) -> tuple[list[SoundTake], list[SoundTake]]:
    """Takes of ``features`` with their sound in ``speech``: to learn from, and held out. Some 0.2 GB an hour.

    Exits where the sound is not there.
    """
    if not (speech / "index.jsonl").is_file():
        raise SystemExit(f"{speech} has no index.jsonl: name the folder that {features} was made from")
    places: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in map(json.loads, (speech / "index.jsonl").read_text(encoding="utf-8").splitlines()):
        places.setdefault((entry["shard"], entry["text"]), []).append(entry)
    shard, audio = "", np.zeros(0)
    train: list[SoundTake] = []
    held: list[SoundTake] = []
    for take in load_takes(features):
        found = places.get((take.shard, take.text))
        if not found or not (speech / take.shard).is_file():
            raise SystemExit(f"{speech} lacks the sound of {take.shard}, of which {features} tells")
        # The same text a second time: takes have the same order in both.
        place = found.pop(0) if len(found) > 1 else found[0]
        if take.shard != shard:
            shard, audio = take.shard, soundfile.read(speech / take.shard)[0]
        wave = audio[place["start"] : place["start"] + place["samples"]].astype(np.float64)
        wave, _ = trim(wave, place["durations"], place["phonemes"])
        codes, _ = quantiser.encode(take.features)
        assert len(wave) >= len(codes) * SAMPLES_PER_FRAME, take.text
        pcm = (np.clip(wave[: len(codes) * SAMPLES_PER_FRAME], -1, 1) * 32767).astype(np.int16)
        parameters = torch.from_numpy(take.features[: len(codes) * SUBFRAMES_PER_FRAME])
        (held if is_held_out(take.text) else train).append(SoundTake(codes, parameters, torch.from_numpy(pcm)))
    return train, held


class SoundTrainer:
    """State of a run; resumable."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        torch.manual_seed(args.seed)
        self.rng = np.random.default_rng(args.seed)
        quantiser = Quantiser.load(args.start)
        self.codec = UnderstudyCodec.load(args.start)
        self.network = self.codec.features.train().requires_grad_(True)
        self.before, self.average = copied(self.network), copied(self.network)
        self.optimiser = torch.optim.AdamW(self.network.parameters(), lr=args.lr, betas=(0.8, 0.98), weight_decay=0.0)
        self.critic = Critic(self.codec.vocoder)
        self.step = 0
        self.checkpoint = args.out / "sound-training.pt"
        self.start_sha256 = hashlib.sha256(args.start.read_bytes()).hexdigest()
        if self.checkpoint.exists():
            self._resume()
        self.neighbours = nearest_codes(quantiser)
        self.mel = MelDistance()
        takes, self.held = load_sound_takes(args.features, args.speech, quantiser)
        self.takes = [take for take in takes if len(take.codes) > args.frames + 1]
        if not self.takes:
            raise SystemExit(
                f"no take in {args.features} has more than {args.frames + 1} frames of 50 ms: too little speech"
            )
        lengths = np.array([len(take.codes) for take in self.takes], float)
        self.chances = lengths / lengths.sum()
        print(f"{len(takes)} takes, {len(self.held)} held out, from step {self.step}", flush=True)

    def _resume(self) -> None:
        state = torch.load(self.checkpoint, weights_only=True)
        if state["start_sha256"] != self.start_sha256:
            print(f"{self.args.start} is another codec than before: from step 0 again", flush=True)
            return
        self.network.load_state_dict(state["network"])
        self.average = state["average"]
        self.optimiser.load_state_dict(state["optimiser"])
        self.critic.discriminator.load_state_dict(state["discriminator"])
        self.critic.optimiser.load_state_dict(state["critic_optimiser"])
        self.step = state["step"]
        self.rng = np.random.default_rng((self.args.seed, self.step))
        torch.manual_seed(self.args.seed + self.step)

    def hear(self, parts: list[tuple[SoundTake, int]], noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mel distance, and parameters made and the teacher's (both [B, S, D]).

        Of ``args.frames`` frames of each take, from the one named on (1 or later). The first of them only lets the
        vocoder get going. ``noise`` [B]: where in its table each begins.
        """
        frames = self.args.frames
        codes, targets, sounds, sounding = [], [], [], []
        for take, start in parts:
            # What is missing of the context before is put behind, where a causal network does not see it.
            code = take.codes[max(0, start - CONTEXT_FRAMES) : start + frames]
            codes.append(nn.functional.pad(code.T, (0, CONTEXT_FRAMES + frames - len(code))))
            targets.append(take.parameters[start * SUBFRAMES_PER_FRAME - 1 : (start + frames) * SUBFRAMES_PER_FRAME])
            before = min(start, CONTEXT_FRAMES)
            sounding.append(slice(before * SUBFRAMES_PER_FRAME - 1, (before + frames) * SUBFRAMES_PER_FRAME))
            end = (start + frames) * SAMPLES_PER_FRAME - VOCODER_LAG_SAMPLES
            sounds.append(take.sound[end - frames * SAMPLES_PER_FRAME : end].float() / 32767)
        noisy = with_code_noise(torch.stack(codes), self.neighbours)
        all_made = self.network(self.network.dequantise(noisy), self.network.empty_windows(len(parts)))[0]
        made = torch.stack([one[part] for one, part in zip(all_made, sounding, strict=True)])
        target = torch.stack(targets)
        sound = synthesise(self.codec.vocoder, with_source(made, target), noise)
        heard = slice(SAMPLES_PER_FRAME, None)
        mel = self.mel(sound[:, heard], without_rumble(torch.stack(sounds))[:, heard])
        return mel, made, target

    def train_step(self) -> dict[str, float]:
        """One update."""
        scale = min(1.0, (self.step + 1) / 200) * max(0.02, min(1.0, 2 * (1 - self.step / self.args.steps)))
        for group in self.optimiser.param_groups:
            group["lr"] = self.args.lr * scale
        chosen = [self.takes[i] for i in self.rng.choice(len(self.takes), self.args.batch, p=self.chances)]
        parts = [(take, int(self.rng.integers(1, len(take.codes) - self.args.frames + 1))) for take in chosen]
        mel, made, target = self.hear(parts, torch.randint(NOISE_FRAMES, (len(parts),)))
        distances = parameter_distances(made, target)
        total = MEL_WEIGHT * mel + PARAMETER_WEIGHT * parameter_loss(distances)
        report = {"mel": mel.item()} | {name: part.item() for name, part in distances.items()}
        report["critic"] = self.critic.learn(made, target)
        if self.step >= CRITIC_ALONE:
            judged = self.critic.losses(made, target)
            total = total + ADVERSARIAL_WEIGHT * self.critic.total(judged)
            report |= {name: part.item() for name, part in judged.items()}
        self.optimiser.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), 5.0)
        self.optimiser.step()
        with torch.no_grad():
            for name, parameter in self.network.named_parameters():
                self.average[name].lerp_(parameter, 1 - AVERAGE)
        self.step += 1
        return report

    def validate(self) -> dict[str, float]:
        """Mean distances of what is kept on parts of held-out takes, the same each time."""
        held = [take for take in self.held if len(take.codes) > self.args.frames + 1][:48]
        if not held:
            return {}
        state = torch.get_rng_state()
        torch.manual_seed(0)
        with torch.no_grad(), showing(self.network, self.kept()):
            parts = [(take, (len(take.codes) - self.args.frames) // 2 + 1) for take in held]
            mel, made, target = self.hear(parts, torch.arange(len(parts)) % NOISE_FRAMES)
        torch.set_rng_state(state)
        return {
            name: round(part.item(), 4) for name, part in [("mel", mel), *parameter_distances(made, target).items()]
        }

    def kept(self) -> dict[str, Tensor]:
        """The weights that are kept."""
        return between(self.before, self.average, LEARNED_SHARE)

    def save(self) -> None:
        """Write the checkpoint, and the codec as it is kept."""
        state: dict[str, Any] = {"network": self.network.state_dict(), "average": self.average, "step": self.step}
        state["start_sha256"] = self.start_sha256
        partial = self.checkpoint.with_suffix(".partial")
        state |= {"optimiser": self.optimiser.state_dict(), "critic_optimiser": self.critic.optimiser.state_dict()}
        torch.save(state | {"discriminator": self.critic.discriminator.state_dict()}, partial)
        partial.rename(self.checkpoint)
        with showing(self.network, self.kept()):
            export(self.codec, self.args.out / "codec.safetensors")

    def run(self) -> None:
        """Train to ``--steps``, logging JSON lines to ``log.jsonl``."""
        recent: list[dict[str, float]] = []
        started = last = time.monotonic()
        while self.step < self.args.steps:
            recent.append(self.train_step())
            if self.step % self.args.log_every == 0 or self.step == self.args.steps:
                means = {key: round(float(np.mean([r[key] for r in recent if key in r])), 4) for key in recent[-1]}
                entry = {"step": self.step, "seconds": round(time.monotonic() - started, 1)} | means
                line = json.dumps(entry | {"validation": self.validate()})
                with (self.args.out / "log.jsonl").open("a", encoding="utf-8") as out:
                    out.write(line + "\n")
                print(line, flush=True)
                recent = []
            if time.monotonic() - last > 120:
                self.save()
                last = time.monotonic()
        self.save()


def main() -> None:
    """Command line: ``python -m engine.train.codec_sound --help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speech", type=Path, required=True, help="folder with index.jsonl and shards")
    parser.add_argument("--features", type=Path, required=True, help="the same speech analysed")
    parser.add_argument("--start", type=Path, required=True, help="codec.safetensors to begin from")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--frames", type=int, default=9, help="frames of a take in an update")
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--log-every", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    SoundTrainer(args).run()


if __name__ == "__main__":
    main()
