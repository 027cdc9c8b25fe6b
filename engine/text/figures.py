"""Words with figures in them, read by what stands around them."""

import re
from dataclasses import dataclass

from engine.text import numbers
from engine.text.abbreviations import MAGNITUDES, MONTHS, SHORT_MONTHS
from engine.text.codes import read_code
from engine.text.fractions import FRACTION_SIGNS, SLASHED, say_fraction, say_slashed
from engine.text.money import read_money
from engine.text.shapes import NUMBER, say_shape
from engine.text.units import UNITS

_SIGNS = {
    ">=": "at least", "<=": "at most", "-": "minus", "−": "minus", "+": "plus", "~": "about", "≈": "about",
    "±": "plus or minus", "<": "less than", ">": "greater than", "≤": "at most", "≥": "at least",
}  # fmt: skip
_TELEPHONE = re.compile(r"\+?(?:\d{1,3}[-.])?(?:\d{3}[-.]\d{3}[-.]\d{4}|\d{3}[-.]\d{4})|\d{3}-\d{2}-\d{4}|\+\d{7,15}")
_TELEPHONE_GROUP = re.compile(r"\d{1,8}|\d+(?:[-.]\d+)+")
_TELEPHONE_REST = re.compile(r"\d{3}[-.]?\d{4}")
_COUNTRY = re.compile(r"\+\d{1,3}")
_SOME = r"[$£€¥₹]?\.?\d[\d.,:]*"
_RANGE = re.compile(rf"({_SOME}(?:%|°[CF]?|[kKMB]|bn|mn|[ap]m)?)[-–]({_SOME}(?:%|°[CF]?|[A-Za-z]{{1,4}})?)")
_RATE = re.compile(r"([$£€¥₹].*\d[kKMB]?)/([A-Za-z]{1,12})")
_EMERGENCY = frozenset({"call", "dial", "ring", "phone"})
_NAMED_SIGNS = {"#": "number", "№": "number", "§": "section"}
_COUNTED = re.compile(rf"{NUMBER}|\d{{1,2}}:\d\d")


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a word with figures."""

    left: str = ""
    following: str = ""
    is_after_number: bool = False
    is_in_telephone: bool = False
    is_bracketed: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """What is said for a word with figures, and what it means for the next word."""

    spoken: str
    is_number: bool = False
    money: str = ""
    """Unit still to be said behind a magnitude."""
    is_telephone: bool = False


NOTHING = Around()


def is_bare_integer(core: str) -> bool:
    """Whether ``core`` is one to four digits: the next word tells a day or an area code from a count."""
    return core.isdigit() and core.isascii() and len(core) <= 4


def read_figure(core: str, around: Around) -> Figure:
    """How ``core``, which has at least one figure, is said."""
    if around.is_in_telephone and _TELEPHONE_GROUP.fullmatch(core):
        return Figure(_digit_groups(core), is_telephone=True)
    if core.isdigit() and core.isascii():
        return _read_integer(core, around)
    if _TELEPHONE.fullmatch(core):
        return Figure(_digit_groups(core), is_telephone=True)
    if core[:2] in _SIGNS and len(core) > 2:
        rest = read_figure(core[2:], NOTHING)
        return Figure(f"{_SIGNS[core[:2]]} {rest.spoken}", rest.is_number)
    if core[0] in _SIGNS and len(core) > 1:
        if _COUNTRY.fullmatch(core) and around.following[:1].isdigit():
            return Figure(_digit_groups(core), is_telephone=True)
        rest = read_figure(core[1:], NOTHING)
        return Figure(f"{_SIGNS[core[0]]} {rest.spoken}", rest.is_number)
    if core[0] in _NAMED_SIGNS and len(core) > 1:
        name = "hashtag" if core[0] == "#" and not core[1:].isdigit() else _NAMED_SIGNS[core[0]]
        return Figure(f"{name} {read_figure(core[1:], NOTHING).spoken}")
    if core[-1] in FRACTION_SIGNS and (len(core) == 1 or core[:-1].isdigit()):
        return _read_mixed(core, around)
    money = read_money(core, has_magnitude=around.following in MAGNITUDES)
    if money:
        return Figure(money[0], money=money[1])
    if SLASHED.fullmatch(core):
        if around.is_after_number:
            return Figure(say_fraction(core, after_number=True), is_number=True)
        return Figure(say_slashed(core, around.left, around.following))
    said = say_shape(core) or _joined(core)
    return Figure(said, is_number=_COUNTED.fullmatch(core) is not None) if said else Figure(read_code(core))


def _joined(core: str) -> str:
    """Two amounts with a dash between them, or an amount for each of something: "$1M–$2M", "$20/month"."""
    found = _RANGE.fullmatch(core)
    if found:
        first, second = (_amount(part) for part in found.groups())
        return f"{first} to {second}" if first and second else ""
    found = _RATE.fullmatch(core)
    money = read_money(found[1], has_magnitude=False) if found else None
    return f"{money[0]} per {UNITS.get(found[2], found[2])}" if found and money else ""


def _amount(part: str) -> str:
    money = read_money(part, has_magnitude=False)
    return money[0] if money else say_shape(part)


def _read_integer(core: str, around: Around) -> Figure:
    """Bare digits: a day of a month, an area code, a year or a count."""
    following, left = around.following, around.left
    if around.is_bracketed and len(core) == 3 and _TELEPHONE_REST.fullmatch(following):
        return Figure(numbers.spelled(core), is_telephone=True)
    if core[0] == "0" and len(core) in (3, 4) and following.isdigit() and len(following) >= 3:
        return Figure(numbers.spelled(core), is_telephone=True)
    if len(core) <= 2 and 1 <= int(core) <= 31:
        if left in MONTHS or left.rstrip(".") in SHORT_MONTHS:
            return Figure(numbers.ordinal(core))
        if following in MONTHS or following.rstrip(".") in SHORT_MONTHS:
            return Figure(f"{'' if left.lower() == 'the' else 'the '}{numbers.ordinal(core)} of")
    if len(core) == 3 and left.lower() in _EMERGENCY:
        return Figure(numbers.spelled(core), is_telephone=True)
    return Figure(numbers.year(core) if numbers.is_year(core) else numbers.integer(core), is_number=True)


def _read_mixed(core: str, around: Around) -> Figure:
    """A fraction sign, alone or glued to a whole number."""
    fraction = FRACTION_SIGNS[core[-1]]
    if len(core) == 1:
        return Figure(say_fraction(fraction, around.is_after_number), is_number=True)
    return Figure(f"{numbers.integer(core[:-1])} {say_fraction(fraction, after_number=True)}", is_number=True)


def _digit_groups(core: str) -> str:
    """Digits of a telephone number, a pause between the groups."""
    said = ", ".join(numbers.spelled(group) for group in re.split(r"[-.+]", core) if group)
    return f"plus {said}" if core[0] == "+" else said
