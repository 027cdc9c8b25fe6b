"""What single characters are to the text front: seen, a gap between words, a new line, or nothing."""

import unicodedata
from functools import lru_cache
from typing import Literal

CharacterClass = Literal["seen", "gap", "line", "nothing"]

LINE_ENDS = frozenset("\n\x0b\x0c\x85\u2028\u2029")
SPOKEN_SIGNS = frozenset("°№℃℉")
SILENT_MARKS = frozenset("©®™℠")
MATHS_SIGNS = frozenset("+<=>|~¬±×÷−∓∗∙√∞≈≠≡≤≥∑∏∫∂")
SUPERSCRIPTS = frozenset("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ")
PICTURE_BLOCK = range(0x1F000, 0x20000)

# Pauses and quotes of other scripts, read as ours.
_PAUSES_OF_OTHER_SCRIPTS = str.maketrans(
    {
        "。": ".",
        "｡": ".",
        "।": ".",
        "॥": ".",
        "۔": ".",
        "，": ",",
        "、": ",",
        "､": ",",
        "،": ",",
        "！": "!",
        "？": "?",
        "؟": "?",
    }
    | {"；": ";", "؛": ";", "：": ":", "・": " ", "·": " ", "「": '"', "」": '"', "『": '"', "』": '"'}
)


FOREIGN_PAUSES = frozenset("。｡।॥۔，、､،！？؟；؛：")
"""No space need follow these."""


@lru_cache(maxsize=8192)
def character_class(c: str) -> CharacterClass:
    """What the character ``c`` is to the text front."""
    if c in LINE_ENDS:
        return "line"
    category = unicodedata.category(c)
    if category == "Zs" or c in "\t\r":
        return "gap"
    if category in ("Cc", "Cf") or c in SILENT_MARKS or 0xFE00 <= ord(c) <= 0xFE0F or c == "\u20e3":
        return "nothing"
    if category in ("Co", "Cn"):
        return "gap"
    if category == "So":
        return "seen" if c in SPOKEN_SIGNS else "gap"
    if category == "Sk" and c not in "^`":
        return "nothing" if ord(c) in PICTURE_BLOCK else "gap"
    if category == "Sm":
        return "seen" if c in MATHS_SIGNS else "gap"
    return "seen"


@lru_cache(maxsize=8192)
def folded(c: str) -> str:
    """``c`` in the form the rules are written for: compatibility forms and foreign pauses as plain ones.

    Superscripts and fractions stay, since "x²" is not "x2".
    """
    c = c.translate(_PAUSES_OF_OTHER_SCRIPTS)
    if c.isascii() or c in "…№":
        return c
    if c.isdecimal():
        return str(unicodedata.decimal(c))
    plain = unicodedata.normalize("NFKC", c)
    return c if c in SUPERSCRIPTS or "⁄" in plain else plain


@lru_cache(maxsize=8192)
def is_foreign_letter(c: str) -> bool:
    """Whether ``c`` belongs to a script that English phonemes cannot say. Greek letters have names, so they are not."""
    if c.isascii() or not (c.isalpha() or unicodedata.category(c) in ("Mc", "Lm", "Lo", "Nl")):
        return False
    name = unicodedata.name(c, "")
    return not name.startswith(("LATIN", "GREEK", "MICRO", "FEMININE ORDINAL", "MASCULINE ORDINAL", "KELVIN", "OHM"))


@lru_cache(maxsize=8192)
def is_greek(c: str) -> bool:
    """Whether ``c`` is a Greek letter."""
    return not c.isascii() and unicodedata.name(c, "").startswith("GREEK")


_NOT_DECOMPOSED = str.maketrans(
    {"ß": "ss", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D"}
    | {"ı": "i", "þ": "th", "Þ": "Th", "ð": "th", "’": "'", "‘": "'", "ʼ": "'"}
)


def to_ascii(word: str) -> str:
    """``word`` with Latin letters stripped of their marks, other characters that are not ASCII dropped."""
    if word.isascii():
        return word
    decomposed = unicodedata.normalize("NFKD", word.translate(_NOT_DECOMPOSED))
    return "".join(c for c in decomposed if c.isascii())
