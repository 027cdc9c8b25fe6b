"""Time of one decode step against the bytes it reads: the decoder alone, at any dimensions, several precisions in turn.

Run as ``python -m clients.bench.steps FOLDER ..``; a folder with ``@bf16`` or ``@f32`` behind it computes in that.
``@ready`` is what an engine makes of a small model (it reads less than the bytes given: matrices become float16).
Bandwidth is that of reading a buffer too large for the caches, measured between the steps. All times are of the
processor, because a busy machine would be measured otherwise; one whose memory is busy is slow all the same, for steps
and bandwidth alike.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.table import Table
from torch import Tensor

from clients.bench import report
from engine.cache.decoder import DecoderState
from engine.checkpoint.reader import open_checkpoint
from engine.errors import FootlightsError
from engine.model.decoder import Decoder
from engine.model.linear import Linear
from engine.model.moe import Experts, MixtureOfExperts
from engine.model.ready import make_ready
from engine.quant.modules import QuantisedExperts, QuantisedLinear, prepare
from engine.weights import compute_dtype, read_decoder

BUFFER_BYTES = 256 << 20
CONTEXT = 64
"""Rows that a sequence has when steps are timed."""
DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32, "ready": torch.float32}


@dataclass
class Subject:
    """A decoder that makes frames of one sequence."""

    name: str
    decoder: Decoder
    read_bytes: int
    """Bytes of weights that one step reads."""
    state: DecoderState
    rows: Tensor
    step_ms: list[float] = field(default_factory=list)

    @torch.inference_mode()
    def step(self) -> None:
        """One frame, always the likeliest."""
        started_s = time.thread_time()
        hidden = self.decoder.backbone(self.decoder.embed(self.rows), self.state)
        main = self.decoder.main_token(self.decoder.main_logits(hidden)[:, 0, :-1].argmax(-1))
        self.rows = self.decoder.tower_step(
            self.rows, hidden, main, self.state, lambda logits, codebook: logits.argmax(-1)
        )[:, None]
        self.step_ms.append(1000 * (time.thread_time() - started_s))


@torch.inference_mode()
def open_subject(given: str) -> Subject:
    """``FOLDER`` or ``FOLDER@PRECISION``. Raises what loading raises."""
    folder, _, precision = given.partition("@")
    with open_checkpoint(Path(folder)) as reader:
        dtype = DTYPES[precision] if precision else compute_dtype(reader.config)
        decoder = prepare(read_decoder(reader, dtype))
        is_quantised = reader.quantisation is not None
    read_bytes = step_bytes(decoder)
    if precision == "ready":
        decoder = make_ready(decoder)
    state = decoder.allocate(1)
    rows = torch.zeros(1, CONTEXT + 1, 1 + decoder.config.num_codebooks, dtype=torch.int64)
    rows[..., 0] = decoder.config.semantic_start_token_id + torch.arange(CONTEXT + 1) % decoder.config.codebook_size
    rows[..., 1:] = torch.arange(CONTEXT + 1)[None, :, None] % decoder.config.codebook_size
    decoder.prefill(rows, state)
    name = Path(folder).name + (f"@{precision}" if precision else "" if is_quantised else f" {dtype}")
    return Subject(name, decoder, read_bytes, state, rows[:, -1:])


def step_bytes(decoder: Decoder) -> int:
    """Bytes of weights that one row reads: matrices whole, of the experts the chosen share, of tables nothing."""
    total = 0
    b = decoder.config.backbone
    for module in decoder.modules():
        match module:
            case Linear():
                total += module.weight.nbytes
            case QuantisedLinear():
                total += module.nbytes
            case Experts():
                total += (module.gate_up.nbytes + module.down.nbytes) * b.num_experts_per_tok // b.num_experts
            case QuantisedExperts():
                total += module.nbytes * b.num_experts_per_tok // b.num_experts
            case MixtureOfExperts() if hasattr(module, "router"):
                total += module.router.nbytes
            case _:
                pass
    return total


def bandwidth_reader() -> Callable[[], float]:
    """A function that reads a large buffer once and gives the bytes per second of processor time."""
    buffer = torch.ones(BUFFER_BYTES // 4)

    def read() -> float:
        started_s = time.thread_time()
        torch.dot(buffer, buffer)
        return buffer.nbytes / (time.thread_time() - started_s)

    return read


def main(argv: list[str]) -> int:
    """Measure; returns the exit status."""
    made = argparse.ArgumentParser(prog="python -m clients.bench.steps", description=__doc__)
    made.add_argument(
        "subjects", nargs="+", metavar="FOLDER[@PRECISION]", help="the first is what others are compared with"
    )
    made.add_argument("--steps", type=int, default=20, metavar="N", help="of each (20)")
    made.add_argument("--out", type=Path, default=Path("runs/steps.json"), metavar="FILE", help="the JSON line")
    arguments = made.parse_args(argv)
    torch.set_num_threads(1)
    console = report.console()
    settings: dict[str, object] = {"subjects": arguments.subjects, "steps": arguments.steps, "context": CONTEXT}
    where = report.header(console, "decode steps", settings)
    try:
        subjects = [open_subject(given) for given in arguments.subjects]
    except FootlightsError as error:
        print(f"steps: {error}", file=sys.stderr)
        return 1
    read = bandwidth_reader()
    speeds = [read()]
    for subject in subjects:
        subject.step()
        subject.step_ms.clear()
    for _ in range(arguments.steps):
        for subject in subjects:
            subject.step()
        speeds.append(read())
    bandwidth = statistics.median(speeds)
    console.print(table(subjects, bandwidth))
    results = {"bandwidth": bandwidth} | {
        s.name: {"read_bytes": s.read_bytes, "step_ms": statistics.median(s.step_ms), "all_ms": s.step_ms}
        for s in subjects
    }
    report.finish(report.json_line("steps", where, settings, json.loads(json.dumps(results))), arguments.out)
    return 0


def table(subjects: list[Subject], bandwidth: float) -> Table:
    """One row each."""
    made = Table(title=f"one step, one sequence, one thread; reading {bandwidth / 1e9:.1f} GB/s")
    for column in ("model", "MB a step", "ms (median)", "fastest", "floor ms", "of the floor", "speed"):
        made.add_column(column, justify="left" if column == "model" else "right")
    first = statistics.median(subjects[0].step_ms)
    for subject in subjects:
        median, floor = statistics.median(subject.step_ms), 1000 * subject.read_bytes / bandwidth
        made.add_row(
            subject.name,
            f"{subject.read_bytes / 1e6:.1f}",
            f"{median:.1f}",
            f"{min(subject.step_ms):.1f}",
            f"{floor:.1f}",
            f"{median / floor:.2f}x",
            f"{first / median:.2f}x",
        )
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
