"""Cutting long text into turns for models that speak best a few sentences at a time, and what each turn remembers.

Limits count UTF-8 bytes, so that a chunk is about as long to say in any script.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from engine.prompt import WHITE_SPACE

MOST_BYTES = 300
MOST_SPEAKERS = 3

_SPACE = f"[{re.escape(WHITE_SPACE)}]"
_LINES = re.compile(f"{_SPACE}*[\n\r\v\f\u0085\u2028\u2029]{_SPACE}*")
_SPEAKER = re.compile(r"<\|speaker:([0-9]+)\|>")
# What is never cut: a special token, a paired tag (name in group 1) with all it holds, a cue in brackets.
_WHOLE = re.compile(r"<\|[^<>|]*\|>|<([A-Za-z][A-Za-z0-9_-]*)(?:\s[^<>]*)?>|\[[^\[\]]*\]")
_SENTENCE = re.compile(r"(?<=[!?;。！？；…\n])|(?<=(?<![0-9])\.)|(?<=[0-9]\.)(?![0-9])")
_CLAUSE = re.compile(r"(?<=[,:，：、])")
_WORD = re.compile(f"(?<={_SPACE})")
_CHARACTER = re.compile(r"(?<=.)", re.DOTALL)

T = TypeVar("T")


def _size(text: str) -> int:
    return len(text.encode())


def flatten_lines(text: str) -> str:
    """``text`` in one line: white space around line breaks becomes one space, none at the start or end."""

    def join(match: re.Match[str]) -> str:
        return "" if match.start() == 0 or match.end() == len(text) else " "

    return _LINES.sub(join, text)


def split_text(text: str, most_bytes: int = MOST_BYTES, most_speakers: int = MOST_SPEAKERS) -> list[str]:
    """``text`` as chunks of at most ``most_bytes`` (what may not be cut can be longer) and ``most_speakers``."""
    text = flatten_lines(text)
    tags = list(_SPEAKER.finditer(text))
    if not tags:
        return _split_by_length(text, most_bytes)
    ends = [tag.start() for tag in tags[1:]] + [len(text)]
    turns = [("0", text[: tags[0].start()])]
    turns += [(tag[1], text[tag.end() : end]) for tag, end in zip(tags, ends, strict=True)]
    chunks: list[list[str]] = []
    speakers: set[str] = set()
    size = 0
    for speaker, body in turns:
        for piece in _split_by_length(body, most_bytes) if body.strip(WHITE_SPACE) else []:
            tagged = f"<|speaker:{speaker}|> {piece}"
            is_crowded = speaker not in speakers and len(speakers) >= most_speakers
            if not chunks or is_crowded or size + _size(tagged) > most_bytes:
                chunks.append([])
                speakers, size = set(), 0
            chunks[-1].append(tagged)
            speakers.add(speaker)
            size += _size(tagged)
    return ["\n".join(chunk) for chunk in chunks]


def pinned_history(spoken: Sequence[T]) -> list[T]:
    """Which of the chunks ``spoken`` so far (those that made sound) the next one follows: the first and the last.

    The first one holds the voice when there is no reference.
    """
    return [*spoken[:1], *spoken[1:][-1:]]


def _split_by_length(text: str, most_bytes: int) -> list[str]:
    if _size(text) <= most_bytes:
        return [text]
    chunks, current = [], ""
    for piece in _pieces(text, most_bytes):
        if current and _size(current) + _size(piece) > most_bytes:
            chunks.append(current)
            current = ""
        current += piece
    stripped = (chunk.strip(WHITE_SPACE) for chunk in [*chunks, current])
    return [chunk for chunk in stripped if chunk]


def _pieces(text: str, most_bytes: int) -> Iterator[str]:
    """``text`` in the smallest pieces it may be cut into; only what is too long is cut finer."""
    done = 0
    for start, end in _whole_spans(text):
        yield from _cut(text[done:start], most_bytes)
        yield text[start:end]
        done = end
    yield from _cut(text[done:], most_bytes)


def _whole_spans(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of what is never cut, from left to right."""
    unclosed: set[str] = set()
    place = 0
    while match := _WHOLE.search(text, place):
        start, place = match.span()
        if name := match[1]:
            close = f"</{name}>"
            # A tag that is never closed is searched for once only: time stays linear in the text.
            found = -1 if name in unclosed else text.find(close, place)
            if found < 0:
                unclosed.add(name)
                continue
            place = found + len(close)
        yield start, place


def _cut(text: str, most_bytes: int) -> Iterator[str]:
    def finer(pieces: Iterable[str], cuts: re.Pattern[str]) -> Iterator[str]:
        for piece in pieces:
            yield from cuts.split(piece) if _size(piece) > most_bytes else [piece]

    pieces: Iterable[str] = _SENTENCE.split(text)
    for cuts in (_CLAUSE, _WORD, _CHARACTER):
        pieces = finer(pieces, cuts)
    return (piece for piece in pieces if piece)
