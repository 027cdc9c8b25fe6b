"""Recognising pieces of Markdown and HTML in text of which the end may not have arrived."""

import re

from engine.text.clean import WAIT
from engine.text.words import Boundary

TAG_BOUND = 64
"""Characters a ``[cue]`` or ``<tag>`` may have; an open one that is longer is text after all."""
LONG_TAG_BOUND = 1024
"""Characters a tag with an attribute, or a comment, may have."""
LINK_BOUND = 2048
"""Characters a link's target may have."""
LINK_PARENTHESES = 8
"""Closing parentheses a link's target may have."""
TITLE_BOUND = 256
"""Characters that the title behind a link's target may have, with the spaces around it."""

BULLETS = frozenset("-*+•‣–—")
ESCAPED_MARKUP = frozenset("*_`~#|[](){}\\")
ESCAPED_OTHERS = frozenset("+-.!<>$")
SPEAKER = re.compile(r"\|speaker:([0-9]|1[0-5])\|")
AUTOLINK = re.compile(r"(?:https?|ftp|mailto):\S+|[\w.+-]+@[\w-]+\.[\w.-]+", re.IGNORECASE)
ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,7});")
OPEN_ENTITY = re.compile(r"&#?[A-Za-z0-9]{0,8}")
LIST_NUMBER = re.compile(r"(\d{1,3})[.)][ \t]")
OPEN_LIST_NUMBER = re.compile(r"\d{1,3}[.)]?")
NAMED_EMOJI = re.compile(r":(?:[a-z][a-z0-9_]{1,31}|[+-]1):(?![\w/])")
OPEN_NAMED_EMOJI = re.compile(r":(?:[a-z][a-z0-9_]{0,31}|[+-]1?)?:?")
FENCE_LANGUAGE = re.compile(r"[ \t]{0,8}[\w+#.-]{0,32}[ \t]{0,8}")

_TARGET = r"[ \t]{0,8}<?[^\s<>]{%d,1024}>?[ \t]{0,8}"
_TITLE = r"""(?:"[^"\n]{0,240}"%s|'[^'\n]{0,240}'%s)?[ \t]{0,8}"""
_DEFINITION = re.compile(
    r"\[(\^)?[^\]\[\n]{1,62}\]:(?(1)|" + _TARGET % 1 + _TITLE % ("", "") + r"(?=\n|\r|(\Z)))"
)  # fmt: skip
_OPEN_DEFINITION = re.compile(
    r"\[(?:\^?[^\]\[\n]{0,62}(?:\](?::" + _TARGET % 0 + _TITLE % ("?", "?") + ")?)?)?"
)  # fmt: skip
_LONG_TAG = re.compile(r"<(?:!--|/?[A-Za-z][\w:-]{0,31}\s{1,8}[\w:-]{1,24}\s{0,2}=)")
_LINK_TITLE = re.compile(r"""[ \t]{1,8}(?:"[^"\n]{0,240}"|'[^'\n]{0,240}')?[ \t]{0,4}\)""")
_TAG = re.compile(r"[/!?|]?\s*([A-Za-z][\w:.-]*)\s*(?:\s[^<>]*=[^<>]*)?/?[|?]?|!--.*|/|[|!?][^<>]*")
_INLINE = re.compile("a|abbr|b|bdi|big|code|del|em|font|i|ins|kbd|mark|q|s|small|span|strong|su[bp]|tt|u|var")
_BLOCK = re.compile("p|div|h[1-6r]|section|article|table|ul|ol|blockquote|pre")
_PART = re.compile("br|li|t[rdh]|d[td]")


def first_of(s: str, start: int, end: int, wanted: str) -> int:
    """Position of the first character of ``wanted`` in ``s[start:end]``, or ``WAIT``."""
    found = [at for at in (s.find(c, start, end) for c in wanted) if at >= 0]
    return min(found, default=WAIT)


def tag_bound(s: str, i: int) -> int:
    """How many characters the tag that opens at ``s[i]`` may have."""
    return LONG_TAG_BOUND if _LONG_TAG.match(s, i, i + TAG_BOUND) else TAG_BOUND


def tag_effect(content: str) -> Boundary | str | None:
    """What the tag ``<content>`` does to speech: a boundary, "nothing", "foreign", or None when it is no tag."""
    tag = _TAG.fullmatch(content)
    if not tag:
        return None
    name = (tag[1] or "").lower()
    if _BLOCK.fullmatch(name):
        return Boundary.SENTENCE
    if _PART.fullmatch(name):
        return Boundary.CLAUSE
    return "nothing" if _INLINE.fullmatch(name) else "foreign"


def tag_name(content: str) -> str:
    """The name in the tag ``<content>``."""
    tag = _TAG.fullmatch(content)
    return (tag[1] or "") if tag else ""


def definition_end(s: str, i: int, is_final: bool) -> int:
    """Position behind the definition of a link, or the mark of a footnote, at ``s[i]``; 0 when it is none, ``WAIT``
    while that is open."""
    found = _DEFINITION.match(s, i)
    if found and (found[1] or found[2] is None or is_final):
        return found.end()
    if is_final:
        return 0
    still_open = _OPEN_DEFINITION.match(s, i)
    return WAIT if still_open and still_open.end() == len(s) else 0


def link_end(s: str, i: int, is_final: bool) -> int:
    """Position behind the link target that opens at ``s[i]``; 0 when it is none, ``WAIT`` while that is open."""
    bound = i + LINK_BOUND
    space = first_of(s, i, bound, " \t\n")
    limit = min(bound, len(s)) if space == WAIT else space
    close = i
    for _ in range(LINK_PARENTHESES):
        close = s.find(")", close + 1, limit)
        if close < 0:
            break
        if s.count("(", i, close) == s.count(")", i, close + 1):
            return close + 1
    else:
        return 0
    if space == WAIT:
        return 0 if is_final or len(s) >= bound else WAIT
    title = _LINK_TITLE.match(s, space)
    if title:
        return title.end()
    rest = s[space : space + TITLE_BOUND]
    may_come = len(rest) < TITLE_BOUND and "\n" not in rest and rest.lstrip()[:1] in ("", '"', "'")
    return WAIT if may_come and not is_final else 0
