"""Chunking of long text: nothing is lost, nothing is too long, nothing uncuttable is cut; stored cases are golden."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chunks import flatten_lines, pinned_history, split_text
from engine.prompt import WHITE_SPACE

text = st.text(st.sampled_from("ab é鹭.!,;:…。 \n\t0123[]<>/|\u2028\u00a0"), max_size=400)


def squeezed(value: str) -> str:
    return "".join(c for c in value if c not in WHITE_SPACE)


@given(text, st.integers(8, 60))
def test_nothing_is_lost_or_added(value: str, most: int) -> None:
    chunks = split_text(value, most)
    assert squeezed("".join(chunks)) == squeezed(value)


@given(st.text(st.sampled_from("ab é鹭.!,;:…。 \n0123"), max_size=400), st.integers(8, 60))
def test_chunks_keep_the_limit_where_everything_may_be_cut(value: str, most: int) -> None:
    assert all(len(chunk.encode()) <= most for chunk in split_text(value, most))


@given(text)
def test_short_text_is_only_flattened(value: str) -> None:
    assert split_text(value, 10_000) == [flatten_lines(value)]


@pytest.mark.parametrize(
    "whole",
    [
        "[sighs, and then. waits]",
        "<whisper>one. two. three, four.</whisper>",
        "<fr x='1'>oui. non.</fr>",
        "<|endoftext|>",
    ],
)
def test_what_may_not_be_cut_stays_whole_even_if_too_long(whole: str) -> None:
    chunks = split_text(f"Before it. {whole} After it.", 12)
    assert any(whole in chunk for chunk in chunks)


def test_a_tag_that_is_never_closed_is_text() -> None:
    assert split_text("<b>one. two. three.", 10) == ["<b>one.", "two.", "three."]


def test_numbers_are_not_cut_at_their_point() -> None:
    assert split_text("It is 3.14159 long. Yes.", 20) == ["It is 3.14159 long.", "Yes."]


def test_sentences_before_clauses_before_words_before_characters() -> None:
    assert split_text("Aa bb. Cc, dd ee ff gg.", 12) == ["Aa bb. Cc,", "dd ee ff gg."]
    assert split_text("Cc cc cc, dd ee ff.", 12) == ["Cc cc cc,", "dd ee ff."]
    assert split_text("éééééééé", 5) == ["éé", "éé", "éé", "éé"]


def test_speakers() -> None:
    value = "Start. <|speaker:2|> Two. <|speaker:3|> <|speaker:2|> More two. <|speaker:5|> Five."
    chunks = split_text(value, 300, most_speakers=2)
    assert chunks == ["<|speaker:0|> Start. \n<|speaker:2|>  Two. \n<|speaker:2|>  More two. ", "<|speaker:5|>  Five."]


def test_history_is_the_first_and_the_previous_chunk() -> None:
    assert [pinned_history("abcd"[:n]) for n in range(5)] == [[], ["a"], ["a", "b"], ["a", "c"], ["a", "d"]]


@pytest.mark.parametrize("unit", ["<a>", "<|", "[", "<a ", ".", "<a></b>", "\n "])
def test_time_grows_no_faster_than_the_text(unit: str) -> None:
    """Openers that nothing closes must not each search to the end."""
    started = time.process_time()
    split_text(unit * 30_000)
    assert time.process_time() - started < 5
