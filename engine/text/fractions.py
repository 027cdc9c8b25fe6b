"""Two numbers with a slash between them: a part, a day, a count of a whole, a beat."""

import re

from engine.text import numbers
from engine.text.abbreviations import DAYS, MONTHS

FRACTION_SIGNS = {
    "½": "1/2", "¼": "1/4", "¾": "3/4", "⅓": "1/3", "⅔": "2/3", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip
SLASHED = re.compile(r"\d+/\d+")
FIRST_OF_FOLLOWERS = frozenset("ost")
"""What the words behind that decide begin with: "of", "stars", "time"."""
_IDIOMS = {
    "24/7": "twenty four seven", "9/11": "nine eleven", "20/20": "twenty twenty", "50/50": "fifty fifty",
}  # fmt: skip
_PARTS = {"2": "half", "4": "quarter"}
_BEFORE_DAY = frozenset({"on", "until", "till", "since", "due", "dated", *(day.lower() for day in DAYS)})
_BEFORE_COUNT = frozenset(
    {"chapter", "episode", "level", "page", "part", "question", "rated", "round", "scored", "slide", "stage", "step"}
)


def say_slashed(core: str, left: str, following: str) -> str:
    """ "3/4" between the words ``left`` and ``following``."""
    top, bottom = core.split("/")
    is_part = following == "of"
    asks_for_day = left.lower() in _BEFORE_DAY or top[0] == "0" or bottom[0] == "0"
    if asks_for_day and not is_part and core not in _IDIOMS and (day := _say_day(top, bottom)):
        return day
    if following == "time":
        return f"{numbers.integer(top)} {numbers.integer(bottom)}"
    if following == "stars" or (left.lower() in _BEFORE_COUNT and not is_part):
        return f"{numbers.integer(top)} out of {numbers.integer(bottom)}"
    return _say_part(top, bottom) if is_part and bottom in ("10", "100") else say_fraction(core, after_number=False)


def say_fraction(text: str, after_number: bool) -> str:
    """ "1/2", alone or behind a whole number ("and a half")."""
    top, bottom = text.split("/")
    if after_number and text == "1/2":
        return "and a half"
    said = _IDIOMS.get(text)
    if not said and bottom != "10" and 0 < int(top) < int(bottom) < 100:
        said = _say_part(top, bottom)
    if not said:
        said = f"{numbers.integer(top)} {'over' if int(top) > int(bottom) else 'out of'} {numbers.integer(bottom)}"
    return f"and {said}" if after_number else said


def _say_part(top: str, bottom: str) -> str:
    part = _PARTS.get(bottom) or numbers.ordinal(bottom)
    return f"{numbers.cardinal(top)} {part}{'' if top == '1' else 's'}"


def _say_day(first: str, second: str) -> str:
    """A month and its day; the day first where only that can be; nothing if it is neither."""
    one, two = int(first), int(second)
    if 1 <= one <= 12 and 1 <= two <= 31:
        return f"{MONTHS[one - 1]} {numbers.ordinal(str(two))}"
    if 1 <= one <= 31 and 1 <= two <= 12:
        return f"the {numbers.ordinal(str(one))} of {MONTHS[two - 1]}"
    return ""
