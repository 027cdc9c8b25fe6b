"""The tree is as docs/architecture.md and pyproject.toml say."""

import fnmatch
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("engine", "realtime", "clients", "deploy")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CHECKPOINT = ("config.json", "model.safetensors", "codec.safetensors", "tokenizer.json")
UNDERSTUDY_BYTES = 60_000_000


def modules(package: str) -> list[Path]:
    return [path for path in sorted((ROOT / package).rglob("*.py")) if path.name != "__init__.py"]


def listed() -> set[Path]:
    """Modules in the tables of docs/architecture.md; every one that is listed must exist."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("\n## Modules\n")[1]
    found: set[Path] = set()
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        heading, _, table = part.partition("\n")
        folders = [ROOT / folder for folder in re.findall(r"`([\w/]+/)`", heading)]
        # A table of several folders names each module with its folder.
        base = folders[0] if len(folders) == 1 else folders[0].parent
        for row in table.splitlines():
            cell = row.split("|")[1] if row.startswith("|") else ""
            paths = [base / module for module in re.findall(r"`([\w/]+\.py)`", cell)]
            assert [str(path) for path in paths if not path.is_file()] == [], (
                "docs/architecture.md lists what is not there"
            )
            found.update(paths)
    return found


def test_the_architecture_has_a_line_for_every_module() -> None:
    present = {path for package in PACKAGES for path in modules(package)}
    outside = {path for path in present if path.is_relative_to(ROOT / "clients/bench")}
    missing = sorted(str(path.relative_to(ROOT)) for path in present - outside - listed())
    assert missing == [], "add a line to the tables of docs/architecture.md"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_with_modules_is_a_package(package: str) -> None:
    folders = {path.parent for path in (ROOT / package).rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_files_that_are_read_at_run_time_are_packaged() -> None:
    for package, patterns in PROJECT["tool"]["setuptools"]["package-data"].items():
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and path.suffix not in (".py", ".pyc"):
                relative = path.relative_to(ROOT / package).as_posix()
                assert any(fnmatch.fnmatch(relative, pattern) for pattern in patterns), path


def test_the_understudy_is_whole_and_small() -> None:
    folder = ROOT / "engine/understudy"
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert set(CHECKPOINT) <= set(sizes)
    assert sum(sizes.values()) <= UNDERSTUDY_BYTES


def test_the_lock_file_pins_what_the_project_asks_for() -> None:
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
    pins = dict(line.split("==") for line in lines)
    assert pins["torch"] == "2.13.0"
    assert not [version for version in pins.values() if "+" in version]
    locked = {normal(package) for package in pins}
    project = PROJECT["project"]
    asked = [*project["dependencies"], *(need for extra in project["optional-dependencies"].values() for need in extra)]
    names = {normal(re.split(r"[^\w.-]", need, maxsplit=1)[0]) for need in asked} - {"setuptools"}
    assert names - locked == set()


def normal(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()
