"""Letters, figures and signs mixed: "A380", "COVID-19", "H2O", "x²", "foo(3)"."""

import re

from engine.text import numbers
from engine.text.characters import to_ascii
from engine.text.fractions import FRACTION_SIGNS
from engine.text.letters import SIGN_NAMES, letter_name, read_letters

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_POWER = re.compile(r"(.*[^\W_])(?:\^(-?\d{1,18})|([⁰¹²³⁴⁵⁶⁷⁸⁹]{1,18}))")
_POWERS = {"2": "squared", "3": "cubed"}
_RUNS = re.compile(r"\d+(?:,\d{3})*|[^\W\d_]+(?:'[a-z]+)?|.", re.DOTALL)


def read_code(core: str) -> str:
    """Words for ``core``, each run of letters or digits by its own rule."""
    power = _POWER.fullmatch(core)
    if power:
        exponent = (power[2] or power[3]).translate(_SUPERSCRIPTS)
        digits = exponent.lstrip("-")
        sign = "minus " if exponent[0] == "-" else ""
        return f"{read_code(power[1])} {_POWERS.get(exponent) or f'to the {sign}{numbers.cardinal(digits)}'}"
    plain = "".join(FRACTION_SIGNS.get(c, c) for c in core.translate(_SUPERSCRIPTS))
    runs = _RUNS.findall(plain)
    return " ".join(filter(None, (_read_run(runs, i) for i in range(len(runs)))))


def _read_run(runs: list[str], i: int) -> str:
    run = runs[i]
    if run[0].isdigit() and run.isascii():
        return _read_digits(run)
    if run[0].isalpha():
        return letter_name(read_letters(run))
    if run in (".", "/") and 0 < i < len(runs) - 1:
        is_point = run == "." and runs[i - 1][0].isdigit() and runs[i + 1][0].isdigit()
        return "point" if is_point else "dot" if run == "." else "slash"
    return SIGN_NAMES.get(run) or to_ascii(run).strip("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ")


def _read_digits(digits: str) -> str:
    if "," in digits or len(digits) <= 2:
        return numbers.integer(digits)
    if len(digits) == 3 and digits[0] != "0" and digits[1:] != "00":
        rest = f"o {numbers.spelled(digits[2])}" if digits[1] == "0" else numbers.cardinal(digits[1:])
        return f"{numbers.cardinal(digits[0])} {rest}"
    if numbers.is_year(digits):
        return numbers.year(digits)
    return numbers.cardinal(digits) if len(digits) == 3 and digits[0] != "0" else numbers.spelled(digits)
