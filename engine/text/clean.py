"""Raw text to seen characters, one decision at a time: what every format shares, and all there is of plain text.

A decision is taken only when no later text could change it, so the result does not depend on how the text was cut into
messages; what it must see first is held, and every hold has a bound.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from engine.text.characters import FOREIGN_PAUSES, character_class, folded
from engine.text.words import Boundary

WAIT = -1
"""Position that means: more text decides."""
SHORT_LINE = 48
"""Seen characters of a line that was broken on purpose rather than wrapped."""
ESCAPE_BOUND = 2048
"""Characters a terminal's escape sequence may have."""
MOST_NOTICES = 16

_CONTROL = re.compile(r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}([@-~])?")
_STRING = re.compile(r"\x1b[\]PX^_]")
_STRING_END = re.compile(r"\x07|\x9c|\x1b\\")
_SHORT_ESCAPE = re.compile(r"\x1b[ -/]{0,4}([0-~])?")


class CleanSink(Protocol):
    """Where cleaned text goes."""

    def character(self, c: str, start: int, end: int) -> None:
        """The seen character ``c``, standing at ``start`` to ``end`` of the original."""

    def gap(self) -> None:
        """Words end here."""

    def seam(self) -> None:
        """Words end here, though there is no gap."""

    def line_boundary(self, boundary: Boundary) -> None:
        """The layout makes a boundary here."""

    def cue(self, start: int, end: int) -> None:
        """A direction stands there: ``[sighs]``, ``<laugh/>``."""

    def speaker(self, number: int, start: int, end: int) -> None:
        """What follows is said by that speaker."""

    def open_tag(self, tag: str) -> None:
        """A paired tag that means nothing to us opens."""

    def close_tag(self, name: str) -> None:
        """It closes."""

    def pause(self, milliseconds: int, start: int, end: int) -> None:
        """A pause is asked for there."""

    def speed(self, speed: float) -> None:
        """Words that begin from here on are said so fast."""

    def settled(self, content: str, said: str, sounds: str | None, start: int, end: int) -> None:
        """The text ``content`` at ``start`` to ``end`` is said as ``said``, with the phonemes ``sounds`` if given."""


class Cleaner:
    """Raw text in, seen characters, gaps and layout boundaries out. By itself it reads plain text."""

    handlers: ClassVar[Mapping[str, Callable[[Any, str, int, bool], int]]] = {}
    """What to do at a character that may be markup: ``(cleaner, held, position, is_final)`` to the position behind."""

    def __init__(self, sink: CleanSink) -> None:
        self._sink = sink
        self._held = ""
        self._base = 0
        self._at_line_start = True
        self._newlines = 0
        self._line_length = 0
        self._last_line_length = 0
        self._left = ""
        """The seen character directly before, empty behind a gap."""
        self._last_seen = ""
        self.notices: list[str] = []
        """What is asked for and cannot be done, since whoever wants to know has emptied it."""
        self._noticed: set[str] = set()

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
            return self._escape(s, i, is_final) if c in "\x1b\x9b" else i + 1
        if self._at_line_start:
            after = self._line_start(s, i, is_final)
            if after != i:
                return after
            self._at_line_start = False
        handler = self.handlers.get(c)
        if handler is not None:
            return handler(self, s, i, is_final)
        self._emit(c, i)
        return i + 1

    def _line_start(self, s: str, i: int, is_final: bool) -> int:
        """Handle a marker at ``s[i]``, the first seen character of a line; gives ``i`` when there is none."""
        return i

    # Output

    def _emit(self, c: str, i: int, length: int = 1) -> None:
        self._begin(c)
        start = self._base + i
        for part in folded(c):
            if part == " ":
                self._gap()
                continue
            self._sink.character(part, start, start + length)
            self._left = self._last_seen = part
            self._line_length += 1
        if c in FOREIGN_PAUSES:
            self._sink.seam()
            self._left = ""

    def _begin(self, c: str) -> None:
        """``c`` is read next: settle what the line breaks before it mean."""
        if self._newlines:
            soft = not c.islower() and self._last_line_length < SHORT_LINE
            self._end_line(Boundary.SENTENCE if self._newlines > 1 else Boundary.CLAUSE if soft else None)

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
        self._newlines = 0
        if boundary is not None:
            self._boundary(boundary)

    def _notice(self, subject: str, i: int, message: str) -> None:
        """Say once for each ``subject`` what is not done of what stands at ``i``."""
        if subject in self._noticed or len(self._noticed) >= MOST_NOTICES:
            return
        self._noticed.add(subject)
        self.notices.append(f"character {self._base + i}: {message}")

    # Terminals

    def _escape(self, s: str, i: int, is_final: bool) -> int:
        """A terminal's escape sequence (colours, links, titles) is nothing to hear, however long."""
        may_wait = not is_final and len(s) - i < ESCAPE_BOUND
        if i + 1 == len(s) and s[i] == "\x1b" and may_wait:
            return WAIT
        control = _CONTROL.match(s, i)
        if control:
            return WAIT if control[1] is None and control.end() == len(s) and may_wait else control.end()
        string = _STRING.match(s, i)
        if string:
            end = _STRING_END.search(s, i + 2, i + ESCAPE_BOUND)
            if end:
                return end.end()
            return WAIT if may_wait else string.end()
        short = _SHORT_ESCAPE.match(s, i)
        assert short, s[i]
        return WAIT if short[1] is None and short.end() == len(s) and may_wait else short.end()
