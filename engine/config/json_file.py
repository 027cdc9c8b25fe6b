"""JSON objects from files and texts, with errors that say where."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.config.checks import mapping
from engine.errors import ConfigError


def read_json(path: Path) -> Mapping[str, Any]:
    """The object in a JSON file; raises ``ConfigError``."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    return parse_json(text, str(path))


def parse_json(text: str, where: str) -> Mapping[str, Any]:
    """The object in JSON ``text``; raises ``ConfigError`` with ``where`` for whatever else it may be."""
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"cannot read {where}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"cannot read {where}: it is nested too deep") from error
    return mapping(values, where)
