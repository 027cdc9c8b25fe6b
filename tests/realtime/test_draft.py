"""The text of a context while it changes, against an engine that answers as late and as oddly as it may."""

from collections import deque
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from clients.sdk.manuscript import Manuscript
from engine.core import Revised
from engine.revision import resume_at
from realtime.commands import STALE, AppendText, Command, Finish, Flush, Rejected, Revise
from realtime.draft import Draft, Outcome, common_prefix

TEXTS = st.text(st.sampled_from("ab "), max_size=8)
BAD = "!"


@dataclass
class Editor:
    """The engine's side: text alone. Refuses `BAD`."""

    text: str = ""
    is_finished: bool = False

    def take(self, command: Command, late: int) -> list[Revised | Rejected]:
        """``late``: how many characters behind its start a revision finds to be kept."""
        match command:
            case AppendText(utterance_id, text, edit_index):
                assert not self.is_finished
                if BAD in text:
                    return [Rejected(utterance_id, edit_index, "bad_text", "no")]
                self.text += text
            case Revise(utterance_id, start, text, _, length, edit_index):
                if length != len(self.text):
                    return [Rejected(utterance_id, edit_index, STALE, "no")]
                assert 0 <= start <= len(self.text)
                if BAD in text:
                    return [Rejected(utterance_id, edit_index, "bad_text", "no")]
                kept_to = min(len(self.text), start + late)
                resumes_at = resume_at(self.text[start:kept_to], text)
                self.text = self.text[:kept_to] + text[resumes_at:]
                return [Revised(utterance_id, start, kept_to, resumes_at, 0)]
            case Finish():
                assert not self.is_finished
                self.is_finished = True
            case Flush():
                assert not self.is_finished
        return []


class Desk:
    """A draft, an editor, and what lies between them."""

    def __init__(self) -> None:
        self.draft = Draft("u")
        self.editor = Editor()
        self.manuscript = Manuscript()
        self.inbox: deque[Command] = deque()
        self.answers: deque[Revised | Rejected] = deque()
        self.taken: list[int] = []
        self.revisions = 0
        self.has_refused = False

    def give(self, commands: list[Command]) -> None:
        self.inbox += commands
        # One revision at a time, and nothing after it that counts on how it ends.
        assert sum(isinstance(command, Revise) for command in self.inbox) <= 1

    def append(self, text: str) -> None:
        if not self.draft.is_finished:
            self.manuscript.append(text)
            self.give(self.draft.append(text))

    def revise(self, where: float, text: str, *, may_start: bool) -> None:
        start = int(where * self.draft.length)
        self.manuscript.revise(start, text)
        self.revisions += 1
        self.start(self.draft.revise(start, text, 0.0, may_start=may_start), start)

    def start(self, commands: list[Command], from_char: int) -> None:
        self.give(commands)
        if any(isinstance(command, Revise) for command in commands):
            self.taken.append(self.revisions)
        elif not self.draft.is_waiting:
            self.taken.append(self.revisions)
            appended = sum(len(command.text) for command in commands if isinstance(command, AppendText))
            self.answer(self.draft.outcome(from_char, appended))

    def answer(self, outcome: Outcome) -> None:
        self.manuscript.answered(outcome.kept_to, outcome.resumes_at, self.taken[-1])

    def release(self) -> None:
        from_char = self.draft.waits_from
        if from_char is not None:
            self.start(self.draft.release(0.0), from_char)

    def skip(self, where: float, length: int) -> None:
        if self.draft.is_waiting or not self.draft.spoken_length:
            return
        spoken_start = int(where * self.draft.spoken_length)
        target = min(self.draft.length, self.draft.of_client(spoken_start) + length)
        self.give(self.draft.skip(spoken_start, target, 0.0))

    def work(self, late: int) -> None:
        if self.inbox:
            self.answers += self.editor.take(self.inbox.popleft(), late)

    def hear(self) -> None:
        if not self.answers:
            return
        match self.answers.popleft():
            case Revised() as revised:
                outcome = self.draft.revised(revised)
                if outcome.is_skip:
                    self.manuscript.skipped(outcome.kept_to, outcome.resumes_at)
                else:
                    self.answer(outcome)
            case Rejected(_, _, code, _) if code == STALE:
                self.draft.retry()
            case Rejected(_, edit_index, _, _):
                self.has_refused = True
                self.draft.reject(edit_index)
        self.release()

    def settle(self) -> None:
        self.release()
        while self.inbox or self.answers:
            self.work(0)
            self.hear()


@settings(max_examples=400, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), TEXTS | st.just(f"a{BAD}"), st.just(0)),
            st.tuples(st.just("revise"), TEXTS | st.just(f"b{BAD}"), st.floats(0, 1)),
            st.tuples(st.just("wait"), TEXTS, st.floats(0, 1)),
            st.tuples(st.just("work"), st.integers(0, 9), st.just(0)),
            st.tuples(st.just("hear"), st.just(0), st.just(0)),
            st.tuples(st.just("skip"), st.integers(1, 9), st.floats(0, 1)),
            st.tuples(st.just("finish"), st.just(0), st.just(0)),
        ),
        max_size=40,
    )
)
def test_in_the_end_all_know_the_same_text(moves: list[tuple[str, str | int, float]]) -> None:
    desk = Desk()
    for kind, what, where in moves:
        match kind, what:
            case "append", str():
                desk.append(what)
            case (("revise" | "wait"), str()):
                desk.revise(where, what, may_start=kind == "revise")
            case "work", int():
                desk.work(what)
            case "skip", int():
                desk.skip(where, what)
            case "hear", _:
                desk.hear()
            case "finish", _ if not desk.draft.is_finished:
                desk.give(desk.draft.finish())
        spoken, unspoken = desk.draft.split(3)
        assert spoken == desk.draft.spoken[:3]
        assert len(desk.draft.spoken) < 3 or len(spoken) == 3
        assert not desk.draft.is_waiting or desk.draft.text.endswith(unspoken)
    desk.settle()
    assert desk.draft.spoken == desk.editor.text
    assert desk.draft.spoken_length == len(desk.editor.text)
    assert desk.editor.is_finished == desk.draft.is_finished
    assert desk.draft.split(2) == (desk.editor.text[:2], desk.editor.text[2:])
    if not desk.has_refused:
        assert desk.manuscript.text == desk.draft.text
        assert desk.manuscript.spoken == desk.editor.text


@given(TEXTS, TEXTS)
def test_common_prefix(text: str, other: str) -> None:
    length = common_prefix(text, other)
    assert text[:length] == other[:length]
    assert length == min(len(text), len(other)) or text[length] != other[length]
