"""Shared nouns of the engine: what is asked of it and what it answers. No tensors of the model, no I/O."""

from dataclasses import dataclass, field, fields
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class Policy(StrEnum):
    """How much text to wait for before speaking it (turn form; the aligned form speaks from the first words)."""

    EAGER = "eager"
    CLAUSE = "clause"
    SENTENCE = "sentence"
    WHOLE = "whole"


@dataclass(frozen=True)
class SamplingParams:
    """How codes are drawn from logits. ``top_k=None`` means no cap on the main token."""

    temperature: float = 1.0
    top_p: float = 0.9
    top_k: int | None = None
    seed: int = 0


class TextFormat(StrEnum):
    """What is markup in a text; see ``docs/text.md``."""

    PLAIN = "plain"
    MARKDOWN = "markdown"
    SSML = "ssml"


@dataclass(frozen=True)
class LexiconEntry:
    """How one word is pronounced: respelled, or in the International Phonetic Alphabet. See ``engine/lexicon.py``."""

    word: str
    say: str | None = None
    ipa: str | None = None


@dataclass(frozen=True)
class Utterance:
    """One generation, from voice prefix to end: text is appended to it while it speaks."""

    utterance_id: str
    voice: str
    language: str = "en"
    policy: Policy = Policy.EAGER
    sampling: SamplingParams | None = None
    """None: the model's own defaults."""
    text_format: TextFormat = TextFormat.MARKDOWN
    lexicon: tuple[LexiconEntry, ...] = ()
    """Before those of the server."""
    speed: float = 1.0
    """How much faster than usual it is spoken, at the same pitch, within ``ModelInfo.speeds``."""


@dataclass(frozen=True)
class WordTiming:
    """When one word of the original text is heard.

    A word comes with the chunk it starts in; if it ends later, ``end_ms`` is an estimate, and the exact time comes with
    the chunk it ends in. In turn form both are estimates until the turn has ended. So a later timing of the same
    ``char_start`` replaces the earlier one.

    ``text`` is ``original[char_start:char_end]`` (offsets in Unicode code points of all text appended to the
    utterance), ``spoken`` its spoken form ("$20" -> "twenty dollars"). Times in ms from the utterance's first sample.
    """

    text: str
    spoken: str
    start_ms: float
    end_ms: float
    char_start: int
    char_end: int
    is_estimated: bool = False
    """Whether a time is a guess still, to be replaced by a later timing or not."""


@dataclass(frozen=True)
class AudioChunk:
    """Samples of one utterance, one or more frames: float32 mono [N] in [-1, 1] at the model's rate.

    N is 0 where only words are news (the last frame of a turn was dropped).
    """

    utterance_id: str
    first_sample: int
    samples: NDArray[np.float32]
    words: tuple[WordTiming, ...] = ()
    """Words that start inside this chunk, and corrected times of words told before (see ``WordTiming``)."""


@dataclass(frozen=True)
class Revised:
    """Answer to ``Engine.revise(utterance_id, start, text, heard_ms)``: what became of it.

    The utterance's text is now ``old[:kept_to] + text[resumes_at:]``, where ``old`` is what it was before. In full
    effect: ``kept_to == start`` and ``resumes_at == 0``. Came too late in part: ``kept_to > start``, and ``resumes_at``
    is ``engine.revision.resume_at(old[start:kept_to], text)``.

    Audio from ``from_sample`` on is void (none, if that is all there was): the next chunk starts exactly there and
    brings the words of void audio again. Words that start before ``from_sample`` keep their times.
    """

    utterance_id: str
    start: int
    kept_to: int
    resumes_at: int
    from_sample: int


@dataclass(frozen=True)
class Finished:
    """Terminal: everything that was appended has been spoken."""

    utterance_id: str
    frames: int
    compute_s: float
    audio_s: float
    retries: int = 0


@dataclass(frozen=True)
class Cancelled:
    """Terminal: the utterance was aborted; no later chunk exists."""

    utterance_id: str


@dataclass(frozen=True)
class Failed:
    """Terminal: the utterance cannot go on; ``code`` is the wire code of the error (see ``engine/errors.py``)."""

    utterance_id: str
    code: str
    message: str
    retryable: bool = False


@dataclass(frozen=True)
class Notice:
    """Something that the text asks for is done otherwise, or not at all, or part of it was spoken badly; the utterance
    goes on.
    """

    utterance_id: str
    message: str


EngineEvent = AudioChunk | Revised | Notice | Finished | Cancelled | Failed


@dataclass(frozen=True)
class ReadPiece:
    """One piece of a text and how it is read: ``text`` is ``original[char_start:char_end]``."""

    kind: str
    """``word``, ``cue`` for the model itself, ``pause``, or ``silent``: this voice does not say it."""
    text: str
    spoken: str
    phonemes: str
    """As the voice reads them, pause symbols behind; empty where it reads the text itself."""
    char_start: int
    char_end: int
    language: str
    boundary: str
    """What follows: ``none``, ``clause`` or ``sentence``."""
    segment: int
    """Pieces of one segment are spoken in one go (turn form)."""
    pause_ms: int = 0
    speed: float = 1.0


@dataclass(frozen=True)
class Explanation:
    """How a text would be read."""

    pieces: tuple[ReadPiece, ...]
    notices: tuple[str, ...] = ()
    """What is asked for in the text and cannot be done."""


def real_time_factor(compute_s: float, audio_s: float) -> float:
    """Compute seconds per second of audio; below 1 is faster than real time. No audio: 0."""
    return compute_s / audio_s if audio_s else 0.0


@dataclass(frozen=True)
class Tally:
    """What was done in vain or again since the engine was made; cheap to read after every step. Only grows."""

    retries: int = 0
    """Speech made again with other random numbers, because what the model gave was none."""
    revisions: int = 0
    """Carried out."""
    discarded_frames: int = 0
    """Frames that were made and then thrown away; not among ``EngineStats.frames``."""
    withdrawn_guesses: int = 0
    """Turns begun on a guess that nobody had heard when there was much more to say, and that were begun anew."""
    spliced_guesses: int = 0
    """Turns begun on a guess that were taken back to a pause, to go on from there with more to say."""
    duds: int = 0
    """Speech without a sound, or too fast or too short for its text."""
    runaways: int = 0
    """Speech that did not end, stood still or dragged."""
    heard_faults: int = 0
    """Of both: had been given out in part when they were found, and speech went on behind them."""

    def since(self, before: "Tally") -> "Tally":
        """What was added after ``before``."""
        return Tally(**{f.name: getattr(self, f.name) - getattr(before, f.name) for f in fields(self)})


@dataclass(frozen=True)
class EngineStats:
    """Totals since the engine was made."""

    open_utterances: int
    finished: int
    cancelled: int
    failed: int
    frames: int
    audio_s: float
    compute_s: float
    """Time spent in ``step``, once per step however many utterances it served."""
    steps: int
    prompt_rows: int
    """Rows prefilled, those of voices included."""
    memory_bytes: int
    """Bytes the open utterances and the ready voices hold."""
    tally: Tally = field(default_factory=Tally)
    renewals: int = 0
    """Times a long utterance let go of its context, at a pause."""


@dataclass(frozen=True)
class Recording:
    """What a voice is taken from: a sound file's bytes as they came, and exactly what is said in it."""

    audio: bytes = field(repr=False)
    transcript: str


@dataclass(frozen=True)
class ClonedVoice:
    """A voice made of recordings."""

    name: str
    duration_s: float
    """Of its recordings together."""
    recordings: int
    problem: str | None = None
    """Why it cannot be used; None if it can."""


@dataclass(frozen=True)
class ModelInfo:
    """What a loaded model is, for handshakes and ``doctor``."""

    name: str
    sample_rate: int
    samples_per_frame: int
    text_stream: str
    voices: tuple[str, ...]
    languages: tuple[str, ...] = ("en",)
    licence: str = "Apache-2.0"
    notes: tuple[str, ...] = field(default=())
    reads_phonemes: bool = True
    """Else it reads the text itself, and a lexicon can only respell."""
    can_clone: bool = False
    """Whether a voice can be made of recordings."""
    cloned: tuple[ClonedVoice, ...] = ()
    """Voices made of recordings, those included that cannot be used and so are not in ``voices``."""
    speeds: tuple[float, float] = (1.0, 1.0)
    """The slowest and the fastest it speaks, at the same pitch."""

    @property
    def frame_ms(self) -> float:
        """Length of one frame in milliseconds, at speed 1."""
        return 1000 * self.samples_per_frame / self.sample_rate
