"""The International Phonetic Alphabet to the phonemes of the voice (misaki's alphabet, one character a sound).

American English sounds and their usual spellings in IPA; a symbol that stands for none of them is an error, because a
guess would be heard. Standard library only.
"""

import unicodedata

from engine.errors import LexiconError

VOWELS = "AIOWYæɐɑɔəɛɜɪiʊuʌᵊᵻ"
_CONSONANTS = "Tbdfhjklmnpstvwzðŋɡɹʃʒʤʧθ"
_STRESS = "ˈˌ"

_SEQUENCES = {
    "eɪ": "A", "ei": "A", "aɪ": "I", "ai": "I", "oʊ": "O", "əʊ": "O", "ou": "O", "aʊ": "W", "au": "W", "ɔɪ": "Y",
    "oɪ": "Y", "ɔi": "Y", "tʃ": "ʧ", "dʒ": "ʤ", "n̩": "ᵊn", "l̩": "ᵊl", "m̩": "ᵊm", "ɪə": "ɪɹ", "ɛə": "ɛɹ", "ʊə": "ʊɹ",
    "ɜ˞": "ɜɹ", "ə˞": "əɹ",
}  # fmt: skip
_SINGLE = {
    "r": "ɹ", "ɻ": "ɹ", "ɾ": "T", "g": "ɡ", "ɫ": "l", "e": "ɛ", "o": "O", "a": "ɑ", "ɒ": "ɑ", "ɝ": "ɜɹ", "ɚ": "əɹ",
    "ɨ": "ᵻ", "ʉ": "u", "ʍ": "w", "ɦ": "h", "'": "ˈ", "’": "ˈ", "`": "ˌ",
}  # fmt: skip
_SILENT = frozenset("ː:ˑ.‿͜͡-/[]\u0361\u032f\u02b0\u0303")
"""Length, syllables, ties, brackets around a transcription; aspiration and nasality, which English does not tell."""

KNOWN = "".join(sorted({*VOWELS, *_CONSONANTS, *_STRESS, *_SINGLE, *"".join(_SEQUENCES)} - set("'’`")))


def from_ipa(transcription: str) -> str:
    """Phonemes for ``transcription``: "ˈnuːjɚk" gives "nˈujəɹk"; words stay apart.

    Stress marks move to their vowel, where the voice expects them. Raises ``LexiconError`` for a symbol that is no
    sound of English, and for a transcription without a sound.
    """
    plain = unicodedata.normalize("NFD", transcription)
    plain = "".join(c for c in plain if c not in _SILENT)
    sounds, i = [], 0
    while i < len(plain):
        pair, c = plain[i : i + 2], plain[i]
        if pair in _SEQUENCES:
            sounds.append(_SEQUENCES[pair])
            i += 2
            continue
        if c.isspace():
            sounds.append(" ")
        elif c in _SINGLE:
            sounds.append(_SINGLE[c])
        elif c in VOWELS or c in _CONSONANTS or c in _STRESS:
            sounds.append(c)
        else:
            name = unicodedata.name(c, f"U+{ord(c):04X}").lower()
            raise LexiconError(f"{c!r} ({name}) in {transcription!r} is no sound this voice knows; it knows {KNOWN}")
        i += 1
    words = ["".join(_stress_on_vowel(word)) for word in "".join(sounds).split()]
    if not any(c in VOWELS or c in _CONSONANTS for word in words for c in word):
        raise LexiconError(f"{transcription!r} has no sound")
    return " ".join(word for word in words if word)


def _stress_on_vowel(word: str) -> list[str]:
    """``word`` with each stress mark directly before the next vowel; dropped where there is none."""
    placed, stress = list[str](), ""
    for c in word:
        if c in _STRESS:
            stress = c
            continue
        if c in VOWELS and stress:
            placed.append(stress)
            stress = ""
        placed.append(c)
    return placed
