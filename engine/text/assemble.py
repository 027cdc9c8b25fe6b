"""Seen characters into words: splits what is glued, takes punctuation off, and finds out what follows each word."""

import re
import unicodedata
from collections import deque
from collections.abc import Callable

from engine.text.abbreviations import keeps_full_stop
from engine.text.addresses import address_in, may_become_address
from engine.text.characters import is_foreign_letter, is_greek
from engine.text.words import Boundary, RawWord

WORD_BOUND = 48
"""Characters a word may have before it is cut."""
ADDRESS_BOUND = 2048
HIDDEN_BOUND = 64
"""Unseen characters (markup) a word may have between two seen ones."""
PAUSE_BOUND = 3

_DASHES = frozenset("—–―")
_PAUSE_SYMBOLS = frozenset(",.!?;:")
_CLOSERS = frozenset("\"'”’»)]")
_OPENERS = "\"'“‘([<"
_CURRENCIES = frozenset("$£€¥₹₩₿")
_SIGNS = frozenset("-−+~≈±<>≤≥")
OPERATORS = frozenset({*"+−=×÷*/<>≤≥±≈≠&@%", "==", "!=", "<=", ">="})
_EMOTICON = re.compile(r"[:;=8xX][-'^]?[DPpOo3dXx]|<3|[xX]D|[oO]_[oO]|\^_\^|T_T")
_ELISION = re.compile(r"['’](?:\d\ds|em|til|tis|twas|cause|bout|round)\b", re.IGNORECASE)
_KEPT_PLUS = re.compile(r"(?:^|\W)(?:[A-Za-z]\+{1,2}|[CF]#)$|\d\+$")
_SPLIT = re.compile(
    r"[—―]+|-{2,}"
    r"|(?<=[^\W\d_])–+|–+(?=[^\W\d_])"
    r"|(?<=\w)(?:\.{2,}|…+)[\"”’')\]]*(?=\w)"
    r"|(?<=\w)[!?]+[\"”’')\]]*(?=\w)"
    r"|(?<=[a-z]{2})\.[\"”’)\]]*(?=[A-Z][a-z])"
    r"|(?<=[^\W\d_])[,;:]+[\"”’)\]]*(?=[^\W_])|(?<=\d)[,;:]+(?=[^\W\d_])"
    r"|[)\]}»”](?=[\w(\[{«“])|(?<=\w)[\"]+(?=[^\W\d_])"
)
_SPLIT_BEFORE = re.compile(r"(?<=\w)(?=[(\[{«“])(?!\(e?s\))")
_GREEK_RUN = 2


class Assembler:
    """A sink of cleaned characters with a queue of words; the first ones are settled before the later ones."""

    def __init__(self, original: Callable[[int, int], str]) -> None:
        self.words: deque[RawWord] = deque()
        self.skipped = 0
        """Runs of letters that the voice cannot read."""
        self._original = original
        self._seen: list[str] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._has_word = False
        """The open word has a letter or digit already."""
        self._in_foreign = False
        self._dash: tuple[int, int] | None = None
        """A dash that stands alone behind the last word: a pause, or a minus when a number follows."""
        self._is_address = False
        self._drops_rest = False
        """The open word is the tail of an endless address."""

    @property
    def open_from(self) -> int | None:
        """Offset of the first character of the word that is not complete yet."""
        return self._starts[0] if self._starts else None

    def character(self, c: str, start: int, end: int) -> None:
        """Take a seen character."""
        if self._drops_rest:
            return
        if is_foreign_letter(c) or (self._in_foreign and unicodedata.category(c)[0] == "M"):
            if not self._in_foreign:
                self._complete()
                self._in_foreign = True
                self.skipped += 1
            return
        self._in_foreign = False
        if self._ends and start - self._ends[-1] > HIDDEN_BOUND:
            self._complete()
        self._seen.append(c)
        self._starts.append(start)
        self._ends.append(end)
        if not self._has_word and c.isalnum():
            self._has_word = True
            self._settle_last(c)
        if len(self._seen) >= WORD_BOUND:
            self._bound()

    def gap(self) -> None:
        """Words end here."""
        self._complete()
        self._in_foreign = self._drops_rest = False

    def line_boundary(self, boundary: Boundary) -> None:
        """The layout makes a boundary behind the last word, unless that has one of its own."""
        self.gap()
        last = self._unsettled
        if last is not None:
            self._dash = None
            if not last.pause:
                last.pause = "." if boundary is Boundary.SENTENCE else ","
                last.boundary = boundary
            last.is_settled = True

    def close(self) -> None:
        """Settle everything: an end or a flush."""
        self.gap()
        last = self._unsettled
        if last is not None:
            self._settle_dash(last)
            last.is_settled = True

    @property
    def _unsettled(self) -> RawWord | None:
        return self.words[-1] if self.words and not self.words[-1].is_settled else None

    def _settle_last(self, follower: str) -> None:
        """The next word begins with ``follower``."""
        last = self._unsettled
        if last is None:
            return
        last.is_settled, last.follower = True, follower
        if self._dash is not None and follower.isdigit() and last.core[-1].isdigit():
            start, end = self._dash
            self._dash = None
            minus = RawWord(self._original(start, end), start, end, "−", is_settled=True, is_operator=True)
            self.words.append(minus)
            return
        self._settle_dash(last)
        if last.boundary is Boundary.SENTENCE and follower.islower():
            last.boundary = Boundary.CLAUSE

    def _settle_dash(self, last: RawWord) -> None:
        if self._dash is not None:
            self._dash = None
            last.pause, last.boundary = ",", Boundary.CLAUSE

    def _bound(self) -> None:
        """Cut a word that grows too long, at a seam when it has one."""
        if self._is_address:
            if len(self._seen) >= ADDRESS_BOUND:
                self._complete()
                self._drops_rest = True
            return
        seen = "".join(self._seen)
        self._is_address = may_become_address(seen)
        if self._is_address:
            return
        pieces = _pieces(seen)
        cut = pieces[-1][0] if len(pieces) > 1 and pieces[-1][0] else len(seen)
        rest = self._seen[cut:], self._starts[cut:], self._ends[cut:]
        del self._seen[cut:], self._starts[cut:], self._ends[cut:]
        self._complete()
        self._seen, self._starts, self._ends = rest
        self._has_word = any(c.isalnum() for c in self._seen)
        if self._has_word:
            self._settle_last(next(c for c in self._seen if c.isalnum()))

    def _complete(self) -> None:
        if not self._seen:
            return
        seen, starts, ends = "".join(self._seen), self._starts, self._ends
        self._seen, self._starts, self._ends = [], [], []
        self._has_word = self._is_address = False
        for first, last in _pieces(seen):
            self._piece(seen[first:last], starts[first:last], ends[first:last])

    def _piece(self, piece: str, starts: list[int], ends: list[int]) -> None:
        """One word or mark with its punctuation."""
        if _EMOTICON.fullmatch(piece):
            return
        first = _lead_end(piece)
        address = address_in(piece[first:])
        last = first + len(address) if address else _trail_start(piece, first)
        core, after = piece[first:last], piece[last:]
        if not any(c.isalnum() for c in core):
            self._mark(piece, starts, ends)
            return
        if not address and after.startswith(".") and not after.startswith("...") and keeps_full_stop(core):
            core, after = core + ".", after[1:]
        self._add_word(core, after, *_span(starts, ends, first, last), bool(address))

    def _add_word(self, core: str, after: str, start: int, end: int, is_address: bool) -> None:
        core = unicodedata.normalize("NFC", core)
        greek = sum(1 for c in core if is_greek(c))
        if greek >= _GREEK_RUN and greek * 2 > len(core):
            self.skipped += 1
            return
        pause = _pause(after)
        word = RawWord(self._original(start, end), start, end, core, pause, boundary_of(pause), is_address=is_address)
        is_quoted = any(c in _CLOSERS for c in after) and word.boundary is Boundary.SENTENCE
        word.is_settled = bool(pause) and not (is_quoted or pause.endswith(".."))
        self._settle_last(next(c for c in core if c.isalnum()))
        self.words.append(word)

    def _mark(self, piece: str, starts: list[int], ends: list[int]) -> None:
        """Signs that stand alone: a pause belongs to the word before, an operator may be spoken."""
        last = self._unsettled
        if last is None or last.pause:
            return
        pause = _pause(piece)
        if piece in OPERATORS:
            self._settle_last("")
            text = self._original(starts[0], ends[-1])
            self.words.append(RawWord(text, starts[0], ends[-1], piece, is_settled=True, is_operator=True))
        elif piece.strip("-–—―") == "":
            self._dash = starts[0], ends[-1]
        elif pause:
            self._dash = None
            last.pause, last.boundary = pause, boundary_of(pause)
            last.is_settled = not pause.endswith("..")


def _span(starts: list[int], ends: list[int], first: int, last: int) -> tuple[int, int]:
    """Offsets of the word ``first`` to ``last`` with the punctuation that touches it."""
    start, end = first, last - 1
    while start > 0 and ends[start - 1] == starts[start]:
        start -= 1
    while end + 1 < len(ends) and ends[end] == starts[end + 1]:
        end += 1
    return starts[start], ends[end]


def _lead_end(piece: str) -> int:
    """How much of ``piece`` is punctuation before the word."""
    for i, c in enumerate(piece):
        following = piece[i + 1 : i + 2]
        is_number = following.isdigit() or (following in ("$", "£", "€", ".") and piece[i + 2 : i + 3].isdigit())
        if (
            c.isalnum()
            or ((c in _CURRENCIES or c in _SIGNS) and is_number)
            or (c in "#@" and following.isalnum())
            or (c == "°" and following in ("C", "F"))
            or (c == "." and following.isalnum() and piece[i - 1 : i] != ".")
            or (c in "'’" and _ELISION.match(piece, i))
        ):
            return i
    return len(piece)


def _trail_start(piece: str, first: int) -> int:
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


def _pause(after: str) -> str:
    """The pause symbols among the characters behind a word."""
    symbols = "".join(c for c in after.replace("…", "...") if c in _PAUSE_SYMBOLS)
    if not symbols and ("--" in after or any(c in _DASHES for c in after)):
        return ","
    return symbols[:PAUSE_BOUND]


def _pieces(seen: str) -> list[tuple[int, int]]:
    """Spans of the words that are glued together in ``seen``."""
    if seen.isalnum() or address_in(seen.lstrip(_OPENERS)):
        return [(0, len(seen))]
    cuts = sorted({m.end() for m in _SPLIT.finditer(seen)} | {m.start() for m in _SPLIT_BEFORE.finditer(seen)})
    edges = [0, *(cut for cut in cuts if 0 < cut < len(seen)), len(seen)]
    return [(a, b) for a, b in zip(edges, edges[1:], strict=False) if a < b]
