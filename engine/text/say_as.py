"""What the ``say-as`` of SSML asks for: a text read as a number, a date, its letters, and so on."""

import re
from collections.abc import Callable

from engine.text import numbers
from engine.text.abbreviations import MONTHS
from engine.text.characters import folded, to_ascii
from engine.text.fractions import say_fraction
from engine.text.letters import SIGN_NAMES, letter_name
from engine.text.shapes import say_number

_NUMBER = re.compile(r"([-−+]?)(\d{1,18}(?:,\d{3})*(?:\.\d{1,18})?)")
_TIME = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d))?\s*([ap])?\.?m?\.?", re.IGNORECASE)
_NUMBER_SIGNS = {"-": "minus ", "−": "minus ", "+": "plus ", "": ""}
_CHARACTER_NAMES = SIGN_NAMES | {
    ".": "dot", ",": "comma", "-": "dash", "/": "slash", "_": "underscore", "#": "hash", ":": "colon",
    ";": "semicolon", "!": "exclamation mark", "?": "question mark", "(": "open parenthesis",
    ")": "close parenthesis", "'": "apostrophe", '"': "quote", "*": "asterisk", "\\": "backslash",
}  # fmt: skip
DATE_FORMATS = ("mdy", "dmy", "ymd", "md", "dm", "ym", "my", "y", "m", "d")


def say_as(kind: str, form: str, content: str) -> str | None:
    """Spoken form of ``content`` as ``kind`` (of ``interpret-as``); None where it cannot be read so.

    ``form`` is the ``format`` of a date.
    """
    reader = _READERS.get(kind)
    plain = "".join(map(folded, content)).strip()
    if reader is None or not plain:
        return None
    return reader(plain, form) or None


def _characters(content: str, form: str) -> str:
    return " ".join(filter(None, (_character(c) for c in content)))


def _character(c: str) -> str:
    if c.isdigit() and c.isascii():
        return numbers.spelled(c)
    if c.isalpha():
        return letter_name(to_ascii(c).upper())
    return _CHARACTER_NAMES.get(c, "")


def _cardinal(content: str, form: str) -> str:
    found = _NUMBER.fullmatch(content)
    return f"{_NUMBER_SIGNS[found[1]]}{say_number(_grouped(found[2]))}" if found else ""


def _grouped(digits: str) -> str:
    """``digits`` so that they are read as a count however many they are."""
    whole, point, rest = digits.replace(",", "").partition(".")
    return f"{int(whole):,}{point}{rest}"


def _ordinal(content: str, form: str) -> str:
    digits = re.sub(r"(?i)(st|nd|rd|th)$", "", content).replace(",", "")
    return numbers.ordinal(digits) if digits.isascii() and digits.isdigit() else ""


def _digits(content: str, form: str) -> str:
    digits = "".join(c for c in content if c.isascii() and c.isdigit())
    return numbers.spelled(digits)


def _telephone(content: str, form: str) -> str:
    groups = ["plus"] if content.startswith("+") else []
    runs = re.findall(r"[0-9]+|[A-Za-z]+", content)
    said = ", ".join(numbers.spelled(run) if run.isdigit() else run for run in runs)
    return " ".join([*groups, said]) if said else ""


def _fraction(content: str, form: str) -> str:
    found = re.fullmatch(r"(?:(\d{1,9})\s*[+ ]\s*)?(\d{1,9}\s*/\s*\d{1,9})", content)
    if not found or int(found[2].rpartition("/")[2]) == 0:
        return ""
    fraction = re.sub(r"\s", "", found[2])
    if found[1] is None:
        return say_fraction(fraction, after_number=False)
    return f"{numbers.cardinal(found[1])} {say_fraction(fraction, after_number=True)}"


def _time(content: str, form: str) -> str:
    found = _TIME.fullmatch(content)
    if not found:
        return ""
    hours, minutes, seconds, half = found.groups()
    said = numbers.cardinal(hours)
    if minutes != "00":
        said += f" {'o ' if minutes[0] == '0' else ''}{numbers.cardinal(minutes)}"
    elif not half and not seconds:
        said += " o'clock" if 1 <= int(hours) <= 12 else " hundred hours"
    if seconds:
        said += f" and {numbers.cardinal(seconds)} second{'' if int(seconds) == 1 else 's'}"
    return f"{said} {half.lower()}.m." if half else said


def _date(content: str, form: str) -> str:
    """A date in figures, its parts in the order that ``form`` names."""
    parts = re.split(r"[-/. ]+", content)
    form = form or _usual_form(parts)
    if form not in DATE_FORMATS or len(parts) != len(form) or not all(p.isascii() and p.isdigit() for p in parts):
        return ""
    named = dict(zip(form, parts, strict=True))
    month, day, year = named.get("m"), named.get("d"), named.get("y")
    if (month and not 1 <= int(month) <= 12) or (day and not 1 <= int(day) <= 31) or (year and len(year) > 4):
        return ""
    said = [MONTHS[int(month) - 1]] if month else []
    if day:
        ordinal = numbers.ordinal(str(int(day)))
        said = [*said, ordinal] if not form.startswith("d") or not month else ["the", ordinal, "of", *said]
    if year:
        is_full = len(year) == 4 and year[0] != "0"
        said.append(numbers.year(year) if is_full else numbers.spelled(year))
    return " ".join(said)


def _usual_form(parts: list[str]) -> str:
    if len(parts) == 3:
        return "ymd" if len(parts[0]) == 4 else "mdy"
    return ""


_READERS: dict[str, Callable[[str, str], str]] = {
    "characters": _characters,
    "spell-out": _characters,
    "verbatim": _characters,
    "cardinal": _cardinal,
    "number": _cardinal,
    "ordinal": _ordinal,
    "digits": _digits,
    "telephone": _telephone,
    "fraction": _fraction,
    "time": _time,
    "date": _date,
}
READ_AS_USUAL = frozenset({"currency", "unit", "address", "name"})
"""Kinds for which the usual rules are right, or as near as this comes."""
KINDS = tuple(_READERS)
