"""Pronunciations that a client gives, checked before anything is spoken."""

from collections.abc import Sequence

from engine.core import LexiconEntry, ModelInfo
from engine.errors import LexiconError
from engine.lexicon import compile_lexicon
from realtime.protocol import ErrorCode, Pronunciation


def entries_of(given: Sequence[Pronunciation]) -> tuple[LexiconEntry, ...]:
    """The entries for the engine. Of two for a word the later one counts."""
    return tuple({each.word: LexiconEntry(each.word, each.say, each.ipa) for each in given}.values())


def lexicon_problem(given: Sequence[Pronunciation], info: ModelInfo) -> tuple[ErrorCode, str] | None:
    """What is wrong with ``given``, if anything."""
    try:
        compile_lexicon(entries_of(given), reads_phonemes=info.reads_phonemes)
    except LexiconError as error:
        return ErrorCode.BAD_LEXICON, str(error)
    return None
