"""Pronunciations of one's own: what they do, and which are refused."""

from pathlib import Path

import pytest

from engine.core import LexiconEntry, Utterance
from engine.errors import LexiconError
from engine.lexicon import (
    DEEPEST,
    LONGEST_PRONUNCIATION,
    MOST_ENTRIES,
    compile_lexicon,
    read_lexicon,
)
from engine.text.ipa import from_ipa
from engine.text.phonemes import SYMBOLS
from engine.text.reader import Reader
from tests.engine.text.reading import lexicon_of, pieces, said


def sounds(text: str, say: dict[str, str] | None = None, ipa: dict[str, str] | None = None) -> list[str]:
    return [word.phonemes for word in pieces(text, lexicon=lexicon_of(say, ipa))]


def test_a_respelling_is_read_as_if_it_stood_there() -> None:
    plain = [word.phonemes for word in pieces("I saw shivawn today.")]
    assert sounds("I saw Siobhan today.", {"Siobhan": "shivawn"}) == plain


def test_the_original_word_keeps_its_place() -> None:
    word = pieces("See AC/DC, live.", lexicon=lexicon_of({"AC/DC": "ay see dee see"}))[1]
    assert (word.text, word.spoken, word.char_start, word.char_end) == ("AC/DC,", "ay see dee see", 4, 10)
    assert word.phonemes.endswith(",")


def test_phonemes_are_taken_as_they_are() -> None:
    assert sounds("Ask Nguyen!", ipa={"Nguyen": "ŋwɪn"})[1] == "ŋwɪn!"
    assert pieces("Ask Nguyen!", lexicon=lexicon_of(ipa={"nguyen": "ŋwɪn"}))[1].spoken == "Nguyen"


def test_a_capital_letter_makes_an_entry_particular() -> None:
    assert said("US us", lexicon=lexicon_of({"US": "united states"})) == "united states us.//"
    assert said("US us", lexicon=lexicon_of({"us": "ourselves"})) == "ourselves ourselves.//"


def test_an_abbreviation_of_ones_own_does_not_end_the_sentence() -> None:
    lexicon = lexicon_of({"Abb.": "abbot"})
    assert said("The Abb. Smith came. I saw him.", lexicon=lexicon) == "The abbot Smith came.// I saw him.//"
    assert said("I saw the Abb. The end.", lexicon=lexicon) == "I saw the abbot.// The end.//"


def test_known_abbreviations_can_be_said_otherwise() -> None:
    assert (
        said("12 Main St. Then left.", lexicon=lexicon_of({"st.": "straight"}))
        == "twelve Main straight.// Then left.//"
    )


def test_entries_lead_to_entries() -> None:
    lexicon = lexicon_of({"ACME": "acme company", "acme": "ackmee"}, {"company": "ˈkʌmpəni"})
    word = pieces("ACME", lexicon=lexicon)[0]
    assert word.spoken == "ackmee company"
    assert word.phonemes.endswith(" kˈʌmpəni.")


def test_an_utterance_comes_before_its_server(tmp_path: Path) -> None:
    path = tmp_path / "words.toml"
    path.write_text('[say]\ngif = "ghif"\nfoo = "gif bar"\n[ipa]\nbaz = "bæz"\n', encoding="utf-8")
    reader = Reader.with_lexicon(path, reads_phonemes=True, has_cues=False)
    front = reader.front(
        Utterance("u", "heart", lexicon=(LexiconEntry("gif", say="jif"), LexiconEntry("x", say="foo")))
    )
    words = [*front.append("gif foo baz x"), *front.finish()]
    # What the server's entries lead to was worked out before the utterance came.
    assert [word.spoken for word in words] == ["jif", "ghif bar", "baz", "ghif bar"]


@pytest.mark.parametrize(
    ("say", "message"),
    [
        ({"a": "a"}, "never ends: a -> a"),
        ({"a": "b c", "c": "d", "d": "x a"}, "never ends: a -> c -> d -> a"),
        ({"b": "B"}, "never ends: b -> b"),
        ({"two words": "x"}, "is no word"),
        ({"": "x"}, "is no word"),
        ({"...": "x"}, "is no word"),
        ({"x" * 65: "x"}, "is no word"),
        ({"x": "20 dollars"}, "figures written out"),
        ({"x": "<b>"}, "words of letters"),
        ({"x": " - "}, "words of letters"),
        ({"x": "a" * (LONGEST_PRONUNCIATION + 1)}, "more than 256"),
        ({f"x{i}": f"x{i + 1}" for i in range(DEEPEST + 1)} | {f"x{DEEPEST + 1}": "end"}, "figures written out"),
        ({"b" + "a" * i: "b" + "a" * (i + 1) for i in range(DEEPEST + 1)}, "more than 32 entries"),
        ({"b" + "a" * i: " ".join(["b" + "a" * (i + 1)] * 4) for i in range(9)}, "grows beyond"),
    ],
    ids=range(14),
)
def test_respellings_that_cannot_be_used(say: dict[str, str], message: str) -> None:
    with pytest.raises(LexiconError, match=message):
        lexicon_of(say)


@pytest.mark.parametrize("entry", [LexiconEntry("x"), LexiconEntry("x", "y", "z")])
def test_an_entry_says_one_thing(entry: LexiconEntry) -> None:
    with pytest.raises(LexiconError, match="one of 'say' and 'ipa'"):
        compile_lexicon((entry,))


def test_size_is_bounded() -> None:
    letters = [chr(ord("a") + i) for i in range(26)]
    words = [a + b + c for a in letters for b in letters for c in letters][: MOST_ENTRIES + 1]
    entries = tuple(LexiconEntry(word, say="yes") for word in words)
    assert len(compile_lexicon(entries[:-1])) == MOST_ENTRIES
    with pytest.raises(LexiconError, match="1000 entries, not 1001"):
        compile_lexicon(entries)


def test_a_model_that_reads_text_takes_no_phonemes() -> None:
    with pytest.raises(LexiconError, match="reads text"):
        compile_lexicon((LexiconEntry("x", ipa="æ"),), reads_phonemes=False)


@pytest.mark.parametrize(
    ("transcription", "phonemes"),
    [
        ("həˈloʊ", "həlˈO"),
        ("ˈtʃɝːtʃ", "ʧˈɜɹʧ"),
        ("/ˌɪn.tɚˈnæʃ.ə.nəl/", "ˌɪntəɹnˈæʃənəl"),
        ("ˈbʌt.n̩", "bˈʌtᵊn"),
        ("ˈwɔːɾɚ", "wˈɔTəɹ"),
        ("nuː ˈjɔːɹk", "nu jˈɔɹk"),
        ("d͡ʒɔɪ", "ʤY"),
        ("həlˈO", "həlˈO"),
        ("ɡoʊ", "ɡO"),
    ],
)
def test_ipa(transcription: str, phonemes: str) -> None:
    assert from_ipa(transcription) == phonemes
    assert set(phonemes) - {" "} <= SYMBOLS


@pytest.mark.parametrize("transcription", ["ʒy", "ç", "ɬæn", "hello!", "Ж", "æ1"])
def test_sounds_that_english_does_not_have_are_named(transcription: str) -> None:
    with pytest.raises(LexiconError, match="is no sound this voice knows"):
        lexicon_of(ipa={"x": transcription})


@pytest.mark.parametrize("transcription", ["ˈ", "ː", " ", "//"])
def test_a_transcription_has_a_sound(transcription: str) -> None:
    with pytest.raises(LexiconError, match="has no sound"):
        lexicon_of(ipa={"x": transcription})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[say", "cannot read"),
        ("[other]\na = 'b'", "not 'other'"),
        ("say = 5", r"tables \[say\] and \[ipa\]"),
        ("[say]\na = 5", "must be a string"),
        ("[say]\na = 'b'\n[ipa]\na = 'æ'", "both tables"),
    ],
)
def test_files_that_are_no_lexicon(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "words.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(LexiconError, match=message):
        read_lexicon(path)
    with pytest.raises(LexiconError, match="cannot read"):
        read_lexicon(tmp_path / "missing.toml")
