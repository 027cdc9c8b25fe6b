"""Codes chosen for the inputs that a model sees while it speaks: calibration text, its speech, and what goes where."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from engine.errors import ConfigError
from engine.loading import load_parts
from engine.model.decoder import Decoder
from engine.quant.awq import awq, find_gains, no_gains
from engine.quant.convert import WORK_PREFIX, to_nearest
from engine.quant.gptq import gptq
from engine.quant.inputs import Inputs, record_inputs
from engine.quant.integer import IntegerMatrix
from engine.quant.places import input_name, weight_of
from engine.quant.scheme import PartScheme, Scheme
from engine.quant.takes import calibration_texts, record
from engine.weights import load_decoder

INPUTS_FILE = f"{WORK_PREFIX}.inputs.safetensors"
GAINS_FILE = f"{WORK_PREFIX}.gains.safetensors"
SEED = 1

Watch = Callable[[str, int], AbstractContextManager[Callable[[], None]]]
"""See ``engine.progress.progress``."""


@dataclass(frozen=True)
class Calibrated:
    """GPTQ or AWQ for 4 bits; 8 bits go to the nearest. ``inputs``: what the matrices were multiplied with."""

    inputs: Inputs
    gains: Mapping[str, Tensor] = field(default_factory=dict)
    """[I] (bfloat16) by ``input_name``; for AWQ."""

    def __call__(self, name: str, weight: Tensor, part: PartScheme) -> IntegerMatrix:
        """See ``Rounding``."""
        if part.bits == 8 or part.method == "rtn":
            return to_nearest(name, weight, part)
        group, place = part.group_for(name, weight.shape[1]), input_name(name)
        # An expert that was never chosen has no inputs.
        inputs = self.inputs.get(place, weight.new_empty(0, weight.shape[1]))
        if part.method == "awq":
            gains = self.gains.get(place)
            return awq(weight, inputs, no_gains(weight.shape[1]) if gains is None else gains, group)
        return gptq(weight, inputs, part.bits, group)


def calibrate(source: Path, sentences: int, scheme: Scheme, folder: Path, watch: Watch) -> Calibrated:
    """Let the model in ``source`` speak, and note what the matrices that ``scheme`` keeps in 4 bits are given.

    It is kept in ``folder``, and found there by the next run; so are the gains of AWQ. The model has to fit into memory
    for this. Raises ``ConfigError`` and ``WeightsError``.
    """
    inputs = _kept(folder / INPUTS_FILE, lambda: _hear(source, sentences, scheme, watch))
    if not scheme.has_gains:
        return Calibrated(inputs)
    return Calibrated(inputs, _kept(folder / GAINS_FILE, lambda: _gains(source, inputs, scheme, watch)))


def gains_for(decoder: Decoder, inputs: Inputs, scheme: Scheme, advance: Callable[[], None]) -> dict[str, Tensor]:
    """Gains of the matrices that ``scheme`` gives to AWQ, by ``input_name``; ``advance`` is called after each."""
    found = {}
    for name, x in inputs.items():
        path, weight = weight_of(decoder, name)
        part = scheme.of_module(path)
        if part.has_gains:
            found[name] = find_gains(weight, x, part.group_for(path, weight.shape[1]))
        advance()
    return found


def _hear(source: Path, sentences: int, scheme: Scheme, watch: Watch) -> Inputs:
    def is_wanted(path: str) -> bool:
        part = scheme.of_module(path)
        return part.bits == 4 and part.method != "rtn"

    with watch("speaking for calibration", sentences) as advance:
        takes = record(load_parts(source), calibration_texts(sentences), SEED, advance)
    # The one that spoke was made ready for this machine, which leaves no plain matrices to watch.
    return record_inputs(load_decoder(source)[0], takes, is_wanted)


def _gains(source: Path, inputs: Inputs, scheme: Scheme, watch: Watch) -> dict[str, Tensor]:
    with watch("finding gains", len(inputs)) as advance:
        return gains_for(load_decoder(source)[0], inputs, scheme, advance)


def _kept(path: Path, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """What an earlier run left at ``path``, else what ``make`` gives, left there."""
    if path.exists():
        return _read(path)
    made = make()
    partial = path.with_name(f"{path.name}.partial")
    try:
        save_file(made, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return made


def _read(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name).to(torch.bfloat16) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; delete it and run the same command again") from error
