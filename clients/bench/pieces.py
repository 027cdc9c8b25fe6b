"""Text that comes in pieces: each only when all that the ones before it allow has been spoken, the worst case."""

import re
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from clients.bench.decode import EngineReader
from clients.bench.takes import Take, most_s
from engine.core import AudioChunk, Cancelled, Failed, Finished, Utterance


class PiecesReader:
    """The engine of ``reader``, given ``words`` at a time."""

    def __init__(self, reader: EngineReader, words: int) -> None:
        self._engine, self._words = reader.engine, words
        self.name = f"{reader.name}, {words} words at a time"
        self.about = f"{reader.about}, a piece when the ones before it are spoken"
        self.voices = reader.voices
        self.folder = f"{reader.folder}-pieces-{words}"
        self.identity = f"{reader.identity}-pieces-{words}"

    def read(self, text: str, voice: str, seed: int) -> Take:
        """See `Reader`."""
        engine = self._engine
        started_s, cpu_started_s = time.perf_counter(), time.process_time()
        engine.add(Utterance("bench", voice, sampling=replace(engine.runner.sampling, seed=seed)))
        pending, samples, made = pieces(text, self._words), [np.zeros(0, np.float32)], 0
        failure: str | None = None
        is_done = False
        while not is_done:
            wait_s = engine.idle_s()
            if pending and wait_s != 0:
                engine.append_text("bench", pending.pop(0))
                if not pending:
                    engine.finish("bench")
                continue
            if wait_s:
                time.sleep(wait_s)
            for event in engine.step():
                match event:
                    case AudioChunk(samples=chunk):
                        samples.append(chunk)
                        made += len(chunk)
                    case Failed(code=code):
                        failure, is_done = code, True
                    case Finished() | Cancelled():
                        is_done = True
            if failure is None and made > most_s(text) * engine.info.sample_rate:
                failure = "no_end"
                engine.abort("bench")
        return Take(
            np.concatenate(samples),
            engine.info.sample_rate,
            time.perf_counter() - started_s,
            time.process_time() - cpu_started_s,
            failure,
        )


def pieces(text: str, words: int) -> list[str]:
    """``text`` cut behind every ``words`` words, spaces with the word before them."""
    found: Sequence[str] = re.findall(r"\s*\S+\s*", text)
    return ["".join(found[i : i + words]) for i in range(0, len(found), words)]
