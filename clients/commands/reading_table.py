"""How a text will be read, as a table: an explanation of the server, or of the text front, in plain values."""

from collections.abc import Mapping, Sequence
from typing import Any

HEADINGS = ("place", "part", "written", "spoken", "sounds")
LONGEST_CELL = 40


def table(pieces: Sequence[Mapping[str, Any]]) -> str:
    """One line for each piece, an empty one behind each sentence.

    ``place`` is where it stands in the text, ``part`` counts what is spoken in one go by a model that speaks in turns.
    """
    rows = [HEADINGS, *(_row(piece) for piece in pieces)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS) - 1)]
    ends = [False, *(piece["boundary"] == "sentence" and piece["kind"] == "word" for piece in pieces)]
    lines = list[str]()
    for row, is_end in zip(rows, ends, strict=True):
        cells = (f"{cell:{width}}" for cell, width in zip(row, widths, strict=False))
        lines.append("  ".join((*cells, row[-1])).rstrip())
        if is_end:
            lines.append("")
    return "\n".join(lines)


def _row(piece: Mapping[str, Any]) -> tuple[str, ...]:
    written = "".join(c if c.isprintable() else "·" for c in str(piece["text"]))
    if len(written) > LONGEST_CELL:
        written = written[: LONGEST_CELL - 1] + "…"
    match piece["kind"]:
        case "pause":
            spoken = f"(pause of {piece['pause_ms']} ms)"
        case "silent":
            spoken = "(not said)" if piece["language"] == "en" else f"(not said: {piece['language']})"
        case "cue" | "speaker":
            spoken = "(for the model)"
        case _:
            spoken = str(piece["spoken"])
    place = f"{piece['char_start']}-{piece['char_end']}"
    return place, str(piece["segment"] + 1), written, spoken, str(piece["phonemes"])
