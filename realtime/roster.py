"""The contexts of a session: those that live, those that ended and are remembered for a while, and their indexes."""

import itertools
from collections import OrderedDict
from collections.abc import Iterator

from realtime.context import Context

REMEMBERED_CONTEXTS = 32
REMEMBERED_CHARACTERS = 200_000
"""Ended contexts are kept for `protocol.Heard`, up to these bounds."""
CONTEXT_INDEXES = 1 << 16


class Roster:
    """Finds contexts by id, utterance or index. Bounded, however many contexts come and go."""

    def __init__(self, session_id: str, model_rate: int) -> None:
        self._session_id = session_id
        self._model_rate = model_rate
        self._numbers = itertools.count()
        self._live: dict[str, Context] = {}
        self._ended: OrderedDict[str, Context] = OrderedDict()
        self._by_utterance: dict[str, Context] = {}
        """Live contexts."""
        self._by_index: dict[int, Context] = {}
        """Live and remembered contexts."""

    def __len__(self) -> int:
        """Live contexts."""
        return len(self._live)

    def __iter__(self) -> Iterator[Context]:
        """Live contexts; they may be ended meanwhile."""
        return iter(list(self._live.values()))

    def live(self, context_id: str) -> Context | None:
        """The live context of that id."""
        return self._live.get(context_id)

    def ended(self, context_id: str) -> Context | None:
        """The remembered context of that id."""
        return self._ended.get(context_id)

    def of_utterance(self, utterance_id: str) -> Context | None:
        """The live context of that utterance."""
        return self._by_utterance.get(utterance_id)

    def of_index(self, index: int) -> Context | None:
        """The live or remembered context of that index."""
        return self._by_index.get(index)

    def make(self, context_id: str, voice: str, output_rate: int) -> Context:
        """A new context of that id, not yet live; one of the same id that had ended is forgotten."""
        assert context_id not in self._live, context_id
        forgotten = self._ended.pop(context_id, None)
        if forgotten is not None:
            del self._by_index[forgotten.index]
        number = next(self._numbers)
        while number % CONTEXT_INDEXES in self._by_index:
            number = next(self._numbers)
        utterance_id = f"{self._session_id}.{number}"
        index = number % CONTEXT_INDEXES
        context = Context(context_id, index, utterance_id, voice, self._model_rate, output_rate)
        self._by_index[index] = context
        return context

    def begin(self, context: Context) -> None:
        """The context lives."""
        self._live[context.context_id] = context
        self._by_utterance[context.utterance_id] = context

    def end(self, context: Context) -> None:
        """The context, live or not, has ended: it is remembered, and the oldest are forgotten."""
        self._live.pop(context.context_id, None)
        self._by_utterance.pop(context.utterance_id, None)
        self._ended[context.context_id] = context
        while len(self._ended) > REMEMBERED_CONTEXTS or (
            len(self._ended) > 1 and sum(ended.characters for ended in self._ended.values()) > REMEMBERED_CHARACTERS
        ):
            _, oldest = self._ended.popitem(last=False)
            del self._by_index[oldest.index]
