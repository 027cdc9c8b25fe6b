"""The shapes that a written number can have, and what is said for each."""

import re
from collections.abc import Callable

from engine.text import numbers
from engine.text.abbreviations import MAGNITUDE_LETTERS, MONTHS
from engine.text.fractions import say_fraction
from engine.text.grammar import spoken_by_grammar
from engine.text.units import UNITS, plural, unit_name

GROUPED_OTHERWISE = r"\d{1,3}(?:\.\d{3})+,\d{1,4}|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?"
"""Groups as on the continent and in India; nothing else looks so."""
NUMBER = r"(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)"
_RANGE_MONEY = {"$": "dollars", "£": "pounds", "€": "euros", "": ""}

Reader = Callable[[re.Match[str]], str]


def say_number(text: str) -> str:
    """A number that is no year: "1,205", "98.6", ".5", "1.205,50", "1,00,000"."""
    if re.fullmatch(GROUPED_OTHERWISE, text):
        text = text.replace(".", "").replace(",", ".") if "." in text and text.rfind(",") > text.find(".") else text
        text = text if "." in text else f"{int(text.replace(',', '')):,}"
    whole, point, fraction = text.partition(".")
    return numbers.decimal(whole, fraction) if point else numbers.integer(whole)


def say_quantity(text: str) -> str:
    """A number that may be a year."""
    return numbers.year(text) if numbers.is_year(text) else say_number(text)


def say_shape(core: str) -> str:
    """Words for ``core`` when it has one of the shapes, else nothing."""
    for shape, reader in _SHAPES:
        found = shape.fullmatch(core)
        if found:
            said = reader(found)
            if said:
                return said
    return ""


def _ordinal(found: re.Match[str]) -> str:
    return numbers.ordinal(found[1].replace(",", ""))


def _decade(found: re.Match[str]) -> str:
    digits = found[1]
    return numbers.decade(numbers.year(digits) if len(digits) == 4 else numbers.cardinal(digits))


def _time(found: re.Match[str]) -> str:
    hours, minutes, half = found.groups()
    said = numbers.cardinal(hours)
    if minutes != "00":
        said += f" {'o ' if minutes[0] == '0' else ''}{numbers.cardinal(minutes)}"
    elif not half:
        said += " o'clock" if 1 <= int(hours) <= 12 else " hundred hours"
    return f"{said} {half.lower()}.m." if half else said


def _hour(found: re.Match[str]) -> str:
    return f"{numbers.cardinal(found[1])} {found[2].lower()}.m."


def _decimal_comma(found: re.Match[str]) -> str:
    return f"{numbers.integer(found[1])} comma {numbers.spelled(found[2])}"


def _by_grammar(found: re.Match[str]) -> str:
    return spoken_by_grammar(found[0]) or ""


def _iso_date(found: re.Match[str]) -> str:
    year, month, day = found.groups()[:3]
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return ""
    return f"{MONTHS[int(month) - 1]} {numbers.ordinal(str(int(day)))} {numbers.year(year)}"


def _iso_time(found: re.Match[str]) -> str:
    date, (hours, minutes, zone) = _iso_date(found), found.groups()[3:]
    time = numbers.cardinal(hours) + (f" {'o ' if minutes[0] == '0' else ''}{numbers.cardinal(minutes)}")
    time = f"{numbers.cardinal(hours)} hundred hours" if minutes == "00" else time
    return f"{date} at {time}{' U.T.C.' if zone == 'Z' else ''}" if date else ""


def _scientific(found: re.Match[str]) -> str:
    sign = {"-": "minus "}.get(found[2], "")
    return f"{say_number(found[1])} times ten to the {sign}{numbers.cardinal(found[3])}"


def _pre_release(found: re.Match[str]) -> str:
    return " ".join(filter(None, (say_shape(found[1]), found[2], numbers.integer(found[3]) if found[3] else "")))


def _version(found: re.Match[str]) -> str:
    parts = [numbers.integer(part) for part in found[2].split(".")]
    # Four parts are an internet address.
    said = (" dot " if len(parts) == 4 else " point ").join(parts)
    return f"version {said}" if found[1] else said


def _size(found: re.Match[str]) -> str:
    return " by ".join(say_quantity(part) for part in found.groups() if part)


def _feet(found: re.Match[str]) -> str:
    feet, inches = found.groups()
    said = f"{numbers.cardinal(feet)} {'foot' if feet == '1' else 'feet'}"
    return f"{said} {numbers.cardinal(inches)}" if inches else said


def _inches(found: re.Match[str]) -> str:
    return f"{numbers.cardinal(found[1])} {'inch' if found[1] == '1' else 'inches'}"


def _range(found: re.Match[str]) -> str:
    sign, first, second_sign, second, tail = found.groups()
    said = f"{say_quantity(first)} to {say_quantity(second)} {_RANGE_MONEY[sign or second_sign]}".strip()
    if not tail:
        return said
    if tail == "%":
        return f"{said} percent"
    return f"{said} {plural(UNITS[tail])}" if tail in UNITS else ""


def _digit_groups(found: re.Match[str]) -> str:
    return ", ".join(numbers.spelled(group) for group in re.split("[-–]", found[0]))


def _compound(found: re.Match[str]) -> str:
    said = say_shape(found[1]).removesuffix("s") if "/" in found[1] else say_shape(found[1])
    return f"{said} {found[2].replace('-', ' ')}"


def _with_unit(found: re.Match[str]) -> str:
    amount, unit = found.groups()
    if unit in UNITS and unit != "B":
        return f"{say_number(amount)} {unit_name(unit, amount)}"
    return f"{say_number(amount)} {MAGNITUDE_LETTERS[unit]}" if unit in ("k", "M", "bn", "mn") else ""


_SHAPES: tuple[tuple[re.Pattern[str], Reader], ...] = tuple(
    (re.compile(shape, re.IGNORECASE if "(?i)" in shape else 0), reader)
    for shape, reader in (
        (NUMBER, lambda found: say_number(found[0])),
        (rf"({NUMBER})%", lambda found: f"{say_number(found[1])} percent"),
        (r"(\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th|ST|ND|RD|TH)", _ordinal),
        (r"(?i)([01]?\d|2[0-4]):([0-5]\d)(?:([ap])\.?m\.?|h)?", _time),
        (r"(?i)(1[0-2]|\d)([ap])\.?m\.?", _hour),
        (r"'?(\d0|\d{3}0)'?s", _decade),
        (r"(\d+),(\d{1,2}|\d{4,})", _decimal_comma),
        (r"(\d+/\d+)", lambda found: say_fraction(found[1], after_number=False)),
        (r"([12]\d{3})-(\d{1,2})-(\d{1,2})", _iso_date),
        (
            r"([12]\d{3})-(\d\d)-(\d\d)[Tt]([01]\d|2[0-4]):([0-5]\d)(?::[0-5]\d)?(?:\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?",
            _iso_time,
        ),
        (GROUPED_OTHERWISE, lambda found: say_number(found[0])),
        (r"(\d(?:\.\d{1,17})?)[eE]([+-]?)(\d{1,3})", _scientific),
        (r"(\d{1,3}):(\d{1,3})", lambda found: f"{numbers.cardinal(found[1])} to {numbers.cardinal(found[2])}"),
        (
            r"(\d{1,3}(?:\.\d{1,3}){3}):(\d{1,5})",
            lambda found: f"{say_shape(found[1])} port {numbers.spelled(found[2])}",
        ),
        (r"([vV]?\d+(?:\.\d+)*)-(alpha|beta|rc|dev|pre|preview|snapshot|post)\.?(\d{0,4})", _pre_release),
        (r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[/.]\d{1,2}[/.](?:\d{4}|\d{2})|\d{4}/\d{1,2}/\d{1,2}", _by_grammar),
        (r"\d{1,2}:[0-5]\d:[0-5]\d", _by_grammar),
        (r"([vV]?)(\d+(?:\.\d+){2,})", _version),
        (r"([vV])(\d+(?:\.\d+)?)", _version),
        (rf"({NUMBER})[x×]({NUMBER})(?:[x×]({NUMBER}))?", _size),
        (rf"({NUMBER})\*({NUMBER})", lambda found: f"{say_number(found[1])} times {say_number(found[2])}"),
        (rf"({NUMBER})[x×]", lambda found: f"{say_number(found[1])} times"),
        (r"(\d+)['′](?:(\d+)[\"″”]?)?", _feet),
        (r"(\d+)[\"″”]", _inches),
        (rf"([$£€]?)({NUMBER})[-–]([$£€]?)({NUMBER})([^\d-].*)?", _range),
        (r"\d+(?:[-–]\d+){2,}", _digit_groups),
        (rf"({NUMBER}|\d+/\d+|\d+(?:st|nd|rd|th))-([A-Za-z][A-Za-z'-]*)", _compound),
        (rf"({NUMBER})\+", lambda found: f"{say_number(found[1])} plus"),
        (rf"({NUMBER})(\D+)", _with_unit),
    )
)
