"""What the documents say is true: commands exist, snippets run, links lead somewhere, versions agree."""

import argparse
import contextlib
import importlib
import io
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clients.cli import COMMANDS
from engine.lexicon import compile_lexicon, read_lexicon
from realtime import settings
from tests.clients.conftest import running, settings_for

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("", "docs", "docs/decisions", "deploy", "deploy/spark", "deploy/systemd")
DOCUMENTS = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.md"))
README = ROOT / "README.md"
SHELL_OPERATORS = {"|", "<", ">", "&&", ";"}


@dataclass(frozen=True)
class Snippet:
    """A fenced block of a document."""

    path: Path
    line: int
    language: str
    code: str

    def __str__(self) -> str:
        return f"{name(self.path)}:{self.line}"


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def snippets(path: Path) -> Iterator[Snippet]:
    text = path.read_text(encoding="utf-8")
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Snippet(path, text.count("\n", 0, match.start()) + 1, match[1], match[2])


SNIPPETS = [snippet for path in DOCUMENTS for snippet in snippets(path)]


def in_language(language: str, path: Path | None = None) -> list[Snippet]:
    return [s for s in SNIPPETS if s.language == language and path in (None, s.path)]


# ---------------------------------------------------------------------------------------------- commands


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Every command of every shell snippet: where it stands, and its words."""
    for snippet in [*in_language("sh"), *in_language("")]:
        for line in snippet.code.splitlines():
            if not snippet.language and not line.startswith(("footlights ", "make ")):
                continue
            lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>&;")
            lexer.whitespace_split = True
            words = list(lexer)
            while words:
                end = next((i for i, word in enumerate(words) if word in SHELL_OPERATORS), len(words))
                command, operator, words = words[:end], words[end : end + 1], words[end + 1 :]
                while command and re.fullmatch(r"[A-Z_]+=.*", command[0]):
                    command = command[1:]
                if command:
                    yield str(snippet), command
                if operator in (["<"], [">"]):
                    words = words[1:]


COMMAND_LINES = list(command_lines())
OURS = [(where, command) for where, command in COMMAND_LINES if Path(command[0]).name == "footlights"]


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_two_commands_of_the_readme_do_all_the_set_up() -> None:
    first = in_language("sh", README)[0]
    assert [line.split("#")[0].split() for line in first.code.splitlines()] == [["make", "speak"], ["make", "test"]]


def test_every_make_command_exists() -> None:
    used = {word for _, command in COMMAND_LINES if command[0] == "make" for word in command[1:] if word.isalpha()}
    for path in DOCUMENTS:
        used |= set(re.findall(r"`make (?:[A-Z]+=\S+ )?([a-z]+)`", path.read_text(encoding="utf-8")))
    assert used >= {"speak", "test", "serve"}
    assert used - make_targets() == set()


def test_continuous_integration_runs_the_readmes_test_command() -> None:
    lines = (ROOT / ".ci/run").read_text().splitlines()
    assert lines[-1] == "exec make test"
    assert "make test" in in_language("sh", README)[0].code
    assert ".ci/run" in (ROOT / ".github/workflows/ci.yml").read_text()


def parser_of(command: str) -> argparse.ArgumentParser:
    """The parser behind ``footlights COMMAND``."""
    if command == "serve":
        made = argparse.ArgumentParser()
        settings.add_arguments(made)
        return made
    module = importlib.import_module(COMMANDS[command].target.partition(":")[0])
    make: Callable[[], argparse.ArgumentParser] = module.parser
    return make()


@pytest.mark.parametrize(("where", "command"), OURS, ids=lambda value: value if isinstance(value, str) else "")
def test_arguments_of_footlights_are_understood(where: str, command: list[str]) -> None:
    _, subcommand, *arguments = command
    assert subcommand in COMMANDS
    if subcommand == "doctor" or arguments[:1] == ["setup"]:
        return
    complaints = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaints):
            parsed = parser_of(subcommand).parse_args(arguments)
    except SystemExit:
        pytest.fail(f"{where}: {shlex.join(command)}: {complaints.getvalue()}")
    if subcommand == "serve" and parsed.config is None:
        settings.load(parsed, {settings.KEY_VARIABLE: "open-sesame"})


def test_the_readme_shows_every_command_of_footlights() -> None:
    text = README.read_text(encoding="utf-8")
    assert [
        command for command in COMMANDS if f"footlights {command}" not in text and f"make {command}" not in text
    ] == []


# ---------------------------------------------------------------------------------------------- snippets


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server that speaks in tones."""
    with running(settings_for()) as url:
        yield url


PYTHON = in_language("python")
OF_CLIENTS = [snippet for snippet in PYTHON if "127.0.0.1:8060" in snippet.code]
OF_THE_ENGINE = [snippet for snippet in PYTHON if "load_engine" in snippet.code]


def test_every_python_snippet_is_run() -> None:
    assert len(OF_CLIENTS) >= 3
    assert len(OF_THE_ENGINE) >= 1
    assert [str(snippet) for snippet in PYTHON if snippet not in [*OF_CLIENTS, *OF_THE_ENGINE]] == []


@pytest.mark.parametrize("snippet", OF_CLIENTS, ids=str)
def test_client_snippets_run(snippet: Snippet, server: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = run(snippet, code=snippet.code.replace("ws://127.0.0.1:8060", server))
    if "print" in snippet.code:
        assert re.search(r"[1-9]\d* bytes", capsys.readouterr().out)
    else:
        assert len(names["pcm"]) > 48000 * 2 * 0.2


@pytest.mark.parametrize("snippet", OF_THE_ENGINE, ids=str)
def test_engine_snippets_run_with_the_understudy(snippet: Snippet) -> None:
    names = run(snippet)
    samples, rate = names["samples"], names["engine"].info.sample_rate
    assert 0.4 < len(samples) / rate < 5
    assert 0.02 < abs(samples).max() <= 1
    assert [word.text for word in names["words"]] == ["Good", "evening."]


def run(snippet: Snippet, code: str | None = None) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code or snippet.code, str(snippet), "exec"), names)
    return names


@pytest.mark.parametrize("snippet", in_language("toml"), ids=str)
def test_configuration_snippets_are_understood(snippet: Snippet, tmp_path: Path) -> None:
    if snippet.code.startswith("[say]"):
        (tmp_path / "words.toml").write_text(snippet.code, encoding="utf-8")
        assert compile_lexicon(read_lexicon(tmp_path / "words.toml"))
        return
    check_configuration(snippet.code, tmp_path)


def test_the_configuration_for_systemd_is_understood(tmp_path: Path) -> None:
    loaded = check_configuration((ROOT / "deploy/systemd/footlights.toml").read_text(), tmp_path)
    assert loaded.server.host == "0.0.0.0"


def check_configuration(text: str, folder: Path) -> settings.Settings:
    (folder / "footlights.toml").write_text(text)
    arguments = parser_of("serve").parse_args(["--config", str(folder / "footlights.toml")])
    return settings.load(arguments, {settings.KEY_VARIABLE: "open-sesame"})


def test_the_command_of_the_unit_file_is_understood() -> None:
    unit = (ROOT / "deploy/systemd/footlights.service").read_text()
    commands = re.findall(r"^ExecStart=/opt/footlights/.venv/bin/footlights serve (.*)$", unit, re.MULTILINE)
    assert len(commands) == 1
    parser_of("serve").parse_args(shlex.split(commands[0]))


# ---------------------------------------------------------------------------------------------- links and versions


def anchor(heading: str) -> str:
    """As hosting sites make it of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(path: Path) -> set[str]:
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, fragment = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        assert linked.is_relative_to(ROOT), target
        assert linked.exists(), target
        if fragment:
            assert fragment in anchors(linked), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_paths_in_code_marks_exist(path: Path) -> None:
    roots = "|".join(("engine", "realtime", "clients", "deploy", "tests", "docs"))
    named = re.findall(rf"`((?:{roots})/[\w./-]*)`", path.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_decisions_are_numbered_and_listed() -> None:
    records = sorted(path.name for path in (ROOT / "docs/decisions").glob("[0-9]*.md"))
    assert [int(record[:4]) for record in records] == list(range(1, len(records) + 1))
    listed = re.findall(r"\((\d{4}-[\w-]+\.md)\)", (ROOT / "docs/decisions/README.md").read_text(encoding="utf-8"))
    assert listed == records
    for record in records:
        text = (ROOT / "docs/decisions" / record).read_text(encoding="utf-8")
        assert text.startswith(f"# {record[:4]}: ")
        for part in ("Context", "Choice", "Rejected", "Consequences"):
            assert f"**{part}.**" in text, record


def section(path: Path, heading: str) -> str:
    parts = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return next(part for part in parts if part.startswith(heading + "\n"))


def test_figures_of_the_readme_are_those_of_the_benchmarks() -> None:
    rows = [line for line in section(README, "Measured").splitlines() if line.startswith("|")]
    figures = {figure for row in rows for figure in re.findall(r"\d+(?:\.\d+)?", row)}
    known = set(re.findall(r"\d+(?:\.\d+)?", (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")))
    assert figures - known == set()


def test_the_changelog_begins_with_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    headings = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = [heading for heading in headings if heading[0] != "Unreleased"]
    assert released[0][0] == version
    assert all(date for _, date in released)
    assert sorted((date for _, date in released), reverse=True) == [date for _, date in released]


def test_experiments_are_in_the_order_of_their_dates() -> None:
    dates = re.findall(r"^## (.{10}): ", (ROOT / "docs/experiments.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert dates
    assert dates == sorted(dates)
