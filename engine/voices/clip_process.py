"""Recordings of strangers are decoded in a process of their own.

What parses compressed audio is C code that has had its share of memory faults, and the bytes come from anybody with a
key. In the gateway a fault would end every connection, in the worker every speech and the loaded model; here it ends
one request. The process has no model, no key and no sockets; its memory and time are limited.

``python -m engine.voices.clip_process RATE`` reads a file from standard input and answers on standard output: a line
of JSON, then the samples as float32.
"""

import json
import os
import subprocess
import sys

import numpy as np

from engine.errors import ClipError
from engine.voices.clips import MOST_BYTES, Clip, read_clip

TIME_S = 30
"""Wall clock for one recording."""
CPU_S = 20
MEMORY_BYTES = 2 * 1024**3
"""Address space, most of it libraries."""


def read_clip_apart(data: bytes, sample_rate: int) -> Clip:
    """``read_clip`` in a process of its own. Raises ``ClipError``, also if that process dies or takes too long."""
    if len(data) > MOST_BYTES:
        raise ClipError(f"the recording has {len(data)} bytes; {MOST_BYTES} are the most")
    command = [sys.executable, "-m", __name__, str(sample_rate)]
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        # Each thread would reserve address space.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    try:
        done = subprocess.run(command, input=data, capture_output=True, env=environment, timeout=TIME_S, check=False)
    except subprocess.TimeoutExpired:
        raise ClipError(f"the recording could not be read within {TIME_S} s") from None
    head, _, body = done.stdout.partition(b"\n")
    if done.returncode or not head:
        raise ClipError("the recording could not be read: the decoder gave up on it; convert it to plain WAV")
    answer = json.loads(head)
    if "error" in answer:
        raise ClipError(answer["error"])
    return Clip(np.frombuffer(body, np.float32), sample_rate, answer["source_rate"])


def main() -> None:
    """Read, decode, answer."""
    _limit_self()
    data = sys.stdin.buffer.read(MOST_BYTES + 1)
    try:
        clip = read_clip(data, int(sys.argv[1]))
    except ClipError as error:
        print(json.dumps({"error": str(error)}))
        return
    sys.stdout.buffer.write(json.dumps({"source_rate": clip.source_rate}).encode() + b"\n")
    sys.stdout.buffer.write(clip.samples.tobytes())


def _limit_self() -> None:
    import resource

    for kind, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most, most) if hard == resource.RLIM_INFINITY else (min(most, hard), hard))


if __name__ == "__main__":
    main()
