"""``footlights inspect``: figures against the checkpoint, and every reason to refuse one."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.checkpoint import machine, memory
from engine.checkpoint.inspect import PRECISIONS, bytes_per_frame, inspect, main
from engine.checkpoint.machine import SPARE_BYTES, machine_memory
from engine.checkpoint.memory import MemoryPlan, codec_bytes, has_room_for_two, listener_bytes, plan_memory
from engine.checkpoint.reader import open_checkpoint
from engine.checkpoint.synthetic import released_config, small_config, write_synthetic
from engine.errors import ConfigError
from engine.quant.convert import quantise
from engine.quant.scheme import PartScheme, Scheme
from engine.weights import load_decoder

UNDERSTUDY = Path(__file__).parents[2] / "engine/understudy"
ROUTER = "model.language_model.layers.0.mlp.gate.weight"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspected") / "small-fp8"
    write_synthetic(folder, small_config(), "fp8", shard_bytes=1_000_000)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(written, tmp_path / written.name))


def test_the_understudy() -> None:
    report = inspect(UNDERSTUDY, reads_all=True)
    assert report.refused == report.unknown_keys == ()
    assert (report.name, report.licence, report.stored_as, report.computes_in) == (
        "understudy", "Apache-2.0", "plain", "float32"
    )  # fmt: skip
    assert report.voices[:3] == ("heart", "michael", "bella")
    assert report.codec is not None
    assert (report.codec.kind, report.codec.sample_rate, report.codec.frame_ms) == ("UnderstudyCodec", 24000, 50)
    stored = load_file(UNDERSTUDY / "model.safetensors")
    assert sum(part.parameters for part in report.parts.values()) == sum(t.numel() for t in stored.values())
    assert sum(part.stored_bytes for part in report.parts.values()) == sum(t.nbytes for t in stored.values())
    assert sum(part.tensors for part in report.parts.values()) == len(stored)


def test_a_drama_without_a_codec(written: Path) -> None:
    report = inspect(written)
    assert report.stored_as == "bsgemm-moe"
    assert report.files == len(list(written.glob("*.safetensors")))
    assert report.parts["experts"].stored_bytes == report.parts["experts"].parameters + 4 * 4 * 8 * 3
    assert report.bytes_per_frame["as stored"] < report.bytes_per_frame["bf16"]
    assert "Built with Fish Audio" in report.notes
    assert len(report.refused) == 1
    assert "has no codec" in report.refused[0]


def test_bytes_of_a_frame_of_the_released_model() -> None:
    """By hand: 1.007 G active in experts, 1.43 G in the rest of the backbone, 0.95 G in the tower, 0.08 G in heads."""
    config = released_config()
    size = bytes_per_frame(config)
    assert set(size) == set(PRECISIONS)
    assert config.active_parameters()["experts"] == 40 * 8 * 3 * 2048 * 512
    assert size["8-bit experts, the rest bf16"] == pytest.approx(1.007e9 + 2 * (1.431e9 + 0.954e9 + 0.084e9), rel=0.002)
    assert size["4-bit experts (groups of 64), the rest 8-bit"] == pytest.approx(
        1.007e9 * 4.5 / 8 + 1.431e9 + 0.954e9 + 0.084e9 + 40 * 256 * 2048, rel=0.002
    )
    assert size["bf16"] == 2 * config.active_parameters_per_frame


def test_the_plan_is_what_loading_takes(written: Path) -> None:
    with open_checkpoint(written) as reader:
        plan = plan_memory(reader, torch.float32, codec_bytes=7)
        in_bfloat16 = plan_memory(reader, torch.bfloat16, codec_bytes=7)
    decoder, config = load_decoder(written, torch.float32)
    taken = sum(parameter.nbytes for parameter in decoder.parameters())
    # A few vectors are kept in float32 whatever the type.
    assert plan.weights == pytest.approx(taken, rel=0.001)
    assert in_bfloat16.weights + in_bfloat16.tables == pytest.approx(taken / 2, rel=0.02)
    assert in_bfloat16.tables == (43904 + 32768 + 40960) * 2
    state = decoder.allocate(1)
    rows = torch.zeros(1, 101, 1 + config.num_codebooks, dtype=torch.int64)
    with torch.inference_mode():
        decoder.prefill(rows, state)
    recurrent = state.recurrent.nbytes
    assert listener_bytes(config, torch.float32, rows=0) == recurrent
    per_row = listener_bytes(config, torch.float32, rows=1) - recurrent
    assert per_row == (1 + 5) * 2 * 1 * 32 * 4


def test_what_fits() -> None:
    plan = MemoryPlan(weights=4 * 10**9, tables=10**9, codec=10**9, per_listener=10**8, available=10**10, total=10**11)
    assert plan.listeners == 40
    assert not plan.has_room_for_a_warm_standby
    small = MemoryPlan(weights=10**9, tables=0, codec=0, per_listener=10**8, available=10**10, total=10**11)
    assert small.has_room_for_a_warm_standby
    assert MemoryPlan(10**12, 0, 0, 1, 10**10, 10**11).listeners == 0


def test_the_limit_of_a_container_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    total, available = machine_memory()
    assert 0 < available <= total
    limits = {"/sys/fs/cgroup/memory.max": 1000, "/sys/fs/cgroup/memory.current": 400}
    monkeypatch.setattr(machine, "_number", lambda path: limits.get(str(path)))
    assert machine_memory() == (1000, 600)


def test_tables_and_json_and_the_exit_status(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(UNDERSTUDY)]) == 0
    assert "it can be served" in capsys.readouterr().out
    assert main([str(written), "--json"]) == 1
    values = json.loads(capsys.readouterr().out)
    assert values["parts"]["experts"]["parameters"] == 1572864
    assert values["memory"]["listeners"] > 0
    assert main([str(written)]) == 1
    assert "refused: " in capsys.readouterr().out


def reasons(folder: Path, reads_all: bool = False) -> list[str]:
    return [reason for reason in inspect(folder, reads_all).refused if "has no codec" not in reason]


def configure(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_folder_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nowhere")]) == 1
    assert "cannot read" in capsys.readouterr().out


def test_every_reason_is_told(folder: Path) -> None:
    assert reasons(folder) == []
    (folder / "tokenizer.json").unlink()
    configure(folder, semantic_rate=21.5)
    report = inspect(folder)
    assert report.unknown_keys == ("semantic_rate",)
    assert [reason for reason in report.refused if "tokenizer.json" in reason]
    configure(folder, fish_schema_version=2)
    assert [reason for reason in reasons(folder) if "fish_schema_version" in reason]
    assert inspect(folder).parts == {}


def test_shards_that_are_missing_or_cut(folder: Path) -> None:
    shard = sorted(folder.glob("model-*.safetensors"))[0]
    shard.write_bytes(shard.read_bytes()[:-1])
    assert [reason for reason in reasons(folder) if "ends 1 bytes after the file" in reason]
    shard.unlink()
    assert [reason for reason in reasons(folder) if f"{shard.name} is missing" in reason]


def test_numbers_are_looked_at_when_asked_to(folder: Path) -> None:
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    path = folder / index[ROUTER]
    tensors = load_file(path)
    tensors[ROUTER][0, 0] = torch.nan
    save_file(tensors, path)
    assert reasons(folder) == []
    assert reasons(folder, reads_all=True) == [f"{ROUTER} has values that are not finite"]


def test_token_ids_that_are_not_the_tokenizers(folder: Path) -> None:
    configure(folder, eos_token_id=257)
    assert [reason for reason in reasons(folder) if "<|im_end|>" in reason]


def test_what_a_model_takes_is_known_before_it_is_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "codec.pth").write_bytes(b"c" * 1000)
    assert codec_bytes(folder) == 1000
    with open_checkpoint(folder) as reader:
        needed = plan_memory(reader, torch.float32, 1000).needed
    assert needed > 1000 + 4 * 0.9 * sum(small_config().parameter_counts().values())
    for spare, fits in ((0, True), (-1, False)):
        available = 2 * needed + SPARE_BYTES + spare
        monkeypatch.setattr(memory, "machine_memory", lambda available=available: (10**10, available))
        assert has_room_for_two(folder) is fits


def test_a_quantisation_that_is_no_object_is_refused_everywhere(folder: Path) -> None:
    configure(
        folder, quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"}
    )
    assert inspect(folder).unknown_keys == ("quantization_config.scale_fmt",)
    configure(folder, quantization_config=7)
    with pytest.raises(ConfigError, match="quantization_config must be an object"):
        has_room_for_two(folder)
    assert [reason for reason in reasons(folder) if "quantization_config must be an object" in reason]


def test_what_stays_quantised_takes_what_its_files_do(folder: Path, tmp_path: Path) -> None:
    quantise(folder, tmp_path / "small", Scheme(*[PartScheme(8)] * 4))
    plans = []
    for each in (folder, tmp_path / "small"):
        with open_checkpoint(each) as reader:
            plans.append(plan_memory(reader, torch.float32, 0))
    assert plans[1].weights < 0.4 * plans[0].weights
