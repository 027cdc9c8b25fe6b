"""What the sections of ``config.json`` are read and checked with; all raise ``ConfigError`` that names the key."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from engine.errors import ConfigError

Flags = Mapping[str, tuple[Any, ...]]
"""Keys with the values this engine computes, the usual one first."""
MOST_LAYERS = 1024
"""Of a kind, and of codebooks: what is above is a mistake, or meant to fill the memory with names of tensors."""


def mapping(values: Any, where: str) -> Mapping[str, Any]:
    """An object."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where} must be an object, not {values!r}")
    return values


def integer(values: Mapping[str, Any], name: str, where: str) -> int:
    """An integer that must be there."""
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{where}.{name} must be an integer, not {value!r}")
    return value


def strings(values: Mapping[str, Any], name: str, where: str) -> Sequence[str]:
    """A list of strings; empty if there is none."""
    value = values.get(name) or []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ConfigError(f"{where}.{name} must be a list of strings, not {value!r}")
    return value


def numbers(kind: type[Any], values: Mapping[str, Any], where: str, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """The numeric fields of ``kind`` found in ``values``; a missing one is an error unless the class has a default."""
    found: dict[str, Any] = {}
    for field in fields(kind):
        if field.name in but:
            continue
        value = values.get(field.name)
        if value is None and field.name in kind.__dict__:
            continue
        if field.type is int:
            found[field.name] = integer(values, field.name, where)
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            found[field.name] = float(value)
        else:
            raise ConfigError(f"{where}.{field.name} must be a number, not {value!r}")
    return found


def check_flags(values: Mapping[str, Any], where: str, required: Flags, optional: Flags) -> None:
    """Refuse keys with other values than are computed; those ``required`` must be there."""
    for name, allowed in {**required, **optional}.items():
        if name not in values:
            if name in required:
                raise ConfigError(f"{where}.{name} is missing; this engine computes {allowed[0]!r}")
        elif values[name] not in allowed:
            raise ConfigError(f"{where}.{name} is {values[name]!r}; this engine computes {allowed[0]!r} only")


def require_positive(config: Any, where: str, but: tuple[str, ...] = ()) -> None:
    """Every number of a section is above zero."""
    for field in fields(config):
        value = getattr(config, field.name)
        if isinstance(value, int | float) and field.name not in but and value <= 0:
            raise ConfigError(f"{where}.{field.name} must be positive, not {value}")


def require_at_most(most: int, value: int, name: str) -> None:
    """A count is not beyond what is read."""
    if value > most:
        raise ConfigError(f"{name} is {value}; {most} is the most that is read")


def require_multiple(name: str, value: int, of: str, unit: int) -> None:
    """One count divides the other."""
    if value % unit:
        raise ConfigError(f"{name} {value} is not a multiple of {of} {unit}")


def require_rotary(head_dim: int, share: float, where: str) -> None:
    """The rotated share of a head is made of pairs."""
    rotary = int(head_dim * share)
    if share > 1 or rotary < 2 or rotary % 2:
        raise ConfigError(f"{where}: {share} of head_dim {head_dim} is no positive even number of rotary dimensions")
