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
    speeds: tuple[float, float] = (1.0, 1.0)
    """The slowest and the fastest that words can be said."""

    @classmethod
    def with_lexicon(
        cls, path: Path | None, reads_phonemes: bool, has_cues: bool, speeds: tuple[float, float] = (1.0, 1.0)
    ) -> "Reader":
        """A reader with the pronunciations of a file. Raises ``LexiconError``."""
        entries = () if path is None else read_lexicon(path)
        lexicon = compile_lexicon(entries, EMPTY, reads_phonemes, MOST_SERVER_ENTRIES) if entries else EMPTY
        return cls(reads_phonemes, has_cues, lexicon, speeds)

    def front(self, utterance: Utterance) -> TextFront:
        """The text front of ``utterance``. Raises ``LexiconError`` and ``UnknownLanguageError``."""
        return TextFront(
            utterance.language,
            compile_lexicon(utterance.lexicon, self.lexicon, self.reads_phonemes),
            utterance.text_format,
            reads_phonemes=self.reads_phonemes,
            has_cues=self.has_cues,
            speeds=self.speeds,
        )
