"""Words as they are written to words as they are said, one word at a time.

``read`` is a pure function of what stands left, the word and the next word, so the result does not depend on how the
text arrived. Common numbers have rules of their own: the grammars (``grammar.py``) take up to 100 ms a span, too long
between two frames.
"""

from dataclasses import dataclass

from engine.lexicon import Lexicon
from engine.text import numbers
from engine.text.abbreviations import (
    BEFORE_NUMBER,
    CLOSING,
    MAGNITUDES,
    NAME_LIKE,
    SENTENCE_STARTERS,
    SHORT_MONTHS,
    SHORTENED,
    TITLES,
)
from engine.text.addresses import say_address
from engine.text.figures import Around, is_bare_integer, read_figure
from engine.text.fractions import FIRST_OF_FOLLOWERS, SLASHED
from engine.text.letters import GREEK_NAMES, letter_name, read_letters
from engine.text.units import GLUED_ONLY, UNITS, unit_name
from engine.text.words import Boundary, RawWord

OPERATOR_NAMES = {
    "+": "plus", "−": "minus", "=": "equals", "==": "equals", "×": "times", "*": "times", "÷": "divided by",
    "/": "divided by", "<": "is less than", ">": "is greater than", "≤": "is at most", "<=": "is at most",
    "≥": "is at least", ">=": "is at least", "±": "plus or minus", "≈": "is about", "≠": "is not equal to",
    "!=": "is not equal to", "&": "and", "@": "at", "%": "percent",
}  # fmt: skip
_AFTER_NUMBER = frozenset("*÷×<>−%/")
FIRST_OF_MAGNITUDES = frozenset(magnitude[0] for magnitude in MAGNITUDES)
_ROMAN = {
    "II": "2", "III": "3", "IV": "4", "VI": "6", "VII": "7", "VIII": "8", "IX": "9", "XI": "11", "XII": "12",
    "XIII": "13", "XIV": "14", "XV": "15", "XVI": "16",
}  # fmt: skip
_ROMAN_LETTERS = ("I", "V", "X")
_KINGS = frozenset(
    ("Henry", "Louis", "Elizabeth", "George", "Edward", "Charles", "William", "Richard", "James", "Paul", "Pius")
    + ("Benedict", "Catherine", "Philip", "Gregory", "Leo", "Napoleon", "Frederick", "Nicholas", "Ferdinand")
)
_BEFORE_MONTH = frozenset({"in", "since", "until", "till", "by", "of", "last", "next", "from", "early", "late", "mid"})
_BEFORE_LETTER = frozenset(
    {"plan", "vitamin", "grade", "type", "class", "group", "section", "team", "option", "part", "hepatitis"}
)


@dataclass(frozen=True, slots=True)
class Left:
    """What stands before a word, as far as it decides how the word is read."""

    core: str = ""
    spoken: str = ""
    is_number: bool = False
    money: str = ""
    """Unit of money still to be said behind a magnitude: "$5" before "million"."""
    unit: str = ""
    """The last unit, also behind the number after it: "ft" before "10 in"."""
    is_telephone: bool = False
    """Inside a telephone number: groups of digits are spelled."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a word is said; empty ``spoken`` when it is not."""

    spoken: str
    pause: str
    boundary: Boundary
    left: Left
    """What the next word finds on its left."""
    phonemes: tuple[str | None, ...] = ()
    """Given phonemes of each word of ``spoken``, None where there are none; of all of them, where there is but one."""


def needs_next(word: RawWord) -> bool:
    """Whether the next word decides how ``word`` is read; its first character, already known, mostly rules that out."""
    if word.is_operator:
        return True
    if word.said is not None:
        return False
    core, follower = word.core, word.follower
    if word.pause:
        return word.pause == "." and core in UNITS
    if core[-1] == ".":
        if core[:-1] in BEFORE_NUMBER:
            return follower in _ROMAN_LETTERS
        return follower.isupper() and core[:-1].lower() not in SHORTENED
    if core in SHORT_MONTHS or core[0] == "+":
        return follower.isdigit()
    if SLASHED.fullmatch(core):
        return follower in FIRST_OF_FOLLOWERS
    if core[0] in "$£€":
        return follower in FIRST_OF_MAGNITUDES
    return is_bare_integer(core) and (follower.isupper() or follower.isdigit())


def read(left: Left, word: RawWord, following: RawWord | None, lexicon: Lexicon) -> Reading:
    """How ``word`` is said between ``left`` and ``following``; None at an end, at a flush and unless ``needs_next``.

    What the markup settles comes first, then the lexicon, then the rules.
    """
    if word.said is not None:
        sounds = () if word.sounds is None else (word.sounds,)
        return Reading(word.said, word.pause, word.boundary, Left(word.core, word.said), sounds)
    core = _plain_apostrophes(word.core)
    given = lexicon.get(core)
    if given is None:
        return _read(left, word, core, following)
    # The rules still tell whether its full stop ends the sentence.
    usual = _read(left, word, core, following) if core.endswith(".") else None
    pause, boundary = (usual.pause, usual.boundary) if usual else (word.pause, word.boundary)
    spoken = " ".join(given.spoken) if given.phonemes[1:] or given.phonemes[0] is None else core
    return Reading(spoken, pause, boundary, Left(core, spoken), given.phonemes if any(given.phonemes) else ())


def _plain_apostrophes(core: str) -> str:
    return core.replace("’", "'").replace("‘", "'").replace("ʼ", "'")


def _read(left: Left, word: RawWord, core: str, following: RawWord | None) -> Reading:
    """How ``word`` is said by the rules of English."""
    after = following.core if following else ""
    pause, boundary = word.pause, word.boundary
    if word.is_operator:
        spoken = _operator(left, core, after)
        return Reading(spoken, "", Boundary.NONE, Left(core, spoken) if spoken else left)
    if word.is_address:
        spoken = say_address(core)
        return Reading(spoken, pause, boundary, Left(core, spoken))
    if core.endswith("."):
        return _abbreviation(left, word, core[:-1], after)
    if left.is_number and core in UNITS and core not in GLUED_ONLY:
        if pause == "." and boundary is Boundary.SENTENCE and after[:1].islower():
            pause, boundary = "", Boundary.NONE
        spoken = unit_name(core, left.core)
        return Reading(spoken, pause, boundary, Left(core, spoken, unit=core))
    if left.is_number and core == "in" and left.unit in ("ft", "feet", "foot"):
        return Reading("inches", pause, boundary, Left(core, "inches"))
    if core.isascii() and core.isalpha():
        spoken = _plain(left, core, after)
        return Reading(spoken, pause, boundary, Left(core, spoken, unit=core if core in ("feet", "foot") else ""))
    if core in GREEK_NAMES:
        return Reading(GREEK_NAMES[core], pause, boundary, Left(core, GREEK_NAMES[core]))
    if any(c.isnumeric() for c in core):
        around = Around(left.core, after, left.is_number, left.is_telephone, is_bracketed=word.text.startswith("("))
        figure = read_figure(core, around)
        goes_on = not pause
        now = Left(
            core,
            figure.spoken,
            is_number=figure.is_number and goes_on,
            money=figure.money if goes_on else "",
            unit=left.unit if goes_on else "",
            is_telephone=figure.is_telephone and goes_on,
        )
        return Reading(figure.spoken, pause, boundary, now)
    spoken = read_letters(core)
    return Reading(spoken, pause, boundary, Left(core, spoken))


def _operator(left: Left, core: str, after: str) -> str:
    """The name of a sign that stands between two words, else nothing."""
    if not left.core or not after:
        return ""
    if core in _AFTER_NUMBER and not (left.core[-1:].isdigit() or len(left.core) == 1):
        return ""
    if core == "/" and not (left.is_number and after[:1].isdigit()):
        return ""
    return OPERATOR_NAMES.get(core, "")


def _plain(left: Left, core: str, after: str) -> str:
    """A word of ASCII letters."""
    if left.money and core in MAGNITUDES:
        return f"{core} {left.money}"
    if left.is_number and core.lower() in ("am", "pm"):
        return f"{core[0].lower()}.m."
    if core in _ROMAN and left.core[:1].isupper() and left.core.isalpha() and len(left.core) > 1:
        number = _ROMAN[core]
        return f"the {numbers.ordinal(number)}" if left.core in _KINGS else numbers.cardinal(number)
    if core in SHORT_MONTHS and after[:1].isdigit():
        return SHORT_MONTHS[core]
    if core in _ROMAN and left.core.rstrip(".") in BEFORE_NUMBER:
        return numbers.cardinal(_ROMAN[core])
    if core == "A" and left.core.lower() in _BEFORE_LETTER:
        return letter_name(core)
    return core


def _abbreviation(left: Left, word: RawWord, core: str, after: str) -> Reading:
    """A word whose full stop may or may not end the sentence as well."""
    is_number_next = word.follower.isdigit()
    is_name_next = after[:1].isupper() and after not in SENTENCE_STARTERS
    lower = core.lower()
    ends = bool(after) and after[:1].isupper() and not is_name_next
    if core in TITLES:
        is_street = core == "Dr" and left.core[:1].isupper() and not is_name_next and not is_number_next
        spoken, ends = ("Drive", ends) if is_street else (TITLES[core], False)
    elif core == "St":
        spoken = "Saint" if is_name_next else "Street"
    elif core in BEFORE_NUMBER:
        if is_number_next or after in _ROMAN:
            spoken, ends = BEFORE_NUMBER[core], False
        else:
            spoken, ends = core, True
    elif lower in SHORTENED:
        spoken, ends = SHORTENED[lower], False
    elif lower in ("a.m", "p.m"):
        spoken, ends = lower + ".", after[:1].isupper() and after not in NAME_LIKE
    elif lower in CLOSING:
        spoken = CLOSING[lower]
        ends = after[:1].isupper() if lower == "etc" else ends
    elif core in SHORT_MONTHS:
        is_month = is_number_next or core not in ("Jan", "Jun", "Jul") or left.core.lower() in _BEFORE_MONTH
        spoken, ends = (SHORT_MONTHS[core], ends) if is_month else (core, True)
    elif len(core) == 1:
        # An initial before a name; otherwise a letter that ends its sentence, as in "vitamin C."
        spoken, ends = letter_name(core), not is_name_next
    else:
        spoken = core + "."
    pause, boundary = word.pause, word.boundary
    if not pause and ends:
        is_full = after[:1].isupper() or core in BEFORE_NUMBER or len(core) == 1
        pause, boundary = (".", Boundary.SENTENCE) if is_full else ("", Boundary.NONE)
    return Reading(spoken, pause, boundary, Left(core, spoken))
