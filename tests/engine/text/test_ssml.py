"""The safe subset of SSML: what is done, what is told, what cannot be misused."""

import time

import pytest

from engine.core import TextFormat
from engine.text.clean import MOST_NOTICES
from engine.text.front import TextFront
from engine.text.ssml import CONTENT_BOUND, LONGEST_PAUSE_MS
from engine.text.words import Kind
from tests.engine.text.reading import fed, pieces, said


def notices(text: str, reads_phonemes: bool = True, language: str = "en") -> list[str]:
    front = TextFront(language, text_format=TextFormat.SSML, reads_phonemes=reads_phonemes)
    fed(front, text)
    return front.take_notices()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<speak><p>One</p><s>Two.</s> three</speak>", "One.// Two.// three.//"),
        ("One <break time='500ms'/> two", "One,/ <500> two.//"),
        ("One. <break time='1.5s'/> Two", "One.// <1500> Two.//"),
        ("One <break/> two <break strength='strong'/> three", "One,/ <400> two,/ <700> three.//"),
        ("One <break strength='none'/> two <break time='0s'/> three", "One two three.//"),
        ("The <sub alias='20 dollars'>XX</sub>, please", "The twenty dollars,/ please.//"),
        ("<sub alias='Dr. Who &amp; sons'>it</sub> ran", "Doctor Who and sons ran.//"),
        ("<say-as interpret-as='characters'>AB1-x</say-as> ok", "A. B one dash X ok.//"),
        ("<say-as interpret-as='cardinal'>1205</say-as>", "one thousand two hundred and five.//"),
        ("<say-as interpret-as='ordinal'>3</say-as> <say-as interpret-as='digits'>42</say-as>", "third four two.//"),
        ("<say-as interpret-as='date' format='dmy'>1.2.2024</say-as>", "the first of February twenty twenty four.//"),
        ("<say-as interpret-as='time'>14:05:09</say-as>", "fourteen o five and nine seconds.//"),
        ("<say-as interpret-as='telephone'>+1 800</say-as>", "plus one, eight zero zero.//"),
        ("<say-as interpret-as='fraction'>2 1/2</say-as>", "two and a half.//"),
        ("<say-as interpret-as='currency'>$20</say-as>", "twenty dollars.//"),
        ("a &lt; b &amp; c &#65; &#x42;", "a is less than b and c A B.//"),
        ("a <!-- <break/> --> b <![CDATA[<break/> & c]]> d", "a b break and c d.//"),
        ("2 * 3 and [laughs] _x_", "two times three and laughs x.//"),
        ("5 < 6", "five is less than six.//"),
        ("un<emphasis>believ</emphasis>able", "unbelievable.//"),
        ("<w role='x'>read</w>", "read.//"),
    ],
)  # fmt: skip
def test_what_is_said(text: str, expected: str) -> None:
    assert said(text, "ssml") == expected


def test_phonemes_are_given_in_ipa() -> None:
    word = pieces("A <phoneme alphabet='ipa' ph='təˈmɑːtoʊ'>tomato</phoneme>, please", "ssml")[1]
    assert (word.text, word.spoken, word.phonemes) == ("tomato", "tomato", "təmˈɑtO,")


def test_places_are_those_of_the_content() -> None:
    text = "<speak>See <sub alias='the world wide web'> W3 C </sub> now</speak>"
    word = pieces(text, "ssml")[1]
    assert (word.text, word.spoken) == ("W3 C", "the world wide web")
    assert text[word.char_start : word.char_end] == "W3 C"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Go <prosody rate='slow'>on</prosody>", "character 3: prosody rate 'slow' cannot be done"),
        ("<prosody pitch='high'>on</prosody>", "prosody pitch 'high' cannot be done"),
        ("<phoneme ph='Жx'>on</phoneme>", "is no sound this voice knows"),
        ("<phoneme alphabet='x-sampa' ph='E'>on</phoneme>", "given in ipa"),
        ("<say-as interpret-as='bling'>on</say-as>", "'bling' is not known"),
        ("<say-as interpret-as='cardinal'>on</say-as>", "cannot be read as 'cardinal'"),
        ("<emphasis>on</emphasis>", "left to the voice"),
        ("<blink>on</blink>", "<blink> changes nothing here"),
        ("<lang xml:lang='fr-FR'>on</lang>", "'fr-FR' is not spoken by this voice"),
        ("<break time='soon'/>on", "is no time for a break"),
        ("<break strength='huge'/>on", "is no strength"),
        ("a<break time='60s'/>on", "at most 10000 ms, not 60000"),
        ("<break time='1s'/>on", "before the first word"),
        ("<!DOCTYPE x [<!ENTITY y 'z'>]>on", "declarations"),
        ("<sub alias='x'>on", "not closed"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_told_and_the_text_is_read(text: str, told: str) -> None:
    assert [notice for notice in notices(text) if told in notice]
    assert said(text, "ssml").endswith("on.//")


@pytest.mark.parametrize(
    "text",
    [
        "<prosody rate='medium'>on</prosody>",
        "<prosody rate='100%'>on</prosody>",
        "<prosody rate='+0%'>on</prosody>",
        "<p>on</p>",
    ],
)
def test_what_is_as_usual_needs_no_notice(text: str) -> None:
    assert notices(text) == []


def speeds(text: str) -> tuple[list[float], list[str]]:
    """Speeds of the words, as a voice reads them that can speak at half to twice its own; and the notices."""
    front = TextFront("en", text_format=TextFormat.SSML, speeds=(0.5, 2.0))
    return [round(word.speed, 3) for word in fed(front, text)], front.take_notices()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <prosody rate='slow'>b c</prosody> d", [1, 0.75, 0.75, 1]),
        ("<speak><prosody rate='x-fast'>b, c.</prosody> d</speak>", [1.6, 1.6, 1]),
        ("<prosody rate='120%'>b</prosody> c", [1.2, 1]),
        ("<prosody rate='1.2'>b</prosody>", [1.2]),
        ("<prosody rate='150%'>a <prosody rate='80%'>b</prosody> c</prosody> d", [1.5, 0.8, 1.5, 1]),
        ("<prosody rate='1.5'>a <prosody rate='-20%'>b <prosody rate='+50%'>c", [1.5, 1.2, 1.8]),
        ("<prosody rate='fast'>a <prosody rate='medium'>b</prosody>", [1.3, 1]),
        ("<prosody rate='fast'>a <prosody pitch='high'>b</prosody> c", [1.3, 1.3, 1.3]),
        ("a <prosody rate='fast'/> b </prosody> c", [1, 1, 1]),
        ("a<prosody rate='slow'>b</prosody> <prosody rate='slow'>c</prosody>d e", [1, 0.75, 1]),
        ("<prosody rate='fast'>$20</prosody>. 2 <prosody rate='slow'>+</prosody> 3", [1.3, 1, 0.75, 1]),
        ("<prosody rate='fast'><sub alias='x y'>z</sub> <break time='1s'/></prosody> a", [1.3, 1.3, 1]),
    ],
)  # fmt: skip
def test_a_rate_is_that_of_the_words_it_encloses(text: str, expected: list[float]) -> None:
    assert speeds(text)[0] == expected


@pytest.mark.parametrize(
    ("rate", "speed", "told"),
    [
        ("5", 2, "'5': this voice speaks at 0.5 to 2; spoken at 2"),
        ("10%", 0.5, "spoken at 0.5"),
        ("-90%", 0.5, "spoken at 0.5"),
        ("brisk", 1, "'brisk' cannot be done"),
        ("-3", 1, "'-3' cannot be done"),
        ("1e9", 1, "cannot be done"),
        ("nan", 1, "cannot be done"),
        ("0", 1, "'0' cannot be done"),
        ("0%", 1, "'0%' cannot be done"),
    ],
)  # fmt: skip
def test_a_rate_that_cannot_be_spoken_is_told(rate: str, speed: float, told: str) -> None:
    said, notices = speeds(f"<prosody rate='{rate}'>b</prosody> c")
    assert said == [speed, 1]
    assert len(notices) == 1
    assert told in notices[0]


def test_elements_that_are_never_closed_cost_nothing() -> None:
    said, notices = speeds("<prosody rate='fast'>" * 5000 + "a" + "</prosody>" * 4999 + " b </prosody> c")
    assert said == [1.3, 1.3, 1]
    assert len(notices) == 1


def test_each_thing_is_told_once_and_few_of_them() -> None:
    assert len(notices("<blink>a</blink> <blink>b</blink>")) == 1
    assert len(notices("".join(f"<x{i}>a" for i in range(100)))) == MOST_NOTICES


def test_a_pause_has_a_bound() -> None:
    (_, pause, _) = pieces("a <break time='999999s'/> b", "ssml")
    assert (pause.kind, pause.pause_ms) == (Kind.PAUSE, LONGEST_PAUSE_MS)


def test_entities_do_not_grow() -> None:
    bomb = "<!DOCTYPE x [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'><!ENTITY c '&b;&b;'>]>&c; end"
    assert said(bomb, "ssml").endswith("end.//")
    assert len(said(bomb, "ssml")) < 200


def test_an_element_that_is_never_closed_is_held_within_a_bound() -> None:
    front = TextFront(text_format=TextFormat.SSML)
    assert front.append("say <sub alias='x'>one two ") == []
    words = front.append("three " * (CONTENT_BOUND // 6))
    assert [w.text for w in words][:4] == ["say", "one", "two", "three"]


@pytest.mark.parametrize(
    "unit",
    [
        "<sub alias='a'>",
        "<sub>a",
        "<!--",
        "<![CDATA[",
        "]]",
        "<break/>",
        "<a b='",
        "<!DOCTYPE [",
        "&#",
        "<",
        "</sub",
        "a<break/>",
    ],
)
def test_time_is_in_proportion_whatever_comes(unit: str) -> None:
    def seconds(length: int) -> float:
        front = TextFront(text_format=TextFormat.SSML)
        text = unit * (length // len(unit))
        started = time.process_time()
        for i in range(0, len(text), 50):
            front.append(text[i : i + 50])
            assert len(front._recent) < 4096
        front.finish()
        return time.process_time() - started

    assert seconds(20_000) < 8 * seconds(5_000) + 0.2


def test_a_model_that_reads_text_gets_the_words_and_is_told_of_phonemes() -> None:
    text = "Hi <sub alias='20 dollars'>XX</sub> <phoneme ph='æ'>a</phoneme><break/>."
    assert any("reads text" in notice for notice in notices(text, reads_phonemes=False))
    assert any("English alone" in n for n in notices("<say-as interpret-as='digits'>1</say-as>", False, "de"))
