"""Where to cut a stream of words into the clauses that become turns."""

from collections.abc import Sequence

from engine.core import Policy
from engine.text.abbreviations import MONTHS
from engine.text.words import Boundary, Kind, SpokenWord

FEWEST_WORDS = 3
"""Fewer are not spoken alone unless flushed: a lone fragment wanders in accent."""
FIRST_WORDS = 4
"""Words of an eager first segment without a boundary; each later one may have twice as many."""
MOST_FIRST_WORDS = 8
MOST_WORDS = 32
MOST_CLAUSE_WORDS = 40
MOST_SPEAKERS = 3
"""In one segment: more voices the model does not keep apart."""

_LEANING = {
    "a", "an", "the", "my", "your", "his", "her", "its", "our", "their", "this", "these", "those", "some", "any",
    "every", "of", "in", "on", "at", "by", "for", "from", "to", "with", "into", "about", "as", "than", "per", "via",
    "and", "or", "but", "is", "are", "was", "were", "be", "am", "not", "very", "too", "i", "we", "you", "he", "she",
    "they", "it", "i'm", "we're", "you're", "it's", "don't", "can", "could", "will", "would", "should", "may",
    "might", "must", "do",
}  # fmt: skip
"""Words that lean on the next one."""
_BEFORE_NUMBER = frozenset({month.lower() for month in MONTHS}) | frozenset(
    {"number", "page", "pages", "figure", "chapter", "room", "section", "version", "volume", "gate", "flight", "step"}
    | {"plus", "minus", "times", "equals", "point", "dollar"}
)


class ClauseCutter:
    """Groups words into segments by a policy.

    EAGER speaks the first 3 to 8 words at once and then longer and longer segments; CLAUSE and SENTENCE cut at their
    boundaries; WHOLE only at a flush, or where a fourth speaker would join. A cut never falls inside a number with its
    unit, month or operator, nor between a pair of tags unless there are too many words in it. What comes out depends on
    the words and the flushes alone.
    """

    def __init__(self, policy: Policy = Policy.EAGER) -> None:
        self.policy = policy
        self._held: list[SpokenWord] = []
        self._length = 0
        """Words among them that are spoken."""
        self._target = FIRST_WORDS

    def add(self, words: Sequence[SpokenWord]) -> list[list[SpokenWord]]:
        """Take words; gives the segments that are whole now."""
        segments: list[list[SpokenWord]] = []
        for word in words:
            self._held.append(word)
            self._length += word.kind is not Kind.SPEAKER
            if self._ends_here(word):
                segments += self._cut()
        return segments

    def flush(self) -> list[list[SpokenWord]]:
        """What is left, as one segment however short; the next segment is again a first one."""
        segments = self._cut()
        self._target = FIRST_WORDS
        return segments

    def _cut(self) -> list[list[SpokenWord]]:
        if not self._held:
            return []
        segment, self._held, self._length = self._held, [], 0
        self._target = min(MOST_WORDS, 2 * self._target)
        return [segment]

    def _ends_here(self, word: SpokenWord) -> bool:
        length = self._length
        if word.kind is Kind.SPEAKER and self._would_be_crowded(word):
            return True
        if word.tags and length < MOST_CLAUSE_WORDS:
            return False
        if self.policy is Policy.WHOLE or length < FEWEST_WORDS:
            return False
        if word.boundary is Boundary.SENTENCE:
            return True
        if self.policy is Policy.SENTENCE:
            return False
        if word.boundary is Boundary.CLAUSE:
            return self.policy is Policy.CLAUSE or 2 * length >= self._target
        most = self._target if self.policy is Policy.EAGER else MOST_CLAUSE_WORDS
        if length < most:
            return False
        # Leaning words may wait for what they lean on, but not for ever.
        slack = max(MOST_FIRST_WORDS - FIRST_WORDS, most // 4)
        return is_seam(word) or (length >= most + slack and not _is_number(word)) or length >= 2 * most + slack

    def _would_be_crowded(self, tag: SpokenWord) -> bool:
        """Whether the speaker named by ``tag`` would be one too many."""
        # Text before the first tag is that of speaker 0.
        speakers = {word.speaker or 0 for word in self._held if word.kind is not Kind.SPEAKER}
        return tag.speaker not in speakers and len(speakers) >= MOST_SPEAKERS


def _is_number(word: SpokenWord) -> bool:
    return any(c.isdigit() for c in word.text) or not any(c.isalpha() for c in word.text)


def is_seam(word: SpokenWord) -> bool:
    """Whether speech may pause behind ``word`` though nothing asks for it."""
    last = word.spoken.rsplit(" ", 1)[-1].lower()
    return not (_is_number(word) or last in _LEANING or last in _BEFORE_NUMBER)
