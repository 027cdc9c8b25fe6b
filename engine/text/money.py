"""Amounts of money."""

import re

from engine.text.abbreviations import MAGNITUDE_LETTERS
from engine.text.shapes import GROUPED_OTHERWISE, NUMBER, say_number
from engine.text.units import plural

_CURRENCIES = {"$": "dollar", "£": "pound", "€": "euro", "¥": "yen", "₹": "rupee"}
_PARTS = {"$": "cent", "£": "penny", "€": "cent"}
_AMOUNT = rf"(?:{GROUPED_OTHERWISE}|{NUMBER}|\d+,\d\d)"
_SIGN_FIRST = re.compile(
    rf"(?:US|A|C|AU|CA|NZ|HK)?(?P<sign>[$£€¥₹])(?P<amount>{_AMOUNT})(?P<scale>[kKmMbBT]|bn|mn|tn)?"
)
_SIGN_LAST = re.compile(rf"(?P<amount>{_AMOUNT})(?P<sign>[$£€¥₹])(?P<scale>)")


def read_money(core: str, has_magnitude: bool) -> tuple[str, str] | None:
    """Words for an amount, and the unit to be said later when a magnitude follows ("$5" before "million")."""
    found = _SIGN_FIRST.fullmatch(core) or _SIGN_LAST.fullmatch(core)
    if not found:
        return None
    sign, amount, scale = found["sign"], found["amount"], found["scale"]
    unit = _CURRENCIES[sign]
    if amount[-3:-2] == ",":
        amount = f"{amount[:-3].replace('.', '')}.{amount[-2:]}"
    elif re.fullmatch(GROUPED_OTHERWISE, amount):
        amount = amount.replace(",", "")
    if scale:
        return f"{say_number(amount)} {MAGNITUDE_LETTERS[scale]} {plural(unit)}", ""
    if has_magnitude:
        return say_number(amount), plural(unit)
    whole, _, cents = amount.partition(".")
    if len(cents) != 2 or sign not in _PARTS:
        return _counted(amount, unit), ""
    parts = [_counted(whole, unit)] if whole.strip("0,") or cents == "00" else []
    if cents != "00":
        parts.append(_counted(cents.lstrip("0"), _PARTS[sign]))
    return " and ".join(parts), ""


def _counted(amount: str, unit: str) -> str:
    return f"{say_number(amount or '0')} {unit if amount == '1' else plural(unit)}"
