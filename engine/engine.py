"""The engine: text of many utterances in, audio of all of them out, one frame each per step."""

import logging
import math
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from engine.context_rows import ContextRows
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
    Tally,
    Utterance,
)
from engine.corrections import Corrections
from engine.delivery import Delivery
from engine.errors import (
    FootlightsError,
    RevisionError,
    TextError,
    UnknownUtteranceError,
    UtteranceStateError,
)
from engine.ledger import Ledger
from engine.loading import Parts, load_parts
from engine.loudness import loudness_db
from engine.pace import Pace
from engine.rewind import Made, Tape
from engine.scheduler import Scheduler
from engine.script import STEP_CHARACTERS, Script
from engine.sequence import Sequence
from engine.streams.base import Demand, Fault, Guide, Spoken
from engine.text.explain import explaining
from engine.text.front import warm
from engine.voices.book import MadeVoice

logger = logging.getLogger(__name__)

UNDERSTUDY = Path(__file__).with_name("understudy")
"""Checkpoint that comes with the project."""
TRIAL_STEPS = 4
"""Steps after which a new engine is as fast as it will be; a restart waits for them."""


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
        self._sequences: dict[str, Sequence] = {}
        self._outbox: list[EngineEvent] = []
        self._ledger = Ledger()
        self._pace = Pace(self.info.frame_ms)
        self._delivery = Delivery(self.info, scheduler, self._tell)
        self._corrections = Corrections(self.info.sample_rate, scheduler, self._delivery, self._ledger, self._tell)
        self._rows = ContextRows(parts.runner, parts.limits, parts.recall, self._corrections.begin)

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
        slowest, fastest = self.info.speeds
        if not slowest <= utterance.speed <= fastest:
            told = f"this model speaks at {slowest:g} to {fastest:g}" if slowest < fastest else "this model cannot"
            self._tell(Notice(name, f"speed {utterance.speed:g}: {told}"))
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
            self._corrections.revise(sequence, start, text, heard_ms)

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

    def hurry(self, utterance_id: str, speed: float) -> None:
        """Speak from the next frame on so much faster than is asked for, as far as the model can; 1: as asked for."""
        self._open(utterance_id).hurry = speed

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
        if self._for_ahead():
            return 0.0
        return self._scheduler.next_due_s(self._ready(), self._held())

    def stats(self) -> EngineStats:
        """Totals since the engine was made."""
        memory_bytes = self.runner.nbytes + self._voices.nbytes + sum(s.tape.nbytes for s in self._sequences.values())
        audio_s = self._delivery.samples / self.info.sample_rate
        return self._ledger.stats(len(self._sequences), audio_s, self.runner.prompt_rows, memory_bytes)

    @property
    def tally(self) -> Tally:
        """What was done in vain or again; cheaper than all of ``stats``."""
        return self._ledger.tally

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
        # Rows ahead may come to nothing, so they wait until nobody is about to run dry.
        before = self.runner.prompt_rows
        spoken = self._decode(self._prefill(self._renew(due)))
        self._vocode(spoken)
        if self.runner.prompt_rows == before and self._has_time(due):
            self._prefill_ahead()
        self._delivery.give_out(self._sequences.values(), self._reserve_s)
        spent_s = self._timer() - started_s
        self._ledger.step(due, spent_s)
        if due:
            self._pace.note(spent_s)
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
        reserve_s, cost = self._reserve_s, self._pace.cost
        for sequence in list(self._sequences.values()):
            with self._guard(sequence):
                self._corrections.reconsider(sequence)
                sequence.stream.situate(self._scheduler.lead_s(sequence.name), reserve_s, cost)

    @property
    def _reserve_s(self) -> float:
        """Audio with which a listener's next turn has to be begun; endless when there is no time for guesses."""
        fastest = max((s.utterance.speed * s.hurry for s in self._sequences.values()), default=1.0)
        return self._pace.reserve_s(len(self._sequences), fastest)

    def _has_time(self, due: Iterable[Sequence]) -> bool:
        """Whether no listener of those due is about to run dry."""
        return all(self._scheduler.lead_s(s.name) > self._reserve_s for s in due if self._is_open(s))

    def _held(self) -> dict[str, float]:
        """Utterances that hold back until their listener has no more than so many seconds."""
        return {n: s.stream.held_to_s for n, s in self._sequences.items() if s.stream.demand() is Demand.HOLD}

    def _ready(self) -> list[str]:
        """Utterances that could go on now."""
        return [n for n, s in self._sequences.items() if s.stream.demand() in (Demand.PREFILL, Demand.DECODE)]

    def _renew(self, due: list[Sequence]) -> list[Sequence]:
        """Renew contexts that are full; returns those that still are open."""
        for sequence in due:
            with self._guard(sequence):
                self._ledger.renewals += self._rows.renew(sequence)
        return [s for s in due if self._is_open(s)]

    def _prefill(self, due: list[Sequence]) -> list[Sequence]:
        """Give the most urgent utterance that needs them its prompt rows; returns all that can make a frame now.

        One a step, so that a burst of new text does not hold up the frames of the others.
        """
        for sequence in due:
            if sequence.stream.demand() is Demand.PREFILL:
                with self._guard(sequence):
                    self._rows.open_turn(sequence)
                break
        return [s for s in due if self._is_open(s) and s.stream.demand() is Demand.DECODE]

    def _for_ahead(self) -> list[Sequence]:
        """Utterances whose next prompt has rows enough that can be prefilled before the rest of it is known."""
        if math.isinf(self._reserve_s):
            return []
        waiting = [s for s in self._sequences.values() if not self._scheduler.is_paused(s.name)]
        waiting = [s for s in waiting if s.stream.demand() in (Demand.WAIT, Demand.HOLD)]
        return [s for s in waiting if self._rows.can_go_ahead(s)]

    def _prefill_ahead(self) -> None:
        """Prefill such rows for one utterance, so that fewer are left when its turn is begun."""
        for sequence in self._for_ahead()[:1]:
            with self._guard(sequence):
                self._ledger.renewals += self._rows.renew(sequence)
                self._rows.go_ahead(sequence)

    def _decode(self, decoding: list[Sequence]) -> list[tuple[Sequence, Spoken]]:
        """One frame for each; what it means to its text stream."""
        guides, spoken = list[Guide](), list[tuple[Sequence, Spoken]]()
        for sequence in decoding:
            with self._guard(sequence):
                self._corrections.begin(sequence)
                guides.append(sequence.stream.guide())
        decoding = [s for s in decoding if self._is_open(s)]
        frames = self.runner.decode_step([s.track for s in decoding], guides)
        for sequence, guide, frame in zip(decoding, guides, frames, strict=True):
            with self._guard(sequence):
                if isinstance(frame, Exception):
                    raise frame
                frame = replace(frame, speed=sequence.hurry)
                news = sequence.stream.accept(frame)
                sequence.tape.end(Made(guide, frame, sequence.track.pending, news))
                sequence.frames += len(news.frames)
                self._ledger.frames += len(news.frames)
                if news.fault is None:
                    spoken.append((sequence, news))
                else:
                    self._corrections.retry(sequence, news.fault)
        return spoken

    def _vocode(self, spoken: list[tuple[Sequence, Spoken]]) -> None:
        """Frames to samples, samples and words to chunks."""
        pieces = self.runner.vocode(
            [s.track for s, _ in spoken], [news.frames for _, news in spoken], [news.speed for _, news in spoken]
        )
        for (sequence, news), samples in zip(spoken, pieces, strict=True):
            with self._guard(sequence):
                if isinstance(samples, Exception):
                    raise samples
                sequence.tape.hear(loudness_db(samples, len(news.frames)))
                if self._delivery.is_mute(sequence, samples, news.most_silent_ms):
                    self._corrections.retry(sequence, Fault.MUTE)
                    continue
                if news.ends_at is not None:
                    samples = self._delivery.died_away(samples, news)
                if len(samples) or news.words:
                    self._delivery.take(sequence, AudioChunk(sequence.name, sequence.samples, samples, news.words))

    def _close_ended(self) -> None:
        """End utterances that have said all."""
        for sequence in [s for s in self._sequences.values() if s.stream.demand() is Demand.END]:
            self._delivery.close(sequence)
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
        self._ledger.end(event)
        self._tell(event)

    def _tell(self, event: EngineEvent) -> None:
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
