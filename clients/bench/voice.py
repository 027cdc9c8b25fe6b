"""``footlights bench voice``: the built-in voice beside its teacher, and what limits it.

The teacher and the model read held-out sentences. The parts of the codec alone, and the model given its text in small
pieces, read the first of them; utterances of all kinds show how often a take fails.
"""

import argparse
import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from clients.bench import decode, report, sentences, voice_report
from clients.bench.failures import Failures, find_failures
from clients.bench.judges import Judges
from clients.bench.kept import KeptReader
from clients.bench.peers import KokoroReader
from clients.bench.pieces import PiecesReader
from clients.bench.proof import Instruments, Measured, Row, measure, voices_alike
from clients.bench.sound import Sound
from clients.bench.speakers import SpeakerJudge, voices_apart
from clients.bench.store import Reading, Store
from clients.bench.takes import Reader
from engine.codec.understudy import UnderstudyCodec
from engine.progress import progress

PIECES = (2, 3)
"""Words at a time."""
SHOWN_WORDS = 8
"""Words of a sentence that pictures show, about."""


@dataclass(frozen=True)
class Readers:
    """Who reads."""

    teacher: Reader
    model: Reader
    parts: list[Reader]
    """The codec's parts on the teacher's speech, and the model with its text in pieces."""


def voice(arguments: argparse.Namespace) -> None:
    """``footlights bench voice``. Raises ``MissingError`` and ``FootlightsError``."""
    # Readers first: they refuse names at once, judges take seconds to load.
    readers = open_readers(arguments)
    instruments = Instruments(Judges(), SpeakerJudge())
    console = report.console()
    texts = sentences.load(arguments.sentences)
    settings: dict[str, object] = {
        "readers": {reader.identity: reader.about for reader in (readers.teacher, readers.model, *readers.parts)},
        "voices": list(arguments.voices),
        "sentences": len(texts),
        "sentences_of_parts": min(arguments.parts, len(texts)),
        "utterances": arguments.utterances,
        "seed": arguments.seed,
        "judges": f"{Reading.CURRENT}/{Sound.CURRENT}",
    }
    where = report.header(console, "footlights bench voice", settings)
    measured = [_measured(reader, texts, instruments, arguments) for reader in (readers.teacher, readers.model)]
    few = texts[: arguments.parts]
    measured += [_measured(reader, few, instruments, arguments) for reader in readers.parts] if few else []
    failures = _failures(readers, instruments.judges, arguments) if arguments.utterances else None
    figures = as_markdown(measured, few, failures)
    console.print(figures, markup=False, highlight=False, soft_wrap=True)
    out: Path = arguments.out / readers.model.folder
    pictures = arguments.docs / "images" if arguments.docs else out
    _pictures(console, pictures, readers, measured, texts, arguments.seed)
    if arguments.docs:
        voice_report.insert(arguments.docs / "voice.md", f"{_origin(where, settings)}\n\n{figures}")
    results = {
        "teacher": measured[0].reader.name,
        "readers": {m.reader.name: Row.of(m.reader.name, m, measured[0]).as_json() for m in measured},
        "voices": {v: Row.of(v, measured[1].of(v), measured[0].of(v)).as_json() for v in readers.model.voices},
        "voices_alike": voices_alike(measured[1]),
        "voices_apart": voices_apart(measured[0].speakers),
        "failures": failures.as_json() if failures else None,
    }
    report.finish(report.json_line("voice", where, settings, results), out / "voice.json")


def open_readers(arguments: argparse.Namespace) -> Readers:
    """The teacher, the model, and what lies between them. Raises ``MissingError`` and ``FootlightsError``."""
    folder: Path = arguments.model or decode.DEFAULT_MODEL
    engine = decode.open_engine(folder, arguments.text_stream)
    checkpoint = decode.checkpoint_hash(folder)
    model = decode.EngineReader(engine, checkpoint, arguments.voices)
    teacher: Reader = KokoroReader(arguments.voices)
    teacher = KeptReader(teacher, arguments.teacher or arguments.out / teacher.folder / "takes")
    parts: list[Reader] = []
    codec = engine.runner.codec
    if isinstance(codec, UnderstudyCodec):
        from clients.bench.stages import CodecReader, VocoderReader

        parts += [VocoderReader(teacher, codec, checkpoint), CodecReader(teacher, codec, checkpoint)]
    return Readers(teacher, model, [*parts, *(PiecesReader(model, words) for words in PIECES)])


def as_markdown(measured: Sequence[Measured], few: Sequence[str], failures: Failures | None) -> str:
    """All tables; ``measured``: the teacher, the model, and readers of the ``few`` texts alone."""
    teacher, model, *parts = measured
    both = [Row.of(m.reader.name, m, teacher) for m in (teacher, model)]
    tables = ["**Held-out sentences.**", voice_report.rows_table(both), voice_report.manner_table(both)]
    voices = [
        Row.of(f"{m.reader.name}, {v}", m.of(v), teacher.of(v)) for v in model.reader.voices for m in (teacher, model)
        if m.of(v).readings
    ]  # fmt: skip
    tables += ["**Voice by voice.**", voice_report.rows_table(voices), voice_report.manner_table(voices)]
    apart = voices_apart(teacher.speakers)
    if apart is not None:
        tables.append(f"A voice of the teacher that is the wrong one has a speaker figure of {apart:.2f}.\n")
    if len(model.reader.voices) > 1:
        alike = voices_alike(model)
        tables += [f"How alike the voices of {model.reader.name} are:\n", voice_report.alike_table(alike)]
    if parts:
        rows = [Row.of(m.reader.name, m.of(texts=few), teacher.of(texts=few)) for m in (teacher, *parts, model)]
        tables += [f"**Each part alone**, on the first {len(few)} of the sentences.", voice_report.rows_table(rows)]
        tables.append(voice_report.manner_table(rows))
    if failures is not None:
        tables += ["**Short and long utterances**, voices in turn.", voice_report.failures_table(failures)]
    return "\n".join(f"{table}" if table.endswith("\n") else f"{table}\n" for table in tables)


def _measured(
    reader: Reader, texts: Sequence[str], instruments: Instruments, arguments: argparse.Namespace
) -> Measured:
    folder = arguments.out / reader.folder
    readings = Store(folder / "readings.jsonl", Reading, reader, is_fresh=arguments.fresh)
    sounds = Store(folder / "sounds.jsonl", Sound, reader, is_fresh=arguments.fresh)
    with progress(reader.name, len(texts) * len(reader.voices)) as advance:
        return measure(reader, texts, arguments.seed, instruments, readings, sounds, advance)


def _failures(readers: Readers, judges: Judges, arguments: argparse.Namespace) -> Failures:
    stores = {
        reader.identity: Store(
            arguments.out / reader.folder / "utterances.jsonl", Reading, reader, is_fresh=arguments.fresh
        )
        for reader in (readers.model, readers.teacher)
    }
    with progress("short and long utterances", arguments.utterances) as advance:
        return find_failures(
            readers.model, readers.teacher, arguments.utterances, arguments.seed, judges, stores, advance
        )


def _origin(where: dict[str, object], settings: dict[str, object]) -> str:
    """One line: when, what, on what."""
    readers = settings["readers"]
    assert isinstance(readers, dict)
    names = ", ".join(f"`{name}`" for name in list(readers)[:2])
    parts = f"--sentences {settings['sentences']} --parts {settings['sentences_of_parts']}"
    command = f"footlights bench voice {parts} --utterances {settings['utterances']} --seed {settings['seed']}"
    return f"{datetime.date.today()}, `{command}` at commit {where['commit']}, {where['machine']}; readers {names}."


def _pictures(
    console: Console, folder: Path, readers: Readers, measured: Sequence[Measured], texts: Sequence[str], seed: int
) -> None:
    from clients.bench import voice_plots

    chosen = [text for text in texts if len(text.split()) >= SHOWN_WORDS] or texts
    number, text = texts.index(chosen[0]), chosen[0]
    shown = [readers.teacher, *readers.parts[: len(readers.parts) - len(PIECES)], readers.model]
    voices = [voice for voice in readers.model.voices if voice in readers.teacher.voices]
    takes = {
        (reader.name, voice): reader.read(text, voice, seed * 1_000_003 + number)
        for reader in shown
        for voice in (voices if reader in (readers.teacher, readers.model) else voices[:1])
    }
    names = [reader.name for reader in shown]
    pair = (readers.teacher.name, readers.model.name)
    report.picture(
        console,
        folder / "voice-spectrograms.png",
        lambda path: voice_plots.spectrograms({name: takes[name, voices[0]] for name in names}, text, path),
    )
    contours = {voice: {name: takes[name, voice] for name in pair} for voice in voices}
    report.picture(console, folder / "voice-pitch.png", lambda path: voice_plots.contours(contours, text, path))
    report.picture(console, folder / "voice-manner.png", lambda path: voice_plots.manner(measured[:2], voices, path))
