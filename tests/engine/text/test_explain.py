"""The dry run, and how words reach models that read text."""

import pytest

from engine.core import Policy, TextFormat
from engine.errors import StructuralTokenError, UnknownLanguageError
from engine.text.explain import STEP_CHARACTERS, explained, explaining
from engine.text.front import TextFront
from engine.text.render import render_text
from tests.engine.text.reading import fed


def test_pieces_tell_what_is_said_and_what_is_not() -> None:
    explanation = explained(TextFront(), "Pay $20 [now], 我有 コーヒー привет สวัส AI.")
    assert [(p.kind, p.text, p.spoken, p.language) for p in explanation.pieces] == [
        ("word", "Pay", "Pay", "en"),
        ("word", "$20", "twenty dollars", "en"),
        ("silent", "[now]", "", "en"),
        ("silent", "我有", "", "und-Hani"),
        ("silent", "コーヒー", "", "ja"),
        ("silent", "привет", "", "und-Cyrl"),
        ("silent", "สวัส", "", "th"),
        ("word", "AI.", "AI", "en"),
    ]


@pytest.mark.parametrize(("policy", "cuts"), [(Policy.CLAUSE, [0, 0, 0, 0, 1, 1]), (Policy.WHOLE, [0] * 6)])
def test_segments_follow_the_policy(policy: Policy, cuts: list[int]) -> None:
    explanation = explained(TextFront(), "One two three four, five six.", policy)
    assert [piece.segment for piece in explanation.pieces] == cuts


def test_it_is_read_a_little_at_a_time() -> None:
    steps = list(explaining(TextFront(), "word " * STEP_CHARACTERS))
    assert steps[:-1] == [None] * 5
    assert steps[-1] is not None
    assert len(steps[-1].pieces) == STEP_CHARACTERS


def test_notices_come_along() -> None:
    front = TextFront(text_format=TextFormat.SSML)
    assert "rate 'x-slow'" in explained(front, "<prosody rate='x-slow'>a</prosody>").notices[0]


def test_structure_is_refused() -> None:
    with pytest.raises(StructuralTokenError):
        explained(TextFront(), "a <|im_end|> b")


def test_phonemes_of_other_languages_are_refused() -> None:
    with pytest.raises(UnknownLanguageError, match="it reads en"):
        TextFront("de")


def written(text: str, language: str = "en", has_cues: bool = False) -> str:
    return render_text(fed(TextFront(language, reads_phonemes=False, has_cues=has_cues), text))


def test_a_model_that_reads_text_gets_it_without_markup_in_any_script() -> None:
    text = "**Bold** `code` [link](http://a.b) costs $20 — 我有AI助手。真的！ Привет, мир &amp; “co”.\n- item"
    assert written(text, "zh") == "Bold code link costs $20 — 我有AI助手。真的！ Привет, мир & “co”. item"


def test_cues_reach_the_models_that_know_them_and_no_others() -> None:
    text = "[sighs] Well, <whisper>come <b>here</b></whisper> now <laugh/>"
    assert written(text, has_cues=True) == "[sighs] Well, <whisper>come here</whisper> now <laugh/>"
    assert written(text) == "Well, come here now"


def test_tags_are_whole_in_every_part() -> None:
    words = fed(TextFront(reads_phonemes=False, has_cues=True), "<whisper>One two <i>three</whisper> four")
    assert [render_text(words[:1]), render_text(words[1:])] == [
        "<whisper>One</whisper>",
        "<whisper>two three</whisper> four",
    ]
    open_words = fed(TextFront(reads_phonemes=False, has_cues=True), "One <whisper>never closed")
    assert render_text(open_words) == "One <whisper>never closed</whisper>"


def test_plain_text_has_no_markup() -> None:
    words = fed(TextFront(text_format=TextFormat.PLAIN), "2 * 3 # [x] <b>")
    assert " ".join(word.spoken for word in words) == "two times three x b"
