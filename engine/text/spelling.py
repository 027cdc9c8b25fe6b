"""Words without a reading of their own: what is spelled letter by letter, and sounds that people write down."""

import re

CONSONANTS_TOGETHER = 6
"""Of the longest run that words have: "Angstschweiß", "Herbststurm"; longer ones are keys struck at random."""
CONSONANTS_AT_START = 4
_VOWEL = re.compile(r"[aeiouy]", re.IGNORECASE)
_ONE_SOUND = re.compile(r"sch|tch|[cgkprst]h|ck|[tcsr]z|ts|([^aeiouy])\1+", re.IGNORECASE)
_CONSONANT_RUN = re.compile(r"[bcdfghjklmnpqrstvxz]+", re.IGNORECASE)
_INTERJECTIONS = tuple(
    (re.compile(shape), sound)
    for shape, sound in (
        (r"h+m+", "hˈʌm"),
        (r"m+h+m+", "əmhˈʌm"),
        (r"h+m+p+h+", "hˈʌmf"),
        (r"m{3,}", "mmm"),
        (r"s+h{2,}", "ʃʃ"),
        (r"p+s+h+", "pˈɪʃ"),
        (r"b+r{2,}", "bˈɜɹ"),
        (r"g+r{2,}", "ɡˈɜɹ"),
        (r"p+f{2,}", "pˈʌf"),
        (r"p+f+t+", "pfˈʌt"),
        (r"p+s+t+", "pst"),
        (r"t+s+k+", "tˈɪsk"),
        (r"z{3,}", "zzz"),
        (r"u+g+h+", "ˈʌh"),
        (r"a+r+g+h+", "ˈɑɹɡ"),
    )
)
_ABBREVIATIONS = frozenset({"HM", "HMM", "PST", "PFT"})


def interjection(word: str) -> str:
    """Phonemes of a sound that people write as they hear it ("brrr", "psst"); nothing for other words."""
    if word in _ABBREVIATIONS:
        return ""
    return next((sound for shape, sound in _INTERJECTIONS if shape.fullmatch(word.lower())), "")


def is_spelled(word: str) -> bool:
    """Whether nobody could say ``word``, ASCII letters that no lexicon has, but by its letters."""
    if not _VOWEL.search(word):
        return True
    sounds = _ONE_SOUND.sub("t", word)
    return any(
        len(run[0]) > (CONSONANTS_TOGETHER if run.start() else CONSONANTS_AT_START)
        for run in _CONSONANT_RUN.finditer(sounds)
    )
