"""Two numbers with a slash between them: a part, a day, a count of a whole, by what stands around them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text import numbers
from engine.text.abbreviations import DAYS, MONTHS
from tests.engine.text.reading import said


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("3/4 of the time", "three quarters of the time.//"),
        ("Add 3/4 cup of flour.", "Add three quarters cup of flour.//"),
        ("3/4", "three quarters.//"),
        ("a 3/4-inch pipe, a 1/2-inch one", "a three quarter inch pipe,/ a one half inch one.//"),
        ("1/10 of a second, 7/100 of it", "one tenth of a second,/ seven one hundredths of it.//"),
        ("We meet on 3/4.", "We meet on March fourth.//"),
        ("On 12/31 at noon", "On December thirty first at noon.//"),
        ("due 31/12", "due the thirty first of December.//"),
        ("Monday, 3/4, we", "Monday,/ March fourth,/ we.//"),
        ("since 03/04, 09/30", "since March fourth,/ September thirtieth.//"),
        ("on 1/2 of the islands", "on one half of the islands.//"),
        ("On 3/4/2024.", "On march fourth twenty twenty four.//"),
        ("on 13/14", "on thirteen fourteenths.//"),
        ("24/7, on 9/11", "twenty four seven,/ on nine eleven.//"),
        ("20/20, 50/50", "twenty twenty,/ fifty fifty.//"),
        ("120/80, 7/10", "one hundred and twenty over eighty,/ seven out of ten.//"),
        ("rated 4/5, step 2/5", "rated four out of five,/ step two out of five.//"),
        ("4/5 stars", "four out of five stars.//"),
        ("in 3/4 time", "in three four time.//"),
        ("0/5, 3/0", "zero out of five,/ three over zero.//"),
        ("3 1/2 cups on 3", "three and a half cups on three.//"),
        ("I/O, and/or, TCP/IP, N/A", "I O,/ and or,/ TCP IP,/ not applicable.//"),
    ],
)
def test_by_what_stands_around(text: str, spoken: str) -> None:
    assert said(text) == spoken


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(1, 31), st.sampled_from(["on", "On", "until", "since", "due", *DAYS]))
def test_a_day_behind_a_word_that_asks_for_one(month: int, day: int, before: str) -> None:
    spoken = said(f"{before} {month}/{day} we met")
    is_idiom = (month, day) == (9, 11)
    assert spoken == f"{before} {'nine eleven' if is_idiom else _day(month, day)} we met.//"


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(1, 31), st.sampled_from(["a", "about", "the", "nearly", "add"]))
def test_no_day_elsewhere(month: int, day: int, before: str) -> None:
    assert not set(MONTHS) & set(said(f"{before} {month}/{day} of it").split())


@settings(deadline=None)
@given(st.integers(0, 10**20), st.integers(0, 10**20), st.sampled_from(["on", "rated", "", "2"]), st.booleans())
def test_every_pair_of_numbers_is_words(top: int, bottom: int, before: str, is_whole: bool) -> None:
    spoken = said(f"{before} {top}/{bottom}{' of it' if is_whole else ''}")
    assert "slash" not in spoken
    assert not any(character.isdigit() for character in spoken)


def _day(month: int, day: int) -> str:
    return f"{MONTHS[month - 1]} {numbers.ordinal(str(day))}"
