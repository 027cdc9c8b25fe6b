"""``codec.pth`` in every spelling, converted once; files that lie, break or carry code are refused by name."""

import json
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.codec.dac import loading
from engine.codec.dac.codec import DacCodec
from engine.codec.dac.loading import has_dac, load_dac
from engine.codec.understudy import UnderstudyCodec
from engine.errors import ConfigError, WeightsError
from engine.loading import load_codec

GOLDEN = Path(__file__).parents[1] / "golden" / "drama3-tiny" / "codec"
CODES = torch.randint(32, (1, 4, 5), generator=torch.Generator().manual_seed(0))
PARAMETRISED = (".parametrizations.weight.original0", ".parametrizations.weight.original1")
LEGACY = (".weight_g", ".weight_v")
A_CONV = "decoder.model.0.conv"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "footlights" / "codecs"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A writable copy of the golden codec."""
    path = tmp_path / "model"
    path.mkdir()
    for name in ("codec.pth", "codec_config.json"):
        (path / name).write_bytes((GOLDEN / name).read_bytes())
    return path


def published() -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = torch.load(GOLDEN / "codec.pth", weights_only=True)
    return tensors


def sound(codec: DacCodec) -> Tensor:
    return codec.decode_step(CODES, codec.allocate(1))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Tensor:
    path = tmp_path_factory.mktemp("model")
    for name in ("codec.pth", "codec_config.json"):
        (path / name).write_bytes((GOLDEN / name).read_bytes())
    return sound(load_dac(path))


# Spellings


def respelt(tensors: dict[str, Tensor], old: tuple[str, str], new: tuple[str, str]) -> dict[str, Tensor]:
    return {name.replace(old[0], new[0]).replace(old[1], new[1]): tensor for name, tensor in tensors.items()}


def folded(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    plain: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        for length, direction in (PARAMETRISED, LEGACY):
            if name.endswith(direction):
                base = name.removesuffix(direction)
                plain[f"{base}.weight"] = torch._weight_norm(tensor, tensors[base + length], 0)
                break
        else:
            if not name.endswith((PARAMETRISED[0], LEGACY[0])):
                plain[name] = tensor
    return plain


def with_tables(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The masks and rotation tables of the published file."""
    for module in ("encoder.block.4.block.5", "quantizer.pre_module", "quantizer.post_module"):
        tensors[f"{module}.causal_mask"] = torch.ones(16, 16, dtype=torch.bool).tril()
        tensors[f"{module}.freqs_cis"] = torch.zeros(16, 8, 2, dtype=torch.bfloat16)
    return tensors


SPELLINGS: dict[str, Callable[[dict[str, Tensor]], Any]] = {
    "all legacy": lambda t: respelt(t, PARAMETRISED, LEGACY),
    "all parametrised": lambda t: respelt(t, LEGACY, PARAMETRISED),
    "folded": folded,
    "tables": with_tables,
    "wrapped": lambda t: {"state_dict": t, "epoch": 3},
    "training export": lambda t: {
        "state_dict": {f"generator.{n}": v for n, v in t.items()} | {"discriminator.w": torch.zeros(1)}
    },
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_the_same_codec(folder: Path, expected: Tensor, spelling: str) -> None:
    torch.save(SPELLINGS[spelling](published()), folder / "codec.pth")
    torch.testing.assert_close(sound(load_dac(folder)), expected, atol=2e-5, rtol=0)


def test_the_older_archive_form_is_read(folder: Path, expected: Tensor) -> None:
    torch.save(published(), folder / "codec.pth", _use_new_zipfile_serialization=False)
    assert torch.equal(sound(load_dac(folder)), expected)


def test_half_precision_is_widened(folder: Path, expected: Tensor) -> None:
    torch.save({name: tensor.half() for name, tensor in published().items()}, folder / "codec.pth")
    torch.testing.assert_close(sound(load_dac(folder)), expected, atol=2e-2, rtol=0)


# Code


class Trap:
    """A pickle that leaves a file behind when it is run."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("form", ["archive", "old archive", "bare pickle", "inside the dictionary"])
def test_code_in_a_pickle_is_refused_and_not_run(folder: Path, tmp_path: Path, form: str) -> None:
    trap, mark = Trap(tmp_path / "mark"), tmp_path / "mark"
    path = folder / "codec.pth"
    match form:
        case "archive":
            torch.save(trap, path)
        case "old archive":
            torch.save(trap, path, _use_new_zipfile_serialization=False)
        case "bare pickle":
            path.write_bytes(pickle.dumps({"state_dict": trap}))
        case "inside the dictionary":
            torch.save(published() | {"extra": trap}, path)
    with pytest.raises(WeightsError, match=r"codec\.pth is not a plain dictionary"):
        load_dac(folder)
    assert not mark.exists()
    assert sorted(p.name for p in folder.iterdir()) == ["codec.pth", "codec_config.json"], "nothing was written"
    pickle.loads(pickle.dumps(trap))
    assert mark.exists(), "the trap works"


# Faults


FAULTS: dict[str, tuple[Callable[[dict[str, Tensor]], Any], str]] = {
    "missing": (lambda t: {n: v for n, v in t.items() if n != f"{A_CONV}.bias"}, rf"{A_CONV}\.bias is missing"),
    "unexpected": (lambda t: t | {"decoder.extra": torch.zeros(1)}, "unexpected tensor decoder.extra"),
    "shape": (lambda t: t | {f"{A_CONV}.bias": torch.zeros(3)}, rf"{A_CONV}\.bias is \[3\]"),
    "not finite": (lambda t: t | {f"{A_CONV}.bias": torch.full((128,), torch.nan)}, rf"{A_CONV}\.bias has values"),
    "integers": (
        lambda t: t | {f"{A_CONV}.bias": torch.zeros(128, dtype=torch.int8)},
        rf"{A_CONV}\.bias is torch.int8",
    ),
    "integers of a normalised weight": (
        lambda t: t | {A_CONV + PARAMETRISED[0]: torch.ones(128, 1, 1, dtype=torch.int32)},
        rf"{A_CONV}{re.escape(PARAMETRISED[0])} is torch.int32",
    ),
    "never written": (
        lambda t: t | {A_CONV + PARAMETRISED[0]: torch.zeros(128, 1, 1)},
        rf"{A_CONV}\.weight has the value 0 throughout",
    ),
    "too large": (
        lambda t: t | {A_CONV + PARAMETRISED[0]: torch.full((128, 1, 1), 1e20)},
        rf"{A_CONV}\.weight has values up to",
    ),
    "no length": (lambda t: {n: v for n, v in t.items() if n != A_CONV + PARAMETRISED[0]}, f"{A_CONV} has only half"),
    "twice": (lambda t: t | {f"{A_CONV}.weight": torch.zeros(128, 64, 7)}, f"{A_CONV} has a weight and a normalised"),
    "length shape": (lambda t: t | {A_CONV + PARAMETRISED[0]: torch.ones(128, 64, 1)}, f"{A_CONV} has a normalised"),
    "no length at all": (lambda t: t | {A_CONV + PARAMETRISED[0]: torch.tensor(1.0)}, f"{A_CONV} has a normalised"),
    "zero direction": (
        lambda t: t | {A_CONV + PARAMETRISED[1]: torch.zeros(128, 64, 7)},
        rf"{A_CONV}\.weight has values that are not finite",
    ),
    "length and direction without an axis": (
        lambda t: t | {A_CONV + end: torch.tensor(1.0) for end in PARAMETRISED},
        f"{A_CONV} has a normalised",
    ),
    "no rows": (
        lambda t: t | {A_CONV + end: torch.zeros(0, 1, 1) for end in PARAMETRISED},
        f"{A_CONV} has a normalised",
    ),
    # A view that repeats one number: the file is small, a copy of it would have 360 GB.
    "larger than its file": (
        lambda t: t | {"decoder.extra": torch.zeros(1).expand(300_000, 300_000)},
        "decoder.extra claims more values than the file has",
    ),
    "sparse": (lambda t: t | {f"{A_CONV}.bias": torch.zeros(128).to_sparse()}, rf"{A_CONV}\.bias is no plain tensor"),
    "without numbers": (
        lambda t: t | {f"{A_CONV}.bias": torch.zeros(128, device="meta")},
        rf"{A_CONV}\.bias is no plain tensor",
    ),
    "no tensor": (lambda t: t | {"decoder.extra": 3}, "decoder.extra is no tensor"),
    "a list": (lambda t: list(t.values()), "no dictionary of tensors"),
    "no names": (lambda t: dict(enumerate(t.values())), "no dictionary of tensors"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_checkpoint_that_does_not_fit_names_what_is_wrong(folder: Path, fault: str) -> None:
    spoil, message = FAULTS[fault]
    torch.save(spoil(published()), folder / "codec.pth")
    with pytest.raises(WeightsError, match=message):
        load_dac(folder)
    assert not (folder / "codec.safetensors").exists()


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04 cut"])
def test_a_file_that_is_no_checkpoint_is_refused(folder: Path, content: bytes) -> None:
    (folder / "codec.pth").write_bytes(content)
    with pytest.raises(WeightsError, match=r"codec\.pth"):
        load_dac(folder)


def test_a_cut_file_is_refused(folder: Path) -> None:
    data = (folder / "codec.pth").read_bytes()
    (folder / "codec.pth").write_bytes(data[: len(data) // 2])
    with pytest.raises(WeightsError, match=r"codec\.pth"):
        load_dac(folder)


def test_other_dimensions_than_the_published_ones_say_how_to_be_given(folder: Path) -> None:
    (folder / "codec_config.json").unlink()
    with pytest.raises(WeightsError, match=r"codec_config\.json"):
        load_dac(folder)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (json.dumps({"window": 3}), "window"),
        ("[" * 100_000, "nested"),
        (f'{{"sample_rate": {"9" * 5000}}}', "codec_config"),
        (json.dumps({"transformer_layers": 10**9}), "transformer_layers is 1000000000"),
        (json.dumps({"encoder_rates": 8}), "encoder_rates must be a list"),
        (json.dumps({"encoder_width": [64]}), "encoder_width must be"),
    ],
)
def test_a_configuration_that_is_not_understood_is_refused(folder: Path, content: str, says: str) -> None:
    (folder / "codec_config.json").write_text(content)
    with pytest.raises(ConfigError, match=says):
        load_dac(folder)


def test_a_look_writes_nothing(folder: Path, cache: Path, expected: Tensor) -> None:
    assert torch.equal(sound(load_dac(folder, keeps_converted=False)), expected)
    assert sorted(p.name for p in folder.iterdir()) == ["codec.pth", "codec_config.json"]
    assert not cache.exists()


def test_a_folder_without_a_codec_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither"):
        load_dac(tmp_path)


# The converted file


def test_it_is_converted_once(folder: Path, expected: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    load_dac(folder)
    assert sorted(p.name for p in folder.iterdir()) == ["codec.pth", "codec.safetensors", "codec_config.json"]
    with safe_open(folder / "codec.safetensors", framework="pt") as file:
        assert file.metadata()["codec"] == "modified-dac"
    monkeypatch.setattr(loading, "read_checkpoint", None)
    assert torch.equal(sound(load_dac(folder)), expected)


def test_the_converted_file_is_enough(folder: Path, expected: Tensor) -> None:
    load_dac(folder)
    for name in ("codec.pth", "codec_config.json"):
        (folder / name).unlink()
    assert has_dac(folder)
    assert torch.equal(sound(load_dac(folder)), expected)


def test_a_new_checkpoint_is_converted_anew(folder: Path, expected: Tensor) -> None:
    load_dac(folder)
    changed = published()
    changed[f"{A_CONV}.bias"] += 0.5
    torch.save(changed, folder / "codec.pth")
    os.utime(folder / "codec.pth", ns=(1, 1))
    assert not torch.equal(sound(load_dac(folder)), expected)


def read_only(place: Path) -> Callable[..., None]:
    """``_write`` as it is where ``place`` cannot be written (the tests may run as root, whom no permission stops)."""
    write = loading._write

    def refuse(tensors: dict[str, Tensor], metadata: dict[str, str], path: Path) -> None:
        if path.is_relative_to(place):
            raise PermissionError(f"{path} cannot be written")
        write(tensors, metadata, path)

    return refuse


def test_a_read_only_folder_is_converted_into_the_cache(
    folder: Path, cache: Path, expected: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_write", read_only(folder))
    assert torch.equal(sound(load_dac(folder)), expected)
    assert not (folder / "codec.safetensors").exists()
    assert [path.suffix for path in cache.iterdir()] == [".safetensors"]
    monkeypatch.setattr(loading, "read_checkpoint", None)
    assert torch.equal(sound(load_dac(folder)), expected), "read from the cache"


def test_without_any_place_to_write_it_is_converted_in_memory(
    folder: Path, tmp_path: Path, expected: Tensor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loading, "_write", read_only(tmp_path))
    assert torch.equal(sound(load_dac(folder)), expected)
    assert "in memory" in caplog.text


def test_a_full_disk_leaves_nothing_behind(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
        path.write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(loading, "save_file", fill)
    load_dac(folder)
    assert sorted(p.name for p in folder.iterdir()) == ["codec.pth", "codec_config.json"]
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("fault", ["cut", "shape", "not finite", "dtype"])
def test_a_spoilt_converted_file_is_refused(folder: Path, fault: str) -> None:
    load_dac(folder)
    path, name = folder / "codec.safetensors", f"{A_CONV}.bias"
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    tensors = {n: t.clone() for n, t in load_file(path).items()}
    match fault:
        case "shape":
            tensors[name] = tensors[name][1:].clone()
        case "not finite":
            tensors[name][0] = torch.inf
        case "dtype":
            tensors[name] = tensors[name].half()
    save_file(tensors, path, metadata)
    if fault == "cut":
        path.write_bytes(path.read_bytes()[:-100])
        name = "codec.safetensors"
    (folder / "codec.pth").unlink()
    with pytest.raises(WeightsError, match=name.replace(".", r"\.")):
        load_dac(folder)


# Beside the understudy's


def test_load_codec_tells_the_codecs_apart(folder: Path, expected: Tensor) -> None:
    codec = load_codec(folder)
    assert isinstance(codec, DacCodec)
    assert torch.equal(sound(codec), expected)
    assert isinstance(load_codec(folder), DacCodec), "the converted file is no understudy's"


def test_the_codec_of_another_kind_stays(folder: Path, cache: Path, expected: Tensor) -> None:
    other = UnderstudyCodec(width=8, blocks=1)
    save_file(other.state_dict(), folder / "codec.safetensors", {"width": "8", "blocks": "1"})
    assert not has_dac(folder)
    assert isinstance(load_codec(folder), UnderstudyCodec)
    before = (folder / "codec.safetensors").read_bytes()
    assert torch.equal(sound(load_dac(folder)), expected)
    assert (folder / "codec.safetensors").read_bytes() == before
    assert len(list(cache.iterdir())) == 1


def test_a_folder_without_a_codec_has_no_dac(tmp_path: Path) -> None:
    assert not has_dac(tmp_path)
    with pytest.raises(ConfigError, match="codec"):
        load_codec(tmp_path)
