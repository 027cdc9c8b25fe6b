"""The spoken words do not depend on how the text was cut into messages."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.text.front import SpokenWord, TextFront, explain

PIECES = (
    "Hello", " ", "  ", "\n", "\n\n", "the", "to", "a", "apple", "used", "that", "Dr.", "U.S.", "e.g.", "etc.",
    "p.m.", "No.", "St.", "$20", "$5", "million", "3.14", "98.6", "1,234", "22,1", "3:45", "May", "5", "2026",
    "3/4", "on", "of", "stars", "time", "12/25/2024", "1/2", "50%", "km", "-",
    "—", "–", "...", "…", ".", ",", "!", "?", ";", ":", '"', "'", "(", ")",
    "[", "]", "[laughs]", "[text](http://a.b/c)", "<", ">", "<b>", "</b>", "<br>", "<laugh>", "&", "&amp;", "&#39;",
    "*", "**", "_", "__", "`", "```", "```py\n", "~", "#", "# ", "- ", "* ", "1. ", "10. ", "|", "|---|", "> ", "\\",
    "\\*", "https://example.com/a?b=c", "www.a.org", "me@x.com", "🎉", "👍🏽", "└──", "привет", "我有", "AI", "。", "é",
    "e\u0301", "½", "x²", "π", "µm", "\u200b", "\x00", "\r\n", "+", "=", "×", "C++", "#5", "@me", "<|", "|>", "<3",
    ":D", "a—b", "what?No", "end.Next", "well...maybe", "snake_case", "state-of-the-art", "Node.js", "![alt](u)",
    "[a][1]", "x" * 50,
)  # fmt: skip
TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=14).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=10).map(" ".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
)


def fed(text: str, cuts: list[int]) -> list[SpokenWord]:
    """``text`` through a front, cut at ``cuts``."""
    front = TextFront()
    edges = [0, *sorted(c % (len(text) + 1) for c in cuts), len(text)]
    words = [word for a, b in zip(edges, edges[1:], strict=False) for word in front.append(text[a:b])]
    return words + front.finish()


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.lists(st.integers(0, 200), max_size=6))
@example("– \r\n #5 – 3.14", [3])
@example("a—b*theSt.that !p.m.)", [1, 14])
@example("on 3/4 of it, on 3/4 other days, 4/5 stars, 3/4 s. in 3/4 time", [8, 9, 30])
@example("the No. 5 [x](http://a.b/(c) 'd') to St. Louis", [7])
def test_any_cutting_gives_the_same_words(text: str, cuts: list[int]) -> None:
    text = text.replace("<|", "< |")
    whole = explain(text)
    assert fed(text, cuts) == whole
    assert fed(text, list(range(len(text)))) == whole


@settings(max_examples=50, deadline=None)
@given(TEXTS, st.integers(0, 200))
def test_later_text_never_changes_earlier_words(text: str, cut: int) -> None:
    text = text.replace("<|", "< |")
    front = TextFront()
    early = front.append(text[: cut % (len(text) + 1)])
    assert explain(text)[: len(early)] == early


@settings(max_examples=50, deadline=None)
@given(TEXTS)
def test_offsets_point_at_the_word_in_order(text: str) -> None:
    text = text.replace("<|", "< |")
    position = 0
    for word in explain(text):
        assert word.text == text[word.char_start : word.char_end]
        assert position <= word.char_start < word.char_end
        position = word.char_end
