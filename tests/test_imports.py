"""Imports point one way (docs/architecture.md)."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("engine", "realtime", "clients", "deploy")
STARTERS = {"clients/commands/serve.py", "clients/commands/private_server.py"}
"""They run the server in their own process, so they import it; nobody imports them before that is asked for."""
LAZY_STARTERS = {"clients/commands/say.py", "clients/commands/voice.py"}
"""They import what they start, or the engine for a model's folder, inside the function that needs it."""


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(path: Path, *, top_level_only: bool = False) -> Iterator[str]:
    """Modules that a file imports; of ``from x import y`` both ``x`` and ``x.y``."""
    tree = ast.parse(path.read_text())
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def ours(path: Path, *, top_level_only: bool = False) -> set[str]:
    found = imported(path, top_level_only=top_level_only)
    return {module for module in found if module.split(".")[0] in PACKAGES}


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@pytest.mark.parametrize("path", sources("engine"), ids=lambda path: str(path.relative_to(ROOT)))
def test_engine_imports_nothing_of_ours(path: Path) -> None:
    assert {module for module in ours(path) if not is_in(module, "engine")} == set()


@pytest.mark.parametrize("path", sources("engine"), ids=lambda path: str(path.relative_to(ROOT)))
def test_engine_knows_nothing_of_sockets(path: Path) -> None:
    forbidden = {"asyncio", "socket", "starlette", "uvicorn", "websockets"}
    assert forbidden & {module.split(".")[0] for module in imported(path)} == set()


@pytest.mark.parametrize("path", sources("realtime"), ids=lambda path: str(path.relative_to(ROOT)))
def test_realtime_imports_engine_alone(path: Path) -> None:
    assert {module for module in ours(path) if not (is_in(module, "realtime") or is_in(module, "engine"))} == set()


@pytest.mark.parametrize("path", sources("realtime"), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_gateway_knows_nothing_of_tensors(path: Path) -> None:
    modules = set(imported(path))
    assert "torch" not in {module.split(".")[0] for module in modules}
    allowed = ("engine.core", "engine.errors", "engine.lexicon", "engine.revision")
    assert {m for m in modules if is_in(m, "engine") and not any(is_in(m, name) for name in allowed)} <= {"engine"}


CLIENTS = [path for path in sources("clients") if "bench" not in path.relative_to(ROOT).parts]


@pytest.mark.parametrize("path", CLIENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_clients_import_the_protocol_alone(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    if name in STARTERS:
        return
    modules = ours(path, top_level_only=name in LAZY_STARTERS)
    foreign = {module for module in modules if not is_in(module, "clients")}
    assert {module for module in foreign if not is_in(module, "realtime.protocol")} - {"realtime"} == set()


@pytest.mark.parametrize("path", CLIENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_starters_are_imported_when_they_start(path: Path) -> None:
    starters = {name.removesuffix(".py").replace("/", ".") for name in STARTERS}
    assert starters & ours(path, top_level_only=True) == set()


@pytest.mark.parametrize("package", ["engine", "realtime", "clients"])
def test_nothing_imports_deploy_or_the_bench(package: str) -> None:
    for path in sources(package):
        if path.relative_to(ROOT).parts[:2] == ("clients", "bench"):
            continue
        bad = {m for m in ours(path) if is_in(m, "deploy") or is_in(m, "clients.bench")}
        assert bad == set(), path


def test_protocol_needs_the_standard_library_alone() -> None:
    code = (
        "import sys; before = set(sys.modules); import realtime.protocol; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names) - {'realtime'}))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
