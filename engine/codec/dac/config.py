"""The dimensions of a ModifiedDAC codec. The published checkpoint carries none: the defaults are its own.

A folder may override them with ``codec_config.json`` (tests and small codecs do); what is not named there keeps its
default.
"""

import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from engine.config import parse_json
from engine.errors import ConfigError

CONFIG_FILE = "codec_config.json"
_MOST = {"layers": 64, "codebooks": 256, "rate": 1_000_000}
"""The largest number that is read, by the last word of its name."""
_MOST_SIZE = 65_536
_MOST_STAGES = 16


@dataclass(frozen=True)
class TransformerConfig:
    """A stack of causal attention layers."""

    layers: int
    width: int
    heads: int
    hidden: int
    window: int
    """Positions a query sees, its own included."""


@dataclass(frozen=True)
class DacConfig:
    """Everything that decides what the tensors of a codec are and mean."""

    sample_rate: int = 44_100
    encoder_width: int = 64
    """Channels after the first convolution; every stage doubles them."""
    encoder_rates: tuple[int, ...] = (2, 4, 8, 8)
    encoder_transformer_layers: int = 4
    """Attention layers at the end of the last encoder stage."""
    encoder_head_dim: int = 64
    encoder_window: int = 512
    latent_width: int = 1024
    latent_rates: tuple[int, ...] = (2, 2)
    """By how much time is shortened between encoder and codes, and stretched again before the decoder."""
    transformer_layers: int = 8
    transformer_head_dim: int = 64
    transformer_hidden: int = 3072
    transformer_window: int = 128
    semantic_codebook_size: int = 4096
    residual_codebook_size: int = 1024
    residual_codebooks: int = 9
    code_width: int = 8
    decoder_width: int = 1536
    """Channels after the first convolution; every stage halves them."""
    decoder_rates: tuple[int, ...] = (8, 8, 4, 2)

    def __post_init__(self) -> None:
        for name, values in asdict(self).items():
            _check_numbers(name, values)
        if math.prod(self.encoder_rates) != math.prod(self.decoder_rates):
            raise ConfigError(f"encoder rates {self.encoder_rates} and decoder rates {self.decoder_rates} differ")
        for width, head_dim in (
            (self.latent_width, self.transformer_head_dim),
            (self.encoder_width << len(self.encoder_rates), self.encoder_head_dim),
        ):
            if width % head_dim or head_dim % 2:
                raise ConfigError(f"heads of {head_dim} do not divide a width of {width} into rotating pairs")
        if self.decoder_width % (1 << len(self.decoder_rates)):
            raise ConfigError(f"a decoder width of {self.decoder_width} cannot be halved at every stage")

    @property
    def samples_per_frame(self) -> int:
        """Samples one frame of codes becomes."""
        return math.prod(self.encoder_rates) * math.prod(self.latent_rates)

    @property
    def num_codebooks(self) -> int:
        """The semantic one and the residual ones."""
        return 1 + self.residual_codebooks

    @property
    def encoder_transformer(self) -> TransformerConfig:
        """The attention at the end of the encoder."""
        width = self.encoder_width << len(self.encoder_rates)
        return TransformerConfig(
            layers=self.encoder_transformer_layers,
            width=width,
            heads=width // self.encoder_head_dim,
            hidden=3 * width,
            window=self.encoder_window,
        )

    @property
    def latent_transformer(self) -> TransformerConfig:
        """The attention before, and that after, the quantiser."""
        return TransformerConfig(
            layers=self.transformer_layers,
            width=self.latent_width,
            heads=self.latent_width // self.transformer_head_dim,
            hidden=self.transformer_hidden,
            window=self.transformer_window,
        )

    def to_json(self) -> str:
        """Read back by ``from_json``."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Raises ``ConfigError``, naming ``where``, for what is no object or has a key that is not known."""
        values = parse_json(text, where)
        known = [f.name for f in fields(cls)]
        if unknown := sorted(set(values) - set(known)):
            raise ConfigError(f"{where}: {unknown} unknown; known are {known}")
        numbers: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in values.items()}
        return cls(**numbers)

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        """The dimensions that ``codec_config.json`` gives, or the published ones."""
        path = folder / CONFIG_FILE
        if not path.is_file():
            return cls()
        try:
            return cls.from_json(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {error}") from error


def _check_numbers(name: str, values: Any) -> None:
    """Raise ``ConfigError`` for what is no dimension, or one that would only fill the memory."""
    if name.endswith("_rates") != isinstance(values, tuple):
        raise ConfigError(f"{name} must be {'a list' if name.endswith('_rates') else 'a number'}, not {values!r}")
    numbers = values if isinstance(values, tuple) else (values,)
    if not 1 <= len(numbers) <= _MOST_STAGES or any(type(n) is not int or n < 1 for n in numbers):
        raise ConfigError(f"{name} must be positive integers, not {values!r}")
    most = _MOST.get(name.rpartition("_")[2], _MOST_SIZE)
    if max(numbers) > most:
        raise ConfigError(f"{name} is {max(numbers)}; {most} is the most that is read")
