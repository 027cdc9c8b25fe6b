"""The normalisation grammars, for what our own number rules leave to them: dates and durations in figures.

A span costs 20 to 100 ms, so answers are kept and spans are as small as can be.
"""

from functools import lru_cache

from kitten_text_processing import normalize_text
from kitten_text_processing.normalizer import warm


@lru_cache(maxsize=4096)
def spoken_by_grammar(span: str) -> str | None:
    """Spoken form of ``span``, or None when the grammars leave anything unread."""
    spoken = " ".join(str(normalize_text(span)).replace("-", " ").split())
    plain = spoken.replace(",", "").replace("'", "").replace(" ", "")
    return spoken if plain.isascii() and plain.isalpha() else None


def warm_grammar() -> None:
    """Load the grammars, so that the first span costs no more than the others."""
    warm("en-US")
    spoken_by_grammar("1/2/2000")
