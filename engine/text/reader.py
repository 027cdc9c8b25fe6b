"""How the texts of one model's utterances are read: what the model takes, and the pronunciations of its server."""

from dataclasses import dataclass
from pathlib import Path

from engine.core import Utterance
from engine.lexicon import EMPTY, MOST_SERVER_ENTRIES, Lexicon, compile_lexicon, read_lexicon
from engine.text.front import TextFront


@dataclass(frozen=True)
class Reader:
    """Makes the text front of each utterance."""

    reads_phonemes: bool = True
    has_cues: bool = False
    lexicon: Lexicon = EMPTY
    """Behind that of the utterance."""

    @classmethod
    def with_lexicon(cls, path: Path | None, reads_phonemes: bool, has_cues: bool) -> "Reader":
        """A reader with the pronunciations of a file. Raises ``LexiconError``."""
        if path is None:
            return cls(reads_phonemes, has_cues)
        entries = read_lexicon(path)
        return cls(reads_phonemes, has_cues, compile_lexicon(entries, EMPTY, reads_phonemes, MOST_SERVER_ENTRIES))

    def front(self, utterance: Utterance) -> TextFront:
        """The text front of ``utterance``. Raises ``LexiconError`` and ``UnknownLanguageError``."""
        return TextFront(
            utterance.language,
            compile_lexicon(utterance.lexicon, self.lexicon, self.reads_phonemes),
            utterance.text_format,
            reads_phonemes=self.reads_phonemes,
            has_cues=self.has_cues,
        )
