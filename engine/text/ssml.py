"""A safe subset of SSML out of a stream of text: pauses, pronunciations, ways to read.

Not an XML parser: there are no entities but the five of XML and numbers, no declarations, nothing is fetched, nothing
grows. What is not well-formed is text, a tag that is not known is ignored, what cannot be done is told in a notice.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from engine.errors import LexiconError
from engine.text.alias import spoken_form
from engine.text.characters import character_class
from engine.text.clean import WAIT, Cleaner, CleanSink
from engine.text.ipa import from_ipa
from engine.text.say_as import KINDS, READ_AS_USUAL, say_as
from engine.text.words import Boundary

TAG_BOUND = 1024
"""Characters a tag, a comment or a declaration may have."""
CONTENT_BOUND = 512
"""Characters between the tags of ``sub``, ``say-as`` and ``phoneme``."""
LONGEST_SPOKEN = 256
"""Characters of an alias or a transcription."""
LONGEST_PAUSE_MS = 10_000
STRENGTHS_MS = {"none": 0, "x-weak": 100, "weak": 200, "medium": 400, "strong": 700, "x-strong": 1200}
SPEEDS = {"x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.3, "x-fast": 1.6}
MOST_PROSODY = 32
"""Elements that may stand in each other; those inside them change nothing."""

_TAG = re.compile(r"""</?[A-Za-z](?:[^<>"']|"[^"<]*"|'[^'<]*')*>""")
_OPEN_TAG = re.compile(r"""</?(?:[A-Za-z](?:[^<>"']|"[^"<]*"|'[^'<]*')*(?:"[^"<]*|'[^'<]*)?)?""")
_NAME = re.compile(r"</?([A-Za-z][\w:.-]*)")
_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_ENTITY = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6}));")
_OPEN_ENTITY = re.compile(r"&#?[A-Za-z0-9]{0,8}")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_DURATION = re.compile(r"\+?([0-9]{1,6}(?:\.[0-9]{0,6})?|\.[0-9]{1,6})\s*(ms|s)")
_SPEED = re.compile(r"([+-]?)([0-9]{1,4}(?:\.[0-9]{0,6})?|\.[0-9]{1,6})(%?)")
_INNER = re.compile(r"<!--.*?-->|</?[A-Za-z][^<>]*>", re.DOTALL)
_CLOSING = {name: re.compile(f"</{name}", re.IGNORECASE) for name in ("sub", "say-as", "phoneme")}
_SENTENCES = frozenset({"p", "s", "paragraph", "sentence"})
_SILENT = frozenset({"speak", "prosody", "emphasis", "lang", "break", "sub", "say-as", "phoneme", "w", "token"})


class SsmlCleaner(Cleaner):
    """Raw text in, seen characters, gaps, boundaries, pauses and settled words out.

    ``language`` of the text; a voice that ``reads_phonemes`` speaks no other, and without them ``phoneme`` cannot be
    done. ``speeds``: the slowest and the fastest the voice can speak.
    """

    def __init__(
        self,
        sink: CleanSink,
        language: str = "en",
        reads_phonemes: bool = True,
        speeds: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        super().__init__(sink)
        self._slowest, self._fastest = speeds
        self._speeds: tuple[float, ...] = (1.0,)
        """Of the open ``prosody`` elements, the outermost first."""
        self._unheeded = 0
        """Those that are open inside too many others."""
        self._language = language
        self._is_english = language == "en"
        self._reads_phonemes = reads_phonemes
        self._is_literal = False
        """Inside ``<![CDATA[``."""

    def _less(self, s: str, i: int, is_final: bool) -> int:
        if self._is_literal:
            self._emit("<", i)
            return i + 1
        if i + 1 == len(s) and not is_final:
            return WAIT
        following = s[i + 1 : i + 2]
        if following in ("!", "?"):
            return self._declaration(s, i, is_final)
        tag = _TAG.match(s, i, i + TAG_BOUND)
        if tag:
            return self._element(s, i, tag[0], is_final)
        still_open = _OPEN_TAG.match(s, i, i + TAG_BOUND)
        if still_open and still_open.end() == len(s) and len(s) - i < TAG_BOUND and not is_final:
            return WAIT
        self._emit("<", i)
        return i + 1

    def _declaration(self, s: str, i: int, is_final: bool) -> int:
        """Comments and declarations are dropped; CDATA is text without markup."""
        may_wait = len(s) - i < TAG_BOUND and not is_final
        for opening in ("<!--", "<![CDATA["):
            if opening.startswith(s[i : i + len(opening)]) and len(s) - i < len(opening) and may_wait:
                return WAIT
        if s.startswith("<![CDATA[", i):
            self._is_literal = True
            return i + len("<![CDATA[")
        closing = "-->" if s.startswith("<!--", i) else "?>" if s[i + 1] == "?" else ">"
        if closing == ">" and "[" in s[i : s.find(">", i, i + TAG_BOUND) % (len(s) + 1)]:
            closing = "]>"
        end = s.find(closing, i + 2, i + TAG_BOUND)
        if end < 0:
            if may_wait:
                return WAIT
            self._emit("<", i)
            return i + 1
        if s[i + 1] == "!" and closing != "-->":
            self._notice("declaration", i, "declarations such as DOCTYPE are not read")
        return end + len(closing)

    def _close_bracket(self, s: str, i: int, is_final: bool) -> int:
        if self._is_literal:
            if len(s) - i < 3 and "]]>".startswith(s[i:]) and not is_final:
                return WAIT
            if s.startswith("]]>", i):
                self._is_literal = False
                return i + 3
        self._emit("]", i)
        return i + 1

    def _ampersand(self, s: str, i: int, is_final: bool) -> int:
        entity = None if self._is_literal else _ENTITY.match(s, i)
        if entity:
            c = _entity_character(entity)
            kind = character_class(c) if c else "nothing"
            if kind == "seen":
                self._emit(c, i, len(entity[0]))
            elif kind != "nothing":
                self._gap()
            return entity.end()
        still_open = _OPEN_ENTITY.match(s, i)
        if still_open and still_open.end() == len(s) and len(still_open[0]) < 10 and not is_final:
            return WAIT
        self._emit("&", i)
        return i + 1

    # Elements

    def _element(self, s: str, i: int, tag: str, is_final: bool) -> int:
        found = _NAME.match(tag)
        assert found, tag
        name, after = found[1].lower(), i + len(tag)
        if name in _SENTENCES:
            self._boundary(Boundary.SENTENCE)
        elif name == "prosody":
            self._prosody(i, tag)
        elif tag.startswith("</"):
            pass
        elif name in _CLOSING:
            if not tag.endswith("/>"):
                return self._settled(s, i, tag, name, is_final)
        elif name == "break":
            self._break(i, tag, _attributes(tag))
        elif name == "emphasis":
            self._notice("emphasis", i, "emphasis is left to the voice")
        elif name not in _SILENT:
            self._notice(name, i, f"<{name[:32]}> changes nothing here; what is in it is read")
        self._check_language(i, tag)
        return after

    def _break(self, i: int, tag: str, attributes: dict[str, str]) -> None:
        time, strength = attributes.get("time"), attributes.get("strength", "medium")
        milliseconds = STRENGTHS_MS.get(strength, STRENGTHS_MS["medium"])
        if time is not None:
            found = _DURATION.fullmatch(time.strip())
            if found:
                milliseconds = round(float(found[1]) * (1000 if found[2] == "s" else 1))
            else:
                self._notice("break time", i, f"{time[:32]!r} is no time for a break (500ms, 1.5s)")
        elif strength not in STRENGTHS_MS:
            self._notice("break strength", i, f"{strength[:32]!r} is no strength; there are {', '.join(STRENGTHS_MS)}")
        if milliseconds > LONGEST_PAUSE_MS:
            self._notice("break length", i, f"a break lasts at most {LONGEST_PAUSE_MS} ms, not {milliseconds}")
        if milliseconds and not self._last_seen:
            self._notice("lead", i, "a break before the first word is left out")
        elif milliseconds:
            self._sink.pause(min(milliseconds, LONGEST_PAUSE_MS), self._base + i, self._base + i + len(tag))
            self._left = ""

    def _prosody(self, i: int, tag: str) -> None:
        """The pace of the words in it; pitch and volume are told."""
        if tag.startswith("</"):
            if self._unheeded:
                self._unheeded -= 1
            else:
                self._speeds = self._speeds[:-1] or self._speeds
        else:
            speed = self._asked_speed(i, _attributes(tag))
            if tag.endswith("/>"):
                return
            if len(self._speeds) > MOST_PROSODY:
                self._unheeded += 1
                self._notice("prosody depth", i, f"at most {MOST_PROSODY} prosody elements in each other: no change")
            else:
                self._speeds = (*self._speeds, speed)
        self._sink.speed(self._speeds[-1])

    def _asked_speed(self, i: int, attributes: dict[str, str]) -> float:
        """The speed inside an element; the one around it where none is asked for, or none that can be."""
        around, speed = self._speeds[-1], None
        for name, value in attributes.items():
            asked = _speed(value, around) if name == "rate" else None
            if asked is None or (asked != 1.0 and self._slowest == self._fastest):
                told = f"prosody {name[:16]} {value[:16]!r} cannot be done: spoken as usual"
                self._notice(f"prosody {name[:16]}", i, told)
                continue
            speed = min(max(asked, self._slowest), self._fastest)
            if speed != asked:
                told = f"prosody rate {value[:16]!r}: this voice speaks at {self._slowest:g} to {self._fastest:g}"
                self._notice("prosody limit", i, f"{told}; spoken at {speed:g}")
        return around if speed is None else speed

    def _check_language(self, i: int, tag: str) -> None:
        if "lang" not in tag or tag.startswith("</") or not self._reads_phonemes:
            return
        language = _attributes(tag).get("xml:lang", "")
        if language and language.split("-")[0].lower() != self._language:
            told = f"{language[:32]!r} is not spoken by this voice: what is written in Latin letters is read as English"
            self._notice("language", i, told)

    # Elements that settle how their content is said

    def _settled(self, s: str, i: int, tag: str, name: str, is_final: bool) -> int:
        """An element that says how its content is said: held until it is closed, ignored where that comes too late."""
        start = i + len(tag)
        found = _CLOSING[name].search(s, start, start + CONTENT_BOUND)
        end = found.start() if found else -1
        close = s.find(">", end, end + TAG_BOUND) if end >= 0 else -1
        if close < 0:
            open_at = start if end < 0 else end
            if len(s) - open_at < (CONTENT_BOUND if end < 0 else TAG_BOUND) and not is_final:
                return WAIT
            self._notice(name, i, f"<{name}> is not closed within {CONTENT_BOUND} characters and ignored")
            return start
        content = _unescaped(_INNER.sub("", s[start:end])).strip()
        seen = "".join(c for c in content if character_class(c) in ("seen", "gap"))
        said = self._said(i, name, _attributes(tag), seen)
        if said is None or not seen.strip():
            return start
        spoken, sounds = said
        raw = s[start:end]
        first = start + len(raw) - len(raw.lstrip())
        self._begin(seen[0])
        self._sink.settled(seen, spoken, sounds, self._base + first, self._base + start + len(raw.rstrip()))
        self._left = self._last_seen = "x"
        self._line_length += len(seen)
        return start + len(raw)

    def _said(self, i: int, name: str, attributes: dict[str, str], content: str) -> tuple[str, str | None] | None:
        """What is said for ``content`` and, where given, its phonemes; None to read it as usual."""
        if name == "sub":
            alias = attributes.get("alias", "").strip()
            if len(alias) > LONGEST_SPOKEN:
                self._notice("alias", i, f"an alias has at most {LONGEST_SPOKEN} characters")
                return None
            said = spoken_form(alias) if self._is_english and self._reads_phonemes else alias
            return (said, None) if any(map(str.isalnum, said)) else None
        if name == "say-as":
            return self._say_as(i, attributes, content)
        if not self._reads_phonemes:
            self._notice("phoneme", i, "this model reads text, not phonemes")
            return None
        alphabet, transcription = attributes.get("alphabet", "ipa").lower(), attributes.get("ph", "")
        if alphabet != "ipa" or len(transcription) > LONGEST_SPOKEN:
            self._notice("alphabet", i, f"phonemes are given in ipa, at most {LONGEST_SPOKEN} characters")
            return None
        try:
            return content, from_ipa(transcription)
        except LexiconError as error:
            self._notice(f"phoneme {transcription}", i, str(error))
            return None

    def _say_as(self, i: int, attributes: dict[str, str], content: str) -> tuple[str, None] | None:
        kind = attributes.get("interpret-as", "").lower()
        if not self._is_english:
            self._notice("say-as", i, "say-as is done in English alone; read as usual")
            return None
        said = say_as(kind, attributes.get("format", "").lower(), content)
        if said is None and kind not in READ_AS_USUAL:
            problem = f"cannot be read as {kind[:32]!r}" if kind in KINDS else f"{kind[:32]!r} is not known"
            self._notice(f"say-as {kind}", i, f"say-as: {problem}; read as usual. There are {', '.join(KINDS)}")
        return None if said is None else (said, None)

    handlers: ClassVar[Mapping[str, Callable[[Any, str, int, bool], int]]] = {
        "<": _less,
        "&": _ampersand,
        "]": _close_bracket,
    }


def _attributes(tag: str) -> dict[str, str]:
    """Attributes of a tag, entities read."""
    return {found[1].lower(): _unescaped(found[2] or found[3] or "") for found in _ATTRIBUTE.finditer(tag)}


def _speed(rate: str, around: float) -> float | None:
    """What ``rate`` of ``prosody`` asks for where the speed is ``around``; None where it is no rate."""
    rate = rate.strip().lower()
    if rate in SPEEDS:
        return SPEEDS[rate]
    found = _SPEED.fullmatch(rate)
    if not found:
        return around if not rate else None
    sign, number, percent = found[1], float(found[2]), found[3]
    share = number / 100 if percent else number
    if not sign:
        # No speed at all is none.
        return share or None
    if not share:
        return around
    # With a sign it is a change of what is around it.
    return max(0.0, around * (1 + (share if sign == "+" else -share))) if percent else None


def _unescaped(text: str) -> str:
    """``text`` with the entities of XML read, once."""
    return _ENTITY.sub(_entity_character, text)


def _entity_character(entity: "re.Match[str]") -> str:
    if entity[1]:
        return _NAMED[entity[1]]
    code = int(entity[2]) if entity[2] else int(entity[3], 16)
    return "" if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF else chr(code)
