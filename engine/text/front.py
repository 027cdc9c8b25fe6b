"""The incremental text front: text in pieces of any size to words with phonemes.

Characters go through the cleaner (markup), the assembler (words), the normaliser (spoken forms) and the phonemiser. A
word comes out when nothing that follows can change it: most when the next word begins, a few when the next word is
complete.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.errors import UnknownLanguageError, UtteranceStateError
from engine.text.assemble import Assembler
from engine.text.clean import Cleaner
from engine.text.grammar import warm_grammar
from engine.text.normalise import Left, Reading, needs_next, read
from engine.text.phonemes import ANY_WORD, LEFT_WINDOW, NEEDS_NEXT_SOUND, phonemise_word, warm_phonemes
from engine.text.structure import StructureGuard
from engine.text.words import Boundary, RawWord, SpokenWord

LANGUAGES = ("en",)

__all__ = ["Boundary", "SpokenWord", "TextFront", "explain", "warm"]


class TextFront:
    """Text of one utterance to spoken words.

    The words do not depend on how the text was cut into messages; only a flush, which speaks everything held back, is a
    seam. Text of scripts that the voice cannot say is left out and counted in ``skipped``.
    """

    def __init__(self, language: str = "en", lexicon: Mapping[str, str] | None = None) -> None:
        """``lexicon`` respells words, as written or in lower case ("Siobhan" as "shivawn").

        Raises ``UnknownLanguageError`` for a language other than English.
        """
        if language.replace("_", "-").split("-")[0].lower() not in LANGUAGES:
            raise UnknownLanguageError(f"the text front does not read {language!r}; it reads {', '.join(LANGUAGES)}")
        self.language = language
        self.chars_received = 0
        """Code points read so far."""
        self._guard = StructureGuard()
        self._words = Assembler(self._original)
        self._cleaner = Cleaner(self._words)
        self._recent = ""
        self._recent_from = 0
        respelled = {word: " ".join(spelling.split()) for word, spelling in (lexicon or {}).items()}
        self._lexicon = {word: spelling for word, spelling in respelled.items() if any(map(str.isalpha, spelling))}
        self._left = Left()
        self._sentence: list[str] = []
        self._silent = 0
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
        guard = StructureGuard()
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

    def _speak(self, is_closed: bool) -> list[SpokenWord]:
        """Words that are certain, in order."""
        queue, spoken = self._words.words, list[SpokenWord]()
        while queue and queue[0].is_settled:
            word = queue[0]
            following = queue[1] if len(queue) > 1 else None
            is_waited_for = needs_next(word)
            if following is None and not is_closed and (is_waited_for or _needs_next_sound(word)):
                break
            queue.popleft()
            # What happens to be known must not count, or the reading would depend on how the text was cut.
            reading = read(self._left, word, following if is_waited_for else None, self._lexicon)
            self._left = reading.left
            if reading.spoken:
                spoken.extend(self._word(word, reading, following))
            elif not word.is_operator:
                self._silent += 1
        return spoken

    def _word(self, word: RawWord, reading: Reading, following: RawWord | None) -> Sequence[SpokenWord]:
        sound_after = ""
        if not reading.pause and (word.follower or following is not None):
            sound_after = ANY_WORD
            if following is not None and _needs_next_sound(word):
                alone = replace(following, follower="")
                sound_after = (read(reading.left, alone, None, self._lexicon).spoken.split() or [ANY_WORD])[0]
        phonemes = phonemise_word(self._sentence, reading.spoken, reading.pause, sound_after)
        if not phonemes:
            self._silent += 1
            return ()
        if reading.boundary is Boundary.SENTENCE:
            self._sentence = []
        else:
            said = reading.spoken.split()
            said[-1] += reading.pause
            self._sentence = [*self._sentence, *said][-LEFT_WINDOW:]
        return (SpokenWord(word.text, reading.spoken, word.start, word.end, phonemes, reading.boundary),)


def _needs_next_sound(word: RawWord) -> bool:
    return not word.pause and word.core.lower() in NEEDS_NEXT_SOUND


def explain(text: str, language: str = "en") -> list[SpokenWord]:
    """How ``text`` would be spoken, all at once."""
    front = TextFront(language)
    return [*front.append(text), *front.finish()]


def warm(language: str = "en") -> None:
    """Load lexicons, grammars and models, about a second, so that no utterance pays for it."""
    warm_phonemes()
    warm_grammar()
    explain("Dr. Smith paid $20 on May 5.", language)
