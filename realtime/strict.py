"""Reads plain JSON or TOML values into frozen dataclasses, strictly typed. Standard library only.

A dataclass is its own schema: field types say what is accepted, field metadata narrows it (see `bounded`).
"""

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
Reader = Callable[[object, str], Any]


class FieldError(ValueError):
    """A value that does not fit its field; the message names the field and what was expected."""


def bounded(default: Any = dataclasses.MISSING, *, low: float | None = None, high: float | None = None) -> Any:
    """A dataclass field with limits: of the value for numbers, of the length for strings."""
    return dataclasses.field(default=default, metadata={"low": low, "high": high})


def wire_name(field: "dataclasses.Field[Any]") -> str:
    """The field's name outside Python: ``metadata["name"]`` where that is a Python keyword."""
    return str(field.metadata.get("name", field.name))


def read(cls: type[T], value: object, where: str = "", *, refuse_unknown: bool = False) -> T:
    """`cls` made of a mapping.

    Unknown keys are ignored, or refused by name with ``refuse_unknown``. ``null`` for an optional field is its
    absence.

    Raises:
        FieldError: wrong type, out of bounds, missing or (where refused) unknown.
    """
    if not isinstance(value, Mapping):
        raise FieldError(f"{where or 'the message'} must be an object, not {_kind(value)}")
    prefix = f"{where}." if where else ""
    readers = _readers(typing.cast(Hashable, cls), refuse_unknown)
    if refuse_unknown and (unknown := sorted(map(str, set(value) - set(readers)))):
        raise FieldError(f"unknown key {', '.join(prefix + key for key in unknown)}; known: {', '.join(readers)}")
    arguments: dict[str, Any] = {}
    for name, (field, reader, is_required) in readers.items():
        if value.get(name) is not None:
            arguments[field] = reader(value[name], prefix + name)
        elif is_required:
            raise FieldError(f"{prefix}{name} is missing")
    return cls(**arguments)


@cache
def _readers(cls: Hashable, refuse_unknown: bool) -> dict[str, tuple[str, Reader, bool]]:
    """Wire name -> (field name, reader, is it required)."""
    assert isinstance(cls, type), cls
    assert dataclasses.is_dataclass(cls), cls
    hints = typing.get_type_hints(cls)
    return {
        wire_name(field): (
            field.name,
            _reader(hints[field.name], field.metadata, refuse_unknown),
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(cls)
    }


def _reader(hint: Any, limits: Mapping[str, Any], refuse_unknown: bool) -> Reader:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return _reader(inner, limits, refuse_unknown)
    if origin is tuple:
        item = _reader(arguments[0], limits, refuse_unknown)
        return lambda value, where: _list(value, where, item)
    if origin is typing.Literal:
        return lambda value, where: _choice(value, where, arguments)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return lambda value, where: read(hint, value, where, refuse_unknown=refuse_unknown)
    if origin is dict:
        return _table
    low, high = limits.get("low"), limits.get("high")
    return {
        str: lambda value, where: _string(value, where, low, high),
        bool: _boolean,
        int: lambda value, where: _number(value, where, low, high, (int,)),
        float: lambda value, where: float(_number(value, where, low, high, (int, float))),
    }[hint]


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "true or false", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")


def _list(value: object, where: str, item: Reader) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise FieldError(f"{where} must be a list, not {_kind(value)}")
    return tuple(item(entry, f"{where}[{index}]") for index, entry in enumerate(value))


def _table(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise FieldError(f"{where} must be an object, not {_kind(value)}")
    return dict(value)


def _choice(value: object, where: str, choices: tuple[object, ...]) -> object:
    if not isinstance(value, str) or value not in choices:
        shown = f"'{value:.40}'" if isinstance(value, str) else _kind(value)
        raise FieldError(f"{where} must be one of {', '.join(map(str, choices))}, not {shown}")
    return value


def _string(value: object, where: str, low: float | None, high: float | None) -> str:
    if not isinstance(value, str):
        raise FieldError(f"{where} must be a string, not {_kind(value)}")
    if not (low or 0) <= len(value) <= (math.inf if high is None else high):
        raise FieldError(f"{where} must have {_range(low or 0, high)} characters, not {len(value)}")
    return value


def _boolean(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise FieldError(f"{where} must be true or false, not {_kind(value)}")
    return value


def _number(value: object, where: str, low: float | None, high: float | None, accepted: tuple[type, ...]) -> Any:
    # bool is an int to Python and not to JSON.
    if isinstance(value, bool) or not isinstance(value, accepted):
        what = "a whole number" if accepted == (int,) else "a number"
        raise FieldError(f"{where} must be {what}, not {_kind(value)}")
    assert isinstance(value, int | float)
    # An int too large for a float would pass a comparison and overflow later.
    if not (-math.inf if low is None else low) <= value <= (2**53 if high is None else high):
        raise FieldError(
            f"{where} must be {_range(low, high)}, not {value:.6g}" if abs(value) < 2**53 else f"{where} is too large"
        )
    return value


def _range(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"at least {low:g}" if low is not None else "at most 2^53" if high is None else f"at most {high:g}"
    return f"{low:g} to {high:g}"
