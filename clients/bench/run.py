"""What the subcommands do: measure with a progress bar, print tables, keep the JSON line and a picture."""

import argparse
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from clients.bench import decode, online, report, run_plots, sentences
from clients.bench.judges import Judges
from clients.bench.peers import TEACHER_NAME, open_peers
from clients.bench.quality import Quality, read_all, summarise, wav_keeper, wer_above
from clients.bench.store import Reading, Store
from clients.bench.takes import Reader
from clients.bench.timeline import Timeline
from engine.errors import ConfigError
from engine.progress import progress

STREAM_SENTENCES = 2
"""Sentences of a stream whose first audio is timed."""
CROWD_SENTENCES = 5
"""Sentences of each of many streams at once: long enough to run dry."""
CROWD_PACE = 30
OFFLINE_SENTENCES = 16


def quality(arguments: argparse.Namespace) -> None:
    """``footlights bench quality``. Raises ``MissingError`` and ``FootlightsError``."""
    folder = arguments.model or decode.DEFAULT_MODEL
    engine = decode.open_engine(folder, arguments.text_stream)
    # Before the judges, which take seconds to load: it refuses names at once.
    reader = decode.EngineReader(engine, decode.checkpoint_hash(folder), arguments.voices)
    judges = Judges()
    others, absent = open_peers(arguments.voices) if arguments.peers else ([], [])
    _read_and_report("quality", [reader, *others], absent, judges, arguments)


def peers(arguments: argparse.Namespace) -> None:
    """``footlights bench peers``. Raises ``MissingError`` if there is no judge, or no peer at all."""
    from clients.bench.assets import MissingError

    judges = Judges()
    readers, absent = open_peers(arguments.voices)
    if not readers:
        raise MissingError("\n".join(absent))
    _read_and_report("peers", readers, absent, judges, arguments)


async def speed(arguments: argparse.Namespace) -> None:
    """``footlights bench speed``. Raises ``FootlightsError`` and ``ClientError``."""
    console = report.console()
    folder: Path = arguments.model or decode.DEFAULT_MODEL
    checkpoint = None if arguments.server else decode.checkpoint_hash(folder)
    settings: dict[str, object] = {
        "model": arguments.server or (str(arguments.model) if arguments.model else "built-in"),
        "checkpoint": checkpoint,
        "text_stream": arguments.text_stream,
        "voices": list(arguments.voices),
        "paces": arguments.paces,
        "utterances": arguments.utterances,
        "streams": arguments.streams,
        "repeats": arguments.repeats,
        "crowd_pace": CROWD_PACE,
        "seed": arguments.seed,
    }
    where = report.header(console, "footlights bench speed", settings)
    speeds: list[decode.BatchSpeed] = []
    if not arguments.server:
        speeds = _offline_speeds(arguments, folder)
        console.print(report.decode_table(speeds))
    async with _server(arguments) as url:
        latencies = await _latencies(url, arguments)
        console.print(report.latency_table(latencies), report.flow_table(latencies))
        crowds = await _crowds(url, arguments)
        console.print(report.crowd_table(crowds))
    out = arguments.out / (f"speed-{checkpoint}" if checkpoint else "speed-server")
    report.picture(console, out / "speed.png", lambda path: run_plots.speed_plot(speeds, latencies, crowds, path))
    results = {
        "frame_ms": speeds[0].frame_ms if speeds else None,
        "decode": [speed.as_json() for speed in speeds],
        "latency": [latency.as_json() for latency in latencies],
        "crowd": [crowd.as_json() for crowd in crowds],
        "real_time_streams": online.real_time_streams(crowds),
    }
    report.finish(report.json_line("speed", where, settings, results), out / "speed.json")


async def _latencies(url: str, arguments: argparse.Namespace) -> list[online.Latency]:
    texts = _joined(STREAM_SENTENCES, arguments.utterances, arguments.seed)
    latencies = []
    with progress("first audio", len(arguments.paces) * len(texts)) as advance:
        for pace in arguments.paces:
            timelines = await online.one_by_one(url, texts, pace, arguments.voices[0], advance)
            latencies.append(online.Latency.of(timelines, pace))
    return latencies


async def _crowds(url: str, arguments: argparse.Namespace) -> list[online.Crowd]:
    crowds = []
    with progress("listeners at once", len(arguments.streams) * arguments.repeats) as advance:
        for listeners in arguments.streams:
            timelines: list[Timeline] = []
            for repeat in range(arguments.repeats):
                texts = _joined(CROWD_SENTENCES, listeners, arguments.seed + repeat)
                timelines += await online.at_once(url, texts, CROWD_PACE, arguments.voices)
                advance()
            crowds.append(online.Crowd.of(timelines, listeners))
    return crowds


def _read_and_report(
    benchmark: str, readers: Sequence[Reader], absent: Sequence[str], judges: Judges, arguments: argparse.Namespace
) -> None:
    console = report.console()
    texts = sentences.load(arguments.sentences)
    settings: dict[str, object] = {
        "readers": {reader.identity: reader.about for reader in readers},
        "voices": list(arguments.voices),
        "sentences": len(texts),
        "seed": arguments.seed,
        "judges": "whisper-base int8 greedy, DistillMOS",
    }
    where = report.header(console, f"footlights bench {benchmark}", settings)
    qualities: list[Quality] = []
    readings: dict[str, list[Reading]] = {}
    out = arguments.out / readers[0].folder
    keep = wav_keeper(out / "audio") if arguments.keep_audio else None
    for reader in readers:
        store = Store(arguments.out / reader.folder / "readings.jsonl", Reading, reader, is_fresh=arguments.fresh)
        with progress(reader.name, len(texts) * len(reader.voices)) as advance:
            made, reused = read_all(reader, texts, arguments.seed, judges, store, advance=advance, keep=keep)
        readings[reader.name] = made
        qualities.append(summarise(reader, made, reused))
    console.print(report.quality_table(qualities))
    for measured in qualities:
        if len(measured.mos_by_voice) > 1:
            console.print(report.voices_table(measured))
    console.print(report.worst_table(qualities[0]))
    for message in absent:
        console.print(f"not measured: {message}", highlight=False, markup=False, soft_wrap=True)
    above = wer_above(readings[readers[0].name], readings.get(TEACHER_NAME, [])) if benchmark == "quality" else None
    if above is not None:
        bounds = f"95 %: {100 * above.low:.1f} to {100 * above.high:.1f}"
        console.print(f"WER above the teacher's: {100 * above.value:.1f} points ({bounds}), paired", highlight=False)
    if any(measured.reused for measured in qualities):
        counts = ", ".join(f"{measured.reused} of {measured.reader}" for measured in qualities if measured.reused)
        console.print(f"from earlier runs, with their speed: {counts} (--fresh measures anew)", highlight=False)
    report.picture(console, out / f"{benchmark}.png", lambda path: run_plots.quality_plot(qualities, path))
    results = {
        "readers": {measured.reader: measured.as_json() for measured in qualities},
        "wer_above_teacher": above.as_json() if above else None,
        "absent": list(absent),
    }
    report.finish(report.json_line(benchmark, where, settings, results), out / f"{benchmark}.json")


def _offline_speeds(arguments: argparse.Namespace, folder: Path) -> list[decode.BatchSpeed]:
    engine = decode.open_engine(folder, arguments.text_stream, max_batch=max(arguments.streams))
    unknown = set(arguments.voices) - set(engine.info.voices)
    if unknown:
        raise ConfigError(f"no voice {', '.join(sorted(unknown))}; there are {', '.join(engine.info.voices)}")
    speeds = []
    with progress("engine offline", len(arguments.streams)) as advance:
        for batch in arguments.streams:
            count = max(OFFLINE_SENTENCES, batch)
            texts = _joined(1, count, arguments.seed)
            speeds.append(decode.batch_speed(engine, texts, batch, arguments.voices[0], arguments.seed))
            advance()
    return speeds


def _joined(each: int, count: int, seed: int) -> list[str]:
    """``count`` texts of ``each`` sentences, in the order of the list, beginning at a place that ``seed`` says."""
    texts, start = sentences.load(), seed * 7
    return [" ".join(texts[(start + i * each + j) % len(texts)] for j in range(each)) for i in range(count)]


@asynccontextmanager
async def _server(arguments: argparse.Namespace) -> AsyncIterator[str]:
    if arguments.server is not None:
        yield arguments.server
        return
    async with online.server_for(arguments.model, arguments.text_stream) as url:
        yield url
