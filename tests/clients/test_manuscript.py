"""The client's side of a text that changes. Against a server: tests/realtime/test_draft.py and test_revision.py."""

from hypothesis import given
from hypothesis import strategies as st

from clients.sdk.manuscript import Manuscript

TEXTS = st.text(st.sampled_from("ab \U0001f600"), max_size=12)


@given(st.lists(TEXTS, max_size=8))
def test_the_shortest_change_makes_the_text(texts: list[str]) -> None:
    manuscript = Manuscript()
    for text in texts:
        before = manuscript.text
        start, changed = manuscript.change_to(text)
        assert before[:start] + changed == text
        assert start == len(before) or before[start : start + 1] != changed[:1]
        if start == len(before):
            manuscript.append(changed)
        else:
            manuscript.revise(start, changed)
        assert manuscript.text == text


def test_the_spoken_text_waits_for_the_answer() -> None:
    manuscript = Manuscript()
    manuscript.append("wreck a nice beach")
    manuscript.revise(0, "recognise speech")
    manuscript.append(" is hard")
    assert (manuscript.text, manuscript.spoken) == ("recognise speech is hard", "wreck a nice beach")
    manuscript.answered(12, 9, 1)
    assert manuscript.is_settled
    assert manuscript.spoken == "wreck a nice speech is hard"
    manuscript.skipped(12, 16)
    assert manuscript.spoken == "wreck a nice is hard"


def test_answers_come_later_than_more_revisions() -> None:
    manuscript = Manuscript()
    manuscript.append("one two ")
    manuscript.revise(4, "three ")
    manuscript.append("four ")
    manuscript.revise(0, "five ")
    manuscript.answered(4, 4, 1)
    assert (manuscript.spoken, manuscript.is_settled) == ("one three four ", False)
    manuscript.answered(3, 4, 2)
    assert (manuscript.spoken, manuscript.is_settled) == ("one ", True)
