"""``footlights doctor``: what this machine is, what the model is, how it speaks here, and what is wrong."""

import argparse
import json
import os
import platform
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from engine.core import AudioChunk, EngineStats, Failed, Finished, Utterance, WordTiming, real_time_factor
from engine.engine import UNDERSTUDY, Engine, load_engine
from engine.errors import FootlightsError
from engine.quant.half import Packed

SENTENCE = "Good evening, and welcome. This is a test of the voice that comes with this server."
AUDIBLE = 0.003
"""Smallest sample, of a full scale of 1, that counts as sound (-50 dB)."""
CPU_FLAGS = (
    "avx2",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "amx_tile",
    "amx_bf16",
    "amx_int8",
    "asimd",
    "sve",
    "bf16",
)


@dataclass(frozen=True)
class Machine:
    """Where the engine runs."""

    system: str
    python: str
    torch: str
    device: str
    cores: int
    """Cores this process may use."""
    threads: int
    """Threads of a tensor operation."""
    cpu_capability: str
    cpu_flags: tuple[str, ...]
    accelerators: tuple[str, ...]


@dataclass(frozen=True)
class Model:
    """What was loaded."""

    name: str
    licence: str
    notes: tuple[str, ...]
    text_stream: str
    voices: tuple[str, ...]
    sample_rate: int
    frame_ms: float
    parameters: int
    bytes: int
    codec: str
    codec_bytes: int
    kernels: dict[str, int]
    """Layers by kind and number format, with how many there are."""
    load_s: float


@dataclass(frozen=True)
class SelfTest:
    """One sentence, spoken here."""

    voice: str
    audio_s: float
    rtf: float
    ttfa_ms: float
    """From the text to the first chunk with an audible sample; its silence before that counts, too."""
    peak: float
    """Largest sample; full scale is 1."""
    words: int
    expected_words: int
    prompt_rows: int
    memory_bytes: int


@dataclass(frozen=True)
class Report:
    """All of it. ``model`` and ``self_test`` are None if it did not come to that."""

    machine: Machine
    model: Model | None
    self_test: SelfTest | None
    problems: tuple[str, ...]


EPILOG = """\
examples:
  footlights doctor                            this machine with the built-in voice
  footlights doctor --model drama-3 --threads 8
  footlights doctor --json > report.json       for a program, or for a report of a problem

exit status:
  0 all is well   1 something is wrong: the last lines say what
"""


def main(argv: list[str]) -> int:
    """Print the report; 1 if something is wrong."""
    parser = argparse.ArgumentParser(
        prog="footlights doctor",
        description="Tell what this machine and the model are, let it speak a sentence, and say what is wrong.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", type=Path, metavar="FOLDER", help="checkpoint folder (default: the understudy)")
    parser.add_argument("--text-stream", choices=("aligned", "turns"), help="default: what the checkpoint is made for")
    parser.add_argument("--threads", type=int, default=1, help="threads of a tensor operation (default 1)")
    parser.add_argument("--device", default="cpu", help="where the model computes, as torch names it (default cpu)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    arguments = parser.parse_args(argv)
    report = examine(arguments.model, arguments.text_stream, arguments.threads, arguments.device)
    if arguments.json:
        print(json.dumps(asdict(report), ensure_ascii=False))
    else:
        show(report, Console())
    return 1 if report.problems else 0


def examine(folder: Path | None, text_stream: str | None, threads: int, device: str) -> Report:
    """Load the model, let it speak, and judge."""
    started_s = time.perf_counter()
    options: dict[str, Any] = {"text_stream": text_stream, "threads": threads, "device": device}
    try:
        engine = load_engine(folder or UNDERSTUDY, **options)
        model = describe(engine, time.perf_counter() - started_s)
    except FootlightsError as error:
        return Report(describe_machine(device), None, None, (f"the model cannot be loaded: {error}",))
    machine = describe_machine(device)
    try:
        self_test = speak_once(engine)
    except FootlightsError as error:
        return Report(machine, model, None, (f"the model cannot speak: {error}",))
    return Report(machine, model, self_test, tuple(find_problems(machine, self_test)))


def describe_machine(device: str) -> Machine:
    """Facts of machine and libraries."""
    return Machine(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        torch=torch.__version__,
        device=device,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        cpu_flags=_cpu_flags(Path("/proc/cpuinfo")),
        accelerators=tuple(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())),
    )


def _cpu_flags(path: Path) -> tuple[str, ...]:
    """Those of the processor's abilities that matter here, where the system tells."""
    if not path.exists():
        return ()
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    found = {flag for line in lines if line.lower().startswith(("flags", "features")) for flag in line.split()}
    return tuple(flag for flag in CPU_FLAGS if flag in found)


def describe(engine: Engine, load_s: float) -> Model:
    """Facts of a loaded model."""
    decoder, codec, info = engine.runner.decoder, engine.runner.codec, engine.info
    kernels: Counter[str] = Counter()
    held = 0
    for layer in decoder.modules():
        own = list(layer.parameters(recurse=False))
        held += sum(parameter.nbytes for parameter in own)
        if isinstance(layer, Packed):
            held += layer.nbytes
            kernels[f"{type(layer).__name__} float16"] += 1
        elif own:
            kernels[f"{type(layer).__name__} {str(own[0].dtype).removeprefix('torch.')}"] += 1
    codec_tensors = codec.state_dict().values() if isinstance(codec, torch.nn.Module) else ()
    return Model(
        name=info.name,
        licence=info.licence,
        notes=info.notes,
        text_stream=info.text_stream,
        voices=info.voices,
        sample_rate=info.sample_rate,
        frame_ms=info.frame_ms,
        parameters=sum(decoder.config.parameter_counts().values()),
        bytes=held,
        codec=type(codec).__name__,
        codec_bytes=sum(tensor.nbytes for tensor in codec_tensors),
        kernels=dict(kernels),
        load_s=load_s,
    )


def speak_once(engine: Engine) -> SelfTest:
    """Speak ``SENTENCE`` with the first voice. Raises a ``FootlightsError`` if that fails."""
    voice = engine.info.voices[0]
    before = engine.stats()
    started_s = time.perf_counter()
    engine.add(Utterance("doctor", voice))
    engine.append_text("doctor", SENTENCE)
    engine.finish("doctor")
    samples, words, ttfa_ms, held = 0, dict[int, WordTiming](), float("inf"), 0
    peak = 0.0
    while engine.has_work():
        for event in engine.step():
            match event:
                case AudioChunk():
                    loudest = float(np.abs(event.samples).max(initial=0.0))
                    if loudest >= AUDIBLE and peak < AUDIBLE:
                        silent = samples + int(np.argmax(np.abs(event.samples) >= AUDIBLE))
                        ttfa_ms = 1000 * (time.perf_counter() - started_s + silent / engine.info.sample_rate)
                    peak = max(peak, loudest)
                    samples += len(event.samples)
                    words.update((word.char_start, word) for word in event.words)
                case Failed():
                    raise FootlightsError(event.message)
                case Finished():
                    assert event.utterance_id == "doctor"
        held = max(held, engine.stats().memory_bytes)
    stats = engine.stats()
    return SelfTest(
        voice=voice,
        audio_s=samples / engine.info.sample_rate,
        rtf=_speed(before, stats),
        ttfa_ms=ttfa_ms,
        peak=peak,
        words=len(words),
        expected_words=len(SENTENCE.split()),
        prompt_rows=stats.prompt_rows - before.prompt_rows,
        memory_bytes=held,
    )


def _speed(before: EngineStats, after: EngineStats) -> float:
    return real_time_factor(after.compute_s - before.compute_s, after.audio_s - before.audio_s)


def find_problems(machine: Machine, test: SelfTest) -> list[str]:
    """What is wrong, in words that say what to do."""
    problems = []
    if machine.threads > machine.cores:
        problems.append(f"{machine.threads} threads share {machine.cores} cores: use at most {machine.cores}")
    if test.rtf >= 1:
        problems.append(
            f"speech is made {test.rtf:.2f} times slower than it is heard: stop other programs, or use a faster machine"
        )
    if test.peak < AUDIBLE:
        problems.append(f"the test sentence is silent (peak {test.peak:.4f}): the weights are not those of a voice")
    if test.peak >= 1:
        problems.append("the test sentence is clipped at full scale")
    if test.words != test.expected_words:
        problems.append(f"{test.words} of {test.expected_words} words of the test sentence were spoken")
    return problems


def show(report: Report, console: Console) -> None:
    """Tables for people."""
    machine, model, test = report.machine, report.model, report.self_test
    _table(
        console,
        "Machine",
        {
            "system": machine.system,
            "python, torch": f"{machine.python}, {machine.torch}",
            "device": machine.device,
            "accelerators": ", ".join(machine.accelerators) or "none",
            "cores, threads": f"{machine.cores}, {machine.threads}",
            "vector unit": f"{machine.cpu_capability} ({' '.join(machine.cpu_flags) or 'no more is known'})",
        },
    )
    if model is not None:
        _table(
            console,
            "Model",
            {
                "name": f"{model.name} ({model.licence})",
                **({"notes": "; ".join(model.notes)} if model.notes else {}),
                "text stream": model.text_stream,
                "voices": ", ".join(model.voices),
                "audio": f"{model.sample_rate} Hz, frames of {model.frame_ms:g} ms",
                "decoder": f"{model.parameters / 1e6:.1f} M parameters, {model.bytes / 1e6:.1f} MB in memory",
                "codec": f"{model.codec}, {model.codec_bytes / 1e6:.1f} MB in memory",
                "kernels": ", ".join(f"{count} x {name}" for name, count in model.kernels.items()),
                "loaded in": f"{model.load_s:.1f} s",
            },
        )
    if test is not None:
        _table(
            console,
            f"Self-test ({test.voice})",
            {
                "audio": f"{test.audio_s:.2f} s",
                "real-time factor": f"{test.rtf:.3f}",
                "time to first sound": f"{test.ttfa_ms:.0f} ms",
                "peak": f"{20 * np.log10(max(test.peak, 1e-9)):.1f} dBFS",
                "words": f"{test.words} of {test.expected_words}",
                "memory": f"{test.memory_bytes / 1e6:.2f} MB with one utterance open",
            },
        )
    for problem in report.problems:
        console.print(f"[bold red]wrong:[/] {problem}")
    if not report.problems:
        console.print("[bold green]all is well[/]")


def _table(console: Console, title: str, rows: dict[str, str]) -> None:
    table = Table(title=title, title_justify="left", show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)
