"""How much of a text was heard."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core import WordTiming
from realtime.heard import heard_characters, is_heard

TEXT = ' He said "hello, world" — **bye** … '


def timings(text: str, ms: float = 100) -> list[WordTiming]:
    """One timing of ``ms`` for each run of letters."""
    words: list[WordTiming] = []
    start: int | None = None
    for position, character in enumerate(text + " "):
        if character.isalpha() and start is None:
            start = position
        elif not character.isalpha() and start is not None:
            begin_ms = ms * len(words)
            words.append(WordTiming(text[start:position], "", begin_ms, begin_ms + ms, start, position))
            start = None
    return words


def heard(played_ms: float, *, is_finished: bool = False) -> str:
    return TEXT[: heard_characters(TEXT, timings(TEXT), played_ms, is_finished=is_finished)]


@pytest.mark.parametrize(
    ("played_ms", "spoken"),
    [
        (0, ""),
        (49, ""),
        (50, " He"),
        (149, " He"),
        (150, " He said"),
        (250, ' He said "hello,'),
        (350, ' He said "hello, world"'),
        (449, ' He said "hello, world"'),
        (450, ' He said "hello, world" — **bye**'),
        (10_000, ' He said "hello, world" — **bye**'),
    ],
)
def test_half_a_word_counts_and_its_punctuation_goes_along(played_ms: float, spoken: str) -> None:
    assert heard(played_ms) == spoken


def test_all_words_of_a_finished_text_are_the_whole_text() -> None:
    assert heard(450, is_finished=True) == TEXT
    assert heard(449, is_finished=True) == ' He said "hello, world"'


def test_scripts_without_spaces_stop_at_the_next_word() -> None:
    text = "你好，世界。"
    words = [WordTiming("你好", "", 0, 100, 0, 2), WordTiming("世界", "", 100, 200, 3, 5)]
    assert heard_characters(text, words, 60, is_finished=False) == 3


def test_without_words_nothing_is_claimed() -> None:
    assert heard_characters("hello", [], 5000, is_finished=False) == 0
    assert heard_characters("…", [], 40, is_finished=True) == 1
    assert heard_characters("…", [], 0, is_finished=True) == 0


def test_a_word_without_length_is_not_heard_before_the_start() -> None:
    assert not is_heard(WordTiming("a", "a", 0, 0, 0, 1), 0)


@given(st.text("ab .,", max_size=40), st.floats(0, 3000), st.floats(0, 3000), st.booleans())
def test_more_play_out_never_means_less_text(text: str, one_ms: float, two_ms: float, is_finished: bool) -> None:
    less, more = sorted((one_ms, two_ms))
    ends = [heard_characters(text, timings(text), ms, is_finished=is_finished) for ms in (less, more)]
    assert 0 <= ends[0] <= ends[1] <= len(text)
