"""Markup, drawings and cues out of a stream of text, one decision at a time.

A decision is taken only when no later text could change it, so the result does not depend on how the text was cut into
messages; what it must see first is held, and every hold has a bound.
"""

import html
from typing import Protocol

from engine.text.characters import FOREIGN_PAUSES, character_class, folded
from engine.text.markup import (
    AUTOLINK,
    BULLETS,
    ENTITY,
    ESCAPED_MARKUP,
    ESCAPED_OTHERS,
    FENCE_LANGUAGE,
    LIST_NUMBER,
    OPEN_ENTITY,
    OPEN_LIST_NUMBER,
    TAG_BOUND,
    WAIT,
    first_of,
    link_end,
    tag_boundary,
)
from engine.text.words import Boundary

SHORT_LINE = 48
"""Seen characters of a line that was broken on purpose rather than wrapped."""


class CleanSink(Protocol):
    """Where cleaned text goes."""

    def character(self, c: str, start: int, end: int) -> None:
        """The seen character ``c``, standing at ``start`` to ``end`` of the original."""

    def gap(self) -> None:
        """Words end here."""

    def line_boundary(self, boundary: Boundary) -> None:
        """The layout makes a boundary here."""


class Cleaner:
    """Raw text in, seen characters, gaps and layout boundaries out."""

    def __init__(self, sink: CleanSink) -> None:
        self._sink = sink
        self._held = ""
        self._base = 0
        self._at_line_start = True
        self._newlines = 0
        self._line_length = 0
        self._last_line_length = 0
        self._is_heading = False
        self._is_row = False
        self._cell_waits = False
        self._left = ""
        """The seen character directly before, empty behind a gap."""
        self._last_seen = ""
        self._bracket_end = (-1, -1)
        """Offset of the ``]`` of an open link, and where its target ends."""

    @property
    def held_from(self) -> int:
        """Offset of the first character not yet decided."""
        return self._base

    def feed(self, text: str) -> None:
        """Take more text."""
        self._held += text
        self._run(is_final=False)

    def close(self) -> None:
        """Decide everything held as if the text ended here; more may follow."""
        self._run(is_final=True)
        if self._newlines:
            self._end_line(Boundary.SENTENCE if self._newlines > 1 else None)
        self._sink.gap()
        self._left = ""

    def _run(self, is_final: bool) -> None:
        text, position = self._held, 0
        while position < len(text):
            after = self._decide(text, position, is_final)
            if after == WAIT:
                break
            position = after
        self._held = text[position:]
        self._base += position

    def _decide(self, s: str, i: int, is_final: bool) -> int:
        """Handle what stands at ``s[i]``; gives the position behind it or ``WAIT``."""
        c = s[i]
        kind = "seen" if c.isascii() and c.isalnum() else character_class(c)
        if kind == "line":
            self._new_line(2 if c == "\u2029" else 1)
            return i + 1
        if kind == "gap":
            self._gap()
            return i + 1
        if kind == "nothing":
            return i + 1
        if self._at_line_start:
            after = self._line_start(s, i, is_final)
            if after != i:
                return after
            self._at_line_start = False
        handler = _HANDLERS.get(c)
        if handler is not None:
            return handler(self, s, i, is_final)
        self._emit(c, i)
        return i + 1

    # Output

    def _emit(self, c: str, i: int, length: int = 1) -> None:
        if self._newlines:
            soft = not c.islower() and self._last_line_length < SHORT_LINE
            self._end_line(Boundary.SENTENCE if self._newlines > 1 else Boundary.CLAUSE if soft else None)
        if self._cell_waits:
            self._cell_waits = False
            self._boundary(Boundary.CLAUSE)
        start = self._base + i
        for part in folded(c):
            if part == " ":
                self._gap()
                continue
            self._sink.character(part, start, start + length)
            self._left = self._last_seen = part
            self._line_length += 1
        if c in FOREIGN_PAUSES:
            self._gap()

    def _gap(self) -> None:
        self._sink.gap()
        self._left = ""

    def _boundary(self, boundary: Boundary) -> None:
        self._gap()
        self._sink.line_boundary(boundary)

    def _new_line(self, count: int) -> None:
        self._gap()
        if not self._newlines:
            self._last_line_length, self._line_length = self._line_length, 0
        self._newlines += count
        self._at_line_start = True

    def _end_line(self, boundary: Boundary | None) -> None:
        """What the line breaks before the coming text mean."""
        if self._is_heading or self._is_row:
            boundary = Boundary.SENTENCE
        self._is_heading = self._is_row = self._cell_waits = False
        self._newlines = 0
        if boundary is not None:
            self._boundary(boundary)

    # Markers at the start of a line

    def _line_start(self, s: str, i: int, is_final: bool) -> int:
        """Handle a marker at ``s[i]``; gives ``i`` when there is none."""
        c, rest = s[i], s[i + 1 : i + 8]
        if c in "`~":
            run = s[i : i + 3]
            if len(run) < 3 and len(set(run)) == 1 and not is_final:
                return WAIT
            return i if run not in ("```", "~~~") else self._fence(s, i + 3, is_final)
        if c == "#":
            after = i + len(s[i : i + 7]) - len(s[i : i + 7].lstrip("#"))
            if after == len(s) and after - i < 7 and not is_final:
                return WAIT
            if after - i <= 6 and (after == len(s) or s[after] in " \t\n"):
                self._marker(Boundary.SENTENCE)
                self._is_heading = True
                return after
            return i
        if c == ">":
            return i + 1
        if c in BULLETS:
            if not rest and not is_final:
                return WAIT
            if rest[:1] in (" ", "\t"):
                self._marker(Boundary.CLAUSE)
                return i + 1
            return i
        if c.isdigit() and c.isascii():
            number = LIST_NUMBER.match(s, i)
            if number:
                self._marker(Boundary.CLAUSE)
                for offset, digit in enumerate(number[1]):
                    self._emit(digit, i + offset)
                self._emit(",", i + len(number[1]))
                self._at_line_start = False
                return number.end() - 1
            open_number = OPEN_LIST_NUMBER.match(s, i)
            if open_number and open_number.end() == len(s) and not is_final:
                return WAIT
        return i

    def _marker(self, boundary: Boundary) -> None:
        if self._newlines:
            self._end_line(Boundary.SENTENCE if self._newlines > 1 else boundary)

    def _fence(self, s: str, i: int, is_final: bool) -> int:
        """Drop the name of the language behind a code fence when it stands alone; what is fenced is read."""
        language = FENCE_LANGUAGE.match(s, i)
        end = language.end() if language else i
        if end == len(s) and not is_final:
            return WAIT
        self._marker(Boundary.CLAUSE)
        return end if end == len(s) or s[end] in "\r\n" else i

    # Characters that may be markup

    def _star(self, s: str, i: int, is_final: bool) -> int:
        if i + 1 == len(s) and not is_final:
            return WAIT
        following = s[i + 1 : i + 2]
        if self._left.isdigit() and following.isdigit():
            self._emit("*", i)
        elif not self._left and self._last_seen.isalnum() and following == " ":
            self._emit("*", i)
            self._gap()
        return i + 1

    def _underscore(self, s: str, i: int, is_final: bool) -> int:
        if i + 1 == len(s) and not is_final:
            return WAIT
        if self._left.isalnum() and s[i + 1 : i + 2].isalnum():
            self._emit("_", i)
        return i + 1

    def _backtick(self, s: str, i: int, is_final: bool) -> int:
        return i + 1

    def _tilde(self, s: str, i: int, is_final: bool) -> int:
        if i + 1 == len(s) and not is_final:
            return WAIT
        following = s[i + 1 : i + 2]
        if following.isdigit() or following in ("$", "/", "€", "£"):
            self._emit("~", i)
        return i + 1

    def _hash(self, s: str, i: int, is_final: bool) -> int:
        if i + 1 == len(s) and not is_final and not self._left:
            return WAIT
        if self._left or s[i + 1 : i + 2].isalnum():
            self._emit("#", i)
        return i + 1

    def _backslash(self, s: str, i: int, is_final: bool) -> int:
        if i + 1 == len(s) and not is_final:
            return WAIT
        following = s[i + 1 : i + 2]
        if following in ESCAPED_MARKUP:
            return i + 2
        if following not in ESCAPED_OTHERS:
            self._gap()
        return i + 1

    def _pipe(self, s: str, i: int, is_final: bool) -> int:
        if self._newlines:
            self._end_line(Boundary.SENTENCE)
        self._gap()
        self._is_row = self._cell_waits = True
        return i + 1

    def _exclamation(self, s: str, i: int, is_final: bool) -> int:
        if not self._left:
            if i + 1 == len(s) and not is_final:
                return WAIT
            if s[i + 1 : i + 2] == "[":
                return i + 1
        self._emit("!", i)
        return i + 1

    def _open_bracket(self, s: str, i: int, is_final: bool) -> int:
        """A link keeps its text, a cue is dropped, anything else was only a bracket."""
        close = first_of(s, i + 1, i + TAG_BOUND, "]\n[")
        if close == WAIT and len(s) < i + TAG_BOUND and not is_final:
            return WAIT
        if close == WAIT or s[close] != "]":
            self._emit("[", i)
            return i + 1
        if close + 1 == len(s) and not is_final:
            return WAIT
        following = s[close + 1 : close + 2]
        if following == "(":
            end = link_end(s, close + 1, is_final)
            if end == WAIT:
                return WAIT
            if end:
                self._bracket_end = (self._base + close, self._base + end)
                return i + 1
        elif following == "[":
            end = first_of(s, close + 2, close + 2 + TAG_BOUND, "]\n[")
            if end == WAIT and len(s) < close + 2 + TAG_BOUND and not is_final:
                return WAIT
            if end != WAIT and s[end] == "]" and (end == close + 2 or s[close + 2 : end].isdigit()):
                self._bracket_end = (self._base + close, self._base + end + 1)
                return i + 1
        self._gap()
        return close + 1

    def _close_bracket(self, s: str, i: int, is_final: bool) -> int:
        at, end = self._bracket_end
        if self._base + i == at:
            self._bracket_end = (-1, -1)
            return end - self._base
        if i + 1 == len(s) and not is_final:
            return WAIT
        if s[i + 1 : i + 2] == "(":
            end = link_end(s, i + 1, is_final)
            if end == WAIT or end:
                return end
        self._emit("]", i)
        return i + 1

    def _less(self, s: str, i: int, is_final: bool) -> int:
        """A tag is dropped, an address in angle brackets is text, anything else is "less than"."""
        if i + 1 == len(s) and not is_final:
            return WAIT
        if not (s[i + 1 : i + 2].isalpha() or s[i + 1 : i + 2] in ("/", "!", "?", "|")):
            self._emit("<", i)
            return i + 1
        close = first_of(s, i + 1, i + TAG_BOUND, ">\n<")
        if close == WAIT and len(s) < i + TAG_BOUND and not is_final:
            return WAIT
        content = "" if close == WAIT or s[close] != ">" else s[i + 1 : close]
        if not content and close == WAIT and AUTOLINK.match(s, i + 1, i + TAG_BOUND):
            self._gap()
            return i + 1
        if AUTOLINK.fullmatch(content):
            self._gap()
            return i + 1
        effect = tag_boundary(content)
        if effect is None:
            self._emit("<", i)
            return i + 1
        if isinstance(effect, Boundary):
            self._boundary(effect)
        elif effect == "gap":
            self._gap()
        return close + 1

    def _ampersand(self, s: str, i: int, is_final: bool) -> int:
        entity = ENTITY.match(s, i)
        if entity:
            for c in html.unescape(entity[0]):
                kind = character_class(c)
                if kind == "seen":
                    self._emit(c, i, len(entity[0]))
                elif kind != "nothing":
                    self._gap()
            return entity.end()
        open_entity = OPEN_ENTITY.match(s, i)
        if open_entity and open_entity.end() == len(s) and len(open_entity[0]) < 10 and not is_final:
            return WAIT
        self._emit("&", i)
        return i + 1


_HANDLERS = {
    "*": Cleaner._star,
    "_": Cleaner._underscore,
    "`": Cleaner._backtick,
    "~": Cleaner._tilde,
    "#": Cleaner._hash,
    "\\": Cleaner._backslash,
    "|": Cleaner._pipe,
    "!": Cleaner._exclamation,
    "[": Cleaner._open_bracket,
    "]": Cleaner._close_bracket,
    "<": Cleaner._less,
    "&": Cleaner._ampersand,
}
