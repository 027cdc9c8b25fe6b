"""How much memory this machine has."""

import os
from pathlib import Path

SPARE_BYTES = 1_000_000_000
"""Left free for the rest of the process and of the machine."""


def machine_memory() -> tuple[int, int]:
    """Bytes of memory this process may use: all, and what is free now. The limit of a container counts."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = os.sysconf("SC_PHYS_PAGES") * page
    available = _meminfo().get("MemAvailable", total)
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        most, current = _number(Path(limit)), _number(Path(used))
        if most is not None and current is not None and most < total:
            total, available = most, min(available, max(0, most - current))
    return total, available


def _meminfo() -> dict[str, int]:
    path = Path("/proc/meminfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith(" kB")}


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
