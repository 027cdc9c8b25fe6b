"""The text of an utterance on its way to its stream: taken at once, read when the speech needs more of it.

Reading (spoken forms, phonemes) takes a second for every 40,000 characters, and everybody's audio waits meanwhile. So a
text is checked when it comes, and read in pieces between the frames; what is cut off unread has cost nothing.

A revision changes what was read, too. So copies of the text front are kept, one for every few words, from which reading
starts anew; what has begun to sound is put back as it was read the first time.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from os.path import commonprefix
from typing import Any

from engine.errors import RevisionError
from engine.revision import resume_at
from engine.streams.base import TextStream
from engine.text.front import TextFront
from engine.text.words import SpokenWord

STEP_CHARACTERS = 256
"""Read in a step at most, for all utterances together: some milliseconds."""
PIECE_CHARACTERS = 64
"""Read before it is asked again whether the speech can go on."""
CHECKPOINT_CHARACTERS = 64
"""Between two copies of the text front."""
GUARD_CHARACTERS = 256
"""Of the text before a revision, checked again together with it: prompt structure may lie across the seam."""


class Mark(Enum):
    """What stands between texts."""

    FLUSH = "flush"
    FINISH = "finish"
    FLUSHED = "flushed"
    """A flush for the text front alone, when the text is read again: the speech has reached it already."""
    SEAM = "seam"
    """The same, where words had to be kept: what follows is not part of them."""


@dataclass(frozen=True)
class Given:
    """What the stream was given: a word, or a flush (None)."""

    word: SpokenWord | None
    end: int
    """Offset in the text."""
    first: int
    """Where its sound begins, in the stream's measure; of a flush, where its silence does."""


@dataclass
class Checkpoint:
    """Everything as it was when the text had been read to ``offset``, and what the stream was given after that."""

    offset: int
    front: TextFront
    text_mark: Any
    marks: int
    """Flushes read."""
    given: list[Given] = field(default_factory=list)


class Script:
    """What was appended to an utterance, in order; texts, flushes and the end reach the stream in that order."""

    def __init__(self, front: TextFront, stream: TextStream) -> None:
        self._front = front
        self._stream = stream
        self._pieces: list[str] = []
        self._length = 0
        self._flushes: list[int] = []
        """Their offsets."""
        self._is_finished = False
        self._unread: deque[str | Mark] = deque()
        self._checkpoints = [Checkpoint(0, front.copy(), stream.text_mark(), marks=0)]
        self._flushes_read = 0
        self._kept_to = 0
        """Words that begin before it were given already, by a revision."""
        self._forgotten_to = 0
        """End of what was given before the first checkpoint."""
        self.read_in_vain = 0
        """Characters read since the speech last had enough."""

    def append(self, text: str) -> None:
        """Take more text. Raises ``TextError`` for what cannot be spoken, and has then left it out."""
        self._front.check(text)
        if text:
            self._pieces.append(text)
            self._length += len(text)
            self._unread.append(text)

    def flush(self) -> None:
        """Take a flush."""
        self._flushes.append(self._length)
        self._unread.append(Mark.FLUSH)

    def finish(self) -> None:
        """Take the end."""
        self._is_finished = True
        self._unread.append(Mark.FINISH)

    def take_notices(self) -> list[str]:
        """What the text read since the last call asks for and cannot have."""
        return self._front.take_notices()

    @property
    def is_due(self) -> bool:
        """Whether the speech needs what is unread."""
        return bool(self._unread) and self._stream.wants_text

    def read(self, most_characters: int | None = None) -> int:
        """Read on until the speech can go on, but no more than that; returns the number of characters read."""
        count = 0
        while self.is_due and (most_characters is None or count < most_characters):
            left = PIECE_CHARACTERS if most_characters is None else most_characters - count
            count += self._read_piece(min(left, PIECE_CHARACTERS))
        self.read_in_vain = self.read_in_vain + count if self._stream.wants_text else 0
        return count

    def _read_piece(self, most_characters: int) -> int:
        if self._front.chars_received - self._checkpoints[-1].offset >= CHECKPOINT_CHARACTERS:
            offset, mark = self._front.chars_received, self._stream.text_mark()
            self._checkpoints.append(Checkpoint(offset, self._front.copy(), mark, self._flushes_read))
        piece = self._unread.popleft()
        if isinstance(piece, Mark):
            self._read_mark(piece)
            return 0
        if len(piece) > most_characters:
            self._unread.appendleft(piece[most_characters:])
            piece = piece[:most_characters]
        self._give(self._front.read(piece))
        return len(piece)

    def _read_mark(self, mark: Mark) -> None:
        if mark is Mark.FINISH:
            self._give(self._front.finish())
            self._stream.finish()
        else:
            self._give(self._front.flush())
            if mark is Mark.SEAM:
                return
            self._flushes_read += 1
            if mark is Mark.FLUSHED:
                return
            self._stream.flush()
        self._checkpoints[-1].given.append(Given(None, self._front.chars_received, self._stream.extent - 1))

    def _give(self, words: Iterable[SpokenWord]) -> None:
        for word in words:
            if word.char_start >= self._kept_to:
                self._checkpoints[-1].given.append(Given(word, word.char_end, self._stream.extent))
                self._stream.add([word])

    # Revision

    def revise(self, start: int, text: str, reached: int) -> tuple[int, int]:
        """Other text from ``start`` on, while the speech is at ``reached`` in the stream's measure.

        Returns ``kept_to`` and ``resumes_at`` of ``core.Revised``. What has begun stays as it is; the stream's place
        has to be set anew. Raises ``RevisionError``, and ``TextError`` as ``append`` does; nothing has changed then.
        """
        old = "".join(self._pieces)
        if not 0 <= start <= len(old):
            raise RevisionError(f"the text has {len(old)} characters; nothing can be replaced from {start} on")
        begun = self._begun(reached)
        kept_to, resumes_at = self._agree(old, start, text, begun[-1].end if begun else self._forgotten_to)
        new = old[:kept_to] + text[resumes_at:]
        begun_flushes = self._checkpoints[0].marks + sum(given.word is None for given in begun)
        flushes = self._flushes[:begun_flushes]
        if begun_flushes > len(self._flushes):
            # The end has begun: if there is more to say after all, it was a flush.
            flushes = [*self._flushes, begun[-1].end]
        flushes += [offset for offset in self._flushes[begun_flushes:] if offset <= start]
        same = kept_to + len(commonprefix((old[kept_to:], new[kept_to:])))
        if len(flushes) < len(self._flushes):
            same = min(same, self._flushes[len(flushes)])
        at = max(
            i
            for i, point in enumerate(self._checkpoints)
            if i == 0 or (point.offset <= same and point.marks <= min(len(flushes), len(self._flushes)))
        )
        point = self._checkpoints[at]
        front = point.front.copy()
        front.recheck(new[max(0, point.offset - GUARD_CHARACTERS) : point.offset], new[point.offset :])

        self._pieces, self._length, self._flushes = [new], len(new), flushes
        self._front, self._kept_to = front, max(self._kept_to, begun[-1].end if begun else 0)
        self._flushes_read = point.marks
        given_again = begun[sum(len(earlier.given) for earlier in self._checkpoints[:at]) :]
        del self._checkpoints[at + 1 :]
        point.given = []
        self._stream.cut_text(point.text_mark)
        self._put_back(given_again)
        self._unread = self._to_read(new, point, begun_flushes)
        if begun and (kept_to > start or resumes_at or begun[-1].end == len(new)):
            self._part(point.offset, begun[-1].end)
        return kept_to, resumes_at

    def forget(self, reached: int) -> None:
        """Let go of what only a revision of text that lies behind ``reached`` would need."""
        kept = self._begun(reached)
        end = kept[-1].end if kept else self._forgotten_to
        marks = self._checkpoints[0].marks + sum(given.word is None for given in kept)
        while len(self._checkpoints) > 1 and self._checkpoints[1].offset <= end and self._checkpoints[1].marks <= marks:
            gone = self._checkpoints.pop(0).given
            self._forgotten_to = gone[-1].end if gone else self._forgotten_to

    def _begun(self, reached: int) -> list[Given]:
        """What was given since the first checkpoint and has begun."""
        return [given for point in self._checkpoints for given in point.given if given.first <= reached]

    def _agree(self, old: str, start: int, text: str, begun_to: int) -> tuple[int, int]:
        """Where the old text ends and where in ``text`` the new one goes on, if speech has begun to ``begun_to``."""
        same = start + len(commonprefix((old[start:], text)))
        if same > begun_to:
            return start, 0
        given = old[:start] + text
        is_apart = not given[begun_to - 1 : begun_to].strip() or not given[begun_to : begun_to + 1].strip()
        if same == begun_to and (is_apart or begun_to in self._flushes):
            return start, 0
        kept_to = max(start, begun_to)
        resumes_at = resume_at(old[start:kept_to], text)
        if not is_gap(old, kept_to - 1):
            # The rest of a word whose beginning was spoken as another word.
            while not is_gap(text, resumes_at):
                resumes_at += 1
        return kept_to, resumes_at

    def _put_back(self, given: Sequence[Given]) -> None:
        for each in given:
            if each.word is not None:
                self._stream.add([each.word])
            else:
                self._stream.flush()
        self._checkpoints[-1].given.extend(given)

    def _part(self, offset: int, seam: int) -> None:
        """Read on from ``offset`` to the end of what was kept, and end the word there for good."""
        while offset < seam:
            offset += self._read_piece(min(seam - offset, PIECE_CHARACTERS))
        while self._unread and self._unread[0] is Mark.FLUSHED:
            self._read_piece(0)
        self._read_mark(Mark.SEAM)
        mark = self._stream.text_mark()
        self._checkpoints.append(Checkpoint(offset, self._front.copy(), mark, self._flushes_read))

    def _to_read(self, text: str, point: Checkpoint, begun_flushes: int) -> deque[str | Mark]:
        """``text`` behind ``point``, with its flushes and its end."""
        unread: deque[str | Mark] = deque()
        offset = point.offset
        for i, flush in enumerate(self._flushes[point.marks :], point.marks):
            if offset < flush:
                unread.append(text[offset:flush])
                offset = flush
            unread.append(Mark.FLUSHED if i < begun_flushes else Mark.FLUSH)
        if offset < len(text):
            unread.append(text[offset:])
        if self._is_finished:
            unread.append(Mark.FINISH)
        return unread


def is_gap(text: str, place: int) -> bool:
    """Whether there is white space or nothing at ``place``."""
    return not 0 <= place < len(text) or text[place].isspace()
