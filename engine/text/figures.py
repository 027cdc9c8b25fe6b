"""Words with figures in them: numbers, money, times, dates, units, telephone numbers, versions, codes."""

import re
from dataclasses import dataclass

from engine.text import numbers
from engine.text.abbreviations import MAGNITUDE_LETTERS, MAGNITUDES, MONTHS, SHORT_MONTHS, UNITS
from engine.text.characters import to_ascii
from engine.text.grammar import spoken_by_grammar
from engine.text.letters import SIGN_NAMES, read_letters

_NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+"
_MONEY = {
    "$": ("dollar", "cent"),
    "£": ("pound", "penny"),
    "€": ("euro", "cent"),
    "¥": ("yen", ""),
    "₹": ("rupee", "paisa"),
}
_PLURALS = {"penny": "pence", "yen": "yen", "paisa": "paise"}
_SIGN = {"-": "minus", "−": "minus", "+": "plus", "~": "about", "≈": "about", "±": "plus or minus", "<": "less than"} | {
    ">": "greater than", "≤": "at most", "≥": "at least",
}  # fmt: skip
_FRACTIONS = {
    "½": "1/2",
    "¼": "1/4",
    "¾": "3/4",
    "⅓": "1/3",
    "⅔": "2/3",
    "⅛": "1/8",
    "⅜": "3/8",
    "⅝": "5/8",
    "⅞": "7/8",
}
_FRACTION_WORDS = {"1/2": "one half", "1/4": "one quarter", "3/4": "three quarters", "1/3": "one third", "2/3": "two thirds"} | {
    "24/7": "twenty four seven", "9/11": "nine eleven", "1/8": "one eighth", "1/10": "one tenth",
}  # fmt: skip
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_POWERS = {"2": "squared", "3": "cubed"}

_WHOLE = re.compile(r"\d{1,3}(?:,\d{3})+|\d+")
_DECIMAL = re.compile(r"(\d{1,3}(?:,\d{3})+|\d*)\.(\d+)")
_DECIMAL_COMMA = re.compile(r"(\d+),(\d{1,2}|\d{4,})")
_ORDINAL = re.compile(r"(\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th|ST|ND|RD|TH)")
_DECADE = re.compile(r"'?(\d0|\d{3}0)'?s")
_TIME = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)(?:([ap])\.?m\.?|h)?", re.IGNORECASE)
_HOUR = re.compile(r"(1[0-2]|\d)([ap])\.?m\.?", re.IGNORECASE)
_MONEY_FIRST = re.compile(rf"(?:US|A|C|AU|CA|NZ|HK)?([$£€¥₹])({_NUMBER})([kKmMbBT]|bn|mn|tn)?")
_MONEY_LAST = re.compile(rf"({_NUMBER})([$£€¥₹])")
_PERCENT = re.compile(rf"({_NUMBER})%")
_RANGE = re.compile(rf"([$£€]?)({_NUMBER})[-–]([$£€]?)({_NUMBER})(.*)")
_VERSION = re.compile(r"([vV]?)(\d+(?:\.\d+){2,})")
_NAMED_VERSION = re.compile(r"[vV](\d+(?:\.\d+)*)")
_TELEPHONE = re.compile(r"\+?(?:\d{1,3}[-.])?(?:\d{3}[-.]\d{3}[-.]\d{4}|\d{3}[-.]\d{4})|\d{3}-\d{2}-\d{4}|\+\d{7,15}")
_DATE = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}/\d{1,2}/(?:\d{4}|\d{2})|\d{1,2}\.\d{1,2}\.(?:\d{4}|\d{2})|\d{4}/\d{1,2}/\d{1,2}"
)
_DURATION = re.compile(r"\d{1,2}:[0-5]\d:[0-5]\d")
_FRACTION = re.compile(r"(\d+)/(\d+)")
_SIZE = re.compile(rf"({_NUMBER})[x×]({_NUMBER})(?:[x×]({_NUMBER}))?")
_TIMES = re.compile(rf"({_NUMBER})[x×]")
_FEET = re.compile(r"(\d+)['′](?:(\d+)[\"″”]?)?|(\d+)[\"″”]")
_WITH_TAIL = re.compile(rf"({_NUMBER})(.+)")
_COMPOUND = re.compile(rf"({_NUMBER}|\d+(?:st|nd|rd|th))-([A-Za-z][A-Za-z'-]*)")
_POWER = re.compile(r"(.*[A-Za-z\d)])(?:\^(-?\d+)|([⁰¹²³⁴⁵⁶⁷⁸⁹]+))")
_RUNS = re.compile(r"\d+(?:,\d{3})*|[A-Za-z]+(?:'[a-z]+)?|[^A-Za-z\d]")


@dataclass(frozen=True, slots=True)
class Figure:
    """Spoken form of a word with figures, and what it means for the next word."""

    spoken: str
    is_number: bool = False
    money: str = ""
    is_telephone: bool = False


def is_bare_integer(core: str) -> bool:
    """Whether ``core`` is one to three digits, which a month or a telephone number may follow."""
    return core.isdigit() and core.isascii() and len(core) <= 3


def read_figure(
    core: str, left: str, in_telephone: bool, after_number: bool, following: str, is_bracketed: bool
) -> Figure:
    """How ``core`` is said between the words ``left`` and ``following``."""
    if in_telephone and re.fullmatch(r"\d{1,5}|\d+(?:[-.]\d+)+", core):
        return Figure(_groups(core), is_telephone=True)
    if core.isdigit() and core.isascii():
        return _integer(core, left, following, is_bracketed)
    if _TELEPHONE.fullmatch(core):
        return Figure(_groups(core), is_telephone=True)
    if core[0] in "+±~≈<>≤≥-−" and len(core) > 1:
        if core[0] == "+" and re.fullmatch(r"\+\d{1,3}", core) and following[:1].isdigit():
            return Figure(f"plus {numbers.spelled(core[1:])}", is_telephone=True)
        rest = read_figure(core[1:], "", False, False, following, False)
        return Figure(f"{_SIGN[core[0]]} {rest.spoken}", rest.is_number, rest.money)
    if core[0] == "#":
        return Figure(
            f"{'number' if core[1:].isdigit() else 'hashtag'} {read_figure(core[1:], '', False, False, '', False).spoken}"
        )
    if core in _FRACTIONS or (core[-1] in _FRACTIONS and core[:-1].isdigit()):
        return _mixed_fraction(core, after_number)
    money = _money(core, following)
    if money:
        return money
    simple = _simple(core, after_number)
    if simple:
        return Figure(
            simple,
            is_number=_WHOLE.fullmatch(core) is not None
            or _DECIMAL.fullmatch(core) is not None
            or _TIME.fullmatch(core) is not None,
        )
    return Figure(_compound(core))


def _integer(core: str, left: str, following: str, is_bracketed: bool) -> Figure:
    """Bare digits: a day of a month, a year, a code or a count."""
    if len(core) == 3 and is_bracketed and re.match(r"\d{3}[-.]?\d{4}$", following):
        return Figure(numbers.spelled(core), is_telephone=True)
    if len(core) == 4 and core[0] == "0" and following.isdigit() and len(following) >= 3:
        return Figure(numbers.spelled(core), is_telephone=True)
    is_day = len(core) <= 2 and core[0] != "0" and 1 <= int(core) <= 31
    if is_day and (left in MONTHS or left.rstrip(".") in SHORT_MONTHS):
        return Figure(numbers.ordinal(core))
    if is_day and (following in MONTHS or following.rstrip(".") in SHORT_MONTHS) and following != "March":
        return Figure(f"{'' if left.lower() == 'the' else 'the '}{numbers.ordinal(core)} of")
    if numbers.is_year(core):
        return Figure(numbers.year(core), is_number=True)
    return Figure(numbers.integer(core), is_number=True)


def _number(text: str) -> str:
    """A number as it stands behind a sign or before a unit."""
    found = _DECIMAL.fullmatch(text)
    return numbers.decimal(found[1], found[2]) if found else numbers.integer(text)


def _quantity(text: str) -> str:
    """A number that may be a year."""
    return numbers.year(text) if numbers.is_year(text) else _number(text)


def _money(core: str, following: str) -> Figure | None:
    found = _MONEY_FIRST.fullmatch(core)
    if found:
        sign, amount, letter = found[1], found[2], found[3]
    else:
        found = _MONEY_LAST.fullmatch(core)
        if not found:
            return None
        amount, sign, letter = found[1], found[2], None
    unit, part = _MONEY[sign]
    many = _PLURALS.get(unit, unit + "s")
    if letter:
        return Figure(f"{_number(amount)} {MAGNITUDE_LETTERS[letter]} {many}")
    if following in MAGNITUDES:
        return Figure(_number(amount), money=many)
    whole, _, cents = amount.partition(".")
    if not cents or len(cents) != 2 or not part:
        return Figure(f"{_number(amount)} {unit if amount == '1' else many}")
    parts = []
    if whole.strip("0,") or not cents.strip("0"):
        parts.append(f"{_number(whole or '0')} {unit if whole == '1' else many}")
    if cents.strip("0"):
        value = cents.lstrip("0")
        parts.append(f"{numbers.cardinal(value)} {part if value == '1' else _PLURALS.get(part, part + 's')}")
    return Figure(" and ".join(parts))


def _simple(core: str, after_number: bool) -> str:
    """The shapes that are one number or one number and its unit; empty for any other."""
    if _WHOLE.fullmatch(core):
        return numbers.integer(core)
    if found := _DECIMAL.fullmatch(core):
        return numbers.decimal(found[1], found[2])
    if found := _PERCENT.fullmatch(core):
        return f"{_number(found[1])} percent"
    if found := _ORDINAL.fullmatch(core):
        return numbers.ordinal(found[1].replace(",", ""))
    if found := _TIME.fullmatch(core):
        return _time(found[1], found[2], found[3])
    if found := _HOUR.fullmatch(core):
        return f"{numbers.cardinal(found[1])} {found[2].lower()}.m."
    if found := _DECADE.fullmatch(core):
        digits = found[1]
        return numbers.plural(numbers.year(digits) if len(digits) == 4 else numbers.cardinal(digits))
    if found := _DECIMAL_COMMA.fullmatch(core):
        return f"{numbers.integer(found[1])} comma {numbers.spelled(found[2])}"
    if found := _FRACTION.fullmatch(core):
        return _fraction(found[1], found[2], after_number)
    if _DATE.fullmatch(core) or _DURATION.fullmatch(core):
        return spoken_by_grammar(core) or ""
    if found := _VERSION.fullmatch(core):
        head = "version " if found[1] else ""
        return head + " point ".join(numbers.integer(part) for part in found[2].split("."))
    if found := _NAMED_VERSION.fullmatch(core):
        return "version " + " point ".join(numbers.integer(part) for part in found[1].split("."))
    if found := _SIZE.fullmatch(core):
        return " by ".join(_quantity(part) for part in found.groups() if part)
    if found := _TIMES.fullmatch(core):
        return f"{_number(found[1])} times"
    if found := _FEET.fullmatch(core):
        return _feet(found[1], found[2], found[3])
    if found := _RANGE.fullmatch(core):
        return _range(found)
    if found := _COMPOUND.fullmatch(core):
        return f"{_simple(found[1], False)} {found[2].replace('-', ' ')}"
    if found := _WITH_TAIL.fullmatch(core):
        return _with_unit(found[1], found[2])
    return ""


def _range(found: re.Match[str]) -> str:
    first, second, tail = found[2], found[4], found[5]
    if tail and tail != "%" and tail not in UNITS and tail[:1] not in "-–":
        return ""
    if tail[:1] in ("-", "–"):
        groups = re.split(r"[-–]", first + "-" + second + tail)
        return ", ".join(numbers.spelled(g) for g in groups) if all(g.isdigit() for g in groups) else ""
    spoken = f"{_quantity(first)} to {_quantity(second)}"
    sign = found[1] or found[3]
    if sign:
        unit = _MONEY[sign][0]
        return f"{spoken} {_PLURALS.get(unit, unit + 's')}"
    if tail == "%":
        return f"{spoken} percent"
    return f"{spoken} {UNITS[tail][1]}" if tail else spoken


def _with_unit(amount: str, tail: str) -> str:
    if tail in UNITS and not (tail == "B" and amount.isdigit()):
        return f"{_number(amount)} {UNITS[tail][amount != '1']}"
    if tail in ("k", "M", "bn", "mn"):
        return f"{_number(amount)} {MAGNITUDE_LETTERS[tail]}"
    if tail == "+":
        return f"{_number(amount)} plus"
    return ""


def _time(hours: str, minutes: str, half: str | None) -> str:
    hour = numbers.cardinal(str(int(hours)))
    if minutes == "00":
        spoken = hour if half else f"{hour} o'clock" if 1 <= int(hours) <= 12 else f"{hour} hundred hours"
    else:
        spoken = f"{hour} {'o ' if minutes[0] == '0' else ''}{numbers.cardinal(str(int(minutes)))}"
    return f"{spoken} {half.lower()}.m." if half else spoken


def _fraction(top: str, bottom: str, after_number: bool) -> str:
    text = f"{top}/{bottom}"
    if after_number and text == "1/2":
        return "and a half"
    if text in _FRACTION_WORDS:
        return ("and " if after_number else "") + _FRACTION_WORDS[text]
    if bottom == "10" or top == bottom or int(top) > int(bottom) or len(bottom) > 2:
        return f"{numbers.integer(top)} {'over' if int(top) > int(bottom) else 'out of'} {numbers.integer(bottom)}"
    spoken = spoken_by_grammar(text) or f"{numbers.integer(top)} over {numbers.integer(bottom)}"
    return ("and " if after_number else "") + spoken


def _mixed_fraction(core: str, after_number: bool) -> Figure:
    top, bottom = _FRACTIONS[core[-1]].split("/")
    if core[:-1]:
        return Figure(f"{numbers.integer(core[:-1])} {_fraction(top, bottom, True)}", is_number=True)
    return Figure(_fraction(top, bottom, after_number), is_number=True)


def _feet(feet: str | None, inches: str | None, only_inches: str | None) -> str:
    if only_inches:
        return f"{numbers.cardinal(only_inches)} {'inch' if only_inches == '1' else 'inches'}"
    assert feet is not None
    spoken = f"{numbers.cardinal(feet)} {'foot' if feet == '1' else 'feet'}"
    return f"{spoken} {numbers.cardinal(inches)}" if inches else spoken


def _groups(core: str) -> str:
    """Digits of a telephone number, a pause between the groups."""
    groups = [g for g in re.split(r"[-.+]", core) if g]
    return ("plus " if core[0] == "+" else "") + ", ".join(numbers.spelled(g) for g in groups)


def _compound(core: str) -> str:
    """Letters, figures and signs mixed: each run by its own rule."""
    if found := _POWER.fullmatch(core):
        base = (
            read_figure(found[1], "", False, False, "", False).spoken
            if any(c.isdigit() for c in found[1])
            else read_letters(found[1])
        )
        exponent = (found[2] or found[3]).translate(_SUPERSCRIPTS)
        name = _POWERS.get(exponent) or "to the " + ("minus " if exponent[0] == "-" else "") + numbers.cardinal(
            exponent.lstrip("-")
        )
        return f"{base} {name}"
    words: list[str] = []
    runs = _RUNS.findall("".join(_FRACTIONS.get(c, c) for c in core).translate(_SUPERSCRIPTS))
    for i, run in enumerate(runs):
        if run[0].isdigit():
            run = to_ascii(run)
            words.append(_code(run) if run else "")
        elif run.isascii() and run[0].isalpha():
            words.append(run)
        elif run in ".:/" and 0 < i < len(runs) - 1:
            is_between_digits = runs[i - 1][0].isdigit() and runs[i + 1][0].isdigit()
            words.append({".": "point" if is_between_digits else "dot", "/": "slash", ":": ""}[run])
        elif run in SIGN_NAMES:
            words.append(SIGN_NAMES[run])
        elif run.isalpha():
            words.append(read_letters(run))
    return " ".join(word for word in words if word)


def _code(digits: str) -> str:
    """Digits inside a code such as "A380" or "COVID-19"."""
    if "," in digits or len(digits) <= 2:
        return numbers.integer(digits)
    if len(digits) == 3 and digits[0] != "0":
        if digits[1:] == "00":
            return numbers.cardinal(digits)
        rest = f"o {numbers.spelled(digits[2])}" if digits[1] == "0" else numbers.cardinal(digits[1:])
        return f"{numbers.cardinal(digits[0])} {rest}"
    return numbers.year(digits) if numbers.is_year(digits) else numbers.spelled(digits)
