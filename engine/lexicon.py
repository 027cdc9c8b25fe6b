"""Pronunciations that a server or a client gives for words of its own: entries, checked and worked out.

Standard library only, so that the gateway can refuse a bad lexicon before anything is spoken.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.core import LexiconEntry
from engine.errors import LexiconError
from engine.text.ipa import from_ipa

MOST_ENTRIES = 1000
"""Of a session or a context."""
MOST_SERVER_ENTRIES = 20_000
MOST_FILE_BYTES = 4 * 1024 * 1024
LONGEST_WORD = 64
LONGEST_PRONUNCIATION = 256
"""Characters of what is said for a word, with the entries in it worked out."""
DEEPEST = 32
"""Entries that may lead to each other."""


@dataclass(frozen=True)
class Pronunciation:
    """What is said for a word: as many words, each with phonemes where the lexicon gives them, else None."""

    spoken: tuple[str, ...]
    phonemes: tuple[str | None, ...]


class Lexicon:
    """Words to what is said for them; an entry without a capital letter fits its word in any case."""

    def __init__(self, pronunciations: Mapping[str, Pronunciation]) -> None:
        self._pronunciations = pronunciations
        self.dotted = frozenset(word[:-1] for word in pronunciations if word.endswith("."))
        """Words whose full stop belongs to them."""

    def __len__(self) -> int:
        return len(self._pronunciations)

    def __deepcopy__(self, memo: object) -> "Lexicon":
        """Itself: it never changes."""
        return self

    def get(self, word: str) -> Pronunciation | None:
        """What is said for ``word``, as written or in lower case, with or without its full stop."""
        if not self._pronunciations:
            return None
        found = self._pronunciations.get(word) or self._pronunciations.get(word.lower())
        return self.get(word[:-1]) if found is None and word.endswith(".") else found

    def is_dotted(self, word: str) -> bool:
        """Whether the full stop behind ``word`` belongs to it."""
        return word in self.dotted or word.lower() in self.dotted


EMPTY = Lexicon({})


@lru_cache(maxsize=64)
def compile_lexicon(
    entries: tuple[LexiconEntry, ...], base: Lexicon = EMPTY, reads_phonemes: bool = True, most: int = MOST_ENTRIES
) -> Lexicon:
    """``entries`` worked out, those of ``base`` behind them. Of two entries for a word the later one counts.

    The words of a respelling are looked up too: among ``entries`` and then in ``base``, which is worked out already.
    Raises ``LexiconError`` for an entry that cannot be used, one that leads back to itself, and too many.
    """
    if len(entries) > most:
        raise LexiconError(f"a lexicon may have {most} entries, not {len(entries)}")
    given = {entry.word: entry for entry in entries}
    done: dict[str, Pronunciation] = {}
    for entry in given.values():
        _check(entry, reads_phonemes)
    for word in given:
        _work_out(word, given, base, done, ())
    return Lexicon({**base._pronunciations, **done})


def read_lexicon(path: Path) -> tuple[LexiconEntry, ...]:
    """Entries of a TOML file with tables ``[say]`` and ``[ipa]``: words to what is said for them.

    Raises ``LexiconError`` for a file that cannot be read or holds anything else.
    """
    try:
        if path.stat().st_size > MOST_FILE_BYTES:
            raise LexiconError(f"{path} is larger than {MOST_FILE_BYTES} bytes")
        tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LexiconError(f"cannot read the lexicon {path}: {error}") from error
    entries = list[LexiconEntry]()
    for kind, table in tables.items():
        if kind not in ("say", "ipa") or not isinstance(table, Mapping):
            raise LexiconError(f"{path}: a lexicon has the tables [say] and [ipa], not {kind!r}")
        for word, said in table.items():
            if not isinstance(said, str):
                raise LexiconError(f"{path}: what is said for {word!r} must be a string")
            entries.append(LexiconEntry(word, **{kind: said}))
    twice = _first_twice(entry.word for entry in entries)
    if twice is not None:
        raise LexiconError(f"{path}: {twice!r} stands in both tables")
    return tuple(entries)


def _first_twice(words: Iterable[str]) -> str | None:
    seen = set[str]()
    for word in words:
        if word in seen:
            return word
        seen.add(word)
    return None


def _check(entry: LexiconEntry, reads_phonemes: bool) -> None:
    """Raise ``LexiconError`` for an entry that could never be said."""
    word = entry.word
    shown = repr(word[:LONGEST_WORD])
    if not 0 < len(word) <= LONGEST_WORD or any(c.isspace() for c in word) or not any(c.isalnum() for c in word):
        raise LexiconError(f"{shown} is no word: 1 to {LONGEST_WORD} characters, no spaces, a letter or digit")
    if (entry.say is None) == (entry.ipa is None):
        raise LexiconError(f"{shown} needs one of 'say' and 'ipa'")
    said = entry.say if entry.ipa is None else entry.ipa
    assert said is not None
    if len(said) > LONGEST_PRONUNCIATION:
        raise LexiconError(f"what is said for {shown} has more than {LONGEST_PRONUNCIATION} characters")
    if entry.ipa is not None:
        if not reads_phonemes:
            raise LexiconError(f"{shown}: this model reads text, not phonemes; respell it with 'say'")
        try:
            from_ipa(entry.ipa)
        except LexiconError as error:
            raise LexiconError(f"{shown}: {error}") from error
        return
    odd = sorted({c for c in said if not (c.isalpha() or c.isspace() or c in "'’-.")})
    if odd or not any(c.isalpha() for c in said):
        raise LexiconError(
            f"what is said for {shown} must be words of letters (figures written out), not {said[:LONGEST_WORD]!r}"
        )


def _work_out(
    word: str,
    given: Mapping[str, LexiconEntry],
    base: Lexicon,
    done: dict[str, Pronunciation],
    above: tuple[str, ...],
) -> Pronunciation:
    """What is said for ``word`` of ``given``; ``above``: the words whose respelling led here."""
    if word in above:
        loop = " -> ".join([*above[above.index(word) :], word])
        raise LexiconError(f"the lexicon never ends: {loop}")
    if word in done:
        return done[word]
    if len(above) >= DEEPEST:
        raise LexiconError(f"{above[0]!r} leads through more than {DEEPEST} entries")
    entry = given[word]
    if entry.ipa is not None:
        # One word of the text is one word to those around it, however many the transcription has.
        done[word] = Pronunciation((word,), (from_ipa(entry.ipa),))
        return done[word]
    assert entry.say is not None
    spoken, phonemes = list[str](), list[str | None]()
    for part in entry.say.split():
        name = part if part in given else part.lower()
        found = _work_out(name, given, base, done, (*above, word)) if name in given else base.get(part)
        spoken += found.spoken if found else (part,)
        phonemes += found.phonemes if found else (None,)
        if sum(map(len, spoken)) + len(spoken) > LONGEST_PRONUNCIATION:
            raise LexiconError(f"what is said for {word!r} grows beyond {LONGEST_PRONUNCIATION} characters")
    done[word] = Pronunciation(tuple(spoken), tuple(phonemes))
    return done[word]
