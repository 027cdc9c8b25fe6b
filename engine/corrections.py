"""Speech that is undone: its text was revised, it was begun on a wrong guess, or it was none."""

import math
from collections.abc import Callable

import numpy as np

from engine.core import AudioChunk, EngineEvent, Notice, Revised
from engine.delivery import Delivery
from engine.errors import SpeechError
from engine.ledger import Ledger
from engine.scheduler import Scheduler
from engine.sequence import Sequence
from engine.streams.base import Fault

RECALL_S = 2.0
"""A listener may be so far behind where the scheduler sees it: a revision can still change what it has not heard."""
REVISED_LEAD_S = 2.0
"""An utterance whose text was revised is made no further ahead: what is thrown away by the next revision is bounded."""


class Corrections:
    """Takes utterances back to an earlier place, from which they are made anew; ``tell`` gets what listeners learn."""

    def __init__(
        self,
        sample_rate: int,
        scheduler: Scheduler,
        delivery: Delivery,
        ledger: Ledger,
        tell: Callable[[EngineEvent], None],
    ) -> None:
        self._rate, self._scheduler, self._delivery, self._ledger = sample_rate, scheduler, delivery, ledger
        self._tell = tell

    def begin(self, sequence: Sequence) -> None:
        """Note where an utterance stands before something is done for it."""
        unheard_s = self._scheduler.lead_s(sequence.name) + RECALL_S
        heard = sequence.samples - int(unheard_s * self._rate)
        sequence.tape.begin(sequence.samples, max(sequence.heard, heard))

    def revise(self, sequence: Sequence, start: int, text: str, heard_ms: float) -> None:
        """Other text from character ``start`` on. Raises ``RevisionError`` and ``TextError``; nothing changed then."""
        sequence.heard = max(sequence.heard, math.ceil(heard_ms * self._rate / 1000))
        rewound = sequence.tape.revise(start, text, sequence.heard)
        self._take_back(sequence, rewound.left)
        self._scheduler.limit_lead(sequence.name, REVISED_LEAD_S)
        self._delivery.release(sequence)
        at = sequence.samples
        self._tell(Revised(sequence.name, start, rewound.kept_to, rewound.resumes_at, at))
        if rewound.words:
            self._tell(AudioChunk(sequence.name, at, np.zeros(0, np.float32), rewound.words))
        self._ledger.count(revisions=1)

    def reconsider(self, sequence: Sequence) -> None:
        """Begin anew, or at a pause, what was begun on a guess when there is more to say and nobody has heard it."""
        if sequence.stream.would_restart:
            left = sequence.tape.restart(sequence.released)
            self._take_back(sequence, left)
            self._ledger.count(withdrawn_guesses=left is not None)
        if sequence.stream.is_tentative:
            left = sequence.tape.splice(sequence.released)
            self._take_back(sequence, left)
            self._ledger.count(spliced_guesses=left is not None)

    def retry(self, sequence: Sequence, fault: Fault) -> None:
        """Make what was no speech again with other random numbers: the whole turn if nothing of it was given out,
        otherwise what was not; then listeners are told what they have heard.

        Raises ``SpeechError`` where that did not help: part of the text was not spoken.
        """
        self._ledger.count(**{"runaways" if fault is Fault.RUNAWAY else "duds": 1})
        if sequence.retries_left == 0:
            raise SpeechError(f"the model {fault.value}")
        released = sequence.released
        restarted = sequence.tape.restart(released)
        self._take_back(sequence, restarted or sequence.tape.retreat(released))
        sequence.retries_left -= 1
        sequence.retries += 1
        self._ledger.count(retries=1)
        sequence.track.sampler.reseed(sequence.seed, sequence.retries)
        # A turn that ended too soon and goes on after all was heard without a fault.
        if restarted is None and released and fault is not Fault.SHORT:
            sequence.stream.pardon()
            self._ledger.count(heard_faults=1)
            at_s = released / self._rate
            told = f"before second {at_s:.1f} the model {fault.value}; speech goes on from there"
            self._tell(Notice(sequence.name, told))

    def _take_back(self, sequence: Sequence, left: tuple[int, int] | None) -> None:
        """Count what was undone: the samples that are left, and the frames taken back."""
        if left is None:
            return
        samples, frames = left
        self._delivery.take_back(sequence, samples, frames)
        self._ledger.frames -= frames
        self._ledger.count(discarded_frames=frames)
