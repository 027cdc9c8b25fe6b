"""``footlights quantize``: round trips through files, interruptions, full disks, folders that hold something else."""

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.checkpoint.fp8 import quantise_block_fp8
from engine.checkpoint.reader import CheckpointReader, open_checkpoint
from engine.checkpoint.writer import ShardWriter
from engine.errors import ConfigError, FootlightsError, WeightsError
from engine.model.decoder import Decoder
from engine.quant import cli
from engine.quant.awq import awq, find_gains, no_gains
from engine.quant.calibrated import Calibrated, walk_of
from engine.quant.convert import PROGRESS_FILE, QuantiseError, quantise
from engine.quant.gptq import Spread, gptq
from engine.quant.integer import IntegerMatrix, round_to_nearest
from engine.quant.kept import KeptTensors
from engine.quant.modules import QuantisedExperts, QuantisedLinear, prepare
from engine.quant.scheme import KEPT, PartScheme, Scheme
from engine.quant.shrink import shrink
from engine.quant.takes import SENTENCES, Recorded, calibration_texts
from engine.weights import load_decoder

GOLDEN = Path(__file__).parents[1] / "golden" / "drama3-tiny"
SOURCE = GOLDEN / "checkpoint-bf16"
EIGHT, FOUR = PartScheme(8), PartScheme(4, 64)
SCHEME = Scheme(FOUR, EIGHT, EIGHT, EIGHT)


@pytest.fixture(scope="module")
def rows() -> Tensor:
    return load_file(GOLDEN / "inputs.safetensors")["prompt_frames"].long()[None]


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """The golden checkpoint in three files, their border inside a layer, with a file beside them."""
    folder = tmp_path / "sharded"
    folder.mkdir()
    tensors = {n: t for path in sorted(SOURCE.glob("*.safetensors")) for n, t in load_file(path).items()}
    places: dict[str, str] = {}
    for i, start in enumerate(range(0, len(tensors), -(-len(tensors) // 3)), 1):
        part = dict(list(tensors.items())[start : start + -(-len(tensors) // 3)])
        name = f"model-{i:05}-of-00003.safetensors"
        save_file(part, folder / name)
        places |= dict.fromkeys(part, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    shutil.copy(SOURCE / "config.json", folder)
    (folder / "voices").mkdir()
    (folder / "voices" / "note.txt").write_text("kept")
    return folder


def outputs(decoder: Decoder, rows: Tensor) -> tuple[Tensor, ...]:
    with torch.inference_mode():
        out = decoder.forward_train(rows)
    return (out.main, *out.codebooks)


def kinds(decoder: Decoder) -> int:
    return sum(isinstance(module, QuantisedLinear | QuantisedExperts) for module in decoder.modules())


def calibrated(rows: Tensor, scheme: Scheme) -> Callable[[CheckpointReader, Path], Calibrated]:
    """A ``make_rounding`` that knows one take."""
    take = Recorded(rows[0], None, torch.ones(rows.shape[1], dtype=torch.bool))

    def make(reader: CheckpointReader, folder: Path) -> Calibrated:
        kept = KeptTensors(folder)
        return Calibrated(walk_of(reader, [take], scheme, kept), scheme, kept)

    return make


def stop_after(count: int) -> Callable[[], None]:
    """An ``advance`` that interrupts at the given tensor."""
    left = [count]

    def advance() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt

    return advance


# Round trips


def test_what_is_loaded_is_what_rounding_in_memory_gives(sharded: Path, tmp_path: Path, rows: Tensor) -> None:
    size = quantise(sharded, tmp_path / "small", SCHEME)
    loaded, config = load_decoder(tmp_path / "small")
    expected = load_decoder(SOURCE)[0]
    shrink(expected, SCHEME)
    assert config == expected.config
    assert kinds(loaded) == kinds(expected) > 30
    for out, wanted in zip(outputs(loaded, rows), outputs(expected, rows), strict=True):
        torch.testing.assert_close(out, wanted, atol=1e-5, rtol=1e-5)
    with open_checkpoint(tmp_path / "small") as reader:
        stored = sum(reader.stored_bytes(name) for name in reader.names())
        assert stored == size.quantised < 0.6 * size.source
        assert len(reader.shards) == 3
    assert (tmp_path / "small" / "voices" / "note.txt").read_text() == "kept"
    assert not list((tmp_path / "small").glob("quantising*"))


def test_a_single_file_stays_one(tmp_path: Path, rows: Tensor) -> None:
    quantise(SOURCE, tmp_path / "small", Scheme(experts=EIGHT))
    assert (tmp_path / "small" / "model.safetensors").is_file() or len(list(SOURCE.glob("*.safetensors"))) > 1
    load_decoder(tmp_path / "small")


@pytest.fixture
def fp8(tmp_path: Path) -> Path:
    """The golden checkpoint in the form of the release: experts in block FP8."""
    source = tmp_path / "fp8"
    source.mkdir()
    shutil.copy(GOLDEN / "checkpoint-fp8" / "config.json", source)
    tensors = {n: t for path in sorted(SOURCE.glob("*.safetensors")) for n, t in load_file(path).items()}
    for name in [name for name in tensors if ".mlp.experts." in name]:
        packed = quantise_block_fp8(tensors[name])
        tensors |= {name: packed.weight, f"{name}_scale_inv": packed.scale_inv}
    save_file(tensors, source / "model.safetensors")
    return source


def test_the_released_form_can_be_quantised(fp8: Path, tmp_path: Path, rows: Tensor) -> None:
    scheme = Scheme(PartScheme(4, 32), KEPT, EIGHT, KEPT)
    quantise(fp8, tmp_path / "small", scheme)
    loaded, exact = load_decoder(tmp_path / "small")[0], load_decoder(fp8)[0]
    shrink(exact, scheme)
    for out, wanted in zip(outputs(loaded, rows), outputs(exact, rows), strict=True):
        torch.testing.assert_close(out, wanted, atol=1e-4, rtol=1e-4)


def test_released_experts_that_are_kept_become_bfloat16(fp8: Path, tmp_path: Path) -> None:
    quantise(fp8, tmp_path / "small", Scheme(tower=EIGHT))
    loaded, exact = load_decoder(tmp_path / "small")[0], load_decoder(fp8)[0]
    experts = [model.get_parameter("layers.1.moe.experts.down") for model in (loaded, exact)]
    assert torch.equal(experts[0], experts[1].bfloat16().float())


def test_an_understudy_quantised_speaks(tmp_path: Path) -> None:
    from engine.engine import load_engine
    from engine.speak import speak

    source = Path(cli.__file__).parents[1] / "understudy"
    assert cli.main([str(source), str(tmp_path / "small"), "--experts", "8"]) == 0
    engine = load_engine(tmp_path / "small", is_warm=False)
    samples, words = speak(engine, "Good evening.", engine.info.voices[0])
    assert [word.text for word in words] == ["Good", "evening."]
    assert float(abs(samples).max()) > 0.05


# Interruptions, and what is in the way


def test_an_interrupted_run_does_not_load_and_goes_on(sharded: Path, tmp_path: Path, rows: Tensor) -> None:
    folder = tmp_path / "small"
    with open_checkpoint(sharded) as reader:
        first, second = (len(shard.names) for shard in reader.shards[:2])
    with pytest.raises(KeyboardInterrupt):
        quantise(sharded, folder, SCHEME, advance=stop_after(first + second // 2))
    assert not list(folder.glob("*.partial"))
    assert [path.name for path in folder.glob("*.safetensors")] == ["model-00001-of-00003.safetensors"]
    with pytest.raises(ConfigError):
        load_decoder(folder)
    written = (folder / "model-00001-of-00003.safetensors").stat()
    quantise(sharded, folder, SCHEME)
    assert (folder / "model-00001-of-00003.safetensors").stat().st_mtime_ns == written.st_mtime_ns
    quantise(sharded, tmp_path / "whole", SCHEME)
    for path in (tmp_path / "whole").rglob("*"):
        assert path.is_dir() or path.read_bytes() == (folder / path.relative_to(tmp_path / "whole")).read_bytes()


def test_an_unfinished_run_is_not_mixed_with_another(sharded: Path, tmp_path: Path) -> None:
    folder = tmp_path / "small"
    with pytest.raises(KeyboardInterrupt):
        quantise(sharded, folder, SCHEME, advance=stop_after(1))
    with pytest.raises(QuantiseError, match="other options"):
        quantise(sharded, folder, Scheme(EIGHT))
    with pytest.raises(QuantiseError, match="another source"):
        quantise(SOURCE, folder, SCHEME)


@pytest.mark.parametrize("file", ["notes.txt", "config.json"])
def test_a_folder_with_anything_in_it_is_left_alone(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text("mine")
    with pytest.raises(QuantiseError, match="not empty"):
        quantise(SOURCE, tmp_path, SCHEME)
    assert [path.name for path in tmp_path.iterdir()] == [file]
    assert (tmp_path / file).read_text() == "mine"


def test_a_folder_onto_itself_is_refused(sharded: Path) -> None:
    with pytest.raises(QuantiseError, match="not empty"):
        quantise(sharded, sharded, SCHEME)
    load_decoder(sharded)


@pytest.mark.parametrize("inside", ["small", "voices/small"])
def test_a_folder_within_the_source_is_refused(sharded: Path, inside: str) -> None:
    before = sorted(sharded.rglob("*"))
    with pytest.raises(QuantiseError, match="lies in"):
        quantise(sharded, sharded / inside, SCHEME)
    assert sorted(sharded.rglob("*")) == before


@pytest.mark.parametrize("left_over", ["mmproj-q4.gguf", "model-00004-of-00004.safetensors"])
def test_what_belongs_to_the_original_is_left_out(
    sharded: Path, tmp_path: Path, left_over: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("voices/ada.safetensors", left_over):
        (sharded / name).write_bytes(b"of the original")
    assert cli.main([str(sharded), str(tmp_path / "small"), "--group", "32"]) == 0
    found = {str(path.relative_to(tmp_path / "small")) for path in (tmp_path / "small").rglob("*") if path.is_file()}
    shards = {f"model-{i:05}-of-00003.safetensors" for i in (1, 2, 3)}
    assert found == {"config.json", "model.safetensors.index.json", "voices/note.txt", *shards}
    told = capsys.readouterr().out
    assert "left out" in told
    assert f"footlights voice remake ada --model {tmp_path / 'small'}" in told


def test_a_finished_file_that_is_gone_is_written_again(sharded: Path, tmp_path: Path) -> None:
    folder, first = tmp_path / "small", sharded / "model-00001-of-00003.safetensors"
    with pytest.raises(KeyboardInterrupt):
        quantise(sharded, folder, SCHEME, advance=stop_after(len(load_file(first)) + 1))
    (folder / first.name).unlink()
    quantise(sharded, folder, SCHEME)
    load_decoder(folder)


def test_a_run_calibrated_otherwise_is_another_run(sharded: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        quantise(sharded, tmp_path / "small", SCHEME, advance=stop_after(1), sentences=8)
    with pytest.raises(QuantiseError, match="other options"):
        quantise(sharded, tmp_path / "small", SCHEME, sentences=4)


def test_a_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(QuantiseError, match="cannot be used"):
        quantise(SOURCE, tmp_path / "file", SCHEME)


def test_too_little_space_is_said_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(QuantiseError, match=r"[1-9]\.\d MB, 1\.0 MB are free"):
        quantise(SOURCE, tmp_path / "new" / "small", SCHEME)
    assert not (tmp_path / "new").exists()


def test_a_run_that_could_not_begin_leaves_nothing(tmp_path: Path) -> None:
    def fails(reader: CheckpointReader, folder: Path) -> Calibrated:
        raise ConfigError("it cannot speak")

    (tmp_path / "there").mkdir()
    for folder in (tmp_path / "new" / "small", tmp_path / "there"):
        with pytest.raises(ConfigError, match="cannot speak"):
            quantise(SOURCE, folder, SCHEME, fails)
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


def test_a_disk_that_fills_up_leaves_nothing_that_loads(
    sharded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, write, left = tmp_path / "small", ShardWriter.write, [100]

    def fills_up(self: ShardWriter, name: str, tensor: Tensor) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, name, tensor)

    monkeypatch.setattr(ShardWriter, "write", fills_up)
    with pytest.raises(QuantiseError, match="no space left"):
        quantise(sharded, folder, SCHEME)
    assert not list(folder.glob("*.partial"))
    with pytest.raises(ConfigError):
        load_decoder(folder)
    monkeypatch.setattr(ShardWriter, "write", write)
    quantise(sharded, folder, SCHEME)
    load_decoder(folder)


def test_a_broken_progress_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / PROGRESS_FILE).write_text("{")
    with pytest.raises(QuantiseError, match="cannot be used"):
        quantise(SOURCE, tmp_path, SCHEME)


def test_what_is_quantised_is_not_quantised_again(tmp_path: Path) -> None:
    quantise(SOURCE, tmp_path / "small", SCHEME)
    with pytest.raises(QuantiseError, match="quantised by footlights already"):
        quantise(tmp_path / "small", tmp_path / "smaller", SCHEME)


def test_numbers_that_are_none_are_refused_by_name(sharded: Path, tmp_path: Path) -> None:
    path = sharded / "model-00002-of-00003.safetensors"
    tensors = load_file(path)
    name = next(name for name in tensors if "experts.0.up" in name)
    tensors[name][0, 0] = torch.nan
    save_file(tensors, path)
    with pytest.raises(WeightsError, match=name):
        quantise(sharded, tmp_path / "small", SCHEME)
    with pytest.raises(ConfigError):
        load_decoder(tmp_path / "small")


# Loading what is not as it says


def change_tensors(folder: Path, change: Callable[[dict[str, Tensor]], Any]) -> None:
    for path in folder.glob("*.safetensors"):
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path)


@pytest.mark.parametrize("component", ["codes", "scales", "offsets"])
def test_a_missing_component_is_named(tmp_path: Path, component: str) -> None:
    quantise(SOURCE, tmp_path / "small", SCHEME)
    name = f"model.language_model.layers.0.mlp.experts.0.down_proj.{component}"
    change_tensors(tmp_path / "small", lambda tensors: tensors.pop(name, None))
    with pytest.raises(WeightsError, match=rf"{name} is missing|index|tensor {name}"):
        load_decoder(tmp_path / "small")


def test_another_scheme_than_that_of_the_files_is_refused(tmp_path: Path) -> None:
    quantise(SOURCE, tmp_path / "small", SCHEME)
    path = tmp_path / "small" / "config.json"
    values = json.loads(path.read_text())
    values["quantization_config"]["experts"] = {"bits": 8}
    path.write_text(json.dumps(values))
    with pytest.raises(WeightsError, match=r"codes is uint8, not int8|has shape"):
        load_decoder(tmp_path / "small")


def test_scales_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    quantise(SOURCE, tmp_path / "small", SCHEME)

    def spoil(tensors: dict[str, Tensor]) -> None:
        if "lm_head.scales" in tensors:
            tensors["lm_head.scales"][3] = torch.inf

    change_tensors(tmp_path / "small", spoil)
    with pytest.raises(WeightsError, match=r"lm_head.* scales that are not finite"):
        load_decoder(tmp_path / "small")


# The command


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([str(tmp_path / "nowhere"), str(tmp_path / "small")]) == 1
    assert "config.json" in capsys.readouterr().err
    (tmp_path / "mine").write_text("x")
    assert cli.main([str(SOURCE), str(tmp_path)]) == 1
    assert "not empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--experts", "3"], ["--group", "48"], ["--method", "magic"], ["--sentences", "0"]]
)
def test_the_command_refuses_what_it_cannot_do(tmp_path: Path, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([str(SOURCE), str(tmp_path / "small"), *arguments])
    assert caught.value.code == 2


def test_more_sentences_than_there_are_is_all_of_them() -> None:
    everything = calibration_texts(10**6)
    assert everything == SENTENCES.read_text().splitlines()
    assert calibration_texts(2) == [everything[0], everything[len(everything) // 2]]


def test_errors_have_a_wire_code() -> None:
    assert issubclass(QuantiseError, FootlightsError)
    assert QuantiseError.code == "cannot_quantise"


# GPTQ


def test_gptq_is_closer_than_the_nearest_on_inputs_like_those_it_knows() -> None:
    torch.manual_seed(1)
    mixing = torch.randn(128, 128) * torch.logspace(0, -2, 128)
    weight, seen, new = torch.randn(48, 128), torch.randn(600, 128) @ mixing.t(), torch.randn(200, 128) @ mixing.t()
    wanted = new @ weight.t()

    def error(matrix: IntegerMatrix) -> float:
        return float((new @ matrix.dequantise().t() - wanted).pow(2).mean())

    assert error(gptq(weight, Spread.of(seen), 4, 64)) < 0.4 * error(round_to_nearest(weight, 4, 64))


@pytest.mark.parametrize("count", [0, 1, 5])
def test_gptq_with_few_inputs_is_no_disaster(count: int) -> None:
    torch.manual_seed(2)
    weight, seen = torch.randn(16, 96), torch.randn(count, 96)
    matrix, nearest = gptq(weight, Spread.of(seen) if count else None, 4, 32), round_to_nearest(weight, 4, 32)
    assert (matrix.dequantise() - weight).abs().max() < 4 * (nearest.dequantise() - weight).abs().max()
    if not count:
        assert torch.equal(matrix.codes, nearest.codes)


def test_gptq_keeps_what_lies_on_the_grid() -> None:
    torch.manual_seed(3)
    weight = round_to_nearest(torch.randn(8, 64), 4, 32).dequantise()
    again = gptq(weight, Spread.of(torch.randn(100, 64)), 4, 32).dequantise()
    torch.testing.assert_close(again, weight, atol=2e-2, rtol=2e-2)


def test_gptq_makes_a_whole_model_closer(tmp_path: Path, rows: Tensor) -> None:
    scheme = Scheme(*[PartScheme(4, 64, "gptq")] * 4)
    quantise(SOURCE, tmp_path / "gptq", scheme, calibrated(rows, scheme))
    quantise(SOURCE, tmp_path / "rtn", scheme)
    wanted = outputs(load_decoder(SOURCE)[0], rows)
    errors = {}
    for name in ("gptq", "rtn"):
        made = outputs(load_decoder(tmp_path / name)[0], rows)
        errors[name] = sum(float((a - b).pow(2).mean()) for a, b in zip(made, wanted, strict=True))
    assert errors["gptq"] < 0.8 * errors["rtn"]


# AWQ


def outliers(outputs: int = 48) -> tuple[Tensor, Tensor, Tensor]:
    """A weight [O, 128], and inputs seen [600, 128] and new [200, 128], of which a few are a hundred times the rest."""
    torch.manual_seed(4)
    sizes = torch.ones(128)
    sizes[[3, 40, 77]] = 100
    return torch.randn(outputs, 128), torch.randn(600, 128) * sizes, torch.randn(200, 128) * sizes


def lost(matrix: IntegerMatrix, weight: Tensor, inputs: Tensor) -> float:
    return float((inputs @ (matrix.dequantise() - weight).t()).pow(2).mean())


def test_awq_is_far_closer_than_the_nearest_where_a_few_inputs_are_large() -> None:
    weight, seen, new = outliers()
    gains = find_gains(weight, seen, 64)
    assert float(gains[3]) < 0.5 * float(gains[4]), "large inputs are made smaller, their weights larger"
    assert lost(awq(weight, seen, gains, 64), weight, new) < 0.3 * lost(round_to_nearest(weight, 4, 64), weight, new)


def test_gains_and_shares_are_each_of_use() -> None:
    weight, seen, new = outliers()
    gains = find_gains(weight, seen, 64)
    nothing = lost(awq(weight, seen[:0], no_gains(128), 64), weight, new)
    assert lost(awq(weight, seen[:0], gains, 64), weight, new) < 0.4 * nothing
    assert lost(awq(weight, seen, no_gains(128), 64), weight, new) < 0.98 * nothing


def test_awq_never_loses_more_than_the_nearest_on_what_it_knows() -> None:
    torch.manual_seed(5)
    for _ in range(5):
        weight, seen = torch.randn(24, 64), torch.randn(300, 64)
        gains = find_gains(weight, seen, 64)
        assert lost(awq(weight, seen, gains, 64), weight, seen) <= lost(round_to_nearest(weight, 4, 64), weight, seen)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_awq_with_few_inputs_is_no_disaster(count: int) -> None:
    weight, seen, new = outliers()
    seen = seen[:count]
    seen[:, 9:20] = 0
    gains = find_gains(weight, seen, 32)
    matrix, nearest = awq(weight, seen, gains, 32), round_to_nearest(weight, 4, 32)
    assert matrix.problem() is None
    assert lost(matrix, weight, new) < 4 * lost(nearest, weight, new)
    if not count:
        assert torch.equal(matrix.dequantise(), nearest.dequantise())


def awq_of(folder: Path, rows: Tensor, scheme: Scheme) -> None:
    quantise(SOURCE, folder, scheme, calibrated(rows, scheme))
    gains = [t for path in folder.glob("*.safetensors") for n, t in load_file(path).items() if n.endswith(".gains")]
    assert any(float(found.max()) > float(found.min()) for found in gains)


def test_awq_makes_a_whole_model_closer(tmp_path: Path, rows: Tensor) -> None:
    awq_of(tmp_path / "awq", rows, Scheme(*[PartScheme(4, 64, "awq")] * 4))
    quantise(SOURCE, tmp_path / "rtn", Scheme(*[FOUR] * 4))
    wanted = outputs(load_decoder(SOURCE)[0], rows)
    errors = {}
    for name in ("awq", "rtn"):
        made = outputs(load_decoder(tmp_path / name)[0], rows)
        errors[name] = sum(float((a - b).pow(2).mean()) for a, b in zip(made, wanted, strict=True))
    assert errors["awq"] < 0.95 * errors["rtn"]


def test_a_model_with_gains_computes_fast_what_the_reference_does(tmp_path: Path, rows: Tensor) -> None:
    awq_of(tmp_path / "awq", rows, Scheme(PartScheme(4, 64, "awq"), EIGHT, EIGHT, EIGHT))
    slow, fast = load_decoder(tmp_path / "awq")[0], prepare(load_decoder(tmp_path / "awq")[0])
    with torch.inference_mode():
        expected, out = (model.prefill(rows, model.allocate(1)) for model in (slow, fast))
    assert float((out - expected).abs().median()) < 0.03 * float(expected.std())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors, name: tensors.pop(name), "gains is missing"),
        (lambda tensors, name: tensors[name].mul_(2), "other gains than the matrices with the same inputs"),
        (lambda tensors, name: tensors[name].zero_(), "gains that are not positive"),
        (lambda tensors, name: tensors.update({name: tensors[name][:-1].clone()}), r"gains has shape \[\d+\], not"),
    ],
)
def test_gains_that_do_not_fit_are_refused(
    tmp_path: Path, rows: Tensor, change: Callable[[dict[str, Tensor], str], Any], message: str
) -> None:
    folder, name = tmp_path / "awq", "model.language_model.layers.0.mlp.experts.0.up_proj.gains"
    awq_of(folder, rows, Scheme(experts=PartScheme(4, 64, "awq")))
    change_tensors(folder, lambda tensors: change(tensors, name) if name in tensors else None)
    with pytest.raises(WeightsError, match=message):
        load_decoder(folder)
