"""Seen characters into words, and what follows each word found out."""

import re
import unicodedata
from collections import deque
from collections.abc import Callable

from engine.text.abbreviations import keeps_full_stop
from engine.text.addresses import address_in, may_become_address
from engine.text.characters import is_foreign_letter, is_greek
from engine.text.pieces import boundary_of, lead_end, pause_symbols, pieces, span, trail_start
from engine.text.words import Boundary, RawWord

WORD_BOUND = 48
"""Characters a word may have before it is cut."""
ADDRESS_BOUND = 2048
HIDDEN_BOUND = 64
"""Unseen characters (markup) a word may have between two seen ones."""

_CLOSERS = frozenset("\"'”’»)]")
OPERATORS = frozenset({*"+−=×÷*/<>≤≥±≈≠&@%", "==", "!=", "<=", ">="})
_EMOTICON = re.compile(r"[:;=8xX][-'^]?[DPpOo3dXx]|<3|[xX]D|[oO]_[oO]|\^_\^|T_T")
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
        self._dash: RawWord | None = None
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
        is_minus = self._dash is not None and self._dash.text in ("-", "–")
        if self._dash is not None and is_minus and follower.isdigit() and last.core[-1].isdigit():
            self.words.append(self._dash)
            self._dash = None
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
        seams = pieces(seen)
        cut = seams[-1][0] or len(seen)
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
        for first, last in pieces(seen):
            self._piece(seen[first:last], starts[first:last], ends[first:last])

    def _piece(self, piece: str, starts: list[int], ends: list[int]) -> None:
        """One word or mark with its punctuation."""
        if _EMOTICON.fullmatch(piece):
            return
        first = lead_end(piece)
        address = address_in(piece[first:])
        last = first + len(address) if address else trail_start(piece, first)
        core, after = piece[first:last], piece[last:]
        if not any(c.isalnum() for c in core):
            self._mark(piece, starts, ends)
            return
        if not address and after.startswith(".") and not after.startswith("...") and keeps_full_stop(core):
            core, after = core + ".", after[1:]
        self._add_word(core, after, *span(starts, ends, first, last), bool(address))

    def _add_word(self, core: str, after: str, start: int, end: int, is_address: bool) -> None:
        core = unicodedata.normalize("NFC", core)
        greek = sum(1 for c in core if is_greek(c))
        if greek >= _GREEK_RUN and greek * 2 > len(core):
            self.skipped += 1
            return
        pause = pause_symbols(after)
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
        pause = pause_symbols(piece)
        text = self._original(starts[0], ends[-1])
        if piece in OPERATORS:
            self._settle_last("")
            self.words.append(RawWord(text, starts[0], ends[-1], piece, is_settled=True, is_operator=True))
        elif piece.strip("-–—―") == "":
            self._dash = RawWord(text, starts[0], ends[-1], "−", is_settled=True, is_operator=True)
        elif pause:
            self._dash = None
            last.pause, last.boundary = pause, boundary_of(pause)
            last.is_settled = not pause.endswith("..")
