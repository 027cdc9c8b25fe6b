"""What ``footlights quantize`` costs: time, and the most memory it took. Run as ``python -m engine.quant.cost``.

Arguments are those of ``footlights quantize``. Memory is counted as by ``engine.checkpoint.load_cost``.
"""

import json
import os
import sys
import time

import torch

from engine.checkpoint.load_cost import SHARE, PeakMemory
from engine.checkpoint.reader import open_checkpoint
from engine.quant import calibrated, cli, convert  # noqa: F401 (what they import is no part of the cost)


def main(argv: list[str] | None = None) -> int:
    """Quantise, and print the figures, one JSON object last; 1 if it failed or the peak is above its bound."""
    given = sys.argv[1:] if argv is None else argv
    arguments = cli.parser().parse_args(given)
    torch.set_num_threads(1)
    memory, started_s, cpu_started_s = PeakMemory(), time.perf_counter(), _cpu_s()
    if status := cli.main(given):
        return status
    figures = {"seconds": time.perf_counter() - started_s, "cpu_seconds": _cpu_s() - cpu_started_s}
    with open_checkpoint(arguments.source) as source, open_checkpoint(arguments.destination) as made:
        largest = source.largest_shard_bytes
        final = sum(made.stored_bytes(name) for name in made.names())
    sizes = {"final": final, "largest_shard": largest, "peak": memory.peak, "bound": final + int(SHARE * largest)}
    for name, size in sizes.items():
        print(f"{name:14}{size / 1e9:9.3f} GB")
    print(f"{'time':14}{figures['seconds']:9.1f} s, {figures['cpu_seconds']:.1f} s of them on a processor")
    print(json.dumps({**sizes, **figures}))
    return 0 if sizes["peak"] <= sizes["bound"] else 1


def _cpu_s() -> float:
    """Of the processor, spent by this process and by children that have ended: what speaks is one."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


if __name__ == "__main__":
    sys.exit(main())
