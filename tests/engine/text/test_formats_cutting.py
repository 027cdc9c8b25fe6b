"""In every format, with a lexicon and for models that read text: pieces do not depend on how the text was cut."""

from collections.abc import Callable

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from engine.core import TextFormat
from engine.text.front import TextFront
from engine.text.words import Kind, SpokenWord
from tests.engine.text.reading import fed, lexicon_of

LEXICON = lexicon_of(
    {"Siobhan": "shivawn", "gif": "jif", "AC/DC": "ay see dee see", "Abb.": "abbot"}, {"nguyen": "ŋwɪn"}
)
WORDS = (
    "Hello", "the", "to", "apple", "Siobhan", "GIF,", "AC/DC", "Abb.", "Nguyen", "Dr.", "Smith", "$20", "5", "km",
    "3.14", "9am–5pm", "2026-11-30T12:00Z", "我有AI", "コーヒー。", "привет,", "สวัสดี", "é", "🎉", "—", "...", "&",
    "<", ">", "[", "]", "a", "used", "that", "5 km.", "No.", "7", ".", ",", "!", "“Yes”", "(a)", "x²", "α", "αβγ",
)  # fmt: skip
ESCAPES = (
    "\x1b[31m",
    "\x1b[0m",
    "\x1b[1;32m",
    "\x1b]8;;http://a.b\x1b\\",
    "\x1b]0;t\x07",
    "\x1b",
    "\x1b[",
    "\x9b1m",
    "\x1bM",
)
MARKDOWN = (
    "**", "*", "`", "```", "# ", "- ", "1. ", "> ", "|", "[laughs]", "[a](http://b.c)", "[1]: http://b.c 't'", "[^1]: ",
    "[^1]", "<whisper>", "</whisper>", "<laugh/>", "<b>", "<!-- a long note -->", '<a href="http://b.c/d">', "</a>",
    "$x^2$", "$$", "$", ":smile:", ":", "~~", "\\", "&amp;", "\n", "\n\n", "<|", "<a\n",
)  # fmt: skip
SSML = (
    "<speak>", "</speak>", "<p>", "</p>", '<break time="500ms"/>', "<break/>", '<break strength="strong"/>', "<break",
    '<sub alias="20 dollars">', "</sub>", '<say-as interpret-as="characters">', "</say-as>", '<phoneme ph="təˈmɑtoʊ">',
    '<phoneme ph="Ж">', "</phoneme>", '<prosody rate="slow">', "</prosody>", "<emphasis>", "</emphasis>", "<foo a='>'>",
    "&lt;", "&amp;", "&#39;", "&foo;", "<!-- c -->", "<![CDATA[", "]]>", "<!DOCTYPE a [<!ENTITY b 'c'>]>", "<?xml?>",
    '<lang xml:lang="fr">', "</lang>", '<say-as interpret-as="date" format="dmy">', "1.2.2024", "<", "\n", "\n\n",
)  # fmt: skip

Make = Callable[[], TextFront]
VOICES: dict[str, tuple[Make, tuple[str, ...]]] = {
    "markdown": (lambda: TextFront("en", LEXICON, shows_silent=True), MARKDOWN),
    "plain": (lambda: TextFront("en", LEXICON, TextFormat.PLAIN, shows_silent=True), MARKDOWN),
    "ssml": (lambda: TextFront("en", LEXICON, TextFormat.SSML, shows_silent=True), SSML),
    "model with cues": (lambda: TextFront("zh", LEXICON, reads_phonemes=False, has_cues=True), MARKDOWN),
    "model with ssml": (lambda: TextFront("en", LEXICON, TextFormat.SSML, reads_phonemes=False), SSML),
}


def texts(markup: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Texts of words, markup, escapes and anything."""
    any_piece = st.one_of(
        st.sampled_from(WORDS + markup),
        st.sampled_from(markup + ESCAPES),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    )
    pairs = st.tuples(any_piece, st.sampled_from(["", " ", " ", "\n"]))
    return st.lists(pairs, max_size=14).map(lambda found: "".join(a + b for a, b in found).replace("<|", "< |"))


def read(make: Make, text: str, cuts: list[int]) -> tuple[list[SpokenWord], list[str]]:
    front = make()
    words = fed(front, text, cuts)
    return words, front.take_notices()


@pytest.mark.parametrize("voice", VOICES)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), cuts=st.lists(st.integers(0, 300), max_size=6))
def test_any_cutting_gives_the_same_pieces_and_notices(voice: str, data: st.DataObject, cuts: list[int]) -> None:
    make, markup = VOICES[voice]
    text = data.draw(texts(markup))
    whole = read(make, text, [])
    assert read(make, text, cuts) == whole
    assert read(make, text, list(range(len(text)))) == whole


@pytest.mark.parametrize("voice", VOICES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_pieces_stand_in_order_where_they_say(voice: str, data: st.DataObject) -> None:
    make, markup = VOICES[voice]
    text = data.draw(texts(markup))
    position = 0
    for word in read(make, text, [])[0]:
        assert word.text == text[word.char_start : word.char_end]
        assert position <= word.char_start < word.char_end
        position = word.char_end
        assert bool(word.pause_ms) == (word.kind is Kind.PAUSE)


@settings(max_examples=40, deadline=None)
@given(texts(SSML))
@example('<sub alias="a">')
def test_ssml_never_says_its_markup(text: str) -> None:
    make, _ = VOICES["ssml"]
    assume("<![CDATA[" not in text)  # What stands in it is text, markup or not.
    for word in read(make, f"<speak>{text}", [])[0]:
        assert "speak" not in word.spoken


@settings(max_examples=40, deadline=None)
@given(st.text("\x1b[]0123456789;mKHJ\\\x07 ab", max_size=40))
def test_escapes_whatever_they_are_leave_no_control_character(text: str) -> None:
    for word in fed(TextFront(), text):
        assert word.spoken.isprintable()
