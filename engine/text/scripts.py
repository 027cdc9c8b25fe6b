"""Scripts that are written without spaces, or that the voice cannot read: their pieces, and what language they tell.

A script is not a language: Han is written in Chinese and Japanese. So a piece gets a language only where its script has
but one that matters, and ``und-`` with the script otherwise.
"""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

from engine.text.dictionary import word_ends

_LANGUAGES = {
    "HIRAGANA": "ja", "KATAKANA": "ja", "KATAKANA-HIRAGANA": "ja", "HANGUL": "ko", "THAI": "th", "LAO": "lo",
    "KHMER": "km", "MYANMAR": "my", "GREEK": "el", "HEBREW": "he", "GEORGIAN": "ka", "ARMENIAN": "hy",
    "TIBETAN": "bo",
}  # fmt: skip
_SCRIPTS = {
    "LATIN": "Latn", "CJK": "Hani", "BOPOMOFO": "Bopo", "CYRILLIC": "Cyrl", "ARABIC": "Arab", "DEVANAGARI": "Deva",
    "BENGALI": "Beng", "TAMIL": "Taml", "TELUGU": "Telu", "GUJARATI": "Gujr", "GURMUKHI": "Guru", "KANNADA": "Knda",
    "MALAYALAM": "Mlym", "SINHALA": "Sinh", "ETHIOPIC": "Ethi",
}  # fmt: skip
_WRITTEN_IN = {
    "zh": {"CJK", "BOPOMOFO"}, "ja": {"CJK"}, "ru": {"CYRILLIC"}, "uk": {"CYRILLIC"}, "bg": {"CYRILLIC"},
    "sr": {"CYRILLIC", "LATIN"}, "ar": {"ARABIC"}, "fa": {"ARABIC"}, "ur": {"ARABIC"}, "hi": {"DEVANAGARI"},
    "mr": {"DEVANAGARI"}, "ne": {"DEVANAGARI"}, "bn": {"BENGALI"}, "ta": {"TAMIL"}, "te": {"TELUGU"},
}  # fmt: skip
"""Scripts of languages that share theirs; languages that are not here and have none of their own write Latin."""
_KANA = frozenset({"HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"})
_RUNS = frozenset({"KATAKANA", "KATAKANA-HIRAGANA"})
"""Without a dictionary a run of these is taken for a word, and each character of the other scripts."""
_FAMILIES = dict.fromkeys(_KANA | {"CJK", "IDEOGRAPHIC"}, "Jpan") | {
    script: script for script in ("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
}
"""Scripts without spaces; a word of Japanese may be written in three of them."""
_LOOK_AHEAD = {"Jpan": 4}
_MOST_LOOK_AHEAD = 12
"""Characters that must follow a word before its end is believed: with fewer a dictionary takes other words for the same
text (decision 0026)."""
_SMALL = frozenset("ぁぃぅぇぉゃゅょっゎゕゖァィゥェォャュョッヮヵヶー々ゝゞヽヾ")
"""Sound with the character before them."""


@lru_cache(maxsize=8192)
def _script(c: str) -> str:
    return unicodedata.name(c, "").split(" ", 1)[0]


def language_of(text: str, language: str) -> str:
    """BCP 47 tag of the first letter of ``text``, within a text in ``language``; that where there is no letter."""
    letter = next((c for c in text if c.isalpha()), None)
    if letter is None:
        return language
    script = "LATIN" if letter.isascii() else _script(letter)
    if script == "CJK" and any(_script(c) in _KANA for c in text):
        return "ja"
    own = _WRITTEN_IN.get(language) or (set() if language in _LANGUAGES.values() else {"LATIN", "MICRO"})
    if script in own:
        return language
    return _LANGUAGES.get(script) or f"und-{_SCRIPTS.get(script, 'Zyyy')}"


@lru_cache(maxsize=8192)
def family(c: str) -> str:
    """The scripts without spaces that words with ``c`` are written in; empty for all others, and for punctuation."""
    is_part = not c.isascii() and (c.isalnum() or unicodedata.category(c)[0] == "M")
    return _FAMILIES.get(_script(c), "") if is_part else ""


def belongs_to_the_last(c: str) -> bool:
    """Whether ``c`` goes with the character before it: marks, small kana, punctuation."""
    return c in _SMALL or not (c.isalnum() or _is_opener(c))


def without_openers(seen: Sequence[str]) -> int:
    """How many of these characters there are before the brackets and quotes that open at their end."""
    return next((i for i in range(len(seen), 0, -1) if not _is_opener(seen[i - 1])), 0)


def _is_opener(c: str) -> bool:
    return unicodedata.category(c) in ("Ps", "Pi")


def script_pieces(text: str) -> list[tuple[int, int]]:
    """Spans of the words in ``text``, in which no gap is: as dictionaries know them, or where the script changes.

    Punctuation goes with the word before it, at the beginning with the first.
    """
    return _pieces(text, _known_edges(text))


def _pieces(text: str, known: set[int] | None) -> list[tuple[int, int]]:
    edges, has_word = [0], bool(text) and text[0].isalnum()
    for i in range(1, len(text)):
        if has_word and _is_edge(text, i, known):
            edges.append(i)
            has_word = False
        has_word = has_word or text[i].isalnum()
    edges.append(len(text))
    return [(a, b) for a, b in zip(edges, edges[1:], strict=False) if a < b]


def first_word(text: str) -> int:
    """How long the first word of ``text`` is, in a script without spaces, if no text that follows can change that;
    0 if one can.
    """
    start = next((i for i, c in enumerate(text) if c.isalnum()), len(text))
    script = family(text[start]) if start < len(text) else ""
    if not script:
        return 0
    known = _known_edges(text)
    (_, end), *others = _pieces(text, known)
    if not others:
        return 0
    is_open = known is not None and all(family(c) == script for c in text[start:])
    return 0 if is_open and len(text) - end < _LOOK_AHEAD.get(script, _MOST_LOOK_AHEAD) else end


def _known_edges(text: str) -> set[int] | None:
    """Where words begin by the dictionaries; None without these."""
    known, at = set[int](), 0
    for script, letters in groupby(text, family):
        run = "".join(letters)
        if script:
            ends = word_ends(run)
            if ends is None:
                return None
            known.update(at + end for end in ends)
        at += len(run)
    return known


def _is_edge(text: str, i: int, known: set[int] | None) -> bool:
    """Whether a word begins at ``i``, if there is one before it."""
    c, before = text[i], text[i - 1]
    if known is not None and family(c) and family(c) == family(before):
        return i in known and unicodedata.category(c)[0] != "M"
    if belongs_to_the_last(c):
        return False
    is_new = _script(c) != _script(before) and not (_script(c) in _RUNS and _script(before) in _RUNS)
    return is_new or (bool(family(c)) and _script(c) not in _RUNS)
