"""The text of a context while it changes: as the client has it, as the engine has it, and what lies between.

Two texts, equal as long as no revision came too late. The *client's* text is what its appends and revisions make of it;
offsets of revisions count in it. The *spoken* text is what the listener gets: ``kept + client's[resumes_at:]``, where
``kept`` holds the characters that could not be changed any more. Word times and accounts count in it.

One revision is under way at a time; what the client sends meanwhile waits, merged into one edit. No I/O.
"""

from dataclasses import dataclass, field

from engine.core import Revised
from engine.revision import resume_at
from realtime.commands import AppendText, Command, Finish, Flush, Revise

LONGEST_WORD = 64
"""Characters without a space, beyond which they are taken for a script without spaces."""


@dataclass(frozen=True)
class Outcome:
    """The spoken text is now: its first ``kept_to`` characters as they were, then the client's from ``resumes_at``.

    ``is_late``: some of what was to be replaced had to stay.
    """

    from_char: int
    kept_to: int
    resumes_at: int
    is_late: bool = False
    is_skip: bool = False


@dataclass(frozen=True)
class Flight:
    """A revision that the engine has not answered yet."""

    edit_index: int
    from_char: int
    """The lowest offset, in the client's text, of the revisions it consists of."""
    base: int
    """Where, in the client's text, what it gives the engine begins."""
    before: dict[int, str]
    """The client's text before it, in pieces."""
    is_skip: bool = False
    """A jump ahead of the server's own: the client's text stays as it is."""


@dataclass
class Held:
    """Edits that wait for the engine's answer: all of the client's text from ``start`` on."""

    start: int
    text: str
    is_revision: bool = True
    flushes: list[int] = field(default_factory=list)
    """Offsets in ``text`` of flushes."""
    is_finished: bool = False


class Draft:
    """Methods that take an edit return the commands that the engine is to be given now."""

    def __init__(self, utterance_id: str) -> None:
        self.is_finished = False
        """Has the client ended the text?"""
        self.flight: Flight | None = None
        self._utterance_id = utterance_id
        self._edits = 0
        self._pieces: dict[int, str] = {}
        """What the engine was given, by edit; refused ones are taken out again."""
        self._length = 0
        self._held: Held | None = None
        self._kept = ""
        self._resumes_at = 0

    # ------------------------------------------------------------------------------------------ what it says

    @property
    def length(self) -> int:
        """Of the client's text."""
        return self._length if self._held is None else self._held.start + len(self._held.text)

    @property
    def text(self) -> str:
        """The client's text."""
        given = "".join(self._pieces.values())
        return given if self._held is None else given[: self._held.start] + self._held.text

    @property
    def spoken(self) -> str:
        """The spoken text that the engine's words belong to: without a revision that it has not answered."""
        pieces = self._pieces if self.flight is None else self.flight.before
        return self._kept + "".join(pieces.values())[self._resumes_at :]

    @property
    def spoken_length(self) -> int:
        """Of the spoken text, were all edits in effect."""
        return len(self._kept) + max(0, self.length - self._resumes_at)

    @property
    def is_waiting(self) -> bool:
        """Is there an edit that the engine has not answered?"""
        return self.flight is not None or self._held is not None

    def split(self, char_end: int) -> tuple[str, str]:
        """The first ``char_end`` characters of `spoken`; what is to follow them, edits on their way included."""
        spoken = self.spoken
        heard = spoken[:char_end]
        if not self.is_waiting:
            return heard, spoken[char_end:]
        if self._kept and heard.startswith(self._kept):
            return heard, _rest(heard[len(self._kept) :], self.text[self._resumes_at :])
        return heard, _rest(heard, self.text)

    def of_client(self, spoken: int) -> int:
        """The offset in the client's text of an offset in the spoken one; the first that may be, if it has none."""
        return self._resumes_at + max(0, spoken - len(self._kept))

    def outcome(self, from_char: int, appended: int) -> Outcome:
        """What has become of a revision from ``from_char`` of the client's text on that only ``appended`` characters.

        All that was there before stays, sound and words included.
        """
        return Outcome(from_char, self.spoken_length - appended, self.length - appended)

    # ------------------------------------------------------------------------------------------ the client's edits

    def append(self, text: str) -> list[Command]:
        """More text at the end."""
        if self._held is not None:
            self._held.text += text
            return []
        return [AppendText(self._utterance_id, text, self._add(text))]

    def flush(self) -> list[Command]:
        """Speak what is there."""
        if self._held is not None:
            self._held.flushes.append(len(self._held.text))
            return []
        return [Flush(self._utterance_id)]

    def finish(self) -> list[Command]:
        """No more text at the end; revisions may still come."""
        self.is_finished = True
        if self._held is not None:
            self._held.is_finished = True
            return []
        return [Finish(self._utterance_id)]

    def revise(self, start: int, text: str, heard_ms: float, *, may_start: bool = True) -> list[Command]:
        """Replace the client's text from ``start``, at most `length`, on.

        It waits for `release` while another is under way, or without ``may_start``. No commands and `is_waiting` false:
        the text says that already.
        """
        assert 0 <= start <= self.length, (start, self.length)
        if self.is_waiting or not may_start:
            self._hold(start, text)
            return []
        given = self.text
        same = common_prefix(given[start:], text)
        is_longer = start + same == len(given)
        if is_longer and same == len(text):
            return []
        if is_longer and not self.is_finished and (not given or given[-1].isspace() or text[same].isspace()):
            return self.append(text[same:])
        # A word is replaced as a whole, also where the client gave only its end.
        begin = _word_start(given, start + same, self._resumes_at if start >= self._resumes_at else 0)
        return self._launch(start, begin, (given[:start] + text)[begin:], heard_ms)

    def skip(self, spoken_start: int, target: int, heard_ms: float) -> list[Command]:
        """Go on from ``target`` of the client's text after the first ``spoken_start`` characters of the spoken one."""
        assert not self.is_waiting
        self.flight = Flight(self._next_edit(), target, target, dict(self._pieces), is_skip=True)
        text = self.text[target:]
        edit_index = self.flight.edit_index
        return [Revise(self._utterance_id, spoken_start, text, heard_ms, self.spoken_length, edit_index)]

    # ------------------------------------------------------------------------------------------ the engine's answers

    def revised(self, event: Revised) -> Outcome:
        """The engine has answered the revision under way; `release` what waited for that."""
        flight = self.flight
        assert flight is not None, event
        kept, resumes_at = self.spoken[: event.kept_to], flight.base + event.resumes_at
        self.flight = None
        # Where nothing came too late the two texts are one.
        is_whole = "".join(self._pieces.values())[:resumes_at] == kept
        self._kept, self._resumes_at = ("", 0) if is_whole else (kept, resumes_at)
        return Outcome(flight.from_char, event.kept_to, resumes_at, event.kept_to > event.start, flight.is_skip)

    def reject(self, edit_index: int) -> bool:
        """The engine refused that edit: it is no part of the text. False: edits that built on it went with it."""
        flight = self.flight
        if flight is None or flight.edit_index != edit_index:
            self._remove(edit_index)
            return True
        self._take_back(flight)
        held = self._held
        if held is None or flight.is_skip or held.start <= flight.from_char:
            return True
        self._held = Held(self._length, "", is_revision=False, is_finished=True) if held.is_finished else None
        return False

    def retry(self) -> None:
        """The revision under way came when an append had just been refused: it is to be given again (`release`)."""
        flight = self.flight
        assert flight is not None
        if flight.is_skip:
            self.flight = None
            return
        given = sum(len(piece) for index, piece in self._pieces.items() if index < flight.edit_index)
        start = min(flight.from_char, given)
        flushes, is_finished = ([], False) if self._held is None else (self._held.flushes, self._held.is_finished)
        shift = (self._held.start if self._held else self._length) - start
        self._held = Held(start, self.text[start:], True, [shift + at for at in flushes], is_finished)
        self._take_back(flight)

    @property
    def waits_from(self) -> int | None:
        """Where, in the client's text, the edits begin that `release` would give."""
        return None if self._held is None or self.flight is not None else self._held.start

    @property
    def has_revision_waiting(self) -> bool:
        """Is a revision among them? Else it is the end of the text alone."""
        return self._held is not None and self._held.is_revision

    def release(self, heard_ms: float) -> list[Command]:
        """Gives the edits that waited, if nothing is under way."""
        if self._held is None or self.flight is not None:
            return []
        held, self._held = self._held, None
        ends = [*held.flushes, len(held.text)]
        parts = [held.text[start:end] for start, end in zip([0, *held.flushes], ends, strict=True)]
        commands = self.revise(held.start, parts.pop(0), heard_ms) if held.is_revision else []
        for part in parts:
            commands += [*self.flush(), *(self.append(part) if part else [])]
        return [*commands, Finish(self._utterance_id)] if held.is_finished else commands

    def forget_waiting(self) -> None:
        """The engine has spoken all it had: what waited came too late."""
        if self.flight is not None:
            self._take_back(self.flight)
        self._held = None

    # ------------------------------------------------------------------------------------------ inside

    def _next_edit(self) -> int:
        self._edits += 1
        return self._edits - 1

    def _add(self, text: str) -> int:
        edit_index = self._next_edit()
        self._pieces[edit_index] = text
        self._length += len(text)
        return edit_index

    def _launch(self, from_char: int, start: int, text: str, heard_ms: float) -> list[Command]:
        before = dict(self._pieces)
        spoken_length = self.spoken_length
        self._cut(start)
        edit_index = self._add(text)
        if start >= self._resumes_at:
            spoken_start = len(self._kept) + start - self._resumes_at
            base = start
        else:
            # It changes what could not be changed: all of the text is given again, but for what is the same.
            base = spoken_start = common_prefix(self._kept, self.text)
            text = self.text[base:]
        self.flight = Flight(edit_index, from_char, base, before)
        return [Revise(self._utterance_id, spoken_start, text, heard_ms, spoken_length, edit_index)]

    def _cut(self, length: int) -> None:
        while self._length > length:
            edit_index, piece = self._pieces.popitem()
            kept = piece[: max(0, len(piece) - (self._length - length))]
            self._length -= len(piece) - len(kept)
            if kept:
                self._pieces[edit_index] = kept

    def _hold(self, start: int, text: str) -> None:
        held = self._held
        if held is None:
            self._held = Held(start, text)
        elif start < held.start:
            self._held = Held(start, text, is_finished=held.is_finished)
        else:
            same = start - held.start
            held.text = held.text[:same] + text
            held.flushes = [at for at in held.flushes if at <= same]

    def _remove(self, edit_index: int) -> None:
        start = sum(len(piece) for index, piece in self._pieces.items() if index < edit_index)
        length = len(self._pieces.pop(edit_index, ""))
        self._length -= length
        if self.flight is not None:
            self.flight.before.pop(edit_index, None)
        if self._held is not None and self._held.start > start:
            self._held.start -= min(length, self._held.start - start)

    def _take_back(self, flight: Flight) -> None:
        later = {index: piece for index, piece in self._pieces.items() if index > flight.edit_index}
        self._pieces = flight.before | later
        self._length = sum(map(len, self._pieces.values()))
        self.flight = None


def common_prefix(text: str, other: str) -> int:
    """Characters in which two texts begin alike."""
    length = min(len(text), len(other))
    if text[:length] == other[:length]:
        return length
    low, high = 0, length
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if text[:middle] == other[:middle] else (low, middle)
    return low


def _word_start(text: str, position: int, earliest: int) -> int:
    """Where the word begins that ``position`` is in; that itself in a script without spaces."""
    start = position
    while start > max(earliest, position - LONGEST_WORD) and not text[start - 1].isspace():
        start -= 1
    return start if start == earliest or text[start - 1].isspace() else position


def _rest(heard: str, text: str) -> str:
    """What is left of a text of which ``heard``, which may differ, was heard."""
    same = common_prefix(heard, text)
    if same < len(heard):
        same = _word_start(heard, same, 0)
    return text[same + resume_at(heard[same:], text[same:]) :]
