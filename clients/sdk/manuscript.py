"""A text that changes while it is spoken, as its writer has it and as the listener gets it. No I/O.

The writer's text is what appends and revisions make of it; the spoken text is another where one came too late
(docs/protocol.md, Revision). Offsets count Unicode code points, as Python's do.
"""


class Manuscript:
    """Told of everything that is sent and of every answer, it knows both texts at any time."""

    def __init__(self) -> None:
        self.text = ""
        """As its writer has it."""
        self._kept = ""
        self._resumes_at = 0
        self._revisions = 0
        self._answered = 0
        self._before: dict[int, str] = {}
        """The text before each revision that is not answered, by the number of revisions before that."""

    @property
    def spoken(self) -> str:
        """The text that word times and reports count in, as far as the server has answered."""
        return self._kept + self._before.get(self._answered, self.text)[self._resumes_at :]

    @property
    def is_settled(self) -> bool:
        """Are all revisions answered?"""
        return self._answered == self._revisions

    def append(self, text: str) -> None:
        """This was appended."""
        self.text += text

    def revise(self, start: int, text: str) -> None:
        """All from ``start`` on was replaced."""
        self._before[self._revisions] = self.text
        self._revisions += 1
        self.text = self.text[:start] + text

    def change_to(self, text: str) -> tuple[int, str]:
        """What to send to make the text this one: from where on, and what. ``start == len(self.text)``: an append."""
        start, end = 0, min(len(text), len(self.text))
        if text.startswith(self.text):
            return len(self.text), text[len(self.text) :]
        while start < end:
            middle = (start + end + 1) // 2
            start, end = (middle, end) if text[:middle] == self.text[:middle] else (start, middle - 1)
        return start, text[start:]

    def answered(self, kept_to: int, resumes_at: int, revision: int) -> None:
        """The server has answered that many revisions."""
        kept = self.spoken[:kept_to]
        self._answered = revision
        self._before = {number: text for number, text in self._before.items() if number >= revision}
        self._settle(kept, resumes_at)

    def skipped(self, kept_to: int, resumes_at: int) -> None:
        """The server has left out what lay between."""
        self._settle(self.spoken[:kept_to], resumes_at)

    def _settle(self, kept: str, resumes_at: int) -> None:
        is_whole = self._before.get(self._answered, self.text)[:resumes_at] == kept
        self._kept, self._resumes_at = ("", 0) if is_whole else (kept, resumes_at)
