"""``aligned_text_config``: text beside the audio."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from engine.config.checks import numbers, require_positive
from engine.errors import ConfigError


@dataclass(frozen=True)
class AlignedTextConfig:
    """``aligned_text_config``: text lying beside the audio instead of before it (the understudy's text stream)."""

    num_symbols: int
    embedding_dim: int
    num_voices: int
    max_elapsed: int
    hidden_dim: int
    look_behind: int = 2
    look_ahead: int = 6

    def __post_init__(self) -> None:
        """Refuse impossible sizes."""
        require_positive(self, "aligned_text_config", but=("look_behind", "look_ahead"))
        if self.look_behind < 0 or self.look_ahead < 1:
            raise ConfigError("aligned_text_config needs look_behind >= 0 and look_ahead >= 1")

    @property
    def window(self) -> int:
        """Symbols in one window: those behind, A, B, and those ahead."""
        return self.look_behind + 2 + self.look_ahead

    def to_dict(self) -> dict[str, Any]:
        """What `read_aligned` reads."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def parameter_count(self, hidden_size: int) -> int:
        """Parameters on disk, in a model of that width."""
        width = (self.window + 3) * self.embedding_dim
        tables = (self.num_symbols + self.num_voices + 2 * (self.max_elapsed + 1)) * self.embedding_dim
        into = (width + 1) * self.hidden_dim + (self.hidden_dim + 1) * hidden_size
        return tables + into + (hidden_size + 1) * 4


def read_aligned(values: Mapping[str, Any]) -> AlignedTextConfig:
    """Read ``aligned_text_config``; raises ``ConfigError``."""
    known = {field.name for field in fields(AlignedTextConfig)}
    if unknown := sorted(set(values) - known):
        raise ConfigError(f"aligned_text_config has unknown keys {unknown}; known are {sorted(known)}")
    return AlignedTextConfig(**numbers(AlignedTextConfig, values, "aligned_text_config"))
