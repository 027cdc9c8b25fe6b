"""The incremental text front: text in pieces of any size to words with phonemes.

Characters go through the cleaner (markup), the assembler (words), the normaliser (spoken forms) and the phonemiser. A
word comes out when nothing that follows can change it: most when the next word begins, a few when the next word is
complete.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from engine.core import TextFormat
from engine.errors import UnknownLanguageError, UtteranceStateError
from engine.lexicon import EMPTY, Lexicon
from engine.text.assemble import Assembler
from engine.text.clean import MOST_NOTICES, Cleaner
from engine.text.grammar import warm_grammar
from engine.text.letters import letter_name
from engine.text.markdown import MarkdownCleaner
from engine.text.normalise import Left, Reading, needs_next, read
from engine.text.phonemes import ANY_WORD, LEFT_WINDOW, needs_next_sound, phonemise_word, warm_phonemes
from engine.text.render import respelled
from engine.text.ssml import SsmlCleaner
from engine.text.structure import StructureGuard
from engine.text.words import Boundary, Kind, RawWord, SpokenWord

LANGUAGES = ("en",)
"""Languages with rules and phonemes of their own here."""

__all__ = ["Boundary", "SpokenWord", "TextFront", "explain", "warm"]


class TextFront:
    """Text of one utterance to spoken words.

    The words do not depend on how the text was cut into messages; only a flush, which speaks everything held back, is a
    seam. For a voice that reads phonemes, text of scripts that it cannot say is left out and counted in ``skipped``;
    for a model that reads text nothing is respelled but by the lexicon, in any language.
    """

    def __init__(
        self,
        language: str = "en",
        lexicon: Lexicon = EMPTY,
        text_format: TextFormat = TextFormat.MARKDOWN,
        *,
        reads_phonemes: bool = True,
        has_cues: bool = False,
        shows_silent: bool = False,
        speeds: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        """``has_cues``: the model that reads the text understands directions in brackets and tags of its own.
        ``speeds``: the slowest and the fastest that can be asked for in the text.

        ``shows_silent``: give what this voice does not say as well, as pieces without a sound. Raises
        ``UnknownLanguageError`` for phonemes of a language other than English.
        """
        primary = language.replace("_", "-").split("-")[0].lower()
        if reads_phonemes and primary not in LANGUAGES:
            raise UnknownLanguageError(f"the text front does not read {language!r}; it reads {', '.join(LANGUAGES)}")
        assert not (reads_phonemes and has_cues), "a direction has no phonemes"
        self.language = language
        self.shows_silent = shows_silent
        self.chars_received = 0
        """Code points read so far."""
        self._reads_phonemes = reads_phonemes
        self._has_speakers = has_cues and text_format is TextFormat.MARKDOWN
        self._guard = StructureGuard(self._has_speakers)
        self._words = Assembler(self._original, primary, reads_phonemes, has_cues, lexicon.is_dotted)
        self._cleaner = _cleaner(self._words, text_format, primary, reads_phonemes, has_cues, speeds)
        self._recent = ""
        self._recent_from = 0
        self._lexicon = lexicon
        self._left = Left()
        self._sentence: list[str] = []
        self._silent = 0
        self._primary = primary
        self._unspoken: set[str] = set()
        """Languages of what was left out, as told."""
        self._notices: list[str] = []
        self._is_finished = False

    @property
    def skipped(self) -> int:
        """Words left out because the voice cannot say them."""
        return self._words.skipped + self._silent

    def append(self, text: str) -> list[SpokenWord]:
        """Take more text; gives the words that are certain now. Raises what ``check`` raises."""
        self.check(text)
        return self.read(text)

    def check(self, text: str) -> None:
        """Take ``text`` as the next to be read, without reading it yet: ``read`` wants all of it, in any pieces.

        Raises ``StructuralTokenError`` when the text, with what came before, holds prompt structure such as
        ``<|im_end|>``, ``TextError`` for half a surrogate pair and ``UtteranceStateError`` after ``finish``; the state
        is then as before the call.
        """
        if self._is_finished:
            raise UtteranceStateError("the text was finished; open a new utterance for more")
        self._guard.check(text)

    def recheck(self, before: str, text: str) -> None:
        """Take ``text`` as the next to be read in place of all that was checked but not read; ``before`` is what stands
        in front of it. Raises what ``check`` raises for text.
        """
        guard = StructureGuard(self._has_speakers)
        guard.check(before)
        guard.check(text)
        self._guard = guard

    def copy(self) -> "TextFront":
        """An independent copy, to go back to."""
        return copy.deepcopy(self, {id(self._lexicon): self._lexicon})

    def read(self, text: str) -> list[SpokenWord]:
        """Read the next checked text; gives the words that are certain now."""
        self.chars_received += len(text)
        self._recent += text
        self._cleaner.feed(text)
        spoken = self._speak(is_closed=False)
        self._forget()
        return spoken

    def flush(self) -> list[SpokenWord]:
        """Speak everything held back now; text may continue after."""
        if self._is_finished:
            return []
        self._cleaner.close()
        self._words.close()
        spoken = self._speak(is_closed=True)
        self._forget()
        return spoken

    def finish(self) -> list[SpokenWord]:
        """Speak everything held back; the text ends here, and with it the sentence."""
        if self._is_finished:
            return []
        self._cleaner.close()
        self._words.line_boundary(Boundary.SENTENCE)
        spoken = self._speak(is_closed=True)
        self._is_finished = True
        return spoken

    def _original(self, start: int, end: int) -> str:
        return self._recent[start - self._recent_from : end - self._recent_from]

    def _forget(self) -> None:
        """Drop the text that no word can need any more."""
        needed = self._cleaner.held_from if self._words.open_from is None else self._words.open_from
        self._recent = self._recent[needed - self._recent_from :]
        self._recent_from = needed

    def take_notices(self) -> list[str]:
        """What was asked for in the text read since the last call and cannot be done, each with its place."""
        notices = self._cleaner.notices + self._notices
        self._cleaner.notices, self._notices = [], []
        return notices

    def _speak(self, is_closed: bool) -> list[SpokenWord]:
        """Words that are certain, in order."""
        queue, spoken = self._words.words, list[SpokenWord]()
        while queue and queue[0].is_settled:
            word = queue[0]
            if word.kind is not Kind.WORD or not self._reads_phonemes:
                queue.popleft()
                spoken += self._as_it_stands(word)
                continue
            following = _following(word, queue)
            is_waited_for = needs_next(word)
            is_open = following is None and not is_closed and not word.is_last
            if is_open and (is_waited_for or _needs_next_sound(word)):
                break
            queue.popleft()
            if following is not None and following.kind is not Kind.WORD:
                following = None
            # What happens to be known must not count, or the reading would depend on how the text was cut.
            reading = read(self._left, word, following if is_waited_for else None, self._lexicon)
            self._left = reading.left
            if reading.spoken:
                spoken += self._word(word, reading, following)
            elif not word.is_operator:
                spoken += self._unsaid(word)
        return spoken

    def _as_it_stands(self, word: RawWord) -> Sequence[SpokenWord]:
        """A pause, a cue, what the voice does not say, or a word for a model that reads text."""
        if word.kind is Kind.SILENT:
            self._tell_unspoken(word)
            if not self.shows_silent:
                return ()
        spoken, visible = "", word.visible
        if word.kind is Kind.WORD:
            given = self._lexicon.get(word.core)
            spoken = word.said or (" ".join(given.spoken) if given else word.core)
            visible = respelled(visible, word.core, spoken) if given else visible
        elif word.kind is Kind.PAUSE:
            self._sentence, self._left = [], Left()
        return (
            SpokenWord(
                word.text, spoken, word.start, word.end, "", word.boundary, word.kind, word.language, word.pause_ms,
                visible, word.tags, word.speaker, word.speed,
            ),
        )  # fmt: skip

    def _tell_unspoken(self, word: RawWord) -> None:
        """Say once for each language that the voice does not speak it."""
        if word.language == self._primary or word.language in self._unspoken or len(self._unspoken) >= MOST_NOTICES:
            return
        self._unspoken.add(word.language)
        told = f"what is written in {word.language!r} is not spoken by this voice and left out"
        self._notices.append(f"character {word.start}: {told}")

    def _word(self, word: RawWord, reading: Reading, following: RawWord | None) -> Sequence[SpokenWord]:
        sound_after = ""
        if not reading.pause and (word.follower or following is not None):
            sound_after = ANY_WORD
            if following is not None and _needs_next_sound(word):
                alone = replace(following, follower="")
                sound_after = (read(reading.left, alone, None, self._lexicon).spoken.split() or [ANY_WORD])[0]
        is_alone = not self._sentence and reading.boundary is Boundary.SENTENCE
        letter_or_words = letter_name("A") if is_alone and reading.spoken in ("a", "A") else reading.spoken
        phonemes = phonemise_word(self._sentence, letter_or_words, reading.pause, sound_after, reading.phonemes)
        if not phonemes:
            return self._unsaid(word)
        if reading.boundary is Boundary.SENTENCE:
            self._sentence = []
        else:
            said = reading.spoken.split()
            said[-1] += reading.pause
            self._sentence = [*self._sentence, *said][-LEFT_WINDOW:]
        spoken = SpokenWord(word.text, reading.spoken, word.start, word.end, phonemes, reading.boundary)
        return (replace(spoken, speed=word.speed),)

    def _unsaid(self, word: RawWord) -> Sequence[SpokenWord]:
        self._silent += 1
        word.kind = Kind.SILENT
        return self._as_it_stands(word)


def _cleaner(
    words: Assembler,
    text_format: TextFormat,
    language: str,
    reads_phonemes: bool,
    has_cues: bool,
    speeds: tuple[float, float],
) -> Cleaner:
    match text_format:
        case TextFormat.PLAIN:
            return Cleaner(words)
        case TextFormat.MARKDOWN:
            return MarkdownCleaner(words, has_cues)
        case TextFormat.SSML:
            return SsmlCleaner(words, language, reads_phonemes, speeds)


def _following(word: RawWord, queue: Sequence[RawWord]) -> RawWord | None:
    """What stands behind the first word of ``queue`` and counts for it: silent pieces do not."""
    if word.is_last:
        return None
    return next((each for each in islice(queue, 1, None) if each.kind is not Kind.SILENT), None)


def _needs_next_sound(word: RawWord) -> bool:
    return not word.pause and needs_next_sound(word.core)


def explain(text: str, language: str = "en", text_format: TextFormat = TextFormat.MARKDOWN) -> list[SpokenWord]:
    """How ``text`` would be spoken, all at once."""
    front = TextFront(language, text_format=text_format)
    return [*front.append(text), *front.finish()]


def warm(language: str = "en") -> None:
    """Load lexicons, grammars and models, about a second, so that no utterance pays for it."""
    warm_phonemes()
    warm_grammar()
    explain("Dr. Smith paid $20 on May 5.", language)
