"""Words of scripts without spaces: as dictionaries know them, the same however the text comes, told exactly."""

import logging
import sys
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.text import dictionary
from engine.text.front import TextFront
from engine.text.words import SpokenWord
from tests.engine.text.reading import fed

CHINESE = "我们今天去北京大学看望老朋友。天气很好，𠀋吃饭了吗？"
JAPANESE = "佐々木さんは東京タワーへ行きました。コンピューターって何？"
THAI = "สวัสดีครับ วันนี้อากาศดีมาก"
SAMPLES = (
    CHINESE,
    JAPANESE,
    THAI,
    "ສະບາຍດີມື້ນີ້ອາກາດດີ",
    "សួស្តីថ្ងៃនេះអាកាសធាតុល្អណាស់",
    "မင်္ဂလာပါဒီနေ့ရာသီဥတုကောင်းတယ်",
    "བཀྲ་ཤིས་བདེ་ལེགས།",
)
PIECES = (
    *SAMPLES,
    *CHINESE,
    *JAPANESE,
    *THAI,
    " ",
    "AI",
    "привет",
    "안녕",
    "(",
    "“",
    "”",
    "**",
    "2026",
    "、",
    "\n",
    "ー",
    "้",
    "x" * 45,
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=10).map("".join)
CUTS = st.lists(st.integers(0, 300), max_size=6)


def reader(language: str = "en", *, speaks: bool = False) -> TextFront:
    """For a model that reads text, or a voice that only passes over these scripts."""
    return TextFront(language, reads_phonemes=speaks, shows_silent=True)


def texts(text: str, language: str = "en", *, speaks: bool = False) -> list[str]:
    return [word.text for word in fed(reader(language, speaks=speaks), text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CHINESE, "我们 今天 去 北京 大学 看望 老朋友。 天气 很好， 𠀋 吃饭 了 吗？"),
        ("这（很好）说“你好”！", "这 （很好） 说 “你好”！"),
        (JAPANESE, "佐々木 さん は 東京タワー へ 行き ま した。 コンピューター って 何？"),
        (THAI, "สวัสดี ครับ วัน นี้ อากาศ ดี มาก"),
        ("ສະບາຍດີມື້ນີ້", "ສະບາຍດີ ມື້ນີ້"),
        ("សួស្តីថ្ងៃនេះ", "សួស្តី ថ្ងៃនេះ"),
        ("ဒီနေ့ရာသီဥတု", "ဒီ နေ့ ရာသီဥတု"),
        ("བཀྲ་ཤིས་", "བཀྲ་ ཤིས་"),
        ("say（我们）“今天”and", "say （我们） “今天” and"),
        ("我有AI助手2026年", "我有 AI 助手 2026 年"),
    ],
)
def test_words_as_dictionaries_know_them(text: str, words: str) -> None:
    assert " ".join(texts(text)) == words


def test_they_are_the_same_for_a_voice_that_passes_over_them() -> None:
    words = [
        word for word in fed(reader(speaks=True), f"Hi 我们今天行きました {THAI} приветสวัสดี.") if word.text != "Hi"
    ]
    assert [(word.text, word.language) for word in words[:5]] == [
        ("我们", "und-Hani"), ("今天", "und-Hani"), ("行き", "ja"), ("ま", "ja"), ("した", "ja"),
    ]  # fmt: skip
    assert [word.text for word in words[5:]] == ["สวัสดี", "ครับ", "วัน", "นี้", "อากาศ", "ดี", "มาก", "привет", "สวัสดี"]


@settings(max_examples=150, deadline=None)
@given(TEXTS, CUTS, st.booleans())
@example("ไปกินข้าวกันไหมไปกินข้าวกันไหมไปกินข้าวกันไหม", [7], True)
@example("(我们)今天ー้", [2, 3], False)
def test_any_cutting_gives_the_same_words_and_places(text: str, cuts: list[int], speaks: bool) -> None:
    whole = fed(reader(speaks=speaks), text)
    assert fed(reader(speaks=speaks), text, cuts) == whole
    assert fed(reader(speaks=speaks), text, range(len(text))) == whole
    last = 0
    for word in whole:
        assert last <= word.char_start < word.char_end <= len(text)
        assert text[word.char_start : word.char_end] == word.text
        last = word.char_end


@settings(max_examples=75, deadline=None)
@given(TEXTS, TEXTS, st.booleans())
def test_what_follows_changes_no_word_that_is_out(text: str, more: str, speaks: bool) -> None:
    early = reader(speaks=speaks).append(text)
    assert fed(reader(speaks=speaks), text + more)[: len(early)] == early


@pytest.mark.parametrize(("text", "most"), [(CHINESE[:14], 9), (JAPANESE[:17], 12), (THAI[11:] * 2, 24)])
def test_a_word_is_held_for_a_few_characters(text: str, most: int) -> None:
    """The look-ahead, the word and the one before it; none waits for the end of its sentence."""
    front, known_to = reader(), 0
    for at, c in enumerate(text, 1):
        for word in front.append(c):
            known_to = word.char_end
        assert at - known_to <= most, text[known_to:at]
    assert known_to > 0


def test_a_flush_gives_all_of_it() -> None:
    front = reader()
    given = front.append("我们今天去北")
    assert [word.text for word in [*given, *front.flush()]] == ["我们", "今天", "去", "北"]


@pytest.fixture
def without_icu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "icu4py.breakers", None)
    dictionary._breaker.cache_clear()
    yield
    dictionary._breaker.cache_clear()


@pytest.mark.usefixtures("without_icu")
def test_without_dictionaries_characters_are_told_and_so_is_that_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert texts("我们今天，コンピューターってสวัสดี")[:6] == ["我", "们", "今", "天，", "コンピューターっ", "て"]
        text, out = "我们今天去", list[SpokenWord]()
        front = reader()
        for c in text:
            out += front.append(c)
        assert [word.text for word in out + front.finish()] == list(text)
    (record,) = caplog.records
    assert "footlights[scripts]" in record.getMessage()
