"""Who is on stage and what they say to what the player does. Pure bookkeeping: no sockets, no sound."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RESUME = "listen"
"""The action that lets a character finish what it was not allowed to say."""
AS_I_SAID = "As I was saying: "


class SceneError(ValueError):
    """A file that is no scene; says where."""


@dataclass
class Character:
    """``lines``: for each action what is said to it, in turn, from the beginning again after the last."""

    name: str
    voice: str | None
    lines: dict[str, list[str]]
    unsaid: str = ""
    """What nobody heard of the line that was cut short."""
    said: dict[str, int] = field(default_factory=dict)

    def answer(self, action: str) -> str | None:
        """What it says to that action; None: nothing."""
        unsaid, self.unsaid = self.unsaid, ""
        if action == RESUME and unsaid.strip():
            return AS_I_SAID + unsaid.strip()
        lines = self.lines.get(action)
        if not lines:
            return None
        count = self.said.get(action, 0)
        self.said[action] = count + 1
        return lines[count % len(lines)]

    @property
    def actions(self) -> list[str]:
        """What it answers to."""
        return sorted({*self.lines, RESUME})


def load_scene(path: Path) -> list[Character]:
    """The characters of a JSON file.

    Raises:
        SceneError: the file is none; says where.
        OSError: it cannot be read.
    """
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SceneError(f"{path} is not JSON: {error}") from error
    characters = []
    for name, fields in _table(body, "the scene").items():
        lines = _table(_table(fields, name).get("lines"), f"{name}.lines")
        voice = fields.get("voice")
        if voice is not None and not isinstance(voice, str):
            raise SceneError(f"{name}.voice must be a string")
        characters.append(Character(name, voice, {act: _texts(said, f"{name}.{act}") for act, said in lines.items()}))
    if not characters:
        raise SceneError(f"{path}: nobody is on stage")
    return characters


def _table(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SceneError(f"{where} must be an object")
    return value


def _texts(value: object, where: str) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(text, str) for text in value):
        raise SceneError(f"{where} must be a list of strings")
    return value
