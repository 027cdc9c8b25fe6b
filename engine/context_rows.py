"""Rows of a context besides frames: prompts, parts of them ahead of time, and a new beginning when it is long."""

from collections.abc import Callable

from engine.core import Utterance
from engine.errors import TextTooLongError
from engine.loading import ContextLimits
from engine.recall import Recalled, fitting
from engine.rewind import Ahead, Prompt
from engine.runner import Runner
from engine.sequence import Sequence
from engine.streams.base import SpokenTurn

AHEAD_ROWS = 4
"""Of a prompt at least that are prefilled at a time before it is whole: a pass reads nearly as much for one row."""


class ContextRows:
    """Prefills for one utterance at a time.

    ``begin`` is called before anything is done for a sequence; ``recall`` gives the rows of a turn that was spoken
    (None: a renewed context holds the voice alone).
    """

    def __init__(
        self,
        runner: Runner,
        limits: ContextLimits,
        recall: Callable[[Utterance, SpokenTurn], Recalled] | None,
        begin: Callable[[Sequence], None],
    ) -> None:
        self._runner, self._limits, self._recall, self._begin = runner, limits, recall, begin

    def renew(self, sequence: Sequence) -> bool:
        """Go back to the voice's own rows, at a pause, where a long utterance has filled its context.

        Speech goes on from there, and from what the stream wants the model to be shown again, as from the beginning;
        the codec's memory runs on. Returns whether it did. Raises ``TextTooLongError``.
        """
        rows = sequence.track.rows
        if rows >= self._limits.renew_rows and sequence.stream.is_resting:
            self._begin(sequence)
            sequence.tape.renew(sequence.voice, self._recalled(sequence))
            return True
        if rows >= self._limits.most_rows:
            raise TextTooLongError("the text has no pause at which its long context could be let go")
        return False

    def _recalled(self, sequence: Sequence) -> Recalled | None:
        if self._recall is None:
            return None
        turns = [self._recall(sequence.utterance, turn) for turn in sequence.stream.history]
        return Recalled.joined(fitting(turns, self._limits.history_rows - len(sequence.voice.prefix.rows)))

    def open_turn(self, sequence: Sequence) -> None:
        """Prefill what is not there yet of the next prompt; all of it where it begins otherwise than was thought."""
        track = sequence.track
        self._begin(sequence)
        token_ids = sequence.stream.take_prompt()
        if track.ahead != token_ids[: len(track.ahead)] or len(track.ahead) == len(token_ids):
            sequence.tape.withdraw()
            self._begin(sequence)
            token_ids = sequence.stream.take_prompt()
        done = len(track.ahead)
        self._runner.prefill(track, token_ids[done:])
        sequence.tape.end(Prompt(token_ids, sequence.stream.place(), done))

    def can_go_ahead(self, sequence: Sequence) -> bool:
        """Whether enough of the next prompt is certain that is not among the rows yet."""
        return len(sequence.stream.upcoming()) - len(sequence.track.ahead) >= AHEAD_ROWS

    def go_ahead(self, sequence: Sequence) -> None:
        """Prefill that, so that fewer rows are left when the turn is begun."""
        track, upcoming = sequence.track, sequence.stream.upcoming()
        if track.ahead != upcoming[: len(track.ahead)]:
            sequence.tape.withdraw()
        self._begin(sequence)
        more = upcoming[len(track.ahead) :]
        self._runner.prefill(track, more, is_ahead=True)
        sequence.tape.end(Ahead(more, upcoming))
