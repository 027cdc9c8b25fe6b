"""How far a context's speech is behind its text, and how to catch up: faster, or leaving some out. No I/O, no state."""

import re

MS_PER_CHARACTER = 65.0
"""Speech of a context that has not spoken enough yet to tell its own."""
KNOWN_MS = 1_000.0
"""Speech after which it can tell."""
AIM = 0.5
"""A skip brings the lag down to this share of what is allowed, so that the next one is not due at once."""
HURRY_FROM = 0.5
"""Share of the allowed lag from which on speech hurries, where it may; all the more, the more of it is used up."""
MOST_HURRY = 1.4
"""Faster than that, words are followed with effort."""
HURRY_STEPS = 4
LONGEST_WORD = 64
_GAP = re.compile(r"\s+")
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’)\]]*(?=\s)")


def ms_per_character(spoken_ms: float, characters: int) -> float:
    """How long a character takes, from what was spoken so far."""
    return spoken_ms / characters if spoken_ms >= KNOWN_MS and characters else MS_PER_CHARACTER


def hurry(lag_ms: float, max_lag_ms: float, now: float) -> float:
    """How much faster than asked for to speak, if that was ``now`` so far."""
    wanted = _hurry(lag_ms / max_lag_ms)
    # A step down only when it would not be taken back at once.
    return wanted if wanted > now else min(now, _hurry(lag_ms / max_lag_ms + (1 - HURRY_FROM) / (2 * HURRY_STEPS)))


def _hurry(share: float) -> float:
    steps = round(HURRY_STEPS * min(1.0, max(0.0, (share - HURRY_FROM) / (1 - HURRY_FROM))))
    return round(1 + (MOST_HURRY - 1) * steps / HURRY_STEPS, 3)


def skip_target(text: str, start: int, characters: int) -> int | None:
    """Where to go on in ``text`` after ``start`` so that about ``characters`` are left at most; None: no use.

    After a sentence if one ends soon enough, else before a word, so that what follows begins with its white space.
    """
    earliest = len(text) - characters
    if earliest <= start:
        return None
    sentence = _SENTENCE_END.search(text, max(start, earliest - 1), earliest + characters // 2)
    if sentence is not None:
        return sentence.end()
    gap = _GAP.search(text, earliest)
    if gap is not None:
        return gap.start()
    # It is in the last word, which is said as a whole, or in a script without spaces.
    begins = [match.start() for match in _GAP.finditer(text, max(start, earliest - LONGEST_WORD), earliest)]
    target = begins[-1] if begins else earliest
    return target if target > start else None
