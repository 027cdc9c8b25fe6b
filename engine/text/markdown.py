"""Markdown and HTML out of a stream of text, as language models write them; the default format."""

import html
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from engine.text.characters import character_class
from engine.text.clean import WAIT, Cleaner, CleanSink
from engine.text.markup import (
    AUTOLINK,
    BULLETS,
    ENTITY,
    ESCAPED_MARKUP,
    ESCAPED_OTHERS,
    FENCE_LANGUAGE,
    LIST_NUMBER,
    NAMED_EMOJI,
    OPEN_ENTITY,
    OPEN_LIST_NUMBER,
    OPEN_NAMED_EMOJI,
    SPEAKER,
    TAG_BOUND,
    definition_end,
    first_of,
    link_end,
    tag_bound,
    tag_effect,
    tag_name,
)
from engine.text.words import Boundary

_NO_LINK = (-1, -1)


class MarkdownCleaner(Cleaner):
    """Raw text in, seen characters, gaps and layout boundaries out.

    ``has_cues``: the model understands directions in brackets and tags that are not HTML; they reach the sink.
    """

    def __init__(self, sink: CleanSink, has_cues: bool = False) -> None:
        super().__init__(sink)
        self._has_cues = has_cues
        self._is_heading = False
        self._is_row = False
        self._cell_waits = False
        self._is_formula = False
        """Between two dollar signs that are no money."""
        self._bracket_end = _NO_LINK
        """Offset of the ``]`` of an open link, and where its target ends."""

    def _begin(self, c: str) -> None:
        super()._begin(c)
        if self._cell_waits:
            self._cell_waits = False
            self._boundary(Boundary.CLAUSE)

    def _new_line(self, count: int) -> None:
        super()._new_line(count)
        self._is_formula = False

    def _end_line(self, boundary: Boundary | None) -> None:
        if self._is_heading or self._is_row:
            boundary = Boundary.SENTENCE
        self._is_heading = self._is_row = self._cell_waits = False
        super()._end_line(boundary)

    # Markers at the start of a line

    def _line_start(self, s: str, i: int, is_final: bool) -> int:
        """Handle a marker at ``s[i]``; gives ``i`` when there is none."""
        c, rest = s[i], s[i + 1 : i + 8]
        if c == "[":
            return self._definition(s, i, is_final)
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

    def _definition(self, s: str, i: int, is_final: bool) -> int:
        """The target of a link given at the foot is dropped; of a footnote its mark."""
        after = definition_end(s, i, is_final)
        return i if after == 0 else after

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
            # A link that is never closed: its text is said, unlike that of a cue.
            self._emit("[", i)
            return i + 1
        if following == "[":
            end = first_of(s, close + 2, close + 2 + TAG_BOUND, "]\n[")
            if end == WAIT and len(s) < close + 2 + TAG_BOUND and not is_final:
                return WAIT
            if end != WAIT and s[end] == "]" and (end == close + 2 or s[close + 2 : end].isdigit()):
                self._bracket_end = (self._base + close, self._base + end + 1)
                return i + 1
        self._gap()
        if self._has_cues:
            self._begin("[")
        self._sink.cue(self._base + i, self._base + close + 1)
        return close + 1

    def _close_bracket(self, s: str, i: int, is_final: bool) -> int:
        at, end = self._bracket_end
        if self._base + i == at:
            self._bracket_end = _NO_LINK
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
        bound = tag_bound(s, i)
        if s.startswith("<!--", i):
            comment = s.find("-->", i + 4, i + bound)
            if comment < 0 and len(s) < i + bound and not is_final:
                return WAIT
            if comment >= 0:
                self._gap()
                return comment + 3
        close = first_of(s, i + 1, i + bound, ">\n<")
        if close == WAIT and len(s) < i + bound and not is_final:
            return WAIT
        content = "" if close == WAIT or s[close] != ">" else s[i + 1 : close]
        if not content and close == WAIT and AUTOLINK.match(s, i + 1, i + bound):
            self._gap()
            return i + 1
        if AUTOLINK.fullmatch(content):
            self._gap()
            return i + 1
        return self._tag(s, i, close, content)

    def _tag(self, s: str, i: int, close: int, content: str) -> int:
        if self._has_cues and (speaker := SPEAKER.fullmatch(content)):
            self._gap()
            self._sink.speaker(int(speaker[1]), self._base + i, self._base + close + 1)
            return close + 1
        effect = tag_effect(content)
        if effect is None:
            self._emit("<", i)
            return i + 1
        if isinstance(effect, Boundary):
            self._boundary(effect)
        elif effect == "foreign":
            self._foreign_tag(content, i, close)
        return close + 1

    def _foreign_tag(self, content: str, i: int, close: int) -> None:
        """A tag that is not HTML: a gap, or what the model itself understands."""
        self._gap()
        if not self._has_cues:
            return
        if content.endswith("/"):
            self._begin("<")
            self._sink.cue(self._base + i, self._base + close + 1)
        elif content.startswith("/"):
            self._sink.close_tag(tag_name(content))
        elif content[0].isalpha():
            self._sink.open_tag(f"<{content}>")

    def _dollar(self, s: str, i: int, is_final: bool) -> int:
        """The dollar signs around a formula are dropped, those of amounts are not."""
        if i + 1 == len(s) and not is_final:
            return WAIT
        following = s[i + 1 : i + 2]
        if following == "$":
            self._is_formula = not self._is_formula
            return i + 2
        if self._is_formula and self._left and not following.isdigit():
            self._is_formula = False
        elif not self._left and not following.isdigit() and following not in ("", " ", ".", ","):
            self._is_formula = True
        else:
            self._emit("$", i)
        return i + 1

    def _colon(self, s: str, i: int, is_final: bool) -> int:
        """An emoji may be written by its name: ``:smile:``."""
        if not self._left:
            open_name = OPEN_NAMED_EMOJI.match(s, i)
            if open_name and open_name.end() == len(s) and not is_final:
                return WAIT
            named = NAMED_EMOJI.match(s, i)
            if named:
                self._gap()
                return named.end()
        self._emit(":", i)
        return i + 1

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

    handlers: ClassVar[Mapping[str, Callable[[Any, str, int, bool], int]]] = {
        "*": _star,
        "_": _underscore,
        "`": _backtick,
        "~": _tilde,
        "#": _hash,
        "\\": _backslash,
        "|": _pipe,
        "!": _exclamation,
        "[": _open_bracket,
        "]": _close_bracket,
        "<": _less,
        "&": _ampersand,
        "$": _dollar,
        ":": _colon,
    }
