"""What the voice does not speak is left out, and that is told: silence is never passed off as speech."""

import pytest

from engine.core import TextFormat
from engine.text.front import TextFront


def told(text: str, cut: int, text_format: TextFormat = TextFormat.MARKDOWN) -> list[str]:
    """Notices of the whole text, read in pieces of ``cut`` characters."""
    front, notices = TextFront("en", text_format=text_format), list[str]()
    for at in range(0, len(text), cut):
        front.append(text[at : at + cut])
        notices += front.take_notices()
    front.finish()
    return notices + front.take_notices()


@pytest.mark.parametrize("cut", [1, 3, 100])
@pytest.mark.parametrize("text_format", TextFormat)
def test_each_language_that_is_left_out_is_told_once(cut: int, text_format: TextFormat) -> None:
    notices = told("Hello 世界, 好. Привет, мир! こんにちは สวัสดี 안녕 Café.", cut, text_format)
    assert [notice.split("'")[1] for notice in notices] == ["und-Hani", "und-Cyrl", "ja", "th", "ko"]
    assert notices[0] == "character 6: what is written in 'und-Hani' is not spoken by this voice and left out"


@pytest.mark.parametrize("text", ["Hello, world 🙂!", "Café naïve [sighs] $20 µm ½", "— … *", ""])
def test_what_is_spoken_or_has_no_language_needs_no_notice(text: str) -> None:
    assert told(text, 1) == []


def test_a_model_that_reads_text_gets_all_of_it() -> None:
    front = TextFront("en", reads_phonemes=False)
    words = [*front.append("Hello 世界。"), *front.finish()]
    assert "".join(word.spoken for word in words if word.language == "und-Hani") == "世界"
    assert front.take_notices() == []
