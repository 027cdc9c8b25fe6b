"""Which parts of a model are quantised, and to what.

Parts: ``experts`` (routed), ``dense`` (mixers, shared expert, aligned text), ``tower``, ``heads``. What belongs to none
stays as it is: norms, router, shared-expert gate, the a/b projections of DeltaNet, convolutions, tables, the pointer.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from engine.errors import ConfigError

QUANT_METHOD = "footlights"
"""``quantization_config.quant_method`` of what is written here."""
GROUPS = (128, 64, 32)
BITS = (4, 8, 16)
METHODS = ("rtn", "gptq", "awq")

_PARTS = (
    ("experts", re.compile(r"\.mlp\.experts\.\d+\.(gate|up|down)_proj\.weight$")),
    ("dense", re.compile(r"\.self_attn\.[qkvo]_proj\.weight$")),
    ("dense", re.compile(r"\.linear_attn\.(in_proj_qkv|in_proj_z|out_proj)\.weight$")),
    ("dense", re.compile(r"\.mlp\.shared_expert\.(gate|up|down)_proj\.weight$")),
    ("dense", re.compile(r"^aligned_text\.(in|out)_proj\.weight$")),
    ("heads", re.compile(r"^lm_head\.weight$|^audio_decoder_mtp\.heads\.\d+\.weight$")),
    (
        "tower",
        re.compile(r"^audio_decoder_mtp.*\.(eh_proj|attention\.(wqkv|wo)|feed_forward\.w[123])\.weight$"),
    ),
)
_MODULES = (
    ("experts", re.compile(r"^layers\.\d+\.moe\.experts$")),
    ("dense", re.compile(r"^layers\.\d+\.mixer\.(in|out)_proj$|^layers\.\d+\.moe\.shared\.(gate_up|down)$")),
    ("dense", re.compile(r"^aligned_text\.(in|out)_proj$")),
    ("heads", re.compile(r"^main_head$|^tower\.heads\.\d+$")),
    ("tower", re.compile(r"^tower\.(shared|residual)\.\d+\.(joint_proj|attention\.\w+|feed_forward\.\w+)$")),
)


@dataclass(frozen=True)
class PartScheme:
    """How the matrices of one part are kept.

    8 bits: one scale per output. 4 bits: a scale and an offset per output and ``group`` inputs, or the next smaller
    group that divides a matrix's inputs. 16: as they are.
    """

    bits: int = 16
    group: int = 64
    method: str = "rtn"
    """How 4-bit codes were chosen; those of 8 bits are always rounded to the nearest."""

    def __post_init__(self) -> None:
        """Refuse what has no kernel."""
        choices = {"bits": (self.bits, BITS), "group": (self.group, GROUPS), "method": (self.method, METHODS)}
        for name, (value, known) in choices.items():
            if value not in known:
                raise ConfigError(f"{name} {value!r}: known are {', '.join(map(str, known))}")

    @property
    def is_packed(self) -> bool:
        """Whether anything is quantised."""
        return self.bits < 16

    @property
    def has_gains(self) -> bool:
        """Whether its matrices have gains of their inputs."""
        return self.bits == 4 and self.method == "awq"

    def group_for(self, name: str, inputs: int) -> int:
        """Inputs that share a scale in a matrix of ``inputs`` columns. Raises ``ConfigError`` naming the matrix."""
        if self.bits == 8:
            return inputs
        for group in GROUPS:
            if group <= self.group and inputs % group == 0:
                return group
        raise ConfigError(f"{name} has {inputs} inputs, no multiple of {GROUPS[-1]}: keep its part at 8 or 16 bits")

    def to_dict(self) -> dict[str, Any]:
        """What ``config.json`` holds of it."""
        return {"bits": self.bits} | ({"group_size": self.group, "method": self.method} if self.bits == 4 else {})


@dataclass(frozen=True)
class Scheme:
    """How each part is kept."""

    experts: PartScheme = field(default_factory=PartScheme)
    dense: PartScheme = field(default_factory=PartScheme)
    tower: PartScheme = field(default_factory=PartScheme)
    heads: PartScheme = field(default_factory=PartScheme)

    @property
    def has_gains(self) -> bool:
        """Whether any part's matrices have gains of their inputs."""
        return any(getattr(self, part.name).has_gains for part in fields(self))

    def of_tensor(self, name: str) -> PartScheme:
        """Of a tensor of a checkpoint, by its name there."""
        return self._of(name, _PARTS)

    def of_module(self, path: str) -> PartScheme:
        """Of a module of a ``Decoder``, by its path."""
        return self._of(path, _MODULES)

    def _of(self, name: str, patterns: tuple[tuple[str, re.Pattern[str]], ...]) -> PartScheme:
        for part, pattern in patterns:
            if pattern.search(name):
                found: PartScheme = getattr(self, part)
                return found
        return KEPT

    def to_dict(self) -> dict[str, Any]:
        """The ``quantization_config`` of ``config.json``."""
        return {"quant_method": QUANT_METHOD} | {part.name: getattr(self, part.name).to_dict() for part in fields(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Scheme":
        """Read a ``quantization_config``; raises ``ConfigError``."""
        parts = {part.name for part in fields(cls)}
        if unknown := sorted(set(values) - parts - {"quant_method"}):
            raise ConfigError(f"quantization_config has unknown keys {unknown}; known are {sorted(parts)}")
        return cls(**{part: _read_part(values[part], part) for part in parts & set(values)})


KEPT = PartScheme()


def _read_part(values: Any, part: str) -> PartScheme:
    known = {"bits", "group_size", "method"}
    if not isinstance(values, Mapping) or "bits" not in values or not set(values) <= known:
        raise ConfigError(f"quantization_config.{part} must be an object with bits and none but {sorted(known)}")
    try:
        return PartScheme(values["bits"], values.get("group_size", PartScheme.group), values.get("method", "rtn"))
    except (ConfigError, TypeError) as error:
        raise ConfigError(f"quantization_config.{part}: {error}") from error
