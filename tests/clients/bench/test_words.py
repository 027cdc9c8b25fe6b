import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.bench.words import WordErrors, edit_distance, normalise, sound_alike, word_errors

WORDS = st.lists(st.sampled_from(["a", "b", "ab", "c", "cab"]), max_size=7)


def test_case_punctuation_and_accents_do_not_count() -> None:
    assert normalise("  First, open the CAFÉ-settings… NOW!") == ["first", "open", "the", "cafe", "settings", "now"]
    assert normalise("It’s 'fine'.") == ["it's", "fine"]


def test_figures_are_words() -> None:
    assert word_errors("ready at five past five", "Ready at 5 past 5.") == WordErrors(0, 5)
    assert normalise("20%") == ["twenty", "percent"]


def test_spelling_is_free_where_the_sound_is_one() -> None:
    assert word_errors("Mister Grey is okay, alright", "Mr. Gray is OK. All right?").errors == 0
    assert word_errors("The sunset", "the sun set").errors == 0
    assert word_errors("the sun set", "The sunset!").errors == 0
    assert word_errors("Spell it: I, K, V, B, H, R.", "Spell it IKVB HR.") == WordErrors(0, 8)
    assert word_errors("I K V sunset", "IKV sun fed").errors == 2


def test_substitution_deletion_and_insertion_cost_one_each() -> None:
    assert word_errors("one two three", "one too three") == WordErrors(1, 3)
    assert word_errors("one two three", "one three") == WordErrors(1, 3)
    assert word_errors("one two three", "oh one two three").errors == 1
    assert word_errors("one two three", "").rate == 1.0
    assert word_errors("one", "four five six").rate == 3.0


@pytest.mark.parametrize(
    ("text", "heard"), [("Our!", "hour."), ("Two", "To."), ("Minx", "Minks!"), ("our sun", "hour son")]
)
def test_homophones_sound_alike(text: str, heard: str) -> None:
    assert sound_alike(text, heard)


@pytest.mark.parametrize(
    ("text", "heard"), [("Call.", "Come"), ("me?", "Yeah."), ("Turpitudes.", "Turpitude."), ("a", ""), ("...", "")]
)
def test_others_do_not_sound_alike(text: str, heard: str) -> None:
    assert not sound_alike(text, heard)


def test_nothing_to_say_is_wrong_only_if_something_was_heard() -> None:
    assert word_errors("...", "").rate == 0.0
    assert word_errors("...", "hello there").rate == 1.0


@given(WORDS, WORDS)
def test_distance_is_symmetric_bounded_and_zero_for_the_same(first: list[str], second: list[str]) -> None:
    distance = edit_distance(first, second)
    assert edit_distance(first, first) == 0
    assert distance == edit_distance(second, first)
    assert distance <= max(len(first), len(second))
    assert (distance == 0) <= ("".join(first) == "".join(second))


@given(WORDS, st.integers(0, 6))
def test_a_word_left_out_costs_at_most_one(words: list[str], index: int) -> None:
    if index < len(words):
        assert edit_distance(words, words[:index] + words[index + 1 :]) == 1
