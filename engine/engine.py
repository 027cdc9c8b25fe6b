"""The engine: text of many utterances in, audio of all of them out, one frame each per step."""

import logging
import math
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from engine.core import (
    AudioChunk,
    Cancelled,
    EngineEvent,
    EngineStats,
    Explanation,
    Failed,
    Finished,
    Notice,
    Recording,
    Revised,
    Tally,
    Utterance,
)
from engine.errors import (
    FootlightsError,
    RevisionError,
    SpeechError,
    TextError,
    TextTooLongError,
    UnknownUtteranceError,
    UtteranceStateError,
)
from engine.loading import Parts, load_parts
from engine.rewind import Made, Prompt, Tape
from engine.runner import Samples, Track
from engine.scheduler import Scheduler
from engine.script import STEP_CHARACTERS, Script
from engine.streams.base import Demand, Fault, Guide, Spoken, TextStream
from engine.text.explain import explaining
from engine.text.front import warm
from engine.voices.book import MadeVoice, ReadyVoice

logger = logging.getLogger(__name__)

UNDERSTUDY = Path(__file__).with_name("understudy")
"""Checkpoint that comes with the project."""
FIRST_CHUNK_FRAMES = 2
"""Frames in the first chunk: a player that starts with it has time for whatever delays the next one."""
SILENCE_MS = 40
"""Audio of an utterance in which there is nothing to say."""
RECALL_S = 2.0
"""A listener may be so far behind where the scheduler sees it: a revision can still change what it has not heard."""
REVISED_LEAD_S = 2.0
"""An utterance whose text was revised is made no further ahead: what is thrown away by the next revision is bounded."""
RESERVE_S = 0.1
"""Audio a listener should have while its next turn is begun, .."""
RESERVE_STEPS = 4
""".. and the time of so many steps: prompt rows, two frames, and somebody else's turn."""
STEP_WEIGHT = 0.1
"""Of a new step in the running mean of their times."""
MOST_RETRIES = 2
"""Of a turn, or between two silences of the aligned form, where there was no speech."""
SILENT = 1e-3
"""Loudness (RMS, full scale is 1) of a frame below which it is silent."""
BUSY = 0.8
"""Share of real time that steps take from which on nothing is begun on a guess."""
TRIAL_STEPS = 4
"""Steps after which a new engine is as fast as it will be; a restart waits for them."""


@dataclass
class Sequence:
    """One utterance on its way from text to sound."""

    utterance: Utterance
    script: Script
    stream: TextStream
    track: Track
    tape: Tape
    voice: ReadyVoice
    """The utterance's own to its end, whatever becomes of the voice's name."""
    seed: int
    """Of the random numbers it began with."""
    is_finished: bool = False
    """No more text will come."""
    held: list[AudioChunk] = field(default_factory=list)
    """What is kept back until the first chunk is whole."""
    samples: int = 0
    frames: int = 0
    retries: int = 0
    retries_left: int = MOST_RETRIES
    """Until the stream rests again."""
    silent_ms: float = 0.0
    """For how long its audio has been silent where it should not."""
    heard: int = 0
    """Samples that must not change any more: what a revision was told."""
    compute_s: float = 0.0

    @property
    def held_samples(self) -> int:
        """Samples made and kept back."""
        return sum(len(chunk.samples) for chunk in self.held)

    @property
    def name(self) -> str:
        """The utterance's id."""
        return self.utterance.utterance_id


class Engine:
    """Speaks any number of utterances at once; synchronous, one thread.

    Every utterance ends in exactly one of ``Finished``, ``Cancelled``, ``Failed``, returned by ``step``; then its id is
    free again. Methods raise ``FootlightsError``s for wrong calls, and then nothing has changed. What goes wrong inside
    an utterance fails that one alone.
    """

    def __init__(self, parts: Parts, scheduler: Scheduler, timer: Callable[[], float] = time.perf_counter) -> None:
        """``timer`` returns seconds, to tell what a step costs."""
        self.info = parts.info
        self.runner = parts.runner
        self._voices = parts.voices
        self._make_front = parts.make_front
        self._make_stream = parts.make_stream
        self._scheduler = scheduler
        self._timer = timer
        self._limits = parts.limits
        self._sequences: dict[str, Sequence] = {}
        self._outbox: list[EngineEvent] = []
        self._ended: dict[type[EngineEvent], int] = {Finished: 0, Cancelled: 0, Failed: 0}
        self.tally = Tally()
        self._frames = self._samples = self._steps = self._renewals = 0
        self._compute_s = 0.0
        self._step_s = 0.0
        """Running mean of a step's time, at the batch of late."""

    # Asked from outside

    def add(self, utterance: Utterance) -> None:
        """Begin an utterance. Raises ``UnknownVoiceError``, ``UnknownLanguageError``, ``UtteranceStateError``."""
        name = utterance.utterance_id
        if name in self._sequences:
            raise UtteranceStateError(f"utterance {name!r} is already open; use another id")
        voice = self._voices.ready(utterance.voice)
        stream = self._make_stream(utterance)
        script = Script(self._make_front(utterance), stream)
        track = self.runner.open(voice, utterance.sampling)
        tape = Tape(self.runner, track, stream, script)
        self._sequences[name] = Sequence(utterance, script, stream, track, tape, voice, track.sampler.params.seed)
        self._scheduler.add(name)

    def append_text(self, utterance_id: str, text: str) -> None:
        """More text of any length. Raises ``TextError`` for text that cannot be spoken; it is then left out."""
        sequence = self._writable(utterance_id)
        with self._guard(sequence, passes=(TextError,)):
            sequence.script.append(text)

    def revise(self, utterance_id: str, start: int, text: str, heard_ms: float) -> None:
        """Other text from character ``start`` on; ``Revised`` tells what became of it, with the next step.

        Audio before ``heard_ms`` does not change. A text that was finished stays finished. Raises ``RevisionError``
        for a ``start`` outside the text and ``TextError`` for text that cannot be spoken; nothing has changed then.
        """
        sequence = self._open(utterance_id)
        with self._guard(sequence, passes=(TextError, RevisionError)):
            self._revise(sequence, start, text, heard_ms)

    def explain(self, utterance: Utterance, text: str) -> Iterator[Explanation | None]:
        """How ``text`` would be read for ``utterance``, without speaking: some milliseconds of reading at each step.

        Raises at the first step what ``add`` and ``append_text`` raise.
        """
        return explaining(self._make_front(utterance), text, utterance.policy)

    def flush(self, utterance_id: str) -> None:
        """Speak all there is without waiting for more."""
        self._writable(utterance_id).script.flush()

    def finish(self, utterance_id: str) -> None:
        """No more text: speak what there is and end."""
        sequence = self._writable(utterance_id)
        sequence.is_finished = True
        sequence.script.finish()

    def abort(self, utterance_id: str) -> None:
        """Stop at once; no audio of it follows, ``Cancelled`` does."""
        self._end(self._open(utterance_id), Cancelled(utterance_id))

    def pause(self, utterance_id: str) -> None:
        """Make no audio for it until ``resume``; text is still taken in."""
        self._open(utterance_id)
        self._scheduler.pause(utterance_id)

    def resume(self, utterance_id: str) -> None:
        """Go on after ``pause``."""
        self._open(utterance_id)
        self._scheduler.resume(utterance_id)

    def has_work(self) -> bool:
        """Whether ``step`` would do or return anything now."""
        return self.idle_s() == 0

    def idle_s(self) -> float | None:
        """Seconds until ``step`` has something to do if nothing is asked meanwhile; None: it never will."""
        if self._outbox or self._unread() or any(s.stream.demand() is Demand.END for s in self._sequences.values()):
            return 0.0
        return self._scheduler.next_due_s(self._ready(), self._held())

    def stats(self) -> EngineStats:
        """Totals since the engine was made."""
        return EngineStats(
            open_utterances=len(self._sequences),
            finished=self._ended[Finished],
            cancelled=self._ended[Cancelled],
            failed=self._ended[Failed],
            frames=self._frames,
            audio_s=self._samples / self.info.sample_rate,
            compute_s=self._compute_s,
            steps=self._steps,
            prompt_rows=self.runner.prompt_rows,
            memory_bytes=self.runner.nbytes
            + self._voices.nbytes
            + sum(sequence.tape.nbytes for sequence in self._sequences.values()),
            tally=self.tally,
            renewals=self._renewals,
        )

    # Voices

    def make_voice(self, name: str, recordings: Iterable[Recording]) -> MadeVoice:
        """A new voice from recordings, made and stored; it takes seconds. ``keep_voice`` takes it in.

        Nothing that ``step`` uses is touched: it may run in a thread of its own meanwhile. Raises ``VoiceError``
        (``NoCloningError`` where the model has learned voices alone), ``ClipError`` and ``TextError``.
        """
        return self._voices.make(name, tuple(recordings))

    def keep_voice(self, made: MadeVoice) -> None:
        """Use a voice that ``make_voice`` made; ``info`` names it from now on."""
        self._voices.keep(made)
        self.refresh_voices()

    def remove_voice(self, name: str) -> None:
        """Delete a voice made of recordings; utterances that speak with it go on. Raises ``UnknownVoiceError``."""
        self._voices.remove(name)
        self.refresh_voices()

    def refresh_voices(self) -> bool:
        """Look which voices there are now and put them into ``info``; whether something has changed."""
        before = self.info
        self.info = replace(before, voices=self._voices.names, cloned=self._voices.cloned)
        return self.info != before

    # One step

    def step(self) -> list[EngineEvent]:
        """Serve whoever runs dry first: prompt rows for one, a frame for each; returns what happened since."""
        started_s = self._timer()
        self._read()
        self._situate()
        due = [self._sequences[name] for name in self._scheduler.select(self._ready())]
        spoken = self._decode(self._prefill(self._renew(due)))
        self._vocode(spoken)
        self._account(due, self._timer() - started_s)
        self._close_ended()
        events, self._outbox = self._outbox, []
        return events

    def _read(self) -> None:
        """Read text for those who wait for it, as much as holds nobody up.

        Whoever runs dry first comes first, but for those who had a step's worth already and still have nothing to say.
        """
        left = STEP_CHARACTERS
        waiting = self._scheduler.by_deadline(self._unread())
        waiting.sort(key=lambda name: self._sequences[name].script.read_in_vain // STEP_CHARACTERS)
        for name in waiting:
            sequence = self._sequences[name]
            with self._guard(sequence):
                left -= sequence.script.read(left)
                self._outbox += [Notice(name, told) for told in sequence.script.take_notices()]
            if left <= 0:
                break

    def _unread(self) -> list[str]:
        """Utterances that need more of their text to be read."""
        return [n for n, s in self._sequences.items() if s.script.is_due and not self._scheduler.is_paused(n)]

    def _situate(self) -> None:
        """Tell the streams how much their listeners have; begin anew what was begun too early and nobody has heard."""
        reserve_s = self._reserve_s
        for sequence in list(self._sequences.values()):
            with self._guard(sequence):
                if sequence.stream.would_restart:
                    left = sequence.tape.restart(sequence.samples - sequence.held_samples)
                    self._take_back(sequence, left)
                    self._count(withdrawn_guesses=left is not None)
                sequence.stream.situate(self._scheduler.lead_s(sequence.name), reserve_s)

    @property
    def _reserve_s(self) -> float:
        """Audio with which a listener's next turn has to be begun; endless when there is no time for guesses."""
        is_busy = len(self._sequences) > 1 and 1000 * self._step_s > BUSY * self.info.frame_ms
        return math.inf if is_busy else RESERVE_S + RESERVE_STEPS * self._step_s

    def _held(self) -> dict[str, float]:
        """Utterances that hold back until their listener has no more than so many seconds."""
        reserve_s = self._reserve_s
        return {n: reserve_s for n, s in self._sequences.items() if s.stream.demand() is Demand.HOLD}

    def _ready(self) -> list[str]:
        """Utterances that could go on now."""
        return [n for n, s in self._sequences.items() if s.stream.demand() in (Demand.PREFILL, Demand.DECODE)]

    def _renew(self, due: list[Sequence]) -> list[Sequence]:
        """Go back to the voice's own rows, at a pause, where a long utterance has filled its context.

        Speech goes on from there as from the beginning; the codec's memory runs on. Returns those that still are open.
        """
        for sequence in due:
            rows = sequence.track.rows
            with self._guard(sequence):
                if rows >= self._limits.renew_rows and sequence.stream.is_resting:
                    self._begin(sequence)
                    sequence.tape.renew(sequence.voice)
                    sequence.stream.renew()
                    self._renewals += 1
                elif rows >= self._limits.most_rows:
                    raise TextTooLongError("the text has no pause at which its long context could be let go")
        return [s for s in due if self._is_open(s)]

    def _prefill(self, due: list[Sequence]) -> list[Sequence]:
        """Give the most urgent utterance that needs them its prompt rows; returns all that can make a frame now.

        One a step, so that a burst of new text does not hold up the frames of the others.
        """
        for sequence in due:
            if sequence.stream.demand() is Demand.PREFILL:
                with self._guard(sequence):
                    self._begin(sequence)
                    token_ids = sequence.stream.take_prompt()
                    self.runner.prefill(sequence.track, token_ids)
                    sequence.tape.end(Prompt(token_ids, sequence.stream.place()))
                break
        return [s for s in due if self._is_open(s) and s.stream.demand() is Demand.DECODE]

    def _decode(self, decoding: list[Sequence]) -> list[tuple[Sequence, Spoken]]:
        """One frame for each; what it means to its text stream."""
        guides, spoken = list[Guide](), list[tuple[Sequence, Spoken]]()
        for sequence in decoding:
            with self._guard(sequence):
                self._begin(sequence)
                guides.append(sequence.stream.guide())
        decoding = [s for s in decoding if self._is_open(s)]
        frames = self.runner.decode_step([s.track for s in decoding], guides)
        for sequence, guide, frame in zip(decoding, guides, frames, strict=True):
            with self._guard(sequence):
                if isinstance(frame, Exception):
                    raise frame
                news = sequence.stream.accept(frame)
                sequence.tape.end(Made(guide, frame, sequence.track.pending, news))
                sequence.frames += len(news.frames)
                self._frames += len(news.frames)
                if news.fault is None:
                    spoken.append((sequence, news))
                else:
                    self._retry(sequence, news.fault)
        return spoken

    def _vocode(self, spoken: list[tuple[Sequence, Spoken]]) -> None:
        """Frames to samples, samples and words to chunks."""
        pieces = self.runner.vocode([s.track for s, _ in spoken], [news.frames for _, news in spoken])
        for (sequence, news), samples in zip(spoken, pieces, strict=True):
            with self._guard(sequence):
                if isinstance(samples, Exception):
                    raise samples
                if self._is_mute(sequence, samples, news.most_silent_ms):
                    self._retry(sequence, Fault.MUTE)
                elif len(samples) or news.words:
                    self._hand_out(sequence, AudioChunk(sequence.name, sequence.samples, samples, news.words))

    def _begin(self, sequence: Sequence) -> None:
        """Note where an utterance stands before something is done for it."""
        unheard_s = self._scheduler.lead_s(sequence.name) + RECALL_S
        heard = sequence.samples - int(unheard_s * self.info.sample_rate)
        sequence.tape.begin(sequence.samples, max(sequence.heard, heard))

    def _revise(self, sequence: Sequence, start: int, text: str, heard_ms: float) -> None:
        sequence.heard = max(sequence.heard, math.ceil(heard_ms * self.info.sample_rate / 1000))
        rewound = sequence.tape.revise(start, text, sequence.heard)
        self._take_back(sequence, rewound.left)
        self._scheduler.limit_lead(sequence.name, REVISED_LEAD_S)
        self._release(sequence)
        at = sequence.samples
        self._outbox.append(Revised(sequence.name, start, rewound.kept_to, rewound.resumes_at, at))
        if rewound.words:
            self._outbox.append(AudioChunk(sequence.name, at, np.zeros(0, np.float32), rewound.words))
        self._count(revisions=1)

    def _take_back(self, sequence: Sequence, left: tuple[int, int] | None) -> None:
        """Count what was undone: the samples that are left, and the frames taken back."""
        if left is None:
            return
        samples, frames = left
        void = sequence.samples - samples
        sequence.silent_ms = 0.0
        sequence.samples, sequence.frames = samples, sequence.frames - frames
        sequence.held = [chunk for chunk in sequence.held if chunk.first_sample < samples]
        self._scheduler.retract(sequence.name, void / self.info.sample_rate)
        self._samples -= void
        self._frames -= frames
        self._count(discarded_frames=frames)

    def _count(self, **more: int) -> None:
        self.tally = replace(self.tally, **{name: getattr(self.tally, name) + n for name, n in more.items()})

    def _retry(self, sequence: Sequence, fault: Fault) -> None:
        """Make what was no speech again with other random numbers: the whole turn if nothing of it was given out,
        otherwise what was not; then listeners are told what they have heard.

        Raises ``SpeechError`` where that did not help: part of the text was not spoken.
        """
        self._count(**{"runaways" if fault is Fault.RUNAWAY else "duds": 1})
        if sequence.retries_left == 0:
            raise SpeechError(f"the model {fault.value}")
        released = sequence.samples - sequence.held_samples
        restarted = sequence.tape.restart(released)
        self._take_back(sequence, restarted or sequence.tape.retreat(released))
        sequence.retries_left -= 1
        sequence.retries += 1
        self._count(retries=1)
        sequence.track.sampler.reseed(sequence.seed, sequence.retries)
        # A turn that ended too soon and goes on after all was heard without a fault.
        if restarted is None and released and fault is not Fault.SHORT:
            sequence.stream.pardon()
            self._count(heard_faults=1)
            at_s = released / self.info.sample_rate
            told = f"before second {at_s:.1f} the model {fault.value}; speech goes on from there"
            self._outbox.append(Notice(sequence.name, told))

    def _is_mute(self, sequence: Sequence, samples: Samples, most_ms: float) -> bool:
        """Whether an utterance has been silent for longer than that, ``samples`` included."""
        is_silent = not len(samples) or float(np.sqrt(np.mean(samples**2))) < SILENT
        if math.isinf(most_ms) or not is_silent:
            sequence.silent_ms = 0.0
        else:
            sequence.silent_ms += 1000 * len(samples) / self.info.sample_rate
        return sequence.silent_ms > most_ms

    def _hand_out(self, sequence: Sequence, chunk: AudioChunk) -> None:
        sequence.samples += len(chunk.samples)
        if sequence.stream.is_resting:
            sequence.retries_left = MOST_RETRIES
        self._samples += len(chunk.samples)
        self._scheduler.record(sequence.name, len(chunk.samples) / self.info.sample_rate)
        sequence.held.append(chunk)
        if sequence.samples >= FIRST_CHUNK_FRAMES * self.info.samples_per_frame:
            self._release(sequence)

    def _release(self, sequence: Sequence) -> None:
        """Give out what is held, as one chunk."""
        if sequence.held:
            samples = np.concatenate([chunk.samples for chunk in sequence.held])
            words = tuple(word for chunk in sequence.held for word in chunk.words)
            self._outbox.append(AudioChunk(sequence.name, sequence.held[0].first_sample, samples, words))
            sequence.held = []

    def _account(self, served: list[Sequence], compute_s: float) -> None:
        self._steps += 1
        self._compute_s += compute_s
        if served:
            self._step_s += STEP_WEIGHT * (compute_s - self._step_s)
        for sequence in served:
            sequence.compute_s += compute_s / len(served)

    def _close_ended(self) -> None:
        """End utterances that have said all; one without any sound gets a moment of silence first."""
        for sequence in [s for s in self._sequences.values() if s.stream.demand() is Demand.END]:
            if not sequence.samples:
                silence = np.zeros(self.info.sample_rate * SILENCE_MS // 1000, np.float32)
                self._hand_out(sequence, AudioChunk(sequence.name, 0, silence))
            self._release(sequence)
            audio_s = sequence.samples / self.info.sample_rate
            self._end(sequence, Finished(sequence.name, sequence.frames, sequence.compute_s, audio_s, sequence.retries))

    # Life of an utterance

    def _open(self, utterance_id: str) -> Sequence:
        if utterance_id not in self._sequences:
            raise UnknownUtteranceError(f"no utterance {utterance_id!r} is open")
        return self._sequences[utterance_id]

    def _is_open(self, sequence: Sequence) -> bool:
        return self._sequences.get(sequence.name) is sequence

    def _writable(self, utterance_id: str) -> Sequence:
        sequence = self._open(utterance_id)
        if sequence.is_finished:
            raise UtteranceStateError(f"utterance {utterance_id!r} was finished; it takes no more text")
        return sequence

    @contextmanager
    def _guard(self, sequence: Sequence, passes: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Confine an error to its utterance, which fails with it; those in ``passes`` are the caller's and go on."""
        try:
            yield
        except passes:
            raise
        except FootlightsError as error:
            self._end(sequence, Failed(sequence.name, error.code, str(error), error.retryable))
        except Exception as error:
            # Without the message, which may quote the user's text.
            kind, where = type(error).__name__, "".join(traceback.format_tb(error.__traceback__))
            logger.error("utterance %s failed with %s\n%s", sequence.name, kind, where)
            self._end(sequence, Failed(sequence.name, "internal", f"the engine failed ({kind})", retryable=True))

    def _end(self, sequence: Sequence, event: Finished | Cancelled | Failed) -> None:
        """The one way out of the engine."""
        del self._sequences[sequence.name]
        self._scheduler.remove(sequence.name)
        self.runner.close(sequence.track)
        self._ended[type(event)] += 1
        self._outbox.append(event)


def load_engine(
    folder: Path | str = UNDERSTUDY,
    *,
    text_stream: str | None = None,
    threads: int = 1,
    max_batch: int = 8,
    max_lead_s: float = math.inf,
    device: str = "cpu",
    voices: Path | str | None = None,
    lexicon: Path | str | None = None,
    is_warm: bool = True,
) -> Engine:
    """An engine for a checkpoint folder, by default the understudy's. Raises ``ConfigError`` and ``WeightsError``.

    ``text_stream``: ``aligned`` or ``turns`` (None: what the checkpoint is made for). ``threads`` of tensor operations
    in this process. ``max_batch`` utterances a step; none is made more than ``max_lead_s`` ahead of its listener.
    ``voices``: folder of those made of recordings (None: ``voices`` in the checkpoint's).
    ``lexicon``: a file of pronunciations (``docs/text.md``).
    ``is_warm``: load voices, lexicons and kernels now instead of with the first utterance.
    """
    torch.set_num_threads(threads)
    parts = load_parts(
        Path(folder),
        text_stream,
        device=device,
        voices_folder=None if voices is None else Path(voices),
        lexicon=None if lexicon is None else Path(lexicon),
    )
    if is_warm:
        warm()
        trial = Engine(parts, Scheduler(max_batch, math.inf, time.monotonic))
        parts.voices.warm()
        trial.add(Utterance("trial", parts.info.voices[0]))
        trial.append_text("trial", "Ready.")
        trial.finish("trial")
        for _ in range(TRIAL_STEPS):
            trial.step()
    return Engine(parts, Scheduler(max_batch, max_lead_s, time.monotonic))
