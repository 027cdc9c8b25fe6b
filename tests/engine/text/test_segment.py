"""Words to segments by policy."""

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core import Policy
from engine.text.front import explain
from engine.text.segment import ClauseCutter
from engine.text.words import Boundary, SpokenWord

STORY = (
    "Sure, I can help you with that. The total comes to 767 dollars and 80 cents, and it was due on March 7, 2026 at "
    "3:45 p.m. in room 12. Yes. In the end it took 2 + 2 = 4 hours of our time to get to the bottom of it because "
    "nobody had thought of asking the people who lived there about the old house near the river where it began."
)
STORY_WORDS = explain(STORY)


def cut(text: str, policy: Policy) -> list[str]:
    """Segments of ``text`` as strings."""
    cutter = ClauseCutter(policy)
    return [" ".join(word.text for word in segment) for segment in [*cutter.add(explain(text)), *cutter.flush()]]


def test_eager_starts_short_and_grows() -> None:
    lengths = [len(segment.split()) for segment in cut("word and more of it " * 40, Policy.EAGER)]
    assert 3 <= lengths[0] <= 8
    assert lengths[0] < lengths[1] < lengths[2] <= 40
    assert max(lengths) <= 40


def test_clause_and_sentence_cut_at_their_boundaries() -> None:
    text = "One, two, three. Four five six, seven eight nine. Yes. No ten and eleven."
    assert cut(text, Policy.CLAUSE) == [
        "One, two, three.", "Four five six,", "seven eight nine.", "Yes. No ten and eleven.",
    ]  # fmt: skip
    assert cut(text, Policy.SENTENCE) == [
        "One, two, three.",
        "Four five six, seven eight nine.",
        "Yes. No ten and eleven.",
    ]


def test_whole_waits_for_the_flush() -> None:
    cutter = ClauseCutter(Policy.WHOLE)
    assert cutter.add(explain(STORY)) == []
    assert len(cutter.flush()) == 1
    assert cutter.flush() == []


def test_a_flush_speaks_a_fragment() -> None:
    for policy in Policy:
        cutter = ClauseCutter(policy)
        assert cutter.add(explain("Yes.")) == []
        assert [[w.text for w in segment] for segment in cutter.flush()] == [["Yes."]]


def test_numbers_stay_with_their_units_months_and_operators() -> None:
    for text in (
        "we will meet on March 7 now",
        "it will then cost $1.5 million in all",
        "so that 2 + 2 = 4 is true",
        "it is now 12 km to the town",
    ):
        for policy in (Policy.EAGER, Policy.CLAUSE):
            for segment in cut(text, policy)[:-1]:
                last = segment.split()[-1]
                assert not any(c.isdigit() for c in last), segment
                assert last not in ("March", "+", "="), segment


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(Policy), st.lists(st.integers(0, 100), max_size=6))
def test_segments_depend_on_the_words_alone(policy: Policy, cuts: list[int]) -> None:
    words = STORY_WORDS
    whole, pieces = ClauseCutter(policy), ClauseCutter(policy)
    edges = [0, *sorted(c % len(words) for c in cuts), len(words)]
    got = [segment for a, b in zip(edges, edges[1:], strict=False) for segment in pieces.add(words[a:b])]
    assert got + pieces.flush() == whole.add(words) + whole.flush()
    assert [word for segment in got for word in segment] == words[: sum(map(len, got))]


def test_no_segment_but_the_last_is_a_tiny_fragment() -> None:
    for policy in Policy:
        cutter = ClauseCutter(policy)
        assert all(len(segment) >= 3 for segment in cutter.add(explain(STORY)))


def test_endless_numbers_are_cut_all_the_same() -> None:
    words = [SpokenWord(str(i), "one", i, i + 1, "wˈʌn", Boundary.NONE) for i in range(10, 500)]
    assert max(len(segment) for segment in ClauseCutter(Policy.EAGER).add(words)) <= 100
