"""What a figure depends on besides the code: printed and stored with each."""

import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
PACKAGES = ("torch", "numpy", "faster-whisper", "ctranslate2", "onnxruntime", "distillmos", "piper-tts")


def one_thread() -> None:
    """Libraries that are loaded after this, here or in a child, use one thread, unless the environment says more."""
    for variable in THREAD_VARIABLES:
        os.environ.setdefault(variable, "1")


def environment() -> dict[str, object]:
    """Machine, versions, commit, threads, and how busy the machine was when this was called."""
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores",
        "allowed_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": _memory_gib(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "packages": {name: version for name in PACKAGES if (version := _version(name)) is not None},
        "commit": commit(),
    }


def commit() -> str | None:
    """The commit of the code, with ``+`` if files were changed since; None outside a checkout."""
    root = Path(__file__).resolve().parents[2]
    try:
        head = _git(root, "rev-parse", "--short=10", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
