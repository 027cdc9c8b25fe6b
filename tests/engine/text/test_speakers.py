"""Speakers, cues and paired tags on their way to a model that reads text: untouched, and never cut apart."""

import pytest

from engine.core import Policy, TextFormat
from engine.errors import StructuralTokenError
from engine.prompt import validate_text, with_speaker_tag
from engine.text.front import TextFront
from engine.text.render import render_text
from engine.text.segment import MOST_SPEAKERS, ClauseCutter
from engine.text.words import Kind, SpokenWord

SCENE = (
    "It rained. <|speaker:1|> Why [whispers] are you here? <|speaker:2|>I live here. "
    "<|speaker:15|> <whisper>Do not wake the dog.</whisper> He bites."
)


def front() -> TextFront:
    return TextFront(reads_phonemes=False, has_cues=True)


def words_of(text: str, size: int = 1000) -> list[SpokenWord]:
    made = front()
    words = [word for i in range(0, len(text), size) for word in made.append(text[i : i + size])]
    return [*words, *made.finish()]


def turns_of(text: str, policy: Policy = Policy.EAGER, size: int = 1000) -> list[str]:
    cutter = ClauseCutter(policy)
    segments = [*cutter.add(words_of(text, size)), *cutter.flush()]
    return [rendered for segment in segments if (rendered := render_text(segment))]


def test_speakers_are_carried_by_their_words() -> None:
    said: dict[int | None, list[str]] = {}
    for word in words_of(SCENE):
        if word.kind is Kind.WORD:
            said.setdefault(word.speaker, []).append(word.text)
    assert said[None] == ["It", "rained."]
    assert said[1] == ["Why", "are", "you", "here?"]
    assert said[2] == ["I", "live", "here."]
    assert said[15] == ["Do", "not", "wake", "the", "dog.", "He", "bites."]


def test_a_speakers_tag_is_a_piece_of_the_text() -> None:
    for word in words_of(SCENE):
        assert SCENE[word.char_start : word.char_end] == word.text
    tags = [word for word in words_of(SCENE) if word.kind is Kind.SPEAKER]
    assert [(tag.text, tag.speaker, tag.spoken, tag.visible) for tag in tags] == [
        ("<|speaker:1|>", 1, "", ""),
        ("<|speaker:2|>", 2, "", ""),
        ("<|speaker:15|>", 15, "", ""),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13])
def test_cuts_change_nothing(size: int) -> None:
    assert words_of(SCENE, size) == words_of(SCENE)


@pytest.mark.parametrize("policy", list(Policy))
def test_every_turn_names_its_speakers_and_holds_three_at_most(policy: Policy) -> None:
    text = " ".join(f"<|speaker:{n}|> Word {n}." for n in (0, 1, 2, 3, 4, 4, 0, 5))
    turns = turns_of(text, policy)
    said = []
    for turn in turns:
        validate_text(turn)
        speakers = [line[: line.index(">") + 1] for line in turn.splitlines()]
        assert len(set(speakers)) <= MOST_SPEAKERS
        said += turn.splitlines()
    assert said[:3] == ["<|speaker:0|> Word 0.", "<|speaker:1|> Word 1.", "<|speaker:2|> Word 2."]
    assert (
        " ".join(line.split("> ")[1] for line in said)
        == "Word 0. Word 1. Word 2. Word 3. Word 4. Word 4. Word 0. Word 5."
    )


def test_a_turn_that_goes_on_names_the_speaker_again() -> None:
    turns = turns_of("<|speaker:3|> One two three four. Five six seven eight. Nine ten eleven twelve.", Policy.SENTENCE)
    assert turns == [
        "<|speaker:3|> One two three four.",
        "<|speaker:3|> Five six seven eight.",
        "<|speaker:3|> Nine ten eleven twelve.",
    ]


def test_one_turn_has_a_line_for_each_speaker() -> None:
    (turn,) = turns_of("Now. <|speaker:1|> Yes! <|speaker:0|> No.", Policy.WHOLE)
    assert turn == "Now.\n<|speaker:1|> Yes!\n<|speaker:0|> No."
    assert with_speaker_tag(turn).startswith("<|speaker:0|> Now.")


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize("policy", list(Policy))
def test_cues_and_pairs_come_through_whole(policy: Policy, size: int) -> None:
    pair = "<whisper>Come in, sit down. Do not speak, he is asleep. I will tell you everything.</whisper>"
    cue = "[barely holding it together]"
    text = f"Well then, here we are. {cue} Listen to me now. {pair} [sighs] And that, my friend, was that. [笑]"
    turns = turns_of(text, policy, size)
    assert sum(pair in turn for turn in turns) == 1
    for each in (cue, "[sighs]", "[笑]"):
        assert sum(each in turn for turn in turns) == 1
    assert " ".join(turns).split() == text.split()


def test_a_pair_without_end_is_cut_in_the_end() -> None:
    turns = turns_of("<whisper>" + "word " * 200, size=7)
    assert len(turns) > 3
    for turn in turns:
        assert turn.startswith("<whisper>word")
        assert turn.endswith("word</whisper>")


@pytest.mark.parametrize(
    "token", ["<|speaker:16|>", "<|speaker:07|>", "<|speaker:-1|>", "<|im_end|>", "<|semantic:3|>"]
)
def test_other_tokens_are_refused_as_ever(token: str) -> None:
    for cut in range(len(token)):
        made = front()
        with pytest.raises(StructuralTokenError):
            made.append("Hi " + token[:cut]), made.append(token[cut:])


@pytest.mark.parametrize(
    "made",
    [
        TextFront(),
        TextFront(reads_phonemes=False),
        TextFront(text_format=TextFormat.PLAIN, reads_phonemes=False, has_cues=True),
        TextFront(text_format=TextFormat.SSML, reads_phonemes=False, has_cues=True),
    ],
    ids=["phonemes", "no cues", "plain", "ssml"],
)
def test_speakers_are_structure_elsewhere(made: TextFront) -> None:
    with pytest.raises(StructuralTokenError):
        made.append("<|speaker:1|> Hello")


def test_hidden_characters_do_not_make_a_speaker() -> None:
    """The tokeniser would not see one, so it is no tag to us."""
    made = front()
    words = [*made.append("<|spea\u200bker:1|> Hello there."), *made.finish()]
    assert all(word.speaker is None for word in words)
