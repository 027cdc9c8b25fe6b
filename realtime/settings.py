"""The server's configuration: defaults, TOML file, environment, command line; later ones win. Parsed here alone.

Keys are ``section.key`` of the dataclasses below: ``limits.lead_ms`` is ``FOOTLIGHTS_LIMITS_LEAD_MS`` in the
environment and ``--set limits.lead_ms=20000`` on the command line. An unknown key is an error that lists the known
ones.
"""

import argparse
import dataclasses
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.errors import ConfigError
from realtime.crew import WorkerSettings
from realtime.guard import is_loopback
from realtime.limits import LimitSettings
from realtime.strict import FieldError, bounded, read

ENVIRONMENT_PREFIX = "FOOTLIGHTS_"
KEY_VARIABLE = "FOOTLIGHTS_API_KEY"
DEFAULT_PORT = 8060


@dataclass(frozen=True)
class ServerSettings:
    """Section ``[server]``."""

    host: str = bounded("127.0.0.1", low=1)
    port: int = bounded(DEFAULT_PORT, low=0, high=65535)
    """0: any free one."""
    api_key_file: str | None = None
    """A file with the API key; FOOTLIGHTS_API_KEY is the other way to give it."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may connect besides the server's own, such as ``https://example.com``."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names served without an API key besides loopback ones."""
    ping_s: float = bounded(20.0, low=0.1)
    """Interval of WebSocket pings, and the time allowed for the answer."""
    drain_s: float = bounded(10.0, low=0)
    """After the first signal to stop: time for open contexts to end by themselves."""
    log_level: typing.Literal["debug", "info", "warning", "error"] = "info"


@dataclass(frozen=True)
class FileSettings:
    """What a configuration file may hold: sections ``[server]``, ``[limits]``, ``[worker]``."""

    server: ServerSettings = ServerSettings()
    limits: LimitSettings = LimitSettings()
    worker: WorkerSettings = field(default_factory=WorkerSettings)


@dataclass(frozen=True)
class Settings(FileSettings):
    """The whole configuration."""

    api_key: str | None = field(default=None, repr=False)


OPTIONS = {
    "host": ("server.host", "address to listen on (default 127.0.0.1; others need an API key)"),
    "port": ("server.port", f"port to listen on (default {DEFAULT_PORT}; 0: any free one)"),
    "api-key-file": ("server.api_key_file", f"file with the API key (or set {KEY_VARIABLE})"),
    "allow-origin": ("server.allowed_origins", "origins of web pages that may connect, comma-separated"),
    "allow-host": ("server.allowed_hosts", "host names served without an API key, comma-separated"),
    "model": (
        "worker.model",
        "checkpoint to serve: a folder, or ORG/NAME[@REVISION] on the Hugging Face hub (default: the understudy)",
    ),
    "voices": (
        "worker.voices",
        "folder of the voices made of recordings (default: voices/ in the checkpoint's folder)",
    ),
    "lexicon": ("worker.lexicon", "file of pronunciations (docs/text.md)"),
    "engine": ("worker.factory", "what makes the engine, as module:function"),
    "log-level": ("server.log_level", "debug, info, warning or error"),
}
"""Command-line options that are short for ``--set``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that `load` reads."""
    parser.add_argument("--config", metavar="FILE", help="configuration file (TOML)")
    for name, (key, text) in OPTIONS.items():
        parser.add_argument(f"--{name}", dest=key, metavar=name.split("-")[-1].upper(), help=text)
    parser.add_argument(
        "--set", dest="assignments", action="append", default=[], metavar="SECTION.KEY=VALUE", help="any setting"
    )


def load(arguments: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    """The configuration from all sources.

    Raises:
        ConfigError: a file that cannot be read, an unknown key, a value that does not fit, no key where one is needed.
    """
    merged: dict[str, dict[str, object]] = {}
    if arguments.config is not None:
        _merge_file(merged, Path(arguments.config))
    for key in _known_keys():
        variable = ENVIRONMENT_PREFIX + key.replace(".", "_").upper()
        if variable in environment:
            _merge_text(merged, key, environment[variable], variable)
    for key, _ in OPTIONS.values():
        if getattr(arguments, key) is not None:
            _merge_text(merged, key, getattr(arguments, key), f"the option for {key}")
    for assignment in arguments.assignments:
        key, separator, text = assignment.partition("=")
        if not separator:
            raise ConfigError(f"--set needs SECTION.KEY=VALUE, not {assignment!r}")
        _merge_text(merged, key.strip(), text, "--set")
    try:
        parts = read(FileSettings, merged, refuse_unknown=True)
    except FieldError as error:
        raise ConfigError(f"configuration: {error}") from error
    settings = Settings(parts.server, parts.limits, parts.worker, _api_key(parts.server, environment))
    check(settings)
    return settings


def check(settings: Settings) -> None:
    """Raises `ConfigError` for a configuration that must not be served."""
    if settings.limits.outbox_low_bytes >= settings.limits.outbox_high_bytes:
        raise ConfigError("limits.outbox_low_bytes must be less than limits.outbox_high_bytes")
    if settings.api_key is None and not is_loopback(settings.server.host):
        raise ConfigError(
            f"refusing to listen on {settings.server.host} without an API key: whoever reaches this machine could use "
            f"it. Set {KEY_VARIABLE} or --api-key-file, or listen on 127.0.0.1."
        )


def _api_key(server: ServerSettings, environment: Mapping[str, str]) -> str | None:
    key = environment.get(KEY_VARIABLE)
    if server.api_key_file is not None:
        try:
            key = Path(server.api_key_file).read_text()
        except (OSError, UnicodeError) as error:
            raise ConfigError(f"cannot read the API key file: {error}") from error
    if key is None:
        return None
    if not key.strip():
        raise ConfigError("the API key is empty")
    return key.strip()


def _merge_file(merged: dict[str, dict[str, object]], path: Path) -> None:
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the configuration {path}: {error}") from error
    for section, values in content.items():
        merged[section] = dict(values) if isinstance(values, dict) else values


def _merge_text(merged: dict[str, dict[str, object]], key: str, text: str, source: str) -> None:
    section, _, name = key.partition(".")
    target = merged.setdefault(section, {})
    if isinstance(target, dict):
        target[name] = _value(key, text, source)


def _value(key: str, text: str, source: str) -> object:
    """The text as the type of that key; unknown keys are left to `read`, which lists the known ones."""
    hint = _known_keys().get(key)
    try:
        if hint is bool:
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        if hint in (int, float):
            return hint(text)
        if typing.get_origin(hint) is dict:
            return tomllib.loads(f"table = {text}")["table"]
    except (KeyError, ValueError) as error:
        raise ConfigError(f"{source}: {key} cannot be {text!r}") from error
    if typing.get_origin(hint) is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _known_keys() -> dict[str, typing.Any]:
    """``section.key`` to its type."""
    sections = typing.get_type_hints(FileSettings)
    return {
        f"{section}.{key.name}": typing.get_type_hints(cls)[key.name]
        for section, cls in sections.items()
        for key in dataclasses.fields(cls)
    }
