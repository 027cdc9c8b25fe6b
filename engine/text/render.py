"""Words as a model reads them."""

from collections.abc import Sequence
from itertools import takewhile

from engine.text.words import Kind, SpokenWord


def render_text(words: Sequence[SpokenWord]) -> str:
    """Words for a model that was trained on text: as written, without markup but for the model's own tags.

    Whatever was cut off before or behind, every tag is opened and closed, and every speaker named on a line of his own.
    """
    parts, tags = list[str](), tuple[str, ...]()
    speaker: int | None = None
    for word in words:
        if word.kind in (Kind.PAUSE, Kind.SILENT, Kind.SPEAKER):
            continue
        if word.speaker != speaker:
            parts += [_closing(tag) for tag in reversed(tags)]
            parts.append(f"\n<|speaker:{word.speaker}|>" + " " * (not word.visible[:1].isspace()))
            speaker, tags = word.speaker, ()
        shared = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(tags, word.tags, strict=False))))
        parts += [_closing(tag) for tag in reversed(tags[shared:])]
        lead = len(word.visible) - len(word.visible.lstrip())
        parts += [word.visible[:lead], *word.tags[shared:], word.visible[lead:]]
        tags = word.tags
    parts += [_closing(tag) for tag in reversed(tags)]
    return "".join(parts).strip()


def render_phonemes(words: Sequence[SpokenWord]) -> str:
    """Words for a model that was trained on phonemes."""
    return " ".join(word.phonemes for word in words if word.phonemes)


def respelled(visible: str, core: str, said: str) -> str:
    """``visible`` with its word replaced; all of it where that stands in it otherwise than alone."""
    if core in visible:
        return visible.replace(core, said, 1)
    lead = len(visible) - len(visible.lstrip())
    return visible[:lead] + said


def _closing(tag: str) -> str:
    return f"</{tag[1:-1].split()[0]}>"
