"""``footlights inspect``: what a checkpoint is, what a frame of it costs, whether it fits here, and what is refused."""

import argparse
import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from engine.checkpoint.memory import MemoryPlan, plan_memory
from engine.checkpoint.names import part_of
from engine.checkpoint.quantisation import ignored_keys
from engine.checkpoint.reader import CheckpointReader, open_checkpoint
from engine.checkpoint.source import find_model
from engine.config import CONFIG_FILE, ModelConfig, read_json, unknown_keys
from engine.errors import DownloadError, FootlightsError
from engine.loading import TOKENIZER_FILE, load_codec
from engine.manifest import Manifest
from engine.prompt import PromptBuilder, load_tokenizer
from engine.voices.folder import VoiceFolder
from engine.voices.identity import model_identity
from engine.voices.opening import VOICES_FOLDER
from engine.weights import compute_dtype

KEPT = ("norms", "router")
PRECISIONS: dict[str, tuple[float, float]] = {
    "bf16": (16, 16),
    "8-bit experts, the rest bf16": (8, 16),
    "all 8-bit": (8, 8),
    "4-bit experts (groups of 64), the rest 8-bit": (4.5, 8),
    "4-bit experts (groups of 64), the rest bf16": (4.5, 16),
}
"""Bits of a weight of the experts, and of the rest; norms and routers stay at 16."""


@dataclass(frozen=True)
class Part:
    """One part of the model."""

    parameters: int
    active: int
    """Parameters that a frame is multiplied with."""
    tensors: int
    stored_bytes: int


@dataclass(frozen=True)
class CodecFacts:
    """The codec beside the decoder."""

    kind: str
    sample_rate: int
    frame_ms: float
    nbytes: int


@dataclass(frozen=True)
class Report:
    """All of it; what could not be found out is None or empty, and ``refused`` says why."""

    path: str
    name: str | None = None
    licence: str | None = None
    notes: tuple[str, ...] = ()
    stored_as: str | None = None
    computes_in: str | None = None
    files: int = 0
    largest_file_bytes: int = 0
    parts: dict[str, Part] = field(default_factory=dict)
    bytes_per_frame: dict[str, int] = field(default_factory=dict)
    """By precision; first as stored."""
    memory: MemoryPlan | None = None
    codec: CodecFacts | None = None
    voices: tuple[str, ...] = ()
    unknown_keys: tuple[str, ...] = ()
    """Of ``config.json``: what they ask for is not done."""
    refused: tuple[str, ...] = ()
    """Why it could not be served; empty if it could."""


def inspect(folder: Path, reads_all: bool = False) -> Report:
    """Look at a checkpoint folder. ``reads_all``: its numbers, too, not only their names, shapes and types."""
    refused: list[str] = []
    facts: dict[str, Any] = {}
    try:
        manifest = Manifest.from_folder(folder)
        facts |= {"name": manifest.name, "licence": manifest.licence, "notes": manifest.notes}
        values = read_json(folder / CONFIG_FILE)
        facts["unknown_keys"] = (*unknown_keys(values), *ignored_keys(values.get("quantization_config")))
        facts["voices"] = _voices(folder, manifest)
    except FootlightsError as error:
        refused.append(str(error))
    facts["codec"] = _codec(folder, refused)
    try:
        with open_checkpoint(folder) as reader:
            facts |= _weights(reader, facts["codec"].nbytes if facts["codec"] else 0)
            _check_tokenizer(folder, reader.config, refused)
            if reads_all:
                _read_all(reader, refused)
    except FootlightsError as error:
        if str(error) not in refused:
            refused.append(str(error))
    return Report(path=str(folder), refused=tuple(refused), **facts)


def _weights(reader: CheckpointReader, codec_bytes: int) -> dict[str, Any]:
    config, active = reader.config, reader.config.active_parameters()
    counts = config.parameter_counts()
    stored, tensors = dict.fromkeys(counts, 0), dict.fromkeys(counts, 0)
    for name in reader.names():
        stored[part_of(name)] += reader.stored_bytes(name)
        tensors[part_of(name)] += 1
    parts = {part: Part(counts[part], active[part], tensors[part], stored[part]) for part in counts}
    dtype = compute_dtype(config)
    return {
        "stored_as": reader.form,
        "computes_in": str(dtype).removeprefix("torch."),
        "files": len(reader.shards),
        "largest_file_bytes": reader.largest_shard_bytes,
        "parts": parts,
        "bytes_per_frame": {"as stored": _as_stored(parts), **bytes_per_frame(config)},
        "memory": plan_memory(reader, dtype, codec_bytes),
    }


def bytes_per_frame(config: ModelConfig) -> dict[str, int]:
    """Bytes of weights that one frame of one listener reads, by precision."""
    active = config.active_parameters()
    experts, kept = active["experts"], sum(active[part] for part in KEPT)
    rest = sum(active.values()) - experts - kept
    return {
        name: int((experts * bits + rest * rest_bits + kept * 16) / 8) for name, (bits, rest_bits) in PRECISIONS.items()
    }


def _as_stored(parts: dict[str, Part]) -> int:
    return sum(part.active * part.stored_bytes // part.parameters for part in parts.values() if part.parameters)


def _codec(folder: Path, refused: list[str]) -> CodecFacts | None:
    try:
        codec = load_codec(folder, keeps_converted=False)
    except FootlightsError as error:
        refused.append(str(error))
        return None
    tensors = codec.state_dict().values() if hasattr(codec, "state_dict") else ()
    return CodecFacts(
        kind=type(codec).__name__,
        sample_rate=codec.sample_rate,
        frame_ms=1000 * codec.samples_per_frame / codec.sample_rate,
        nbytes=sum(tensor.nbytes for tensor in tensors),
    )


def _voices(folder: Path, manifest: Manifest) -> tuple[str, ...]:
    if manifest.voices:
        return manifest.voices
    identity = model_identity(folder)
    entries = VoiceFolder(folder / VOICES_FOLDER).entries().items()
    return tuple(name for name, entry in entries if entry.label is not None and entry.label.model == identity)


def _check_tokenizer(folder: Path, config: ModelConfig, refused: list[str]) -> None:
    try:
        PromptBuilder(load_tokenizer(folder / TOKENIZER_FILE), config)
    except FootlightsError as error:
        refused.append(str(error))


def _read_all(reader: CheckpointReader, refused: list[str]) -> None:
    for name in reader.names():
        try:
            reader.read(name)
        except FootlightsError as error:
            refused.append(str(error))


def main(argv: list[str]) -> int:
    """Print the report; 1 if the checkpoint would be refused."""
    arguments = parser().parse_args(argv)
    try:
        folder = find_model(arguments.model)
    except DownloadError as error:
        print(f"footlights: {error}", file=sys.stderr)
        return 1
    report = inspect(folder, arguments.all)
    if arguments.json:
        print(json.dumps(_as_json(report), ensure_ascii=False))
    else:
        show(report, Console())
    return 1 if report.refused else 0


EPILOG = """\
examples:
  footlights inspect drama-3                  a folder: no weights are read, it takes seconds
  footlights inspect fishaudio/drama-3        fetched first, if it is not here yet
  footlights inspect drama-3 --all            look for numbers that are none, too
"""


def parser() -> argparse.ArgumentParser:
    """The arguments of the command."""
    made = argparse.ArgumentParser(
        prog="footlights inspect",
        description="Tell what a checkpoint is, what a frame of it costs, whether it fits here, and what is refused.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("model", help="checkpoint folder, or ORG/NAME[@REVISION] on the Hugging Face hub")
    made.add_argument("--all", action="store_true", help="look at every number, too: reads all of the files")
    made.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    return made


def _as_json(report: Report) -> dict[str, Any]:
    values = asdict(report)
    if (plan := report.memory) is not None:
        values["memory"] |= {
            "needed": plan.needed,
            "listeners": plan.listeners,
            "has_room_for_a_warm_standby": plan.has_room_for_a_warm_standby,
        }
    return values


def show(report: Report, console: Console) -> None:
    """Tables for people."""
    rows = {"folder": report.path}
    if report.name is not None:
        rows |= {"name": report.name, "licence": "; ".join((report.licence or "", *report.notes))}
    if report.stored_as is not None:
        rows["weights"] = f"{report.stored_as}, {report.files} files, largest {_size(report.largest_file_bytes)}"
        rows["computed with in"] = str(report.computes_in)
    if report.codec is not None:
        codec = report.codec
        rows["codec"] = (
            f"{codec.kind}, {codec.sample_rate} Hz, frames of {codec.frame_ms:.1f} ms, {_size(codec.nbytes)}"
        )
    rows["voices"] = ", ".join(report.voices) or "none of its own: what it invents, and those you add"
    _two_columns(console, "Checkpoint", rows)
    if report.parts:
        _show_parts(console, report.parts)
        _two_columns(
            console, "Weights read per frame, one listener", {k: _size(v) for k, v in report.bytes_per_frame.items()}
        )
    if report.memory is not None:
        _show_memory(console, report.memory)
    for key in report.unknown_keys:
        console.print(f"[bold yellow]not known:[/] config.json asks for {key}; it is left out of account")
    for reason in report.refused:
        console.print(f"[bold red]refused:[/] {reason}")
    if not report.refused:
        console.print("[bold green]it can be served[/]")


def _show_parts(console: Console, parts: dict[str, Part]) -> None:
    table = Table("part", title="Parameters, in millions", title_justify="left")
    for column in ("all", "active", "tensors", "stored", "bits"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, part in parts.items():
        active = f"{part.active / 1e6:,.1f}" if part.active else "looked up"
        table.add_row(name, f"{part.parameters / 1e6:,.1f}", active, *_stored_columns(part))
    total = Part(
        parameters=sum(part.parameters for part in parts.values()),
        active=sum(part.active for part in parts.values()),
        tensors=sum(part.tensors for part in parts.values()),
        stored_bytes=sum(part.stored_bytes for part in parts.values()),
    )
    table.add_section()
    table.add_row("all", f"{total.parameters / 1e6:,.1f}", f"{total.active / 1e6:,.1f}", *_stored_columns(total))
    console.print(table)


def _stored_columns(part: Part) -> tuple[str, str, str]:
    bits = 8 * part.stored_bytes / part.parameters if part.parameters else 0
    return f"{part.tensors:,}", _size(part.stored_bytes), f"{bits:.2f}"


def _show_memory(console: Console, plan: MemoryPlan) -> None:
    if plan.listeners:
        standby = "with" if plan.has_room_for_a_warm_standby else "without"
        verdict = f"fits, {plan.listeners:,} listeners at once, {standby} room for a warm standby worker"
    else:
        verdict = "does not fit: see footlights quantize"
    _two_columns(
        console,
        "Memory on this machine",
        {
            "weights": _size(plan.weights),
            "tables, left in the files": _size(plan.tables),
            "codec": _size(plan.codec),
            "each listener": _size(plan.per_listener),
            "free, of all": f"{_size(plan.available)} of {_size(plan.total)}",
            "so it": verdict,
        },
    )


def _two_columns(console: Console, title: str, rows: dict[str, str]) -> None:
    table = Table(title=title, title_justify="left", show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e9:,.2f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:,.1f} MB"
