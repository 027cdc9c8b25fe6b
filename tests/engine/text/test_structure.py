"""Prompt structure typed as text is refused, whatever the cuts, and a refusal changes nothing."""

import pytest

from engine.errors import StructuralTokenError, TextError, UnknownLanguageError, UtteranceStateError
from engine.text.front import SpokenWord, TextFront, explain

TOKENS = ("<|im_end|>", "<|im_start|>", "<|semantic:3|>", "<|speaker:7|>", "<|voice|>", "<|audio_pad|>")


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_is_refused_whole_and_cut_anywhere(token: str) -> None:
    for cut in range(len(token) + 1):
        front = TextFront()
        with pytest.raises(StructuralTokenError, match="structures the prompt"):
            front.append("Hi " + token[:cut]), front.append(token[cut:] + " there")


@pytest.mark.parametrize("hidden", ["<|im\u200b_end|>", "<\x00|im_end|>", "<|im_end\ufeff|>"])
def test_unseen_characters_do_not_hide_a_token(hidden: str) -> None:
    with pytest.raises(StructuralTokenError):
        TextFront().append(hidden)


def test_a_flush_does_not_hide_a_token() -> None:
    front = TextFront()
    front.append("a <|im_e")
    front.flush()
    with pytest.raises(StructuralTokenError):
        front.append("nd|>")


@pytest.mark.parametrize("text", ["a <| b |> c", "x <|> y", "a |> b <| c", "<||>", "<| im_end |>"])
def test_what_only_looks_like_a_token_is_text(text: str) -> None:
    explain(text)


@pytest.mark.parametrize("bad", ["<|im_end|> more", "half \ud83d of a pair"])
def test_a_refused_append_leaves_the_state_as_before(bad: str) -> None:
    front, reference = TextFront(), TextFront()
    words, wanted = list[SpokenWord](), list[SpokenWord]()
    for piece in ("Hello the", "re, it is **", "5 p.m", ". Then go."):
        with pytest.raises(TextError):
            front.append(bad)
        words += front.append(piece)
        wanted += reference.append(piece)
    assert front.chars_received == reference.chars_received
    assert words + front.finish() == wanted + reference.finish()


def test_half_a_surrogate_pair_is_a_text_error() -> None:
    with pytest.raises(TextError, match="U\\+D83D"):
        TextFront().append("\ud83d")


def test_nothing_can_be_appended_after_the_end() -> None:
    front = TextFront()
    front.append("Done.")
    front.finish()
    assert front.finish() == front.flush() == []
    with pytest.raises(UtteranceStateError):
        front.append("more")


def test_other_languages_are_refused() -> None:
    TextFront("en-GB")
    with pytest.raises(UnknownLanguageError, match="en"):
        TextFront("de")
