"""Scripts that are written without spaces, or that the voice cannot read: their pieces, and what language they tell.

A script is not a language: Han is written in Chinese and Japanese. So a piece gets a language only where its script has
but one that matters, and ``und-`` with the script otherwise.
"""

import unicodedata
from functools import lru_cache

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
_ONE_BY_ONE = frozenset({"CJK", "HIRAGANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"})
"""Each character is a piece: where words end only a dictionary could tell."""
_RUNS = frozenset({"KATAKANA", "KATAKANA-HIRAGANA"})
"""No spaces either, but a run of it is mostly one word."""
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
    own = _WRITTEN_IN.get(language) or (set() if language in _LANGUAGES.values() else {"LATIN", "MICRO"})
    if script in own:
        return language
    return _LANGUAGES.get(script) or f"und-{_SCRIPTS.get(script, 'Zyyy')}"


def is_unspaced(c: str) -> bool:
    """Whether ``c`` belongs to a script that puts no spaces between words."""
    return not c.isascii() and _script(c) in _ONE_BY_ONE | _RUNS


def belongs_to_the_last(c: str) -> bool:
    """Whether ``c`` goes with the character before it: marks, small kana, punctuation."""
    return c in _SMALL or not (c.isalnum() or unicodedata.category(c) in ("Ps", "Pi"))


def script_pieces(text: str) -> list[tuple[int, int]]:
    """Spans of the words in a run of letters without spaces: characters, or runs of one script."""
    edges = [0]
    for i in range(1, len(text)):
        c, before = text[i], text[i - 1]
        if belongs_to_the_last(c):
            continue
        is_new = _script(c) != _script(before) and not (_script(c) in _RUNS and _script(before) in _RUNS)
        if is_new or _script(c) in _ONE_BY_ONE:
            edges.append(i)
    edges.append(len(text))
    return [(a, b) for a, b in zip(edges, edges[1:], strict=False) if a < b]
