"""Codes chosen for the inputs that a model sees while it speaks: calibration text, its speech, and what goes where.

The model is never in memory as it is. What speaks is a copy quantised to the nearest while it is read, which says much
the same; inputs are those of the original while it hears that, layer by layer (``Walk``).
"""

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from torch import Tensor

from engine.checkpoint.reader import CheckpointReader
from engine.errors import ConfigError
from engine.quant.awq import awq, find_gains, no_gains
from engine.quant.gptq import Spread, gptq
from engine.quant.integer import IntegerMatrix
from engine.quant.kept import KeptTensors
from engine.quant.places import expert_of, input_name
from engine.quant.rounding import by_outputs, to_nearest
from engine.quant.scheme import PartScheme, Scheme
from engine.quant.takes import (
    Recorded,
    calibration_texts,
    load_speaker,
    record,
    takes_of_tensors,
    takes_to_tensors,
)
from engine.quant.walk import Walk, stage_of

SEED = 1
HELD_SPREADS = 2
"""Matrices with the same inputs lie near each other in files, but not always side by side."""

Watch = Callable[[str, int], AbstractContextManager[Callable[[], None]]]
"""See ``engine.progress.progress``. A function of a module: it is used in another process."""


class Calibrated:
    """GPTQ or AWQ for 4 bits; 8 bits go to the nearest. See ``Rounding``."""

    def __init__(self, walk: Walk, scheme: Scheme, kept: KeptTensors) -> None:
        self._walk, self._scheme, self._kept = walk, scheme, kept
        self._spreads: OrderedDict[str, Spread | None] = OrderedDict()
        self._gains_of: tuple[str, dict[str, Tensor]] = "", {}

    def __call__(self, name: str, weight: Tensor, part: PartScheme) -> IntegerMatrix:
        """Codes of tensor ``name``, ``weight`` [O, I]; those of an expert that was never chosen, to the nearest."""
        if not is_calibrated(part):
            return to_nearest(name, weight, part)
        group, place = part.group_for(name, weight.shape[1]), input_name(name)
        if part.method == "gptq":
            spread = self._spread(place)
            return by_outputs(weight, lambda piece: gptq(piece, spread, part.bits, group))
        inputs = self._walk.inputs(place)
        if inputs is None:
            inputs = weight.new_empty(0, weight.shape[1])
        gains = self._gains(stage_of(place)).get(place, no_gains(weight.shape[1]))
        return by_outputs(weight, lambda piece: awq(piece, inputs, gains, group))

    def _spread(self, place: str) -> Spread | None:
        if place not in self._spreads:
            while len(self._spreads) >= HELD_SPREADS:
                self._spreads.popitem(last=False)
            inputs = self._walk.inputs(place)
            self._spreads[place] = None if inputs is None else Spread.of(inputs)
        self._spreads.move_to_end(place)
        return self._spreads[place]

    def _gains(self, stage: str) -> dict[str, Tensor]:
        """Gains [I] (bfloat16) by place. Kept: what is joined has to have the same ones, whenever it is quantised."""
        if self._gains_of[0] != stage:
            kept = self._kept.get(f"gains-{stage}")
            if kept is None:
                kept = self._find_gains(stage)
                self._kept.put(f"gains-{stage}", kept)
            self._gains_of = stage, kept
        return self._gains_of[1]

    def _find_gains(self, stage: str) -> dict[str, Tensor]:
        found = {}
        for place in self._walk.places(stage):
            path = place if (expert := expert_of(place)) is None else expert[0]
            part = self._scheme.of_module(path)
            if part.has_gains and (inputs := self._walk.inputs(place)) is not None:
                found[place] = find_gains(self._walk.weight(place), inputs, part.group_for(path, inputs.shape[1]))
        return found


def is_calibrated(part: PartScheme) -> bool:
    """Whether codes depend on what the model says."""
    return part.bits == 4 and part.method != "rtn"


def calibrate(
    source: Path, reader: CheckpointReader, sentences: int, scheme: Scheme, folder: Path, watch: Watch
) -> Calibrated:
    """Let a copy of the model in ``source`` speak; the result quantises the original for what it was given then.

    What it said is kept in ``folder`` and found there by the next run, and so is what was worked out since. Raises
    ``ConfigError`` and ``WeightsError``.
    """
    kept = KeptTensors(folder)
    takes = _takes(source, sentences, scheme, folder, watch)
    return Calibrated(walk_of(reader, takes, scheme, kept), scheme, kept)


def walk_of(reader: CheckpointReader, takes: list[Recorded], scheme: Scheme, kept: KeptTensors) -> Walk:
    """A walk that notes what matters for ``scheme``."""
    return Walk(reader, takes, lambda path: is_calibrated(scheme.of_module(path)), kept)


def speaking_scheme(scheme: Scheme) -> Scheme:
    """What the copy that speaks is quantised to: as ``scheme`` says, but for parts that 4 bits do not suit."""

    def of(part: PartScheme, fewest: int) -> PartScheme:
        return replace(part, bits=max(part.bits, fewest), method="rtn")

    return Scheme(of(scheme.experts, 4), of(scheme.dense, 8), of(scheme.tower, 8), of(scheme.heads, 8))


def _takes(source: Path, sentences: int, scheme: Scheme, folder: Path, watch: Watch) -> list[Recorded]:
    kept = KeptTensors(folder)
    if kept.get("takes") is None:
        # In a process of its own, whose memory is all gone with it.
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            try:
                pool.submit(speak_and_keep, source, sentences, scheme, folder, watch).result()
            except BrokenProcessPool as error:
                raise ConfigError(
                    f"the process in which {source} speaks for calibration was ended; is there too little memory?"
                ) from error
    tensors = kept.get("takes")
    assert tensors is not None
    return takes_of_tensors(tensors)


def speak_and_keep(source: Path, sentences: int, scheme: Scheme, folder: Path, watch: Watch) -> None:
    """Let a copy of the model speak, and keep its takes in ``folder``."""
    with watch("speaking for calibration", sentences) as advance:
        takes = record(load_speaker(source, speaking_scheme(scheme)), calibration_texts(sentences), SEED, advance)
    KeptTensors(folder).put("takes", takes_to_tensors(takes))
