"""How a text would be read, without speaking it: pieces, spoken forms, phonemes, places, cuts."""

from collections.abc import Iterator

from engine.core import Explanation, Policy, ReadPiece
from engine.text.front import TextFront
from engine.text.segment import ClauseCutter
from engine.text.words import Kind, SpokenWord

MOST_CHARACTERS = 20_000
STEP_CHARACTERS = 256
"""Read at a time, so that nobody's audio waits."""


def explaining(front: TextFront, text: str, policy: Policy = Policy.EAGER) -> Iterator[Explanation | None]:
    """Reads ``text`` a little at a time, with None for each step that was not the last, and gives the explanation.

    Raises ``TextError`` at the first step for a text that cannot be spoken.
    """
    front.shows_silent = True
    front.check(text)
    words, notices = list[SpokenWord](), list[str]()
    for start in range(0, len(text), STEP_CHARACTERS):
        words += front.read(text[start : start + STEP_CHARACTERS])
        notices += front.take_notices()
        yield None
    words += front.finish()
    notices += front.take_notices()
    cutter, segment, pieces = ClauseCutter(policy), 0, list[ReadPiece]()
    for word in words:
        pieces.append(_piece(word, segment))
        segment += len(cutter.add([word])) if word.kind is not Kind.SILENT else 0
    yield Explanation(tuple(pieces), tuple(notices))


def explained(front: TextFront, text: str, policy: Policy = Policy.EAGER) -> Explanation:
    """The same at once."""
    explanation = [step for step in explaining(front, text, policy) if step is not None]
    return explanation[-1]


def _piece(word: SpokenWord, segment: int) -> ReadPiece:
    return ReadPiece(
        kind=str(word.kind),
        text=word.text,
        spoken=word.spoken,
        phonemes=word.phonemes,
        char_start=word.char_start,
        char_end=word.char_end,
        language=word.language,
        boundary=str(word.boundary),
        segment=segment,
        pause_ms=word.pause_ms,
        speed=word.speed,
    )
