"""When words come out, what a flush does, and that nothing grows without bound."""

import time

import pytest

from engine.text.front import TextFront, explain, warm


def released_behind(text: str) -> dict[str, int]:
    """For each word, how many characters beyond its end had arrived when it came out."""
    front = TextFront()
    return {w.text: i + 1 - w.char_end for i, c in enumerate(text) for w in front.append(c)}


def test_most_words_come_out_when_the_next_begins() -> None:
    assert released_behind("I can help you there, friend. Yes. No. Well ") == {
        "I": 2, "can": 2, "help": 2, "you": 2, "there,": 1, "friend.": 1, "Yes.": 1, "No.": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    "text", ["Go to the apple ", "The U.S. economy grew ", "That $5 million house ", "Dr. Smith is "]
)
def test_the_first_two_words_come_out_with_the_third(text: str) -> None:
    front = TextFront()
    words = [
        word for c in text[: text.index(" ", text.index(" ", text.index(" ") + 1) + 1) + 1] for word in front.append(c)
    ]
    assert len(words) >= 2


def test_a_flush_speaks_everything_and_text_goes_on() -> None:
    front = TextFront()
    assert [w.text for w in front.append("Go to the")] == ["Go"]
    held = front.flush()
    assert [(w.text, w.boundary) for w in held] == [("to", "none"), ("the", "none")]
    rest = [*front.append(" apple"), *front.finish()]
    assert [(w.text, w.char_start, w.char_end) for w in rest] == [("apple", 10, 15)]
    assert front.chars_received == 15


def test_a_flush_inside_a_word_cuts_it() -> None:
    front = TextFront()
    words = [*front.append("hel"), *front.flush(), *front.append("lo"), *front.finish()]
    assert [(w.text, w.char_start) for w in words] == [("hel", 0), ("lo", 3)]


def test_an_empty_message_changes_nothing() -> None:
    front = TextFront()
    words = [*front.append("a"), *front.append(""), *front.append("b c"), *front.finish()]
    assert words == explain("ab c")


@pytest.mark.parametrize(
    "unit",
    ["a", "7", "[", "<", "<a", "[a](", "&", "&a", "`", "|", "\n", " ", "🎉", "我", "\u200b", "a-", "a.", "a@", "a/"]
    + ["α", "*", ".", "http://a/", "((", '"', "a'", "1/", "#", "\\", "x^2"],
)  # fmt: skip
def test_endless_runs_are_bounded(unit: str) -> None:
    front = TextFront()
    text = unit * (6_000 // len(unit))
    start = time.process_time()
    words = front.append(text[:3_000])
    held = len(front._recent)
    for i in range(3_000, len(text), 50):
        words += front.append(text[i : i + 50])
        held = max(held, len(front._recent))
    words += front.finish()
    assert held < 4096
    assert all(len(w.text) <= 4096 for w in words)
    assert time.process_time() - start < 20


def test_a_long_text_takes_time_in_proportion() -> None:
    warm()
    sentence = "She was destined to become a great pianist, and everybody in the house knew it. "

    def seconds(count: int) -> float:
        front = TextFront()
        start = time.process_time()
        for _ in range(count):
            front.append(sentence)
        return time.process_time() - start

    seconds(5)
    short, long = seconds(20), seconds(200)
    assert long < 25 * short


def test_a_long_text_keeps_no_text() -> None:
    front = TextFront()
    count = sum(len(front.append("word and again ")) for _ in range(30_000 // 15))
    assert count == 3 * (30_000 // 15) - 1
    assert len(front._recent) < 64
    assert len(front._words.words) <= 2


def test_two_thousand_characters_without_punctuation() -> None:
    words = explain("word and " * 222)
    assert len(words) == 444
    assert {w.boundary for w in words[:-1]} == {"none"}
