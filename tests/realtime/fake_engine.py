"""An engine without a model: each word is a sine of its own pitch, with exact times. Obeys `worker.EngineLike`.

Words are what lies between whitespace; one without a letter or digit has no sound, one that begins with ``!unsaid`` is
left out with a notice. A word is spoken once it is known
to be complete: after whitespace, a flush or the end.
"""

import hashlib
import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from engine.core import (
    AudioChunk,
    Cancelled,
    ClonedVoice,
    EngineEvent,
    Explanation,
    Finished,
    ModelInfo,
    Notice,
    ReadPiece,
    Recording,
    Revised,
    Tally,
    Utterance,
    WordTiming,
)
from engine.errors import (
    ClipError,
    RevisionError,
    StructuralTokenError,
    UnknownUtteranceError,
    UnknownVoiceError,
    UtteranceStateError,
)
from engine.revision import resume_at

Samples = NDArray[np.float32]

SAMPLE_RATE = 24_000
SAMPLES_PER_FRAME = 1_200
VOICES = ("heart", "michael", "bella")
SPOKEN = {"$20": "twenty dollars"}


@dataclass
class Voice:
    """Progress of one utterance."""

    utterance: Utterance
    text: str = ""
    read: int = 0
    queue: deque[tuple[Samples, WordTiming | None]] = field(default_factory=deque)
    queued_samples: int = 0
    words: list[WordTiming] = field(default_factory=list)
    """Of all audio so far, in order, queued or sent."""
    sent_samples: int = 0
    frames: int = 0
    is_finished: bool = False
    is_paused: bool = False
    hurry: float = 1.0


@dataclass(frozen=True)
class MadeOfNothing:
    voice: ClonedVoice
    notes: tuple[str, ...] = ()


def tone(word: str, voice: str, frames: int) -> Samples:
    """float32 [frames * SAMPLES_PER_FRAME]: the sine of that word in that voice, silent at both ends."""
    digest = hashlib.sha256(f"{voice}/{word}".encode()).digest()
    hertz = 120 + int.from_bytes(digest[:2], "little") % 400
    time_s = np.arange(frames * SAMPLES_PER_FRAME) / SAMPLE_RATE
    envelope = np.minimum(1.0, np.minimum(time_s, time_s[::-1]) / 0.01)
    samples: Samples = (0.5 * envelope * np.sin(2 * np.pi * hertz * time_s)).astype(np.float32)
    return samples


class FakeEngine:
    """``step_s``: how long a step takes, whatever the number of utterances."""

    def __init__(self, step_s: float = 0.0, frames_per_word: int = 4, warm_s: float = 0.0) -> None:
        time.sleep(warm_s)
        self.info = ModelInfo("fake", SAMPLE_RATE, SAMPLES_PER_FRAME, "aligned", VOICES, speeds=(0.5, 2.0))
        self._step_s = step_s
        self._frames_per_word = frames_per_word
        self._voices: dict[str, Voice] = {}
        self._events: list[EngineEvent] = []
        self.tally = Tally()

    def add(self, utterance: Utterance) -> None:
        if utterance.voice not in self.info.voices:
            raise UnknownVoiceError(f"no voice {utterance.voice!r}; there are: {', '.join(self.info.voices)}")
        if utterance.utterance_id in self._voices:
            raise UtteranceStateError("id used twice")
        self._voices[utterance.utterance_id] = Voice(utterance)

    def explain(self, utterance: Utterance, text: str) -> Iterator[Explanation | None]:
        if "<|im_end|>" in text:
            raise StructuralTokenError("<|im_end|> structures the prompt")
        if text == "fault":
            raise ZeroDivisionError
        pieces = list[ReadPiece]()
        for found in re.finditer(r"\S+", text):
            yield None
            word = found[0]
            pieces.append(
                ReadPiece("word", word, SPOKEN.get(word, word), "", *found.span(), utterance.language, "none", 0)
            )
        notices = tuple(f"{entry.word} is {entry.say}" for entry in utterance.lexicon)
        yield Explanation(tuple(pieces), (*notices, str(utterance.text_format)))

    def append_text(self, utterance_id: str, text: str) -> None:
        voice = self._voice(utterance_id)
        if voice.is_finished:
            raise UtteranceStateError("text after the end")
        if "<|im_end|>" in text:
            raise StructuralTokenError("<|im_end|> structures the prompt")
        if "!bug" in text:
            raise RuntimeError(f"a bug with {text}")
        voice.text += text
        self._read(voice, is_complete=False)

    def revise(self, utterance_id: str, start: int, text: str, heard_ms: float) -> None:
        """Keeps the words that were begun before ``heard_ms``, and those that the revision leaves as they are."""
        voice = self._voice(utterance_id)
        if not 0 <= start <= len(voice.text):
            raise RevisionError(f"no character {start} in a text of {len(voice.text)}")
        if "<|im_end|>" in text:
            raise StructuralTokenError("<|im_end|> structures the prompt")
        fixed_ms = min(heard_ms, 1000 * voice.sent_samples / SAMPLE_RATE)
        joins = bool(text) and not text[0].isspace()
        kept = [
            word
            for word in voice.words
            if word.start_ms < fixed_ms or word.char_end < start or (word.char_end == start and not joins)
        ]
        kept_to = max(start, *(word.char_end for word in kept), 0) if kept else start
        resumes_at = resume_at(voice.text[start:kept_to], text)
        voice.text = voice.text[:kept_to] + text[resumes_at:]
        voice.words = kept
        voice.read = kept[-1].char_end if kept else 0
        end = round(kept[-1].end_ms * SAMPLE_RATE / 1000) if kept else 0
        while voice.queue and voice.queued_samples > end:
            voice.queued_samples -= len(voice.queue.pop()[0])
        voice.queued_samples = end
        voice.sent_samples = min(voice.sent_samples, end)
        self._events.append(Revised(utterance_id, start, kept_to, resumes_at, voice.sent_samples))
        self.tally = replace(self.tally, revisions=self.tally.revisions + 1)
        self._read(voice, is_complete=voice.is_finished)

    def flush(self, utterance_id: str) -> None:
        self._read(self._voice(utterance_id), is_complete=True)

    def finish(self, utterance_id: str) -> None:
        voice = self._voice(utterance_id)
        voice.is_finished = True
        self._read(voice, is_complete=True)

    def abort(self, utterance_id: str) -> None:
        self._voice(utterance_id)
        del self._voices[utterance_id]
        self._events.append(Cancelled(utterance_id))

    def pause(self, utterance_id: str) -> None:
        self._voice(utterance_id).is_paused = True

    def resume(self, utterance_id: str) -> None:
        self._voice(utterance_id).is_paused = False

    def hurry(self, utterance_id: str, speed: float) -> None:
        self._voice(utterance_id).hurry = speed

    def make_voice(self, name: str, recordings: Iterable[Recording]) -> MadeOfNothing:
        """A recording that begins with ``bad`` is one, ``bug`` is a fault, ``exit`` kills, ``slow`` takes its time."""
        audio = b"".join(recording.audio for recording in recordings)
        if audio.startswith(b"bad"):
            raise ClipError("a bad recording")
        if audio.startswith(b"bug"):
            raise RuntimeError(f"a bug with {audio!r}")
        if audio.startswith(b"exit"):
            os._exit(3)
        if audio.startswith(b"slow"):
            time.sleep(0.5)
        notes = ("it sounds like a telephone",) if audio.startswith(b"dull") else ()
        return MadeOfNothing(ClonedVoice(name, float(len(audio)), 1), notes)

    def keep_voice(self, made: MadeOfNothing) -> None:
        voices, cloned = (*self.info.voices, made.voice.name), (*self.info.cloned, made.voice)
        self.info = replace(self.info, voices=voices, cloned=cloned, can_clone=True)

    def remove_voice(self, name: str) -> None:
        if name not in [voice.name for voice in self.info.cloned]:
            raise UnknownVoiceError(f"no voice {name!r}")
        rest = tuple(voice for voice in self.info.cloned if voice.name != name)
        self.info = replace(self.info, voices=(*VOICES, *(voice.name for voice in rest)), cloned=rest)

    def refresh_voices(self) -> bool:
        return False

    def idle_s(self) -> float | None:
        is_busy = bool(self._events) or any(map(_is_ready, self._voices.values()))
        return 0.0 if is_busy else None

    def step(self) -> list[EngineEvent]:
        events, self._events = self._events, []
        ready = [voice for voice in self._voices.values() if _is_ready(voice)]
        if any(voice.queue for voice in ready):
            time.sleep(self._step_s)
        for voice in ready:
            events += self._speak(voice)
        return events

    def _voice(self, utterance_id: str) -> Voice:
        if utterance_id not in self._voices:
            raise UnknownUtteranceError(utterance_id)
        return self._voices[utterance_id]

    def _read(self, voice: Voice, *, is_complete: bool) -> None:
        while True:
            rest = voice.text[voice.read :]
            start = voice.read + len(rest) - len(rest.lstrip())
            end = start
            while end < len(voice.text) and not voice.text[end].isspace():
                end += 1
            if start == end or (end == len(voice.text) and not is_complete):
                return
            voice.read = end
            self._queue(voice, voice.text[start:end], start, end)

    def _queue(self, voice: Voice, word: str, start: int, end: int) -> None:
        if word == "!exit":
            os._exit(3)
        if word == "!hang":
            time.sleep(60)
        if word.startswith("!unsaid"):
            utterance_id = voice.utterance.utterance_id
            self._events.append(Notice(utterance_id, f"character {start}: what is unsaid is left out"))
            return
        if not any(map(str.isalnum, word)):
            return
        samples = tone(word, voice.utterance.voice, self._frames_per_word)
        length = round(SAMPLES_PER_FRAME / (voice.utterance.speed * voice.hurry)) * self._frames_per_word
        samples = np.resize(samples, length)
        start_ms = 1000 * voice.queued_samples / SAMPLE_RATE
        voice.queued_samples += len(samples)
        end_ms = 1000 * voice.queued_samples / SAMPLE_RATE
        voice.words.append(WordTiming(word, SPOKEN.get(word, word), start_ms, end_ms, start, end))
        timing: WordTiming | None = voice.words[-1]
        for frame in np.split(samples, self._frames_per_word):
            voice.queue.append((frame, timing))
            timing = None

    def _speak(self, voice: Voice) -> list[EngineEvent]:
        utterance_id = voice.utterance.utterance_id
        if voice.queue:
            samples, timing = voice.queue.popleft()
            chunk = AudioChunk(utterance_id, voice.sent_samples, samples, () if timing is None else (timing,))
            voice.sent_samples += len(samples)
            voice.frames += 1
            return [chunk]
        del self._voices[utterance_id]
        return [Finished(utterance_id, voice.frames, 0.0, voice.sent_samples / SAMPLE_RATE)]


def _is_ready(voice: Voice) -> bool:
    return not voice.is_paused and (bool(voice.queue) or voice.is_finished)


def make(step_s: float = 0.0, frames_per_word: int = 4, warm_s: float = 0.0) -> FakeEngine:
    """The factory that tests name."""
    return FakeEngine(step_s, frames_per_word, warm_s)


def broken() -> FakeEngine:
    """A factory that fails."""
    raise FileNotFoundError("no such checkpoint: model.safetensors")
