"""How much memory this machine has, and whether two copies of a model fit, found out without loading tensors."""

import os
from collections.abc import Mapping
from pathlib import Path

from engine.config import CONFIG_FILE, LARGE_PARAMETERS, ModelConfig, read_json
from engine.quant.scheme import QUANT_METHOD

SPARE_BYTES = 1_000_000_000
"""Left free for the rest of the process and of the machine."""


def has_room_for_two(folder: Path) -> bool:
    """Whether a second worker can hold the model of a checkpoint folder, too. Raises ``ConfigError``."""
    _, available = machine_memory()
    return 2 * model_bytes(folder) + SPARE_BYTES <= available


def model_bytes(folder: Path) -> int:
    """About what a loaded model takes: its files if it stays quantised, else its parameters, and its codec."""
    values = read_json(folder / CONFIG_FILE)
    parameters = sum(ModelConfig.from_dict(values).parameter_counts().values())
    dense = parameters * (2 if parameters > LARGE_PARAMETERS else 4)
    files = sum(path.stat().st_size for path in (*folder.glob("model*.safetensors"), *folder.glob("codec.safetensors")))
    stored = values.get("quantization_config")
    stays_packed = isinstance(stored, Mapping) and stored.get("quant_method") == QUANT_METHOD
    return min(files, dense) if stays_packed else dense


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
