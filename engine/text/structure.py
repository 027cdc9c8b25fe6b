"""Refusal of prompt structure typed as text, however it is cut into messages."""

import re

from engine.errors import StructuralTokenError, TextError
from engine.text.characters import character_class

LONGEST_TOKEN = 64
_TOKEN = re.compile(r"<\|[^\s<>|]{1,60}\|>")
_SPEAKER = re.compile(r"<\|speaker:(?:[0-9]|1[0-5])\|>")
_SURROGATE = re.compile("[\ud800-\udfff]")


class StructureGuard:
    """Looks at all appended text for tokens such as ``<|im_end|>`` and for halves of characters.

    Characters that are not seen are ignored on the way, so they cannot hide a token, and a flush does not reset it.
    ``has_speakers``: ``<|speaker:0|>`` to ``<|speaker:15|>`` are no structure but part of the text.
    """

    def __init__(self, has_speakers: bool = False) -> None:
        self._has_speakers = has_speakers
        self._tail = ""

    def check(self, text: str) -> None:
        """Take ``text`` as the next piece. Raises ``StructuralTokenError`` or ``TextError`` and then forgets it."""
        half = _SURROGATE.search(text)
        if half:
            raise TextError(
                f"half of a surrogate pair (U+{ord(half[0]):04X}) is not a character; send whole characters"
            )
        seen = self._tail + "".join(
            c for c in text if c.isascii() and c.isprintable() or character_class(c) != "nothing"
        )
        for token in _TOKEN.finditer(seen):
            if self._has_speakers and _SPEAKER.fullmatch(token[0]):
                continue
            raise StructuralTokenError(
                f"{token[0]!r} structures the prompt and cannot be spoken; remove it from the text"
            )
        last = seen.rfind("<", max(0, len(seen) - LONGEST_TOKEN))
        self._tail = seen[last:] if last >= 0 else ""
