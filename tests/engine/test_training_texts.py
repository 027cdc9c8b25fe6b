"""What the teacher reads: every kind of text, every pair of phonemes, and nothing made from what is held out."""

import random
import re
from itertools import islice
from pathlib import Path

import pytest

from engine.train.corpus import lexicon_words, unheard
from engine.train.forms import exclaimed, joined, quoted
from engine.train.texts import covering, is_held_out, pairs, training_texts

NOUNS = [
    "harbour",
    "lantern",
    "meadow",
    "orchard",
    "village",
    "captain",
    "kettle",
    "blanket",
    "garden",
    "window",
    "carpet",
    "bottle",
]
LEXICON = {"cat": "kˈæt", "act": "ˈækt", "tack": "tˈæk", "it": "ɪt"}


@pytest.fixture
def wordnet(tmp_path: Path) -> Path:
    """Files in the form of WordNet's, a few entries long."""
    glosses = [f'the {a} (and more); "the {a} was {b} that evening"' for a in NOUNS for b in ("bright", "cold", "old")]
    lines = [f"0{i:07d} 06 n 01 {NOUNS[i % len(NOUNS)]} 0 000 | {gloss}" for i, gloss in enumerate(glosses)]
    places = [f"1{i:07d} 15 n 01 {name} 0 000 | a place" for i, name in enumerate(("Port_Anna", "Velden", "Ostra"))]
    (tmp_path / "data.noun").write_text("\n".join([*lines, *places]), encoding="utf-8")
    (tmp_path / "index.noun").write_text("\n".join(f"{noun} n 1 0" for noun in NOUNS), encoding="utf-8")
    for part in ("verb", "adj", "adv"):
        for kind in ("data", "index"):
            (tmp_path / f"{kind}.{part}").write_text("", encoding="utf-8")
    return tmp_path


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(f"Bring me the {noun} number {i}." for i, noun in enumerate(NOUNS * 4)), encoding="utf-8")
    return path


def test_wanted_words_come_first_alone_in_sentences_and_in_lists(sentences: Path, wordnet: Path) -> None:
    texts = list(islice(training_texts(sentences, wordnet, 1, ["quartz", "zoo", "vow", "jaw"]), 7))
    assert [text.rstrip(".?!") for text in texts if " " not in text] == ["Quartz", "Zoo", "Vow", "Jaw"]
    assert texts[-1] == "Quartz, zoo, vow, jaw."
    assert sum("zoo" in text or "jaw" in text for text in texts[:-1]) == 2


def test_every_kind_of_text_is_read(sentences: Path, wordnet: Path) -> None:
    texts = [text for seed in range(4) for text in training_texts(sentences, wordnet, seed)]
    assert any(re.fullmatch(r"[A-Z][a-z]+[.?!]", text) for text in texts), "a word alone"
    assert any(re.fullmatch(r'"[^"]+[,?!]" [a-z]+ [A-Z][A-Za-z ]+\.', text) for text in texts), "dialogue"
    assert any(re.fullmatch(r'[A-Z][A-Za-z ]+, "[^"]+"', text) for text in texts), "dialogue, the speaker first"
    assert any(text.startswith("The ") and text.endswith("evening!") for text in texts), "an exclamation"
    assert any(len(text.split()) > 13 for text in texts), "a long one"
    assert any(re.fullmatch(r"[A-Z0-9]+(, [A-Z0-9]+)*\.", text) for text in texts), "letters and numbers"
    assert any("Velden" in text for text in texts), "names"


def test_nothing_is_made_from_what_is_held_out(sentences: Path, wordnet: Path) -> None:
    texts = [text for seed in range(4) for text in training_texts(sentences, wordnet, seed)]
    held = {text for text in texts if is_held_out(text)}
    examples = {text.rstrip(".") for text in held if re.fullmatch(r"The \w+ was \w+ that evening\.", text)}
    assert len(examples) > 1
    for example in examples:
        body = example[4:]
        assert not [text for text in texts if body in text and text.rstrip(".") != example], example


def test_a_word_held_out_alone_is_not_asked_or_exclaimed(sentences: Path, wordnet: Path) -> None:
    words = [f"w{a}{b}" for a in "aeiou" for b in "bcdfghjklmnp"]
    held = {word for word in words if is_held_out(word.capitalize() + ".")}
    assert held
    alone = [text for text in training_texts(sentences, wordnet, 1, words) if text[:-1].lower() in held]
    assert len(alone) == len(held)
    assert all(text.endswith(".") for text in alone)


def test_forms_keep_the_sentence() -> None:
    rng = random.Random(1)
    assert exclaimed("It is late.") == "It is late!"
    spoken = {quoted("Is it late?", "Ben", rng) for _ in range(40)}
    assert all(text.endswith('"Is it late?"') or text.startswith('"Is it late?" ') for text in spoken)
    assert len(spoken) > 5
    for _ in range(20):
        text = joined(["It is late.", "May came home.", "I slept."], rng)
        assert text.lower().count("it is late") == text.lower().count("may came home") == text.count("I slept") == 1
        assert text.endswith("slept.")


def test_words_are_wanted_until_every_pair_was_met() -> None:
    for heard in ([], ["kˈæt"], list(LEXICON.values())):
        for often in (1, 2):
            words = list(unheard(LEXICON, heard, often))
            assert len(set(words)) == len(words)
            met = [pair for phonemes in [*heard, *(LEXICON[word] for word in words)] for pair in pairs(phonemes)]
            for pair in {pair for phonemes in LEXICON.values() for pair in pairs(phonemes)}:
                possible = sum(pair in pairs(phonemes) for phonemes in LEXICON.values())
                assert met.count(pair) >= min(often, possible), pair
    assert list(unheard(LEXICON, list(LEXICON.values()), often=1)) == []


def test_the_lexicon_can_be_covered() -> None:
    lexicon = {word: sound for word, sound in lexicon_words().items() if len(word) > 1 and word.isalpha()}
    words = list(unheard(lexicon, [], often=1))
    met = {pair for word in words for pair in pairs(lexicon[word])}
    assert met == {pair for sound in lexicon.values() for pair in pairs(sound)}
    assert len(words) < 1000


def test_of_every_few_texts_the_newest_sound_is_first() -> None:
    texts = ["aaaa", "abcd", "aaab"]
    assert next(covering(texts, str, ["aaaa"] * 5)) == "abcd"
    assert sorted(covering(texts, str, [])) == sorted(texts)
