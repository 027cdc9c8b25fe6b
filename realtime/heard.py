"""How much of a text was heard, from the times of its words."""

from collections.abc import Sequence

from engine.core import WordTiming


def is_heard(word: WordTiming, played_ms: float) -> bool:
    """A word counts as heard if at least half of it was played."""
    return played_ms > 0 and played_ms >= (word.start_ms + word.end_ms) / 2


def heard_characters(text: str, words: Sequence[WordTiming], played_ms: float, *, is_finished: bool) -> int:
    """Length of the heard prefix of ``text``, in code points.

    It ends with the last heard word and the punctuation that clings to it. Where all words are known
    (``is_finished``) and were heard it is the whole text: what is left has no sound of its own. Without words nothing
    is claimed.
    """
    if played_ms <= 0:
        return 0
    heard = [word for word in words if is_heard(word, played_ms)]
    if is_finished and len(heard) == len(words):
        return len(text)
    if not heard:
        return 0
    return clinging_end(text, words, max(word.char_end for word in heard))


def clinging_end(text: str, words: Sequence[WordTiming], end: int) -> int:
    """``end``, or where the punctuation ends that clings to the word before it."""
    limit = min((word.char_start for word in words if word.char_start >= end), default=len(text))
    while end < limit and not text[end].isspace() and not text[end].isalnum():
        end += 1
    return min(end, len(text))
