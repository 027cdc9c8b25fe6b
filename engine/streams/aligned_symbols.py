"""The text beside the audio: words as symbols in a row, and where a voice may, or must, rest among them."""

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.codec.speeds import Speeds
from engine.text.words import Boundary, SpokenWord

SILENCE = 1
FIRST_PHONEME = 2
UNITS_PER_FRAME = 2


@dataclass(frozen=True)
class AlignedSettings:
    """What the checkpoint fixes and what the engine enforces; lengths in units (half frames)."""

    symbols: str
    """Characters of ids 2, 3, ..; one of them is the space between words."""
    look_behind: int = 2
    look_ahead: int = 6
    """L: symbols the model sees beyond B."""
    unit_ms: float = 25.0
    phoneme_cap: int = 24
    """Longest sound, or space between words."""
    pause_cap: int = 40
    """Longest punctuation mark, or silence between sentences."""
    lead_cap: int = 2
    """Longest silence before the first sound."""
    breath_symbols: int = 240
    """A text that has gone on for so long without a silence gets one at its next comma .."""
    most_symbols: int = 320
    """.. or, after so many, behind its next word: at a silence a long context can be let go."""
    end_frames: int = 3
    """Frames spent on the silence that closes a text before the utterance waits, or a turn ends."""
    speeds: Speeds | None = None
    """Those of the codec; None: 1 alone."""
    speed: float = 1.0
    """Of the whole utterance, by which those of words and frames are multiplied."""

    def __post_init__(self) -> None:
        # A frame moves the pointer by two symbols at most, so this keeps it among the known ones.
        assert self.look_ahead >= UNITS_PER_FRAME, self.look_ahead
        assert " " in self.symbols, self.symbols

    def spoken_speed(self, asked: float, hurry: float = 1.0) -> float:
        """What is spoken, if text and listener ask for these."""
        return self.speeds.nearest(self.speed * asked * hurry) if self.speeds else 1.0


@dataclass(frozen=True)
class PlacedWord:
    """A word and the symbols of its sound, ``first`` to ``last`` without the punctuation around them."""

    word: SpokenWord
    first: int
    last: int


@dataclass(frozen=True)
class Stop:
    """A silence behind which nothing may be looked at before the pointer has rested on it."""

    symbol: int
    is_asked: bool = False
    """The text asks for a pause; else it is the end of flushed text."""


@dataclass(frozen=True)
class TextMark:
    """How much text there was."""

    symbols: int
    words: int
    stops: int
    silence: int
    is_finished: bool


class Alphabet:
    """Ids of symbols, and which of them are sounds."""

    def __init__(self, symbols: str) -> None:
        self.ids = {symbol: FIRST_PHONEME + i for i, symbol in enumerate(symbols)}
        # Symbols of pauses rather than of sounds: SIL, space, punctuation, intonation arrows.
        self.pauses = {i for symbol, i in self.ids.items() if unicodedata.category(symbol)[0] in "PZS"} | {SILENCE}
        self.space = self.ids[" "]


@dataclass
class AlignedSymbols:
    """All there is to say, as symbols; the first is the silence before it."""

    settings: AlignedSettings
    alphabet: Alphabet
    symbols: list[int] = field(default_factory=lambda: [SILENCE])
    words: list[PlacedWord] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    silence: int = 0
    """The last silence of ``symbols``."""
    is_finished: bool = False

    def add(self, words: Sequence[SpokenWord]) -> None:
        """Append words. One without a known phoneme is silent and gets no time."""
        assert not self.is_finished
        for word in words:
            ids = [self.alphabet.ids[symbol] for symbol in word.phonemes if symbol in self.alphabet.ids]
            sounds = [i for i, symbol in enumerate(ids) if symbol not in self.alphabet.pauses]
            if sounds:
                if self.symbols[-1] != SILENCE:
                    self.symbols.append(self.alphabet.space)
                offset = len(self.symbols)
                self.words.append(PlacedWord(word, first=offset + sounds[0], last=offset + sounds[-1]))
                self.symbols.extend(ids)
            if word.boundary is Boundary.SENTENCE or self._needs_breath(word.boundary):
                self._close()
            if word.pause_ms:
                self._rest(word.pause_ms * self.settings.spoken_speed(word.speed))

    def flush(self) -> None:
        """Speak all there is and rest on a silence; what comes later starts behind it."""
        self._close()
        last = len(self.symbols) - 1
        if last > (self.stops[-1].symbol if self.stops else 0):
            self.stops.append(Stop(last))

    def _rest(self, pause_ms: float) -> None:
        """Rest on a silence for about ``pause_ms`` at speed 1: as many stops there as last so long.

        One less, since the voice rests about as long by itself before it goes on.
        """
        self._close()
        stop_ms = self.settings.end_frames * UNITS_PER_FRAME * self.settings.unit_ms
        stop = Stop(len(self.symbols) - 1, is_asked=True)
        self.stops += [stop] * max(1, round(pause_ms / stop_ms) - 1)

    def _close(self) -> None:
        """End the symbols with a silence."""
        if self.symbols[-1] != SILENCE:
            self.silence = len(self.symbols)
            self.symbols.append(SILENCE)

    def _needs_breath(self, boundary: Boundary) -> bool:
        most = self.settings.most_symbols if boundary is Boundary.NONE else self.settings.breath_symbols
        return len(self.symbols) - self.silence > most

    # What lies at a place

    def is_sound(self, place: int) -> bool:
        """Whether the symbol at ``place`` is heard."""
        return self.symbols[place] not in self.alphabet.pauses

    @property
    def last_sound(self) -> int:
        """Where the last word's sound ends; there has to be one."""
        return self.words[-1].last

    def sounds_until(self, place: int) -> int:
        """How many symbols before ``place`` are sounds."""
        return sum(symbol not in self.alphabet.pauses for symbol in self.symbols[:place])

    def cap(self, place: int) -> int:
        """Most units the symbol at ``place`` may last."""
        if place == 0:
            return self.settings.lead_cap
        is_rest = not self.is_sound(place) and self.symbols[place] != self.alphabet.space
        return self.settings.pause_cap if is_rest else self.settings.phoneme_cap

    def rest_after(self, place: int) -> int:
        """Where speech at ``place`` can wait: the pause behind its word; ``place`` itself if it is in no word."""
        word = self._word_at(place)
        return word.last + 1 if word is not None and place <= word.last else place

    def asked_speed(self, place: int) -> float:
        """What the text asks for at ``place``: the speed of the word there, or of the one before."""
        word = self._word_at(place)
        return 1.0 if word is None else word.word.speed

    def _word_at(self, place: int) -> PlacedWord | None:
        """The last word that begins at or before ``place``."""
        before = bisect_right(self.words, place, key=lambda placed: placed.first)
        return self.words[before - 1] if before else None

    # Going back

    @property
    def extent(self) -> int:
        """The symbol a next word's sound would begin with."""
        return len(self.symbols) + (self.symbols[-1] != SILENCE)

    def mark(self) -> TextMark:
        """How much there is."""
        return TextMark(len(self.symbols), len(self.words), len(self.stops), self.silence, self.is_finished)

    def cut(self, mark: TextMark) -> None:
        """Forget what came after ``mark``."""
        del self.symbols[mark.symbols :], self.words[mark.words :], self.stops[mark.stops :]
        self.silence, self.is_finished = mark.silence, mark.is_finished

    def copy(self) -> "AlignedSymbols":
        """An independent copy."""
        return replace(self, symbols=[*self.symbols], words=[*self.words], stops=[*self.stops])
