"""Whole checkpoint folders: every form of the same weights, memory while reading, and what is refused."""

import gc
import json
import math
import mmap
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.checkpoint.names import part_of, tensor_shapes
from engine.checkpoint.packed import Packed
from engine.checkpoint.reader import CheckpointReader, open_checkpoint
from engine.checkpoint.safetensors_file import SafetensorsFile
from engine.checkpoint.synthetic import FORMS, released_config, small_config, write_synthetic
from engine.checkpoint.writer import Piece, open_shard
from engine.config import ModelConfig
from engine.errors import ConfigError, UnsupportedFormatError, WeightsError
from engine.weights import compute_dtype, load_decoder, read_decoder

UNDERSTUDY = Path(__file__).parents[2] / "engine/understudy"
EXPERT = "model.language_model.layers.1.mlp.experts.3.down_proj.weight"
DENSE = "model.language_model.layers.3.self_attn.q_proj.weight"
ROUTER = "model.language_model.layers.2.mlp.gate.weight"
NORM = "model.language_model.layers.1.input_layernorm.weight"
DECAY = "model.language_model.layers.0.linear_attn.A_log"
SHARD_BYTES = 600_000

Tensors = dict[str, Tensor]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same small model in every form."""
    root = tmp_path_factory.mktemp("synthetic")
    for form in FORMS:
        write_synthetic(root / form, small_config(), form, seed=7, shard_bytes=SHARD_BYTES)
    return {form: root / form for form in FORMS}


@pytest.fixture
def fp8(folders: dict[str, Path], tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(folders["fp8"], tmp_path / "fp8"))


def shard_of(folder: Path, name: str) -> Path:
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    return folder / str(index["weight_map"][name])


def change(folder: Path, name: str, make: Callable[[Tensor], Tensor]) -> None:
    path = shard_of(folder, name)
    tensors = load_file(path)
    tensors[name] = make(tensors[name]).contiguous()
    save_file(tensors, path)


def configure(folder: Path, edit: Callable[[dict[str, object]], object]) -> None:
    path = folder / "config.json"
    values = json.loads(path.read_text())
    edit(values)
    path.write_text(json.dumps(values))


class TestNames:
    @pytest.mark.parametrize(
        "config", [released_config(), small_config(), ModelConfig.from_file(UNDERSTUDY / "config.json")]
    )
    def test_their_sizes_are_those_of_the_parts(self, config: ModelConfig) -> None:
        counts = dict.fromkeys(config.parameter_counts(), 0)
        for name, shape in tensor_shapes(config).items():
            counts[part_of(name)] += math.prod(shape)
        assert counts == config.parameter_counts()

    def test_the_released_model_has_as_many_as_its_repack_says(self) -> None:
        """62,245 with a scale for each matrix of an expert."""
        names = tensor_shapes(released_config())
        experts = [name for name in names if part_of(name) == "experts"]
        assert len(experts) == 40 * 256 * 3
        assert len(names) + len(experts) == 62_245

    def test_the_understudys_are_those_of_its_file(self) -> None:
        file = SafetensorsFile(UNDERSTUDY / "model.safetensors")
        config = ModelConfig.from_file(UNDERSTUDY / "config.json")
        assert {name: entry.shape for name, entry in file.entries.items()} == tensor_shapes(config)


class TestForms:
    @pytest.mark.parametrize(("form", "worst"), [("fp8", 0.03), ("int4", 0.13), ("nvfp4", 0.11)])
    def test_the_same_model_within_what_rounding_costs(self, folders: dict[str, Path], form: str, worst: float) -> None:
        with open_checkpoint(folders["bf16"]) as exact, open_checkpoint(folders[form]) as rounded:
            packed = set()
            for name in exact.names():
                expected, found = (reader.dense(name, torch.float32) for reader in (exact, rounded))
                assert found.shape == rounded.shape(name)
                if isinstance(rounded.read(name), Packed):
                    packed.add(part_of(name))
                    error = float((found - expected).norm() / expected.norm())
                    assert worst / 10 < error < worst, name
                else:
                    assert torch.equal(found, expected), name
            assert packed == ({"experts", "attention", "recurrent"} if form == "int4" else {"experts"})

    @pytest.mark.parametrize("form", FORMS)
    def test_a_decoder_holds_what_the_reader_gives(self, folders: dict[str, Path], form: str) -> None:
        decoder, config = load_decoder(folders[form])
        assert config == small_config()
        moe = decoder.layers[1].get_submodule("moe.experts")
        with open_checkpoint(folders[form]) as reader:
            assert torch.equal(moe.get_parameter("down")[3], reader.dense(EXPERT, torch.float32))
        rows = torch.zeros(1, 5, 1 + config.num_codebooks, dtype=torch.int64)
        with torch.inference_mode():
            assert bool(decoder.prefill(rows, decoder.allocate(1)).isfinite().all())

    def test_a_seed_makes_the_same_files(self, folders: dict[str, Path], tmp_path: Path) -> None:
        write_synthetic(tmp_path / "again", small_config(), "fp8", seed=7, shard_bytes=SHARD_BYTES)
        write_synthetic(tmp_path / "other", small_config(), "fp8", seed=8, shard_bytes=SHARD_BYTES)
        names = sorted(path.name for path in folders["fp8"].iterdir())
        assert names == sorted(path.name for path in (tmp_path / "again").iterdir())
        same = [(folders["fp8"] / name).read_bytes() == (tmp_path / "again" / name).read_bytes() for name in names]
        assert all(same)
        first = next(name for name in names if name.endswith(".safetensors"))
        assert (folders["fp8"] / first).read_bytes() != (tmp_path / "other" / first).read_bytes()

    def test_a_folder_with_something_in_it_is_left_alone(self, folders: dict[str, Path]) -> None:
        with pytest.raises(ConfigError, match="not empty"):
            write_synthetic(folders["fp8"], small_config())

    def test_the_tokenizer_has_the_ids_of_the_configuration(self, folders: dict[str, Path]) -> None:
        from engine.prompt import PromptBuilder, load_tokenizer

        builder = PromptBuilder(load_tokenizer(folders["fp8"] / "tokenizer.json"), small_config())
        assert builder.turn("Hello.").shape[1] == 1 + small_config().num_codebooks


class TestReading:
    def test_a_pass_reads_shard_after_shard(self, folders: dict[str, Path]) -> None:
        with open_checkpoint(folders["fp8"]) as reader:
            assert len(reader.shards) > 3
            names = list(reader.names())
            assert sorted(names) == sorted(tensor_shapes(reader.config))
            assert names == [name for shard in reader.shards for name in shard.names]
            assert reader.largest_shard_bytes == max(shard.path.stat().st_size for shard in reader.shards)
            assert reader.stored_bytes(EXPERT) == 128 * 128 + 4

    def test_what_was_read_outlives_the_reader(self, folders: dict[str, Path]) -> None:
        with open_checkpoint(folders["bf16"]) as reader:
            first = reader.read(EXPERT)
            assert isinstance(first, Tensor)
            kept = first.clone()
            for name in reader.names():
                reader.read(name)
        del reader
        gc.collect()
        assert torch.equal(first, kept)

    @pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="reads the kernel's account of mappings")
    def test_only_the_last_tensor_stays_in_memory(self, tmp_path: Path) -> None:
        pieces = [Piece(f"t{i}", torch.float32, (512, 1024)) for i in range(8)]
        path = tmp_path / "large.safetensors"
        with open_shard(path, pieces) as writer:
            for i, piece in enumerate(pieces):
                writer.write(piece.name, torch.full(piece.shape, float(i)))
        file = SafetensorsFile(path)
        for i, piece in enumerate(pieces):
            file.release()
            assert float(file.tensor(piece.name).sum()) == i * 512 * 1024
            # The kernel maps pages around the one that is asked for.
            assert resident_bytes(path) < piece.nbytes + 64 * mmap.PAGESIZE

    def test_tables_stay_in_the_file(self, folders: dict[str, Path]) -> None:
        with open_checkpoint(folders["fp8"]) as reader:
            decoder = read_decoder(reader, torch.bfloat16)
            names = ("embed_tokens.weight", "codebook_embeddings.weight", "tower.shared.0.embedding.weight")
            tables = [decoder.get_parameter(name) for name in names]
            wide = read_decoder(reader, torch.float32).get_parameter(names[0])
        mapped = mappings(folders["fp8"])

        def is_mapped(tensor: Tensor) -> bool:
            return any(low <= tensor.data_ptr() < high for low, high in mapped)

        assert all(is_mapped(table) for table in tables)
        # Matrices that are multiplied with are copied, and so is what changes its type.
        assert not is_mapped(decoder.get_parameter("layers.0.moe.experts.down"))
        assert not is_mapped(wide)
        assert torch.equal(tables[0].float(), wide)

    def test_large_models_compute_in_bfloat16(self) -> None:
        assert compute_dtype(released_config()) == torch.bfloat16
        assert compute_dtype(released_config(1)) == torch.bfloat16
        assert compute_dtype(small_config()) == torch.float32


def mappings(folder: Path) -> list[tuple[int, int]]:
    """Address ranges of this process that are mapped from files of ``folder``."""
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if str(folder) in line]
    return [(int(low, 16), int(high, 16)) for low, _, high in (line[0].partition("-") for line in lines)]


def resident_bytes(path: Path) -> int:
    """Bytes of a mapped file that are in this process's memory."""
    total, is_ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0] and ":" not in line.split()[0]:
            is_ours = line.endswith(str(path))
        elif is_ours and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total


def shifted(tensor: Tensor) -> Tensor:
    """A bfloat16 tensor read one byte too late."""
    return tensor.view(torch.uint8).view(-1).roll(-1).view(torch.bfloat16).view(tensor.shape).nan_to_num(3e38)


class TestRefused:
    def test_a_cut_shard_names_the_tensor(self, fp8: Path) -> None:
        path = shard_of(fp8, EXPERT)
        entry = SafetensorsFile(path).entries[EXPERT]
        with path.open("r+b") as file:
            file.truncate(entry.stop - 10)
        with pytest.raises(
            WeightsError, match=rf"{path.name} cannot be read: it is cut off, {EXPERT} ends 10 bytes after"
        ):
            open_checkpoint(fp8)

    @pytest.mark.parametrize("content", ["[" * 100_000, '{"weight_map": ' + "9" * 5000 + "}", "[]", "{}"])
    def test_an_index_that_is_none(self, fp8: Path, content: str) -> None:
        (fp8 / "model.safetensors.index.json").write_text(content)
        with pytest.raises(WeightsError, match="is no index of a checkpoint"):
            open_checkpoint(fp8)

    def test_shards_without_an_index(self, fp8: Path) -> None:
        (fp8 / "model.safetensors.index.json").unlink()
        with pytest.raises(WeightsError, match=r"index\.json is missing, which says what model-00001"):
            open_checkpoint(fp8)

    def test_a_missing_shard(self, fp8: Path) -> None:
        path = shard_of(fp8, EXPERT)
        path.unlink()
        with pytest.raises(WeightsError, match=f"{path.name} is missing"):
            open_checkpoint(fp8)

    @pytest.mark.parametrize(
        ("name", "make", "says"),
        [
            (EXPERT, lambda t: t.float(), f"{EXPERT} is float32, not float8_e4m3fn"),
            (f"{EXPERT}_scale_inv", lambda t: t.double(), "scale_inv is float64, not bfloat16 or float32"),
            (f"{EXPERT}_scale_inv", lambda t: t.repeat(2, 1), r"scale_inv has shape \[2, 1\], not \[1, 1\]"),
            (EXPERT, lambda t: t[:64], rf"{EXPERT} has shape \[64, 128\], not \[128, 128\]"),
            (DENSE, lambda t: t.to(torch.float8_e4m3fn), f"{DENSE} is float8_e4m3fn, not bfloat16"),
            (DENSE, lambda t: t.view(torch.int16), f"{DENSE} is int16, not bfloat16"),
        ],
    )
    def test_a_wrong_tensor_is_named_when_it_is_opened(
        self, fp8: Path, name: str, make: Callable[[Tensor], Tensor], says: str
    ) -> None:
        change(fp8, name, make)
        with pytest.raises(WeightsError, match=says):
            open_checkpoint(fp8)

    @pytest.mark.parametrize(
        ("name", "make", "says"),
        [
            (DENSE, lambda t: t.index_fill(0, torch.tensor(3), torch.nan), f"{DENSE} has values that are not finite"),
            (EXPERT, lambda t: torch.full_like(t.view(torch.uint8), 0x7F).view(t.dtype), f"{EXPERT} has values"),
            (f"{EXPERT}_scale_inv", lambda t: t * math.inf, f"{EXPERT} has scales that are not finite"),
        ],
    )
    def test_numbers_that_are_none_are_named_when_they_are_read(
        self, fp8: Path, name: str, make: Callable[[Tensor], Tensor], says: str
    ) -> None:
        change(fp8, name, make)
        with pytest.raises(WeightsError, match=says):
            load_decoder(fp8)

    @pytest.mark.parametrize(
        ("name", "make", "says"),
        [
            (ROUTER, torch.zeros_like, f"{ROUTER} has the value 0 throughout"),
            (ROUTER, torch.ones_like, f"{ROUTER} has the value 1 throughout"),
            ("lm_head.weight", torch.zeros_like, "lm_head.weight has the value 0 throughout"),
            (DENSE, lambda t: shifted(t), f"{DENSE} has values up to .*; none of a trained model is above 10,000"),
            (NORM, lambda t: t.fill_(-16384.0), f"{NORM} has values up to 16,384"),
            (DECAY, lambda t: t.fill_(89.0), f"{DECAY} has values up to 89; none of a trained model is above 20"),
            (EXPERT, lambda t: t.view(torch.uint8).zero_().view(t.dtype), f"{EXPERT} is zero throughout"),
            (f"{EXPERT}_scale_inv", torch.zeros_like, f"{EXPERT} is zero throughout"),
        ],
    )
    def test_numbers_that_no_training_gives(
        self, fp8: Path, name: str, make: Callable[[Tensor], Tensor], says: str
    ) -> None:
        """Holes that were never written, bytes in the wrong place: they load, and what speaks then is noise."""
        change(fp8, name, make)
        with pytest.raises(WeightsError, match=says):
            load_decoder(fp8)

    @pytest.mark.parametrize(
        ("form", "part"),
        [("int4", "qweight"), ("int4", "scales"), ("nvfp4", "weight"), ("nvfp4", "weight_scale")],
    )
    def test_holes_in_packed_matrices(self, folders: dict[str, Path], tmp_path: Path, form: str, part: str) -> None:
        folder = Path(shutil.copytree(folders[form], tmp_path / form))
        name = f"{EXPERT.removesuffix('.weight')}.{part}"
        change(folder, name, lambda t: t.view(torch.uint8).zero_().view(t.dtype))
        with pytest.raises(WeightsError, match=f"{EXPERT} is zero throughout"):
            load_decoder(folder)

    def test_norms_that_training_left_where_they_were(self, fp8: Path) -> None:
        change(fp8, NORM, torch.zeros_like)
        load_decoder(fp8)

    def test_two_matrices_in_each_others_place(self, fp8: Path) -> None:
        """Of those with the same shape nobody can tell; a matrix and its scale, or two shapes, are told apart."""
        other = EXPERT + "_scale_inv"
        path = shard_of(fp8, EXPERT)
        tensors = load_file(path)
        tensors[EXPERT], tensors[other] = tensors[other], tensors[EXPERT]
        save_file(tensors, path)
        with pytest.raises(WeightsError, match=f"{EXPERT} is float32"):
            open_checkpoint(fp8)

    def test_weights_in_fp8_that_the_configuration_does_not_speak_of(self, fp8: Path) -> None:
        configure(fp8, lambda values: values.pop("quantization_config"))
        with pytest.raises(WeightsError, match="is float8_e4m3fn, not bfloat16"):
            open_checkpoint(fp8)

    def test_blocks_of_another_size(self, fp8: Path) -> None:
        block = {"quant_method": "bsgemm-moe", "weight_block_size": [64, 64]}
        configure(fp8, lambda values: values.update(quantization_config=block))
        with pytest.raises(WeightsError, match=r"scale_inv has shape \[1, 1\], not \[2, 2\]"):
            open_checkpoint(fp8)

    def test_keys_nobody_here_knows_are_told(self, fp8: Path, caplog: pytest.LogCaptureFixture) -> None:
        block = {"quant_method": "bsgemm-moe", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"}
        configure(fp8, lambda values: values.update(streaming_attention=True, quantization_config=block))
        with open_checkpoint(fp8):
            assert "streaming_attention" in caplog.text
            assert "quantization_config.scale_fmt" in caplog.text

    def test_a_method_nobody_here_knows(self, fp8: Path) -> None:
        configure(fp8, lambda values: values.update(quantization_config={"quant_method": "aqlm"}))
        with pytest.raises(UnsupportedFormatError, match=r"'aqlm' cannot be read; what can: .*GPTQ"):
            open_checkpoint(fp8)

    def test_dimensions_that_are_not_those_of_the_weights(self, fp8: Path) -> None:
        config = small_config()
        other = replace(config, backbone=replace(config.backbone, moe_intermediate_size=256))
        (fp8 / "config.json").write_text(
            json.dumps(
                other.to_dict() | {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
            )
        )
        with pytest.raises(WeightsError, match=r"experts.0.gate_proj.weight has shape \[128, 128\], not \[256, 128\]"):
            open_checkpoint(fp8)


class TestFile:
    def write(self, path: Path, header: object, data: bytes = b"") -> Path:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + data)
        return path

    def entry(self, start: int, stop: int, shape: list[int], dtype: str = "F32") -> dict[str, object]:
        return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}

    @pytest.mark.parametrize(
        ("header", "data", "says"),
        [
            (b"no json", b"", "makes no sense"),
            ([], b"", "makes no sense"),
            (b"[" * 100_000, b"", "makes no sense"),
            ({"__metadata__": [1]}, b"", "makes no sense"),
            ({"a": 5}, b"", "makes no sense"),
            ({"a": {"dtype": "F32", "shape": [1]}}, b"", "makes no sense"),
            ({"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}, b"1234", "unknown dtype 'F99'"),
            ({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, b"1234", "natural numbers"),
            ({"a": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}}, b"1234", "natural numbers"),
            ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"1234", "4 bytes are not a F32 tensor"),
            ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, b"12345678", "a starts at byte"),
            ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"123", "cut off, a ends 1 bytes after"),
            ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"12345", "1 bytes follow"),
            (
                {
                    "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                    "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                },
                b"1234",
                "b starts at byte",
            ),
            (b'{"a": {}, "a": {}}', b"", "a key stands in it twice"),
        ],
    )
    def test_headers_that_lie(self, tmp_path: Path, header: object, data: bytes, says: str) -> None:
        with pytest.raises(WeightsError, match=f"bad.safetensors cannot be read.*{says}"):
            SafetensorsFile(self.write(tmp_path / "bad.safetensors", header, data))

    def test_a_header_that_claims_to_be_huge(self, tmp_path: Path) -> None:
        path = tmp_path / "bad.safetensors"
        path.write_bytes((1 << 60).to_bytes(8, "little") + b"{}")
        with pytest.raises(WeightsError, match="no safetensors file"):
            SafetensorsFile(path)

    def test_tensors_that_do_not_start_at_a_multiple_of_their_size(self, tmp_path: Path) -> None:
        header = {"a": self.entry(0, 3, [3], "U8"), "b": self.entry(3, 11, [2])}
        values = torch.tensor([1.5, -2.0])
        path = self.write(tmp_path / "odd.safetensors", header, b"abc" + values.numpy().tobytes())
        assert torch.equal(SafetensorsFile(path).tensor("b"), values)

    def test_tensors_without_values_and_scalars(self, tmp_path: Path) -> None:
        save_file({"none": torch.zeros(0, 4), "one": torch.tensor(3.0)}, tmp_path / "small.safetensors")
        file = SafetensorsFile(tmp_path / "small.safetensors")
        assert file.tensor("none").shape == (0, 4)
        assert float(file.tensor("one")) == 3.0

    def test_a_shard_that_fails_leaves_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "model.safetensors"
        with pytest.raises(RuntimeError, match="disk"), open_shard(path, [Piece("a", torch.float32, (2,))]):
            raise RuntimeError("disk")
        assert list(tmp_path.iterdir()) == []


def test_a_reader_says_where_a_second_copy_lies(tmp_path: Path, folders: dict[str, Path]) -> None:
    save_file({EXPERT: torch.zeros(1)}, tmp_path / "extra.safetensors")
    files = [SafetensorsFile(path) for path in sorted(folders["bf16"].glob("*.safetensors"))]
    extra = SafetensorsFile(tmp_path / "extra.safetensors")
    with pytest.raises(WeightsError, match=f"extra.safetensors: tensor {EXPERT} is in model-"):
        CheckpointReader(small_config(), None, [*files, extra])
