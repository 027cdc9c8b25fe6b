"""Where speech goes on after what had to be kept."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.revision import COMPARED_CHARACTERS, resume_at

TEXTS = st.text(st.sampled_from("ab c,"), max_size=60)


@pytest.mark.parametrize(
    ("kept", "replacement", "rest"),
    [
        ("", "Good night.", "Good night."),
        ("Hello wrld", "Hello world how are you", " how are you"),
        ("wreck a nice", "recognise speech is hard", " speech is hard"),
        ("two words", "two words more", " more"),
        ("two ", "to be", "be"),
        ("the cat sat", "a", ""),
        ("I am", "I'm late", " late"),
        ("eight", "ate", ""),
        ("one", "entirely different", " different"),
        ("one ", "entirely different", "entirely different"),
        ("彼は走る", "彼が走った", "た"),
        ("one two three", "", ""),
        ("   ", "x", "x"),
    ],
)
def test_goes_on_after_the_words_that_match(kept: str, replacement: str, rest: str) -> None:
    assert replacement[resume_at(kept, replacement) :] == rest


@given(TEXTS, TEXTS)
def test_goes_on_between_words(kept: str, replacement: str) -> None:
    at = resume_at(kept, replacement)
    assert 0 <= at <= len(replacement)
    is_in_word = 0 < at < len(replacement) and not replacement[at - 1].isspace() and not replacement[at].isspace()
    assert not is_in_word or replacement.startswith(kept)
    joint = kept[-1:] + replacement[at : at + 1]
    assert len(joint) < 2 or replacement.startswith(kept) or any(map(str.isspace, joint))


@given(TEXTS, TEXTS)
def test_what_was_kept_is_not_said_again(kept: str, more: str) -> None:
    assert resume_at(kept, kept + more) == len(kept)


def test_long_texts_cost_little() -> None:
    kept = "word " * COMPARED_CHARACTERS
    started = time.perf_counter()
    assert resume_at(kept, "other " * 20_000) == len("other ") * COMPARED_CHARACTERS
    assert resume_at("w" * COMPARED_CHARACTERS, "other " * 20_000) < 2 * COMPARED_CHARACTERS
    assert time.perf_counter() - started < 1
