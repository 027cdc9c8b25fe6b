import pytest

from clients.bench import sentences
from engine.train.texts import is_held_out


def test_no_sentence_was_ever_trained_on() -> None:
    lines = sentences.FILE.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(set(lines)) >= 300
    for line in lines:
        assert line == line.strip()
        assert is_held_out(line), line
        assert is_held_out(line.strip()), line
        assert sentences.is_suitable(line), line
        assert 5 <= len(line.split()) <= 16, line


def test_lengths_and_sources_are_mixed() -> None:
    lengths = [len(text.split()) for text in sentences.load(100)]
    assert min(lengths) <= 6
    assert max(lengths) >= 12
    templates = [text.startswith(("First, open", "Reminder:", "My favorite")) for text in sentences.load(120)]
    assert any(templates[0::2])
    assert not any(templates[1::2])


def test_load_gives_as_many_as_asked_or_refuses() -> None:
    assert sentences.load(3) == sentences.load()[:3]
    with pytest.raises(ValueError, match="not 1000"):
        sentences.load(1000)
    with pytest.raises(ValueError, match="not 0"):
        sentences.load(0)


@pytest.mark.parametrize(
    "text",
    [
        "Too short a line.",
        "No full stop at the end of it",
        "There are 3 figures in this one.",
        "A " * 17 + "long line.",
    ],
)
def test_unsuitable_sentences_are_left_out_even_if_held_out(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "is_held_out", lambda text: True)
    assert not sentences.is_suitable(text)
    assert sentences.is_suitable("This is an ordinary sentence.")


def test_trained_sentences_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "is_held_out", lambda text: text.startswith(" "))
    assert not sentences.is_suitable(" This is an ordinary sentence.")


def test_choice_alternates_avoids_what_was_seen_and_does_not_depend_on_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "is_held_out", lambda text: True)
    names = ["one", "two", "three", "four", "five", "six"]
    own = [f"This is my own {name}." for name in names]
    others = [f"Here is an example {name}." for name in names]
    chosen = sentences.choose(own, others, count=6)
    assert [text.split()[0] for text in chosen] == ["This", "Here"] * 3
    assert sentences.choose(own[::-1] + ["short."], others[::-1], count=6) == chosen
    again = sentences.choose(own, others, seen=chosen[:2], count=6)
    assert not set(chosen[:2]) & set(again)


def test_lines_that_are_there_stay_and_the_longer_source_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "is_held_out", lambda text: True)
    own = ["This is my own one.", "This is my own two."]
    others = [f"Here is an example {name}." for name in ("one", "two", "three", "four")]
    kept = ["A line that was here before.", others[2]]
    chosen = sentences.choose(own, others, kept=kept, count=7)
    assert chosen[:2] == kept
    assert set(chosen) == {*kept, *own, *others}
    assert [text.split()[0] for text in chosen[2:]] == ["This", "Here", "This", "Here", "Here"]
    with pytest.raises(ValueError, match="7 suitable sentences, 8 are needed"):
        sentences.choose(own, others, kept=kept, count=8)
