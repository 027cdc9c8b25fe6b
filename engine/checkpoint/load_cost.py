"""What loading a checkpoint costs: time, and the most memory it took. Run as ``python -m engine.checkpoint.load_cost``.

Memory is the kernel's count of resident pages, those of mapped files included, above what the process held before.
"""

import argparse
import json
import resource
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from engine.checkpoint.reader import open_checkpoint
from engine.errors import FootlightsError
from engine.weights import compute_dtype, read_decoder

SHARE = 1.2
"""The largest file counts this much in the bound on the peak."""


@dataclass(frozen=True)
class LoadCost:
    """All sizes in bytes."""

    dtype: str
    files: int
    largest_shard: int
    final: int
    """Weights of the loaded decoder, those that stay mapped from files included."""
    peak: int
    after: int
    """Resident when it was loaded."""
    seconds: float
    cpu_seconds: float
    """Of the processor: on a busy machine the better measure."""

    @property
    def bound(self) -> int:
        """What the peak has to stay below."""
        return self.final + int(SHARE * self.largest_shard)


class PeakMemory:
    """Resident bytes above those of the moment it was made, of this process and of its largest child. Linux only."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")
        self._before = _resident("VmRSS")

    @property
    def peak(self) -> int:
        """The most there were since, in this process or in a child that has ended."""
        child = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        return max(_resident("VmHWM"), child) - self._before

    @property
    def now(self) -> int:
        """Those there are."""
        return _resident("VmRSS") - self._before


def measure(folder: Path, dtype: torch.dtype | None) -> LoadCost:
    """Load a checkpoint and measure. Linux only. Raises what loading raises."""
    with open_checkpoint(folder) as reader:
        dtype = dtype or compute_dtype(reader.config)
        memory, started_s, cpu_started_s = PeakMemory(), time.perf_counter(), time.process_time()
        decoder = read_decoder(reader, dtype)
        seconds, cpu_seconds = time.perf_counter() - started_s, time.process_time() - cpu_started_s
        weights = [*decoder.parameters(), *decoder.buffers()]
        return LoadCost(
            dtype=str(dtype).removeprefix("torch."),
            files=sum(shard.nbytes for shard in reader.shards),
            largest_shard=reader.largest_shard_bytes,
            final=sum(weight.nbytes for weight in weights),
            peak=memory.peak,
            after=memory.now,
            seconds=seconds,
            cpu_seconds=cpu_seconds,
        )


def _resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def main(argv: list[str] | None = None) -> int:
    """Print the figures, one JSON object last; 1 if it cannot be loaded or the peak is above its bound."""
    parser = argparse.ArgumentParser(prog="python -m engine.checkpoint.load_cost", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), help="default: what the engine would choose")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    try:
        cost = measure(arguments.folder, getattr(torch, arguments.dtype) if arguments.dtype else None)
    except FootlightsError as error:
        print(f"footlights: {error}", file=sys.stderr)
        return 1
    for name, size in (("files", cost.files), ("largest file", cost.largest_shard), ("final", cost.final)):
        print(f"{name:14}{size / 1e9:9.3f} GB")
    print(f"{'peak':14}{cost.peak / 1e9:9.3f} GB, bound {cost.bound / 1e9:.3f} GB")
    print(f"{'time':14}{cost.seconds:9.1f} s, {cost.cpu_seconds:.1f} s of them on a processor")
    print(json.dumps({**asdict(cost), "bound": cost.bound}))
    return 0 if cost.peak <= cost.bound else 1


if __name__ == "__main__":
    sys.exit(main())
