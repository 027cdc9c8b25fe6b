"""What an engine has done since it was made, in numbers."""

from collections.abc import Sequence as Many
from dataclasses import replace

from engine.core import Cancelled, EngineEvent, EngineStats, Failed, Finished, Tally
from engine.sequence import Sequence


class Ledger:
    """Counts; all of them only grow, but for frames that are taken back."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.frames = self.steps = self.renewals = 0
        self.compute_s = 0.0
        self._ended: dict[type[EngineEvent], int] = {Finished: 0, Cancelled: 0, Failed: 0}

    def count(self, **more: int) -> None:
        """Add to fields of the tally."""
        self.tally = replace(self.tally, **{name: getattr(self.tally, name) + n for name, n in more.items()})

    def end(self, event: Finished | Cancelled | Failed) -> None:
        """An utterance ended so."""
        self._ended[type(event)] += 1

    def step(self, served: Many[Sequence], compute_s: float) -> None:
        """A step that took so long; those who were served share its cost."""
        self.steps += 1
        self.compute_s += compute_s
        for sequence in served:
            sequence.compute_s += compute_s / len(served)

    def stats(self, open_utterances: int, audio_s: float, prompt_rows: int, memory_bytes: int) -> EngineStats:
        """Totals, with what others know."""
        return EngineStats(
            open_utterances=open_utterances,
            finished=self._ended[Finished],
            cancelled=self._ended[Cancelled],
            failed=self._ended[Failed],
            frames=self.frames,
            audio_s=audio_s,
            compute_s=self.compute_s,
            steps=self.steps,
            prompt_rows=prompt_rows,
            memory_bytes=memory_bytes,
            tally=self.tally,
            renewals=self.renewals,
        )
