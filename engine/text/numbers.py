"""English number words, in the style the voice was trained on ("two hundred and five", "nineteen o five")."""

_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES = ("", "thousand", "million", "billion", "trillion", "quadrillion")
_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth",
}  # fmt: skip
LONGEST_CARDINAL = 18
"""Digits above which a number is spelled digit by digit."""


def _below_hundred(value: int) -> str:
    tens, ones = divmod(value, 10)
    if value < 20:
        return _ONES[value]
    return _TENS[tens] + (f" {_ONES[ones]}" if ones else "")


def _below_thousand(value: int) -> str:
    hundreds, rest = divmod(value, 100)
    if not hundreds:
        return _below_hundred(rest)
    return f"{_ONES[hundreds]} hundred" + (f" and {_below_hundred(rest)}" if rest else "")


def cardinal(digits: str) -> str:
    """ "1205" gives "one thousand two hundred and five"."""
    if len(digits) > LONGEST_CARDINAL:
        return spelled(digits)
    value, parts = int(digits), list[str]()
    for scale in _SCALES:
        value, group = divmod(value, 1000)
        if group:
            # Only the last group has an "and": "two hundred thousand five hundred and six".
            words = _below_thousand(group) if not scale else _below_thousand(group).replace(" and ", " ")
            parts.append(f"{words} {scale}".strip())
    return " ".join(reversed(parts)) or "zero"


def ordinal(digits: str) -> str:
    """ "22" gives "twenty second"."""
    head, _, last = cardinal(digits).rpartition(" ")
    regular = last[:-1] + "ieth" if last.endswith("y") else last + "th"
    return f"{head} {_ORDINALS.get(last, regular)}".strip()


def year(digits: str) -> str:
    """Four digits read as a year: "1905" gives "nineteen o five", "2005" "two thousand five"."""
    century, rest = int(digits[:2]), int(digits[2:])
    if century % 10 == 0 and rest < 10:
        return f"{_ONES[century // 10]} thousand" + (f" {_ONES[rest]}" if rest else "")
    if not rest:
        return f"{_below_hundred(century)} hundred"
    return f"{_below_hundred(century)} " + (f"o {_ONES[rest]}" if rest < 10 else _below_hundred(rest))


def is_year(digits: str) -> bool:
    """Whether four bare digits are said in two pairs."""
    return len(digits) == 4 and "1100" <= digits <= "2099"


def spelled(digits: str) -> str:
    """Digit by digit."""
    return " ".join(_ONES[int(d)] for d in digits)


def decimal(whole: str, fraction: str) -> str:
    """ "98", "6" gives "ninety eight point six"."""
    return f"{integer(whole) if whole else ''} point {spelled(fraction)}".strip()


def integer(digits: str) -> str:
    """Bare digits: grouped commas, leading zeros and long codes as people say them; no years."""
    if "," in digits:
        return cardinal(digits.replace(",", ""))
    if (digits[0] == "0" and len(digits) > 1) or (len(digits) > 6 and not digits.endswith("000")):
        return spelled(digits)
    return cardinal(digits)


def decade(words: str) -> str:
    """ "nineteen ninety" gives "nineteen nineties"."""
    return words[:-1] + "ies" if words.endswith("y") else words + ("es" if words.endswith("x") else "s")
