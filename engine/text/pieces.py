"""What is glued between two spaces, taken apart: words, the punctuation around them, pauses."""

import re
import unicodedata

from engine.text.abbreviations import DAYS, MONTHS
from engine.text.addresses import address_in
from engine.text.words import Boundary

PAUSE_BOUND = 3

_DASHES = frozenset("—–―")
_PAUSE_SYMBOLS = frozenset(",.!?;:")
_OPENERS = "\"'“‘([<"
_CURRENCIES = frozenset("$£€¥₹₩₿")
_SIGNS = frozenset("-−+~≈±<>≤≥")
_ELISION = re.compile(r"['’](?:\d\ds|em|til|tis|twas|cause|bout|round)\b", re.IGNORECASE)
_KEPT_PLUS = re.compile(r"(?:^|\W)(?:[A-Za-z]\+{1,2}|[CF]#)$|\d\+$")
_NO_NAME = "".join(f"(?<!\\b{name[:3]})" for name in (*DAYS, *MONTHS))
"""Not behind "Mon": a dash there means "to"."""
_SPLIT = re.compile(
    r"[—―]+|-{2,}"
    rf"|{_NO_NAME}(?<=[^\W\d_])(?<!\d[ap]m)(?<!\d[kKMB])–+|{_NO_NAME}–+(?=[^\W\d_])"
    r"|(?<=\w)(?:\.{2,}|…+)[\"”’')\]]*(?=\w)"
    r"|(?<=\w)[!?]+[\"”’')\]]*(?=\w)"
    r"|(?<=[a-z]{2})\.[\"”’)\]]*(?=[A-Z][a-z])"
    r"|(?<=[^\W\d_])[,;:]+[\"”’)\]]*(?=[^\W_])|(?<=\d)[,;:]+(?=[^\W\d_])"
    r"|[)\]}»”](?=[\w(\[{«“])|(?<=\w)[\"]+(?=[^\W\d_])"
)
_SPLIT_BEFORE = re.compile(r"(?<=\w)(?=[(\[{«“])(?!\(e?s\))")


def span(starts: list[int], ends: list[int], first: int, last: int) -> tuple[int, int]:
    """Offsets of the word ``first`` to ``last`` with the punctuation that touches it."""
    start, end = first, last - 1
    while start > 0 and ends[start - 1] == starts[start]:
        start -= 1
    while end + 1 < len(ends) and ends[end] == starts[end + 1]:
        end += 1
    return starts[start], ends[end]


def lead_end(piece: str) -> int:
    """How much of ``piece`` is punctuation before the word."""
    for i, c in enumerate(piece):
        following = piece[i + 1 : i + 2]
        is_number = (following == "=" and c in "<>" and piece[i + 2 : i + 3].isdigit()) or following.isdigit()
        is_number = is_number or (following in ("$", "£", "€", ".") and piece[i + 2 : i + 3].isdigit())
        if (
            c.isalnum()
            or ((c in _CURRENCIES or c in _SIGNS) and is_number)
            or (c in "#@§№" and following.isalnum())
            or (c == "°" and following in ("C", "F"))
            or (c == "." and following.isalnum() and piece[i - 1 : i] != ".")
            or (c in "'’" and _ELISION.match(piece, i))
        ):
            return i
    return len(piece)


def trail_start(piece: str, first: int) -> int:
    """Where the punctuation behind the word that starts at ``first`` begins."""
    for last in range(len(piece), first, -1):
        c = piece[last - 1]
        if c.isalnum() or unicodedata.category(c)[0] == "M":
            return last
        if (c in _CURRENCIES or c in "%°") and piece[last - 2].isalnum():
            return last
        if c in "+#" and _KEPT_PLUS.search(piece, first, last):
            return last
        if c in "'’" and last - 2 >= first and piece[last - 2].isalpha() and piece[:first][-1:] not in ("'", "‘", "’"):
            return last
    return first


def boundary_of(pause: str) -> Boundary:
    """The boundary that pause symbols make."""
    if any(c in ".!?" for c in pause):
        return Boundary.SENTENCE
    return Boundary.CLAUSE if pause else Boundary.NONE


def pause_symbols(after: str) -> str:
    """The pause symbols among the characters behind a word."""
    symbols = "".join(c for c in after.replace("…", "...") if c in _PAUSE_SYMBOLS)
    if not symbols and ("--" in after or any(c in _DASHES for c in after)):
        return ","
    return symbols[:PAUSE_BOUND]


def pieces(seen: str) -> list[tuple[int, int]]:
    """Spans of the words that are glued together in ``seen``."""
    if seen.isalnum() or address_in(seen.lstrip(_OPENERS)):
        return [(0, len(seen))]
    cuts = sorted({m.end() for m in _SPLIT.finditer(seen)} | {m.start() for m in _SPLIT_BEFORE.finditer(seen)})
    edges = [0, *(cut for cut in cuts if 0 < cut < len(seen)), len(seen)]
    return [(a, b) for a, b in zip(edges, edges[1:], strict=False) if a < b]
