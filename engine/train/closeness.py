"""How far what was heard is from what should have been said, in sounds, for several takes heard in one go."""

import unicodedata
from collections.abc import Sequence

_FOLDED = str.maketrans({"ɐ": "ə", "ʌ": "ə", "ᵊ": "ə", "ᵻ": "ə", "ɪ": "ə", "ɜ": "ə", "ɔ": "ɑ", "ʊ": "u", "T": "t"})
"""Sounds that no recogniser's spelling tells apart."""


def sounds(phonemes: str) -> str:
    """Letters of ``phonemes``: no stress, spaces and pauses, like vowels as one."""
    return "".join(c for c in phonemes if unicodedata.category(c)[0] == "L" and c not in "ˈˌ").translate(_FOLDED)


def letters(text: str) -> str:
    """Letters and figures of ``text``: "B, Q, 53" and "BQ53" are the same."""
    return "".join(c for c in text.lower() if c.isalnum())


def errors(parts: Sequence[str], heard: str) -> list[int]:
    """Fewest substitutions, deletions and insertions that make ``heard`` of all ``parts``, those of each part.

    An insertion between two parts counts to both: it may be of either.
    """
    whole = "".join(parts)
    owner = [number for number, part in enumerate(parts) for _ in part]
    rows = [list(range(len(heard) + 1))]
    for i, expected in enumerate(whole, 1):
        above, row = rows[-1], [i]
        for j, found in enumerate(heard, 1):
            row.append(min(above[j - 1] + (expected != found), above[j] + 1, row[-1] + 1))
        rows.append(row)
    counts = [0] * len(parts)
    i, j = len(whole), len(heard)
    while i or j:
        if i and j and rows[i][j] == rows[i - 1][j - 1] + (whole[i - 1] != heard[j - 1]):
            counts[owner[i - 1]] += whole[i - 1] != heard[j - 1]
            i, j = i - 1, j - 1
        elif i and rows[i][j] == rows[i - 1][j] + 1:
            counts[owner[i - 1]] += 1
            i -= 1
        else:
            for part in set(owner[max(i - 1, 0) : i + 1]):
                counts[part] += 1
            j -= 1
    return counts
