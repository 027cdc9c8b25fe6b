"""A folder as the stages of the recipe leave it, small, with a decoder that has learned nothing."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from engine.codec.understudy import CODEBOOK_SIZE, CODEBOOK_STREAMS, NUM_COMPONENTS
from engine.codec.vocoder import NUM_FEATURES, SUBFRAMES_PER_FRAME
from engine.model.decoder import Decoder, initialise
from engine.train.features import SUBFRAMES_PER_UNIT
from engine.train.quantiser import Quantiser
from engine.train.recipe import model_config
from engine.train.texts import is_held_out
from engine.train.verdicts import JUDGED, Verdict

HIDDEN, LAYERS = 128, 4
TEXTS = [f"This is line number {number}." for number in range(60)]


def entry(text: str, voice: str = "af_heart", phonemes: str = "ðˈɪs", units: int = 8) -> dict[str, Any]:
    durations = [2] + [1] * (len(phonemes) - 1) + [units - len(phonemes) - 3, 2]
    return {"text": text, "voice": voice, "phonemes": phonemes, "durations": durations}


def make_run(folder: Path) -> Path:
    """Features of ``TEXTS`` (take 1 dropped by the judge), codebooks, decoder, logs: all made up."""
    random, generator = np.random.default_rng(1), torch.Generator().manual_seed(1)
    (folder / "features").mkdir()
    lines, position = [], 0
    for number, text in enumerate(TEXTS):
        line = entry(text, "am_michael" if number % 3 else "af_heart", units=20)
        span = {"shard": "shard-0000.flac", "file": "shard-0000.npz", "start": position}
        position += sum(line["durations"]) * SUBFRAMES_PER_UNIT
        lines.append(json.dumps(line | span | {"stop": position}))
    features = random.normal(0, 1, (position, NUM_FEATURES)).astype(np.float16)
    np.savez(folder / "features" / "shard-0000.npz", features=features)
    (folder / "features" / "features.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sizes = {"spectrum": 40 * SUBFRAMES_PER_FRAME, "source": 5 * SUBFRAMES_PER_FRAME}
    quantiser = Quantiser(
        {name: torch.zeros(size) for name, size in sizes.items()},
        {name: torch.randn(NUM_COMPONENTS[name], size, generator=generator) for name, size in sizes.items()},
        [torch.randn(CODEBOOK_SIZE, NUM_COMPONENTS[s], generator=generator) for s in CODEBOOK_STREAMS],
    )
    verdicts = [
        Verdict("shard-0000.flac", 0, "am_michael" if i % 3 else "af_heart", text, 8, "", 8 * (i == 1), True)
        for i, text in enumerate(TEXTS)
    ]
    assert not is_held_out(TEXTS[1])
    (folder / "features" / JUDGED).write_text("".join(json.dumps(asdict(v)) + "\n" for v in verdicts), "utf-8")
    save_file(quantiser.state_dict(), folder / "quantiser.safetensors")
    decoder = Decoder(model_config(HIDDEN, LAYERS))
    initialise(decoder, 1)
    average = dict(decoder.named_parameters())
    torch.save({"decoder": decoder.state_dict(), "average": average, "step": 20}, folder / "training.pt")
    log = [
        {"step": 10, "seconds": 30.0, "main": 5.0, "codebooks": [6.0, 4.0], "pointer": 1.5}
        | {"validation": {"main": 5.5, "codebooks": [6.5, 4.5], "pointer": 1.6}},
        {"step": 20, "seconds": 60.0, "main": 4.0, "codebooks": [5.0, 3.0], "pointer": 1.25}
        | {"validation": {"main": 4.5, "codebooks": [5.5, 3.5], "pointer": 1.375}},
    ]
    (folder / "decoder.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log), encoding="utf-8")
    stages = [("teacher", 600.0), ("decoder", 1800.0), ("decoder", 1200.0)]
    (folder / "stages.jsonl").write_text(
        "".join(json.dumps({"stage": name, "seconds": spent}) + "\n" for name, spent in stages), encoding="utf-8"
    )
    return folder
