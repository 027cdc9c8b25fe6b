"""The text of an utterance on its way to its stream: taken at once, read when the speech needs more of it.

Reading (spoken forms, phonemes) takes a second for every 40,000 characters, and everybody's audio waits meanwhile. So a
text is checked when it comes, and read in pieces between the frames; what is cut off unread has cost nothing.
"""

from collections import deque
from enum import Enum

from engine.streams.base import Demand, TextStream
from engine.text.front import TextFront

STEP_CHARACTERS = 256
"""Read in a step at most, for all utterances together: some milliseconds."""
PIECE_CHARACTERS = 64
"""Read before it is asked again whether the speech can go on."""


class Mark(Enum):
    """What stands between texts."""

    FLUSH = "flush"
    FINISH = "finish"


class Script:
    """What was appended to an utterance, in order; texts, flushes and the end reach the stream in that order."""

    def __init__(self, front: TextFront, stream: TextStream) -> None:
        self._front = front
        self._stream = stream
        self._unread: deque[str | Mark] = deque()

    def append(self, text: str) -> None:
        """Take more text. Raises ``TextError`` for what cannot be spoken, and has then left it out."""
        self._front.check(text)
        if text:
            self._unread.append(text)

    def mark(self, mark: Mark) -> None:
        """Take a flush or the end."""
        self._unread.append(mark)

    def take_notices(self) -> list[str]:
        """What the text read since the last call asks for and cannot have."""
        return self._front.take_notices()

    @property
    def is_due(self) -> bool:
        """Whether the speech waits for what is unread."""
        return bool(self._unread) and self._stream.demand() is Demand.WAIT

    def read(self, most_characters: int) -> int:
        """Read on until the speech can go on, but no more than that; returns the number of characters read."""
        left = most_characters
        while left > 0 and self.is_due:
            left -= self._read_piece(min(left, PIECE_CHARACTERS))
        return most_characters - left

    def _read_piece(self, most_characters: int) -> int:
        piece = self._unread.popleft()
        if piece is Mark.FLUSH:
            self._stream.add(self._front.flush())
            self._stream.flush()
            return 0
        if piece is Mark.FINISH:
            self._stream.add(self._front.finish())
            self._stream.finish()
            return 0
        if len(piece) > most_characters:
            self._unread.appendleft(piece[most_characters:])
            piece = piece[:most_characters]
        self._stream.add(self._front.read(piece))
        return len(piece)
