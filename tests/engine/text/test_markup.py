"""Markup, cues and drawings are not spoken; nothing else is lost."""

import pytest

from engine.text.front import TextFront, explain


def texts(text: str) -> list[str]:
    """The visible words of ``text``."""
    return [word.text for word in explain(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**bold**, *it* __b__ _i_ ***x*** ~~gone~~ `code`.", "bold it b i x gone code"),
        ("un**believ**able", "un**believ**able"),
        ("# Title\nText", "Title Text"),
        ("## 1. Part\nText", "1. Part Text"),
        ("- one\n* two\n+ three\n• four", "one two three four"),
        ("1. one\n2) two", "1. one 2) two"),
        ("> quoted\n> more", "quoted more"),
        ("- [ ] open\n- [x] done", "open done"),
        ("```python\nprint\n```\nDone", "print Done"),
        ("```print(1)``` is code", "print (1) is code"),
        ("[a link](https://x.y/z_(q) \"title\") here", "a link here"),
        ("![alt text](img.png) here", "alt text here"),
        ("see [the docs](https://exa", "see [the docs] (https://exa"),
        ("see [the docs](half\nof it", "see [the docs] (half of it"),
        ("[![alt](a.png)](http://b.c) here", "alt here"),
        ("[ref][1] and [laughs][sighs] ok", "ref and ok"),
        ("a [laughs] b[1]c", "a b c"),
        ("<p>para <b>bold</b> <laugh>x</laugh></p>", "para bold x"),
        ("<!-- note --> end", "end"),
        ("a < b and c > d", "a < b and c > d"),
        ("if a<b then", "if a<b then"),
        ("Tom &amp; Jerry &#39;n&#39; co &nbsp;x &unknown; y", "Tom &amp; Jerry &#39;n&#39; co x &unknown; y"),
        ("| Name | Age |\n|------|----:|\n| Bob | 5 |", "Name Age Bob 5"),
        ("┌───┐ │ box │ ✅ done ⚙️ ok", "box done ok"),
        ("great🎉fun", "great fun"),
        ("a\\*b\\_c \\# d", "a\\*b\\_c d"),
        ("Hel\x00lo wor\u200bld", "Hel\x00lo wor\u200bld"),
        ("---\nrule\n***\n===", "rule"),
        ("“quoted” (bracketed) 'single'", "“quoted” (bracketed) 'single'"),
        ("see [1] here\n[1]: http://a.b/c 'title'\n[^2]: The note", "see here The note"),
        ("[Note]: read this", "read this"),
        ("<!-- " + "a long remark " * 20 + "--> end", "end"),
        ('<a href="https://example.com/' + "x" * 200 + '">link</a> end', "link end"),
        (":smile: it is 3:45 :+1: and a:b", "it is 3:45 and a: b"),
        ("The sum $a + b$ costs $20, $$E=mc$$ too", "The sum a + b costs $20, E=mc too"),
        ("\x1b[31mRed\x1b[0m and \x1b[1;32mgreen\x1b[0m", "Red and green"),
        ("\x1b]8;;http://a.b/c\x1b\\link\x1b]8;;\x07 \x9b2Jend\x1b(B \x1bM", "link end"),
    ],
)  # fmt: skip
def test_visible_words(text: str, expected: str) -> None:
    assert " ".join(texts(text)) == expected


def test_an_open_bracket_or_tag_is_held_within_a_bound() -> None:
    front = TextFront()
    assert [w.text for w in front.append("now say [this is a cue that ")] == ["now"]
    words = [*front.append("and never ends " * 6), *front.finish()]
    assert [w.text for w in words][:7] == ["say", "[this", "is", "a", "cue", "that", "and"]
    assert len(words) == 6 + 18


def test_a_tag_split_over_messages_is_not_spoken() -> None:
    front = TextFront()
    words = [w for piece in ("one <bre", "ak time='5", "s'/> two [lau", "ghs] three ", "") for w in front.append(piece)]
    assert [w.text for w in [*words, *front.finish()]] == ["one", "two", "three"]


def test_open_markup_is_spoken_at_a_flush() -> None:
    front = TextFront()
    words = [*front.append("see [the note"), *front.flush(), *front.append(" here] now"), *front.finish()]
    assert [w.spoken for w in words] == ["see", "the", "note", "here", "now"]


def test_spaces_at_message_edges_are_kept() -> None:
    front = TextFront()
    words = [*front.append("Todo"), *front.append(" "), *front.append("listo."), *front.finish()]
    assert [w.spoken for w in words] == ["Todo", "listo"]


def test_cleaning_twice_is_harmless() -> None:
    plain = " ".join(w.spoken for w in explain("**Hi** [x](http://y.z) `a`, *ok*."))
    assert " ".join(w.spoken for w in explain(plain)) == plain
