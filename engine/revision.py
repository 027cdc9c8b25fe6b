"""Where speech goes on when the start of a replacement comes too late to be spoken. Pure functions of text."""

import re

import numpy as np

COMPARED_CHARACTERS = 400
"""Texts up to this long are compared character by character, longer ones word by word."""
_TOKEN = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\s\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
"""A word, or one character of a script without spaces."""


def resume_at(kept: str, replacement: str) -> int:
    """Offset in ``replacement`` from which it goes on after ``kept``, which was to be replaced and was spoken instead.

    ``kept`` is matched to that beginning of the replacement, ending with a word, that it is most like: after
    "wreck a nice", "recognise speech" goes on with " speech". A replacement that begins with ``kept`` goes on right
    after it. Two words never become one.
    """
    if replacement.startswith(kept):
        return len(kept)
    ends = [match.end() for match in _TOKEN.finditer(replacement)]
    if not ends or kept[-1].isspace() or replacement[0].isspace():
        ends.insert(0, 0)
    words = len(_TOKEN.findall(kept))
    if not words:
        return 0
    if len(kept) > COMPARED_CHARACTERS:
        end = ends[min(words, len(ends) - 1)]
    else:
        distances = _distances(kept.strip().casefold(), replacement[: 2 * COMPARED_CHARACTERS].casefold())
        near = [end for end in ends if end < len(distances)]
        end = min(near, key=lambda end: (distances[end], abs(end - len(kept.rstrip()))))
    return _past_gap(replacement, end) if kept[-1].isspace() else end


def _distances(text: str, other: str) -> list[int]:
    """Edit distance between ``text`` and each beginning of ``other``: entry n for its first n characters."""
    codes = np.array([ord(character) for character in other], dtype=np.int64)
    steps = np.arange(len(codes) + 1)
    row = steps
    for index, character in enumerate(text, start=1):
        best = np.empty_like(row)
        best[0] = index
        best[1:] = np.minimum(row[:-1] + (codes != ord(character)), row[1:] + 1)
        # An insertion costs one each: the cheapest place to insert from is a running minimum.
        row = np.minimum.accumulate(best - steps) + steps
    return [int(distance) for distance in row]


def _past_gap(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start
