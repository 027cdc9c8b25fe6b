"""Words of letters and signs, without figures: "AT&T", "snake_case", "café", "C++"."""

import re

from engine.text.abbreviations import DAYS, MONTHS
from engine.text.characters import to_ascii

GREEK_NAMES = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "ο": "omicron", "π": "pi", "ρ": "rho",
    "σ": "sigma", "τ": "tau", "υ": "upsilon", "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega",
}  # fmt: skip
GREEK_NAMES |= {letter.upper(): name for letter, name in GREEK_NAMES.items()} | {"ς": "sigma"}

SIGN_NAMES = {
    "&": "and", "@": "at", "+": "plus", "=": "equals", "%": "percent", "×": "times", "*": "times", "÷": "divided by",
    "<": "less than", ">": "greater than", "≤": "at most", "≥": "at least", "≈": "about", "±": "plus or minus",
    "~": "about", "≠": "not equal to", "°": "degrees", "$": "dollars", "£": "pounds", "€": "euros", "¥": "yen",
    "₹": "rupees", "−": "minus", "№": "number", "^": "to the power of", "∞": "infinity",
}  # fmt: skip
PARTS_READ_AT_ONCE = 5
"""A compound of more parts ("a-b-c-d-e-f") is read as separate words: its phonemes cost the square of their number."""
_KNOWN = {
    "C++": "C plus plus", "c++": "C plus plus", "C#": "C sharp", "F#": "F sharp", "J#": "J sharp", "w/o": "without",
    "w/": "with", ".NET": "dot net", "b/c": "because", "n/a": "not applicable", "N/A": "not applicable",
    "Ph.D": "P.H.D.",
}  # fmt: skip
_NAMES = {name[:3]: name for name in (*DAYS, *MONTHS)}
_NAME_RANGE = re.compile(rf"({'|'.join(_NAMES)})\.?[-–]({'|'.join(_NAMES)})")
_ORDINARY = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*'?|'[A-Za-z]+")
_DOTTED = re.compile(r"(?:[A-Za-z]{1,2}\.)+[A-Za-z]{1,2}\.?")
_PIECES = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*'?|[^A-Za-z]")


def read_letters(core: str) -> str:
    """Spoken form of ``core``, which has no figures."""
    if core in _KNOWN:
        return _KNOWN[core]
    found = _NAME_RANGE.fullmatch(core)
    if found:
        return f"{_NAMES[found[1]]} to {_NAMES[found[2]]}"
    if core.endswith(("(s", "(es")):
        core = core.replace("(", "")
    if core[0] == "#" and len(core) > 1:
        return "hashtag " + read_letters(core[1:])
    spelled_out = "".join(f" {GREEK_NAMES.get(c) or SIGN_NAMES.get(c) or ''} " if _is_sign(c) else c for c in core)
    plain = " ".join(to_ascii(spelled_out).split())
    if plain.count("-") >= PARTS_READ_AT_ONCE:
        plain = plain.replace("-", " ")
    if _ORDINARY.fullmatch(plain):
        return plain
    words = [word for part in plain.split() for word in _read_part(part)]
    return " ".join(words)


def letter_name(letter: str) -> str:
    """``letter`` in a form that is read by its name: "A" alone would be the article."""
    return "A." if letter == "A" else letter


def _is_sign(c: str) -> bool:
    return c in SIGN_NAMES or c in GREEK_NAMES


def _read_part(part: str) -> list[str]:
    """Words of a piece of ASCII."""
    if _ORDINARY.fullmatch(part):
        return [part]
    if _DOTTED.fullmatch(part):
        return [part if part.endswith(".") else part + "."]
    pieces = _PIECES.findall(part)
    words = []
    for i, piece in enumerate(pieces):
        if piece[0].isalpha():
            words.append(piece)
        elif piece == "." and i + 1 < len(pieces) and pieces[i + 1][0].isalpha():
            words.append("dot")
    return words
