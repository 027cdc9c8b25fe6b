"""Codes chosen for the inputs that a model sees while it speaks: calibration text, its speech, and what goes where."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from engine.errors import ConfigError
from engine.loading import load_parts
from engine.quant.convert import WORK_PREFIX, to_nearest
from engine.quant.gptq import gptq
from engine.quant.inputs import Inputs, input_name, record_inputs
from engine.quant.integer import IntegerMatrix
from engine.quant.scheme import PartScheme, Scheme
from engine.quant.takes import calibration_texts, record
from engine.weights import load_decoder

INPUTS_FILE = f"{WORK_PREFIX}.inputs.safetensors"
SEED = 1


@dataclass(frozen=True)
class Calibrated:
    """GPTQ for 4 bits; 8 bits go to the nearest. ``inputs``: what the matrices were multiplied with."""

    inputs: Inputs

    def __call__(self, name: str, weight: Tensor, part: PartScheme) -> IntegerMatrix:
        """See ``Rounding``."""
        if part.bits == 8 or part.method == "rtn":
            return to_nearest(name, weight, part)
        # An expert that was never chosen has no inputs.
        inputs = self.inputs.get(input_name(name), weight.new_empty(0, weight.shape[1]))
        return gptq(weight, inputs, part.bits, part.group_for(name, weight.shape[1]))


def calibrate(
    source: Path, sentences: int, scheme: Scheme, folder: Path, advance: Callable[[], None] = lambda: None
) -> Calibrated:
    """Let the model in ``source`` speak, and note what the matrices that ``scheme`` keeps in 4 bits are given.

    They are kept in ``folder``, and found there by the next run. ``advance`` is called after each sentence. The model
    has to fit into memory for this. Raises ``ConfigError`` and ``WeightsError``.
    """
    path = folder / INPUTS_FILE
    if path.exists():
        for _ in range(sentences):
            advance()
        return Calibrated(_read(path))
    takes = record(load_parts(source), calibration_texts(sentences), SEED, advance)

    def is_wanted(path: str) -> bool:
        part = scheme.of_module(path)
        return part.bits == 4 and part.method != "rtn"

    # The one that spoke was made ready for this machine, which leaves no plain matrices to watch.
    inputs = record_inputs(load_decoder(source)[0], takes, is_wanted)
    partial = path.with_name(f"{path.name}.partial")
    try:
        save_file(inputs, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return Calibrated(inputs)


def _read(path: Path) -> Inputs:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name).to(torch.bfloat16) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; delete it and run the same command again") from error
