"""The tiny Drama 3 golden set: a checkpoint with random weights and what an independent implementation makes of it."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.model.decoder import Decoder
from engine.weights import load_decoder

# Small tensors: threads would wait for each other longer than they compute.
torch.set_num_threads(1)

ROOT = Path(__file__).parent / "drama3-tiny"


@pytest.fixture(scope="session")
def checkpoint() -> Path:
    return ROOT / "checkpoint-bf16"


@pytest.fixture(scope="session")
def decoder(checkpoint: Path) -> Decoder:
    return load_decoder(checkpoint)[0]


@pytest.fixture(scope="session")
def expected() -> dict[str, Tensor]:
    return load_file(ROOT / "expected.safetensors")


@pytest.fixture(scope="session")
def inputs() -> dict[str, Tensor]:
    return {name: tensor.long() for name, tensor in load_file(ROOT / "inputs.safetensors").items()}


@pytest.fixture(scope="session")
def prompts() -> dict[str, Tensor]:
    return {name: tensor.long() for name, tensor in load_file(ROOT / "prompts.safetensors").items()}


@pytest.fixture(scope="session")
def sampling() -> tuple[dict[str, Any], dict[str, Tensor]]:
    return json.loads((ROOT / "sampling.json").read_text()), load_file(ROOT / "sampling.safetensors")


@pytest.fixture(scope="session")
def text_cases() -> dict[str, Any]:
    cases: dict[str, Any] = json.loads((ROOT / "text.json").read_text(encoding="utf-8"))
    return cases


@pytest.fixture(scope="session")
def rules() -> dict[str, Any]:
    cases: dict[str, Any] = json.loads((ROOT / "rules.json").read_text())
    return cases
