"""The spoken form of a short text that stands for another: what ``sub`` says instead."""

from functools import lru_cache

from engine.lexicon import EMPTY
from engine.text.assemble import Assembler
from engine.text.clean import Cleaner
from engine.text.normalise import Left, read


@lru_cache(maxsize=1024)
def spoken_form(text: str) -> str:
    """``text``, plain and a few words long, as English says it; empty when nothing of it can be said."""
    words = Assembler(lambda start, end: text[start:end])
    cleaner = Cleaner(words)
    cleaner.feed(text)
    cleaner.close()
    words.close()
    left, spoken = Left(), list[str]()
    queue = list(words.words)
    for word, following in zip(queue, [*queue[1:], None], strict=True):
        reading = read(left, word, following, EMPTY)
        left = reading.left
        spoken += reading.spoken.split()
    return " ".join(spoken)
