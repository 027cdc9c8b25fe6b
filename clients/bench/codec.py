"""``footlights bench codec``: what the codec of Drama 3 costs by size of batch and piece.

Speed does not depend on what the weights are, so without a checkpoint they are random, at the published dimensions.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from rich.table import Table
from torch.utils.flop_counter import FlopCounterMode

from clients.bench import report
from engine.codec.dac.codec import DacCodec
from engine.codec.dac.config import DacConfig
from engine.codec.dac.loading import load_dac
from engine.core import real_time_factor
from engine.progress import progress


@dataclass
class PieceSpeed:
    """Calls of ``decode_step`` with ``batch`` streams and ``frames`` frames of each."""

    batch: int
    frames: int
    audio_s: float
    """Audio of all streams that one call makes."""
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    @property
    def rtf(self) -> float:
        """By the wall clock, of the median call, for all streams together: real time below 1 / batch of each."""
        return real_time_factor(statistics.median(self.wall_s), self.audio_s)

    @property
    def rtf_cpu(self) -> float:
        """By processor time, of the median call."""
        return real_time_factor(statistics.median(self.cpu_s), self.audio_s)

    def as_json(self) -> dict[str, object]:
        """For the JSON line."""
        return {
            "streams": self.batch,
            "frames": self.frames,
            "wall_ms": 1000 * statistics.median(self.wall_s),
            "cpu_ms": 1000 * statistics.median(self.cpu_s),
            "least_cpu_ms": 1000 * min(self.cpu_s),
            "rtf": self.rtf,
            "rtf_cpu": self.rtf_cpu,
        }


def codec(arguments: argparse.Namespace) -> None:
    """``footlights bench codec``. Raises ``FootlightsError``."""
    console = report.console()
    settings: dict[str, object] = {
        "model": str(arguments.model) if arguments.model else "random weights, published dimensions",
        "batches": arguments.batches,
        "frames": arguments.frames,
        "repeats": arguments.repeats,
    }
    where = report.header(console, "footlights bench codec", settings)
    measured = load_dac(arguments.model) if arguments.model else random_codec(DacConfig())
    with progress("codec", arguments.repeats) as advance:
        speeds = measure(measured, arguments.batches, arguments.frames, arguments.repeats, advance)
    console.print(table(speeds, measured))
    counted = {str(frames): gflop_per_s(measured.config, frames) for frames in arguments.frames}
    console.print(f"GFLOP per second of audio, by frames in a piece: {counted}", highlight=False)
    memory = measured.allocate(1).nbytes
    console.print(f"memory of a stream: {memory / 2**20:.2f} MiB", highlight=False)
    results = {
        "pieces": [speed.as_json() for speed in speeds],
        "gflop_per_s": counted,
        "stream_bytes": memory,
        "frame_ms": 1000 * measured.samples_per_frame / measured.sample_rate,
    }
    report.finish(report.json_line("codec", where, settings, results), arguments.out / "codec" / "codec.json")


def random_codec(config: DacConfig) -> DacCodec:
    """A codec that makes noise."""
    torch.manual_seed(0)
    return DacCodec(config).eval().requires_grad_(False)


def measure(
    codec: DacCodec, batches: Sequence[int], frames: Sequence[int], repeats: int, advance: Callable[[], None]
) -> list[PieceSpeed]:
    """Time every size ``repeats`` times, in turn, so that a busy moment of the machine does not hit one size alone."""
    speeds, calls = [], []
    for batch in batches:
        for count in frames:
            seconds = batch * count * codec.samples_per_frame / codec.sample_rate
            speeds.append(PieceSpeed(batch, count, seconds))
            codes = torch.randint(codec.config.residual_codebook_size, (batch, codec.num_codebooks, count))
            calls.append((codes, codec.allocate(batch)))
            codec.decode_step(*calls[-1])
    for _ in range(repeats):
        for speed, (codes, memory) in zip(speeds, calls, strict=True):
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            codec.decode_step(codes, memory)
            speed.wall_s.append(time.perf_counter() - wall_s)
            speed.cpu_s.append(time.process_time() - cpu_s)
        advance()
    return speeds


def gflop_per_s(config: DacConfig, frames: int) -> float:
    """10^9 operations per second of audio in pieces of ``frames`` frames, counted on tensors without numbers."""
    with torch.device("meta"):
        empty = DacCodec(config)
        codes = torch.zeros(1, config.num_codebooks, frames, dtype=torch.int64)
    counter, memory = FlopCounterMode(display=False), empty.allocate(1)
    with counter:
        empty.decode_step(codes, memory)
    seconds = frames * config.samples_per_frame / config.sample_rate
    return round(counter.get_total_flops() / seconds / 1e9, 2)


def table(speeds: Sequence[PieceSpeed], codec: DacCodec) -> Table:
    """One row a size."""
    frame_ms = 1000 * codec.samples_per_frame / codec.sample_rate
    made = Table(title=f"codec: median ms a call, of {frame_ms:.1f} ms a frame")
    for column in ("streams", "frames a call", "wall", "cpu", "RTF (all)", "RTF (cpu)"):
        made.add_column(column, justify="right")
    for speed in speeds:
        made.add_row(
            str(speed.batch),
            str(speed.frames),
            f"{1000 * statistics.median(speed.wall_s):.0f}",
            f"{1000 * statistics.median(speed.cpu_s):.0f}",
            f"{speed.rtf:.2f}",
            f"{speed.rtf_cpu:.2f}",
        )
    return made
