"""How much of this machine's memory a model would take."""

from dataclasses import dataclass
from pathlib import Path

import torch

from engine.checkpoint.machine import SPARE_BYTES, machine_memory
from engine.checkpoint.names import part_of
from engine.checkpoint.reader import CheckpointReader, open_checkpoint
from engine.config import ModelConfig
from engine.quant.stored import IntegerForm
from engine.weights import compute_dtype

MAPPED_PARTS = ("embedding", "codebook_embeddings", "tower_embeddings")
"""Tables: looked up row by row, so they can stay in the file."""
PLANNED_ROWS = 2000
"""Rows of context that a listener is planned with."""


@dataclass(frozen=True)
class MemoryPlan:
    """What serving a model takes, in bytes, beside what the machine has."""

    weights: int
    """Of the decoder, as it is computed with."""
    tables: int
    """Stay in the files where they are of the right type; the system may drop their pages at any time."""
    codec: int
    per_listener: int
    """Memory of one utterance of ``PLANNED_ROWS`` rows."""
    available: int
    total: int

    @property
    def needed(self) -> int:
        """For one listener."""
        return self.weights + self.codec + self.per_listener

    @property
    def listeners(self) -> int:
        """Utterances that fit at once, 0 if the model does not."""
        free = self.available - SPARE_BYTES - self.weights - self.codec
        return max(0, free // self.per_listener)

    @property
    def has_room_for_a_warm_standby(self) -> bool:
        """Whether a second worker with its own copy of the model fits beside the first."""
        return self.available - SPARE_BYTES >= 2 * self.needed


def has_room_for_two(folder: Path) -> bool:
    """Whether a second worker can hold the model of a checkpoint folder, too; no tensor is loaded for it.

    Raises ``ConfigError``, ``UnsupportedFormatError`` and ``WeightsError``.
    """
    with open_checkpoint(folder) as reader:
        plan = plan_memory(reader, compute_dtype(reader.config), codec_bytes(folder))
    return plan.has_room_for_a_warm_standby


def codec_bytes(folder: Path) -> int:
    """About what the codec of a checkpoint folder takes: its file's size."""
    files = (folder / name for name in ("codec.safetensors", "codec.pth"))
    return next((file.stat().st_size for file in files if file.is_file()), 0)


def plan_memory(reader: CheckpointReader, dtype: torch.dtype, codec_bytes: int) -> MemoryPlan:
    """The plan for a checkpoint computed with in ``dtype``."""
    total, available = machine_memory()
    weights, tables = 0, 0
    stays_packed = reader.quantisation is not None and isinstance(reader.quantisation.rest, IntegerForm)
    for name in reader.names():
        part, values = part_of(name), torch.Size(reader.shape(name)).numel()
        if part == "head":
            values = reader.config.num_candidates * reader.config.backbone.hidden_size
        nbytes = values * dtype.itemsize
        if part in MAPPED_PARTS:
            tables += nbytes
            weights += 0 if reader.stored_bytes(name) == nbytes else nbytes
        else:
            weights += min(nbytes, reader.stored_bytes(name)) if stays_packed else nbytes
    return MemoryPlan(weights, tables, codec_bytes, listener_bytes(reader.config, dtype), available, total)


def listener_bytes(config: ModelConfig, dtype: torch.dtype, rows: int = PLANNED_ROWS) -> int:
    """Memory of one utterance with ``rows`` rows of context."""
    return rows * config.kv_bytes_per_row(dtype.itemsize) + config.recurrent_state_bytes(dtype.itemsize)
