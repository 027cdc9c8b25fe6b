"""Quantised forms: bits on paper against bits read, and what is refused."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine.checkpoint.fp8 import BlockFp8, BlockFp8Form, quantise_block_fp8
from engine.checkpoint.gptq import GptqForm, GroupedInt4, pack_words, quantise_gptq
from engine.checkpoint.nvfp4 import NvFp4, NvFp4Form, quantise_nvfp4
from engine.checkpoint.packed import Packed, is_finite
from engine.checkpoint.quantisation import SUPPORTED, ignored_keys, read_quantisation
from engine.checkpoint.stored import Form
from engine.errors import ConfigError, UnsupportedFormatError, WeightsError

NAME = "model.language_model.layers.0.mlp.experts.0.gate_proj.weight"
BASE = NAME.removesuffix(".weight")
INT4 = GptqForm(group_size=32, is_symmetric=True, zero_offset=1)


@dataclass(frozen=True)
class Header:
    dtype: torch.dtype
    shape: tuple[int, ...]
    nbytes: int


def headers(tensors: Mapping[str, Tensor]) -> dict[str, Header]:
    return {name: Header(t.dtype, tuple(t.shape), t.nbytes) for name, t in tensors.items()}


def read(form: Form, tensors: Mapping[str, Tensor], shape: tuple[int, ...]) -> Packed:
    stored = form.find(NAME, shape, headers(tensors))
    assert stored is not None
    assert set(stored.parts) == set(tensors)
    packed = stored.read(NAME, tensors.__getitem__)
    assert isinstance(packed, Packed)
    assert packed.shape == shape
    return packed


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(5)) * 0.05


class TestGptq:
    def parts(self, matrix: Tensor, group: int = 32) -> dict[str, Tensor]:
        packed = quantise_gptq(matrix, group)
        return {f"{BASE}.qweight": packed.words, f"{BASE}.scales": packed.scales}

    def test_the_layout_word_by_word(self) -> None:
        """Input i of output o is nibble i % 8 of word [i // 8, o]; its scale is that of group i // group_size."""
        outs, ins, group = 16, 64, 32
        generator = torch.Generator().manual_seed(1)
        words = torch.randint(-(1 << 31), 1 << 31, (ins // 8, outs), generator=generator).to(torch.int32)
        scales = torch.rand(ins // group, outs, generator=generator).half()
        zeros = torch.randint(-(1 << 31), 1 << 31, (ins // group, outs // 8), generator=generator).to(torch.int32)
        tensors = {f"{BASE}.qweight": words, f"{BASE}.scales": scales, f"{BASE}.qzeros": zeros}
        packed = read(GptqForm(group, is_symmetric=False, zero_offset=1), tensors, (outs, ins))
        assert isinstance(packed, GroupedInt4)
        matrix, codes = packed.dequantise(), packed.codes()
        for o in range(outs):
            for i in range(ins):
                code = (int(words[i // 8, o]) >> (4 * (i % 8))) & 15
                zero = ((int(zeros[i // group, o // 8]) >> (4 * (o % 8))) + 1) & 15
                assert int(codes[o, i]) == code
                assert float(matrix[o, i]) == (code - zero) * float(scales[i // group, o])

    @given(st.lists(st.integers(0, 15), min_size=8, max_size=8))
    def test_words_hold_what_was_packed(self, codes: list[int]) -> None:
        words = pack_words(torch.tensor(codes, dtype=torch.uint8)[:, None])
        assert int(words) & 0xFFFFFFFF == sum(code << (4 * i) for i, code in enumerate(codes))

    def test_symmetric_without_zero_points(self) -> None:
        matrix = normal(16, 64)
        packed = read(INT4, self.parts(matrix), (16, 64))
        # Half a step, and the rounding of the scale to float16.
        step = matrix.view(16, 2, 32).abs().amax(-1) / 7
        assert bool(((packed.dequantise() - matrix).view(16, 2, 32).abs() <= 0.51 * step[..., None]).all())

    @pytest.mark.parametrize("stored", [0x77777777, 0x88888888])
    def test_symmetric_with_zero_points_of_either_version(self, stored: int) -> None:
        parts = self.parts(normal(16, 64))
        expected = read(INT4, parts, (16, 64)).dequantise()
        signed = stored - (1 << 32) if stored >= 1 << 31 else stored
        parts[f"{BASE}.qzeros"] = torch.full((2, 2), signed, dtype=torch.int32)
        assert torch.equal(read(INT4, parts, (16, 64)).dequantise(), expected)

    def test_symmetric_with_other_zero_points_is_refused(self) -> None:
        parts = self.parts(normal(16, 64)) | {f"{BASE}.qzeros": torch.full((2, 2), 0x66666666, dtype=torch.int32)}
        with pytest.raises(WeightsError, match=f"{NAME} has zero points"):
            read(INT4, parts, (16, 64))

    def test_another_order_of_inputs(self) -> None:
        parts = self.parts(normal(16, 64))
        plain = read(INT4, parts, (16, 64)).dequantise()
        in_order = torch.arange(64, dtype=torch.int32) // 32
        assert torch.equal(read(INT4, parts | {f"{BASE}.g_idx": in_order}, (16, 64)).dequantise(), plain)
        swapped = read(INT4, parts | {f"{BASE}.g_idx": 1 - in_order}, (16, 64)).dequantise()
        scales = parts[f"{BASE}.scales"].float()
        assert torch.allclose(swapped[:, :32] / scales[1][:, None], plain[:, :32] / scales[0][:, None])
        with pytest.raises(WeightsError, match=f"{NAME} has groups outside"):
            read(INT4, parts | {f"{BASE}.g_idx": in_order + 1}, (16, 64))

    def test_one_group_for_all_inputs(self) -> None:
        parts = self.parts(normal(16, 64), group=64)
        assert parts[f"{BASE}.scales"].shape == (1, 16)
        read(GptqForm(-1, True, 1), parts, (16, 64))

    @pytest.mark.parametrize(
        ("part", "tensor", "says"),
        [
            ("qweight", torch.zeros(8, 15, dtype=torch.int32), r"qweight has shape \[8, 15\], not \[8, 16\]"),
            ("qweight", torch.zeros(8, 16, dtype=torch.int64), "qweight is int64, not int32"),
            ("scales", torch.zeros(4, 16), r"scales has shape \[4, 16\], not \[2, 16\]"),
            ("scales", torch.full((2, 16), math.nan), f"{NAME} has scales that are not finite"),
            ("scales", None, "scales is missing"),
            ("qweight", None, "qweight is missing"),
        ],
    )
    def test_a_wrong_part_is_named(self, part: str, tensor: Tensor | None, says: str) -> None:
        parts = self.parts(normal(16, 64))
        if tensor is None:
            del parts[f"{BASE}.{part}"]
        else:
            parts[f"{BASE}.{part}"] = tensor
        with pytest.raises(WeightsError, match=says):
            read(INT4, parts, (16, 64))

    def test_inputs_that_do_not_fill_their_groups(self) -> None:
        with pytest.raises(WeightsError, match="groups of 32 inputs"):
            INT4.find(NAME, (16, 48), headers({f"{BASE}.qweight": torch.zeros(6, 16, dtype=torch.int32)}))


class TestNvFp4:
    def parts(self, packed: NvFp4, spelling: str) -> dict[str, Tensor]:
        if spelling == "modelopt":
            return {NAME: packed.codes, f"{NAME}_scale": packed.scales, f"{NAME}_scale_2": packed.scale}
        return {
            f"{NAME}_packed": packed.codes,
            f"{NAME}_scale": packed.scales,
            f"{NAME}_global_scale": (1 / packed.scale).reshape(1),
        }

    def test_the_layout_value_by_value(self) -> None:
        """Input i is the half i % 2 of byte i // 2, the low one first; bit 3 is the sign, then 2 bits of exponent."""
        codes = torch.arange(256, dtype=torch.uint8).view(16, 16)
        scales = (torch.arange(32).view(16, 2) + 1).to(torch.float8_e4m3fn)
        packed = read(NvFp4Form(), self.parts(NvFp4(codes, scales, torch.tensor(0.25)), "modelopt"), (16, 32))
        matrix = packed.dequantise()
        for o in range(16):
            for i in range(32):
                code = (int(codes[o, i // 2]) >> (4 * (i % 2))) & 15
                exponent, mantissa = (code >> 1) & 3, code & 1
                size = mantissa / 2 if exponent == 0 else (1 + mantissa / 2) * 2 ** (exponent - 1)
                value = -size if code & 8 else size
                assert float(matrix[o, i]) == value * float(scales[o, i // 16]) * 0.25

    @pytest.mark.parametrize("spelling", ["modelopt", "compressed-tensors"])
    def test_both_spellings(self, spelling: str) -> None:
        matrix = normal(16, 64)
        packed = quantise_nvfp4(matrix)
        found = read(NvFp4Form(), self.parts(packed, spelling), (16, 64))
        torch.testing.assert_close(found.dequantise(), packed.dequantise(), rtol=1e-6, atol=0)
        # e2m1's coarsest step is a third of the largest value of a group; scales have three bits of mantissa.
        largest = matrix.view(16, 4, 16).abs().amax(-1).repeat_interleave(16, 1)
        assert bool(((found.dequantise() - matrix).abs() <= largest * 0.24).all())

    def test_scales_of_activations_are_let_through(self) -> None:
        parts = self.parts(quantise_nvfp4(normal(16, 64)), "modelopt") | {f"{BASE}.input_scale": torch.ones(())}
        read(NvFp4Form(), parts, (16, 64))

    @pytest.mark.parametrize(
        ("part", "tensor", "says"),
        [
            (NAME, torch.zeros(16, 64, dtype=torch.uint8), r"gate_proj.weight has shape \[16, 64\], not \[16, 32\]"),
            (f"{NAME}_scale", torch.ones(16, 4), "weight_scale is float32, not float8_e4m3fn"),
            (f"{NAME}_scale", torch.full((16, 4), math.nan).to(torch.float8_e4m3fn), f"{NAME} has scales"),
            (f"{NAME}_scale_2", torch.tensor(math.inf), f"{NAME} has scales that are not finite"),
            (f"{NAME}_scale_2", torch.tensor(3e38), f"{NAME} has scales that are not finite"),
            (f"{NAME}_scale_2", None, "weight_scale_2 is missing"),
            (f"{NAME}_scale", None, "weight_scale is missing"),
        ],
    )
    def test_a_wrong_part_is_named(self, part: str, tensor: Tensor | None, says: str) -> None:
        parts = self.parts(quantise_nvfp4(normal(16, 64)), "modelopt")
        if tensor is None:
            del parts[part]
        else:
            parts[part] = tensor
        with pytest.raises(WeightsError, match=says):
            read(NvFp4Form(), parts, (16, 64))


class TestBlockFp8:
    def parts(self) -> dict[str, Tensor]:
        packed = quantise_block_fp8(normal(130, 200))
        return {NAME: packed.weight, f"{NAME}_scale_inv": packed.scale_inv}

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    def test_scales_of_every_dtype(self, dtype: torch.dtype) -> None:
        parts = self.parts()
        parts[f"{NAME}_scale_inv"] = parts[f"{NAME}_scale_inv"].to(dtype)
        packed = read(BlockFp8Form((128, 128)), parts, (130, 200))
        assert isinstance(packed, BlockFp8)
        scale = parts[f"{NAME}_scale_inv"].float()
        for row, column in ((0, 0), (127, 127), (128, 127), (129, 199)):
            value = float(parts[NAME][row, column]) * float(scale[row // 128, column // 128])
            assert float(packed.dequantise()[row, column]) == pytest.approx(value, rel=1e-6)

    @pytest.mark.parametrize("byte", [0x7F, 0xFF])
    def test_codes_that_are_not_a_number(self, byte: int) -> None:
        parts = self.parts()
        parts[NAME].view(torch.uint8)[3, 5] = byte
        with pytest.raises(WeightsError, match=f"{NAME} has values that are not finite"):
            read(BlockFp8Form((128, 128)), parts, (130, 200))

    @pytest.mark.parametrize(
        ("part", "tensor", "says"),
        [
            (f"{NAME}_scale_inv", torch.ones(2, 1), r"scale_inv has shape \[2, 1\], not \[2, 2\]"),
            (f"{NAME}_scale_inv", torch.ones(2, 2, dtype=torch.int32), "scale_inv is int32"),
            (f"{NAME}_scale_inv", torch.full((2, 2), math.inf), f"{NAME} has scales that are not finite"),
            (f"{NAME}_scale_inv", torch.full((2, 2), -0.5), f"{NAME} has scales outside 0"),
            (f"{NAME}_scale_inv", torch.full((2, 2), 3e38), f"{NAME} has scales outside 0"),
            (f"{NAME}_scale_inv", None, "scale_inv is missing"),
            (NAME, torch.zeros(130, 200), "gate_proj.weight is float32, not float8_e4m3fn"),
            (NAME, torch.zeros(200, 130).to(torch.float8_e4m3fn), r"has shape \[200, 130\], not \[130, 200\]"),
            (NAME, None, "gate_proj.weight is missing"),
        ],
    )
    def test_a_wrong_part_is_named(self, part: str, tensor: Tensor | None, says: str) -> None:
        parts = self.parts()
        if tensor is None:
            del parts[part]
        else:
            parts[part] = tensor
        with pytest.raises(WeightsError, match=says):
            read(BlockFp8Form((128, 128)), parts, (130, 200))

    def test_what_is_no_matrix_cannot_be_packed(self) -> None:
        with pytest.raises(WeightsError, match="no matrix"):
            BlockFp8Form((128, 128)).find(NAME, (8,), headers({NAME: torch.zeros(8).to(torch.float8_e4m3fn)}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_finiteness_of_large_and_of_overflowing_tensors(dtype: torch.dtype) -> None:
    values = torch.full((1 << 23,), torch.finfo(dtype).max, dtype=dtype)
    assert is_finite(values)
    values[-1] = math.nan
    assert not is_finite(values)
    values[-1], values[5] = 0, -math.inf
    assert not is_finite(values)


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128}
FP8 = {"quant_method": "bsgemm-moe", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
NVFP4 = {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([], "must be an object"),
        ({"quant_method": "fp8", "weight_block_size": None}, "weight_block_size"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size"),
        ({"quant_method": "fp8", "weight_block_size": [128, 0]}, "weight_block_size"),
        ({"quant_method": "bsgemm-moe", "weight_block_size": [128, 128], "activation_scheme": "static"}, "scheme"),
        (GPTQ | {"bits": 3}, "bits is 3"),
        (GPTQ | {"group_size": 100}, "group_size is 100"),
        (GPTQ | {"checkpoint_format": "marlin"}, "checkpoint_format is 'marlin'"),
        (GPTQ | {"format": "marlin"}, "format is 'marlin'"),
        (GPTQ | {"is_marlin_format": True}, "is_marlin_format is True"),
        (GPTQ | {"dynamic": {"-:.*down.*": {}}}, "quantization_config.dynamic"),
        (GPTQ | {"rotation": "hadamard"}, "rotation is 'hadamard'"),
        (FP8 | {"fmt": "e5m2"}, "fmt is 'e5m2'.*'e4m3'"),
        (NVFP4 | {"transform_config": {"config_groups": {"r1": {}}}}, "transform_config"),
        (
            {"quant_method": "drama3-int4", "experts": GPTQ | {"pack_dtype": "int8"}, "dense": GPTQ},
            "experts.pack_dtype",
        ),
        ({"quant_method": "drama3-int4", "experts": GPTQ}, "quantization_config.dense"),
        ({"quant_method": "drama3-int4", "experts": GPTQ, "dense": {"quant_method": "awq"}}, "dense"),
    ],
)
def test_a_broken_description_is_refused(values: object, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_quantisation(values)


@pytest.mark.parametrize(
    "values",
    [
        {"quant_method": "awq", "bits": 4},
        {"quant_method": "modelopt", "quant_algo": "FP8"},
        {"quant_method": "compressed-tensors", "format": "pack-quantized"},
        {"quant_method": None},
        {},
    ],
)
def test_what_is_not_read_is_refused_with_what_is(values: object) -> None:
    with pytest.raises(UnsupportedFormatError) as refused:
        read_quantisation(values)
    assert all(form in str(refused.value) for form in SUPPORTED)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (FP8 | {"fmt": "e4m3", "modules_to_not_convert": ["lm_head"]}, ()),
        (FP8 | {"scale_fmt": "ue8m0"}, ("quantization_config.scale_fmt",)),
        (FP8 | {"scale_fmt": None, "rescaled": False}, ()),
        (GPTQ | {"desc_act": True, "damp_percent": 0.01, "dynamic": {}}, ()),
        (NVFP4 | {"kv_cache_scheme": {"num_bits": 8}}, ("quantization_config.kv_cache_scheme",)),
        (
            {"quant_method": "drama3-int4", "experts": GPTQ | {"smoothed": 1}, "dense": GPTQ},
            ("quantization_config.experts.smoothed",),
        ),
        (None, ()),
    ],
)
def test_keys_nobody_here_knows_are_told(values: object, told: tuple[str, ...]) -> None:
    read_quantisation(values)
    assert ignored_keys(values) == told


def test_either_name_of_the_second_format_shifts_no_zero_points() -> None:
    for key in ("format", "checkpoint_format"):
        found = read_quantisation(GPTQ | {key: "gptq_v2"})
        assert found is not None
        assert found.rest == GptqForm(128, True, 0)


def test_each_method_and_where_it_applies() -> None:
    assert read_quantisation(None) is None
    released = read_quantisation(
        {"quant_method": "bsgemm-moe", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    )
    assert released is not None
    assert isinstance(released.form(NAME), BlockFp8Form)
    assert not isinstance(released.form("model.language_model.layers.0.self_attn.q_proj.weight"), BlockFp8Form)
    int4 = read_quantisation(
        {
            "quant_method": "drama3-int4",
            "experts": GPTQ,
            "dense": GPTQ | {"quant_method": "gptq_marlin", "group_size": 64},
        }
    )
    assert int4 is not None
    assert int4.form(NAME) == GptqForm(128, True, 1)
    assert int4.form("model.language_model.layers.3.self_attn.q_proj.weight") == GptqForm(64, True, 1)
    for values in (
        {"quant_method": "modelopt", "quant_algo": "NVFP4"},
        {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"},
    ):
        nvfp4 = read_quantisation(values)
        assert nvfp4 is not None
        assert isinstance(nvfp4.form(NAME), NvFp4Form)
