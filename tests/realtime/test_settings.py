"""The configuration: four sources, one order, no unknown keys, nothing open by accident."""

import argparse
from pathlib import Path

import pytest

from engine.errors import ConfigError
from realtime.settings import Settings, add_arguments, load

FILE = """
[server]
port = 9000
allowed_origins = ["https://a.example"]

[limits]
sessions = 8

[worker]
factory = "somewhere:make"
arguments = { path = "model", threads = 2 }
"""


def loaded(*arguments: str, environment: dict[str, str] | None = None) -> Settings:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return load(parser.parse_args(arguments), environment or {})


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "footlights.toml"
    path.write_text(FILE)
    return str(path)


def test_defaults() -> None:
    settings = loaded()
    assert (settings.server.host, settings.server.port, settings.api_key) == ("127.0.0.1", 8060, None)
    assert settings.worker.factory == "engine.engine:load_engine"


def test_a_file(config: str) -> None:
    settings = loaded("--config", config)
    assert settings.server.port == 9000
    assert settings.server.allowed_origins == ("https://a.example",)
    assert settings.limits.sessions == 8
    assert settings.worker.arguments == {"path": "model", "threads": 2}


def test_later_sources_win(config: str) -> None:
    environment = {"FOOTLIGHTS_SERVER_PORT": "9001", "FOOTLIGHTS_LIMITS_SESSIONS": "9", "FOOTLIGHTS_OTHER": "1"}
    assert loaded("--config", config, environment=environment).server.port == 9001
    settings = loaded("--config", config, "--port", "9002", environment=environment)
    assert (settings.server.port, settings.limits.sessions) == (9002, 9)
    assert loaded("--config", config, "--port", "9002", "--set", "server.port=9003").server.port == 9003


def test_texts_become_what_the_key_holds() -> None:
    settings = loaded(
        *("--set", "worker.has_standby=false", "--set", "limits.start_s=2.5"),
        *("--allow-origin", "https://a.example, https://b.example", "--set", 'worker.arguments={path = "x"}'),
    )
    assert settings.worker.has_standby is False
    assert settings.limits.start_s == 2.5
    assert settings.server.allowed_origins == ("https://a.example", "https://b.example")
    assert settings.worker.arguments == {"path": "x"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[server]\nprot = 1", r"unknown key server\.prot; known: host, port, "),
        ("[serve]\nport = 1", r"unknown key serve; known: server, limits, worker"),
        ("server = 3", "server must be an object, not a number"),
        ("[server]\nport = 'x'", r"server\.port must be a whole number, not a string"),
        ("[server]\nport = 70000", r"server\.port must be 0 to 65535, not 70000"),
        ("[limits]\ncontexts = true", r"limits\.contexts must be a whole number"),
        ("[server]\nlog_level = 'loud'", r"log_level must be one of debug, info, warning, error, not 'loud'"),
        ("api_key = 'x'", "unknown key api_key"),
        ("[limits]\noutbox_low_bytes = 900000", "outbox_low_bytes must be less"),
        ("[", "cannot read the configuration"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        loaded("--config", str(path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "/no/such/file.toml"], "cannot read the configuration"),
        (["--port", "http"], "the option for server.port: server.port cannot be 'http'"),
        (["--set", "limits.lead_ms"], "SECTION.KEY=VALUE"),
        (["--set", "limits.lead=5"], r"unknown key limits\.lead; known: sessions, contexts"),
        (["--set", "worker.has_standby=maybe"], "cannot be 'maybe'"),
        (["--set", "worker.arguments=oops"], "cannot be 'oops'"),
    ],
)
def test_bad_options(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        loaded(*arguments)


class TestKeys:
    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "voice.example"])
    def test_other_addresses_need_a_key(self, host: str) -> None:
        with pytest.raises(ConfigError, match="without an API key"):
            loaded("--host", host)
        assert loaded("--host", host, environment={"FOOTLIGHTS_API_KEY": "secret"}).api_key == "secret"

    @pytest.mark.parametrize("host", ["localhost", "::1", "127.0.0.2"])
    def test_loopback_needs_none(self, host: str) -> None:
        assert loaded("--host", host).api_key is None

    def test_a_file_wins_over_the_environment(self, tmp_path: Path) -> None:
        path = tmp_path / "key"
        path.write_text("from the file\n")
        settings = loaded("--api-key-file", str(path), environment={"FOOTLIGHTS_API_KEY": "other"})
        assert settings.api_key == "from the file"

    def test_an_empty_key_is_no_key(self, tmp_path: Path) -> None:
        (tmp_path / "key").write_text(" \n")
        with pytest.raises(ConfigError, match="empty"):
            loaded("--api-key-file", str(tmp_path / "key"))
        with pytest.raises(ConfigError, match="empty"):
            loaded(environment={"FOOTLIGHTS_API_KEY": ""})

    def test_a_missing_file(self) -> None:
        with pytest.raises(ConfigError, match="cannot read the API key file"):
            loaded("--api-key-file", "/no/such/key")

    def test_keys_are_not_shown(self) -> None:
        assert "secret" not in repr(loaded(environment={"FOOTLIGHTS_API_KEY": "secret"}))
