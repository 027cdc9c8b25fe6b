"""Where words end in scripts without spaces, by ICU's dictionaries (the extra ``scripts``)."""

import logging
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from icu4py.breakers import WordBreaker

logger = logging.getLogger(__name__)


def word_ends(run: str) -> list[int] | None:
    """Offsets behind each word of ``run``, letters and marks of one script; None where ICU is not installed.

    Without it that is logged once: words are then told by the character.
    """
    breaker = _breaker()
    # Its offsets count UTF-16 units; its pieces are strings.
    return None if breaker is None else list(accumulate(map(len, breaker(run, "root"))))


@lru_cache(maxsize=1)
def _breaker() -> "type[WordBreaker] | None":
    try:
        from icu4py.breakers import WordBreaker
    except ImportError:
        logger.warning(
            "words of scripts without spaces are told by the character; pip install 'footlights[scripts]' to tell words"
        )
        return None
    return WordBreaker
