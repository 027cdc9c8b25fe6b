"""Short ways to read a text in tests."""

from collections.abc import Mapping, Sequence

from engine.core import LexiconEntry, TextFormat
from engine.lexicon import EMPTY, Lexicon, compile_lexicon
from engine.text.front import TextFront
from engine.text.words import SpokenWord


def lexicon_of(say: Mapping[str, str] | None = None, ipa: Mapping[str, str] | None = None) -> Lexicon:
    """A lexicon of respellings and transcriptions."""
    entries = [LexiconEntry(word, say=said) for word, said in (say or {}).items()]
    return compile_lexicon((*entries, *(LexiconEntry(word, ipa=said) for word, said in (ipa or {}).items())))


def fed(front: TextFront, text: str, cuts: Sequence[int] = ()) -> list[SpokenWord]:
    """``text`` through ``front``, cut at ``cuts``."""
    edges = [0, *sorted(c % (len(text) + 1) for c in cuts), len(text)]
    words = [word for a, b in zip(edges, edges[1:], strict=False) for word in front.append(text[a:b])]
    return words + front.finish()


def pieces(text: str, text_format: str = "markdown", lexicon: Lexicon = EMPTY) -> list[SpokenWord]:
    """All pieces of ``text``, silent ones too."""
    return fed(TextFront("en", lexicon, TextFormat(text_format), shows_silent=True), text)


def said(text: str, text_format: str = "markdown", lexicon: Lexicon = EMPTY) -> str:
    """Spoken forms of ``text`` with their pauses; ``/`` after a clause, ``//`` after a sentence, ``<ms>`` a pause."""
    marks = {"none": "", "clause": "/", "sentence": "//"}
    parts = list[str]()
    for word in pieces(text, text_format, lexicon):
        if word.pause_ms:
            parts.append(f"<{word.pause_ms}>")
        elif word.spoken:
            pause = word.phonemes[len(word.phonemes.rstrip(",.!?;:")) :]
            parts.append(word.spoken + pause + marks[word.boundary])
    return " ".join(parts)
