"""Seen characters into words, and what follows each word found out."""

import re
import unicodedata
from collections import deque
from collections.abc import Callable

from engine.text.abbreviations import keeps_full_stop
from engine.text.addresses import address_in, may_become_address
from engine.text.characters import is_foreign_letter, is_greek
from engine.text.pieces import boundary_of, lead_end, pause_symbols, pieces, span, trail_start
from engine.text.scripts import belongs_to_the_last, family, first_word, language_of, script_pieces, without_openers
from engine.text.words import Boundary, Kind, RawWord

WORD_BOUND = 48
"""Characters a word may have before it is cut."""
ADDRESS_BOUND = 2048
MOST_SILENT = 8
"""Silent pieces in a row for which a word waits to see what is said next."""
MOST_TAGS = 4
"""Tags that may stand in each other."""
HIDDEN_BOUND = 64
"""Unseen characters (markup) a word may have between two seen ones."""

_CLOSERS = frozenset("\"'”’»)]")
OPERATORS = frozenset({*"+−=×÷*/<>≤≥±≈≠&@%", "==", "!=", "<=", ">="})
_EMOTICON = re.compile(r"[:;=8xX][-'^]?[DPpOo3dXx]|<3|[xX]D|[oO]_[oO]|\^_\^|T_T")
_GREEK_RUN = 2


class Assembler:
    """A sink of cleaned characters with a queue of words; the first ones are settled before the later ones.

    A voice that ``reads_phonemes`` says ``language`` alone: pieces in other scripts are silent, and to the words around
    them as if they were not there. A model that reads text is given all scripts. ``is_dotted`` tells of a word that the
    full stop behind it belongs to it.
    """

    def __init__(
        self,
        original: Callable[[int, int], str],
        language: str = "en",
        reads_phonemes: bool = True,
        has_cues: bool = False,
        is_dotted: Callable[[str], bool] = lambda word: False,
    ) -> None:
        self.words: deque[RawWord] = deque()
        self.skipped = 0
        """Runs of letters that the voice cannot read."""
        self._original = original
        self._language = language
        self._reads_phonemes = reads_phonemes
        self._has_cues = has_cues
        self._is_dotted = is_dotted
        self._seen: list[str] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._has_word = False
        """The open word has a letter or digit already."""
        self._has_gap = False
        """There is a gap before the open word."""
        self._foreign: tuple[list[str], list[int], list[int]] | None = None
        """The open run of letters that the voice cannot read."""
        self._last: RawWord | None = None
        """The last word that is said, for which what follows may count."""
        self._silent = 0
        """Silent pieces since."""
        self._tags: tuple[str, ...] = ()
        self._speaker: int | None = None
        self._speed = self._open_speed = 1.0
        """Of words that begin now; of the open word."""
        self._dash: RawWord | None = None
        """A dash that stands alone behind the last word: a pause, or a minus when a number follows."""
        self._is_address = False
        self._drops_rest = False
        """The open word is the tail of an endless address."""

    @property
    def open_from(self) -> int | None:
        """Offset of the first character of the word that is not complete yet."""
        starts = self._foreign[1] if self._foreign else self._starts
        return starts[0] if starts else None

    def character(self, c: str, start: int, end: int) -> None:
        """Take a seen character."""
        if self._drops_rest:
            return
        if self._reads_phonemes:
            if is_foreign_letter(c) or (self._foreign and unicodedata.category(c)[0] == "M"):
                self._foreign_character(c, start, end)
                return
            if self._foreign:
                self._complete_foreign()
        elif self._has_word and not belongs_to_the_last(c) and family(c) != family(self._seen[-1]):
            self._cut(without_openers(self._seen))
        if self._ends and start - self._ends[-1] > HIDDEN_BOUND:
            self._complete()
        if not self._seen:
            self._open_speed = self._speed
        self._seen.append(c)
        self._starts.append(start)
        self._ends.append(end)
        if not self._has_word and c.isalnum():
            self._has_word = True
            self._settle_last(c)
        if family(c):
            while cut := first_word("".join(self._seen)):
                self._cut(cut)
        if len(self._seen) >= WORD_BOUND:
            self._bound()

    def gap(self) -> None:
        """Words end here."""
        self.seam()
        self._has_gap = True

    def seam(self) -> None:
        """Words end here, though there is no gap."""
        self._complete()
        self._complete_foreign()
        self._drops_rest = False

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

    # What the markup asks for

    def cue(self, start: int, end: int) -> None:
        """A direction in the text: a piece of its own, silent unless the model reads it."""
        self.gap()
        text = self._original(start, end)
        if not self._has_cues:
            self._silent_word(RawWord(text, start, end, text, is_settled=True, kind=Kind.SILENT))
            return
        word = RawWord(text, start, end, text, is_settled=True, kind=Kind.CUE, visible=f" {text}", tags=self._tags)
        word.speaker = self._speaker
        self._settle_last("")
        self.words.append(word)

    def speaker(self, number: int, start: int, end: int) -> None:
        """The words that follow are said by that speaker."""
        self.line_boundary(Boundary.SENTENCE)
        self._speaker, text = number, self._original(start, end)
        word = RawWord(text, start, end, text, is_settled=True, kind=Kind.SPEAKER, speaker=number)
        word.boundary = Boundary.SENTENCE
        self.words.append(word)
        self._last = None

    def open_tag(self, tag: str) -> None:
        """The words that follow stand in ``tag``."""
        self.gap()
        if len(self._tags) < MOST_TAGS:
            self._tags = (*self._tags, tag)

    def close_tag(self, name: str) -> None:
        """The innermost tag called ``name`` ends, and with it those inside it."""
        self.gap()
        for i in range(len(self._tags) - 1, -1, -1):
            if re.match(rf"<{re.escape(name)}\b", self._tags[i]):
                self._tags = self._tags[:i]
                break

    def pause(self, milliseconds: int, start: int, end: int) -> None:
        """A pause of that length, behind what was said."""
        self.line_boundary(Boundary.CLAUSE)
        self._dash = self._last = None
        text = self._original(start, end)
        word = RawWord(text, start, end, text, is_settled=True, kind=Kind.PAUSE, pause_ms=milliseconds)
        word.speed = self._speed
        word.boundary = Boundary.SENTENCE
        self.words.append(word)

    def speed(self, speed: float) -> None:
        """Words that begin from here on are said so fast."""
        self._speed = speed

    def settled(self, content: str, said: str, sounds: str | None, start: int, end: int) -> None:
        """A word, or several, of which the markup says how they are said."""
        gap = self._has_gap and not self._seen
        self._complete()
        self._complete_foreign()
        visible = f"{' ' if gap else ''}{said if sounds is None else content}"
        self._has_gap = False
        word = RawWord(self._original(start, end), start, end, content, language=self._language, visible=visible)
        word.said, word.sounds, word.tags, word.speaker = said, sounds, self._tags, self._speaker
        word.speed = self._speed
        first = next((c for c in said if c.isalnum()), "")
        self._settle_last(first)
        self._append(word)

    # Words

    @property
    def _unsettled(self) -> RawWord | None:
        return self._last if self._last is not None and not self._last.is_settled else None

    def _append(self, word: RawWord) -> None:
        self.words.append(word)
        self._last, self._silent = word, 0

    def _silent_word(self, word: RawWord) -> None:
        """A piece that is not said, and to the words around it as if it were not there, unless there are many."""
        self.words.append(word)
        self._silent += 1
        last = self._last
        if self._silent == MOST_SILENT and last is not None:
            if not last.is_settled:
                self._settle_dash(last)
                last.is_settled = True
            last.is_last = True

    def _foreign_character(self, c: str, start: int, end: int) -> None:
        if self._foreign is None:
            self._complete()
            self._foreign = [], [], []
            self.skipped += 1
        seen, starts, ends = self._foreign
        if seen and (len(seen) >= WORD_BOUND or start - ends[-1] > HIDDEN_BOUND):
            self._complete_foreign()
            self._foreign = seen, starts, ends = [], [], []
        seen.append(c)
        starts.append(start)
        ends.append(end)
        while cut := first_word("".join(seen)):
            self._foreign_word("".join(seen[:cut]), starts[0], ends[cut - 1])
            del seen[:cut], starts[:cut], ends[:cut]

    def _complete_foreign(self) -> None:
        if self._foreign is None:
            return
        (seen, starts, ends), self._foreign = self._foreign, None
        for first, last in script_pieces("".join(seen)):
            self._foreign_word("".join(seen[first:last]), starts[first], ends[last - 1])

    def _foreign_word(self, core: str, start: int, end: int) -> None:
        text, language = self._original(start, end), language_of(core, self._language)
        self._silent_word(RawWord(text, start, end, core, is_settled=True, kind=Kind.SILENT, language=language))

    def _settle_last(self, follower: str) -> None:
        """The next word begins with ``follower``."""
        last = self._unsettled
        if last is None:
            return
        last.is_settled, last.follower = True, follower
        is_minus = self._dash is not None and self._dash.text in ("-", "–")
        if self._dash is not None and is_minus and follower.isdigit() and last.core[-1].isdigit():
            self._append(self._dash)
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
        self._cut(seams[-1][0] or len(seen))

    def _cut(self, cut: int) -> None:
        """The open word ends behind ``cut`` characters; the rest is the next."""
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
        for first, last in _words(seen):
            self._piece(seen[first:last], starts[first:last], ends[first:last])
        self._has_gap = False

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
        keeps = not address and after.startswith(".") and not after.startswith("...")
        if keeps and (keeps_full_stop(core) or self._is_dotted(core)):
            core, after = core + ".", after[1:]
        start, end = span(starts, ends, first, last)
        pause = pause_symbols(after)
        word = RawWord(
            self._original(start, end), start, end, core, pause, boundary_of(pause), is_address=bool(address)
        )
        if not self._reads_phonemes:
            word.visible = self._visible(piece, starts, ends)
        self._add_word(word, after)

    def _visible(self, piece: str, starts: list[int], ends: list[int]) -> str:
        """The characters of ``piece`` as they stand in the original, but for escapes; a space before if one was."""
        shown = [
            self._original(start, end) if end - start == 1 else c
            for c, start, end in zip(piece, starts, ends, strict=True)
        ]
        gap, self._has_gap = self._has_gap, False
        return f"{' ' if gap else ''}{''.join(shown)}"

    def _add_word(self, word: RawWord, after: str) -> None:
        core = word.core = unicodedata.normalize("NFC", word.core)
        greek = sum(1 for c in core if is_greek(c))
        word.language = language_of(core, self._language)
        if self._reads_phonemes and greek >= _GREEK_RUN and greek * 2 > len(core):
            self.skipped += 1
            word.kind, word.is_settled = Kind.SILENT, True
            self._silent_word(word)
            return
        word.tags, word.speaker, pause = self._tags, self._speaker, word.pause
        word.speed = self._open_speed
        is_quoted = any(c in _CLOSERS for c in after) and word.boundary is Boundary.SENTENCE
        word.is_settled = bool(pause) and not (is_quoted or pause.endswith(".."))
        self._settle_last(next(c for c in core if c.isalnum()))
        self._append(word)

    def _mark(self, piece: str, starts: list[int], ends: list[int]) -> None:
        """Signs that stand alone: a pause belongs to the word before, an operator may be spoken."""
        last = self._unsettled
        if last is None or last.pause:
            return
        pause = pause_symbols(piece)
        text = self._original(starts[0], ends[-1])
        if piece not in OPERATORS:
            last.visible += f" {piece}"
        if piece in OPERATORS:
            self._settle_last("")
            operator = RawWord(text, starts[0], ends[-1], piece, is_settled=True, is_operator=True)
            operator.visible, operator.tags, operator.speaker = f" {piece}", self._tags, self._speaker
            operator.speed = self._open_speed
            self._append(operator)
        elif piece.strip("-–—―") == "":
            self._dash = RawWord(text, starts[0], ends[-1], "−", is_settled=True, is_operator=True)
            self._dash.speed = self._open_speed
        elif pause:
            self._dash = None
            last.pause, last.boundary = pause, boundary_of(pause)
            last.is_settled = not pause.endswith("..")


def _words(seen: str) -> list[tuple[int, int]]:
    """Spans of the words that are glued together in ``seen``, in any script."""
    if not any(map(family, seen)):
        return pieces(seen)
    return [
        (piece + first, piece + last)
        for piece, piece_end in pieces(seen)
        for first, last in script_pieces(seen[piece:piece_end])
    ]
