"""``quantization_config`` of ``config.json``: in which form the matrices of a checkpoint are stored."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from engine.checkpoint.fp8 import BlockFp8Form
from engine.checkpoint.gptq import GptqForm
from engine.checkpoint.nvfp4 import NvFp4Form
from engine.checkpoint.stored import Form, PlainForm
from engine.errors import ConfigError, UnsupportedFormatError
from engine.quant.scheme import QUANT_METHOD, Scheme
from engine.quant.stored import IntegerForm

SUPPORTED = (
    "plain bfloat16, float16 or float32",
    "block FP8 (bsgemm-moe, fp8)",
    "4-bit GPTQ (drama3-int4, gptq, gptq_marlin)",
    "NVFP4 (modelopt, compressed-tensors)",
    "GGUF",
    "int8 and int4 written by footlights quantize",
)
"""Stored forms that are read, for people."""

_FIXED: dict[str, tuple[Any, ...]] = {
    # FP8
    "fmt": ("e4m3", "e4m3fn", "float8_e4m3fn", None),
    # GPTQ
    "format": ("gptq", "gptq_v2", *("nvfp4", "nvfp4-pack-quantized"), None),
    "is_marlin_format": (False, None),
    "pack_dtype": ("int32", None),
    "dynamic": ({}, None),
    "adapter": ({}, None),
    "rotation": ("", None),
    # NVFP4
    "transform_config": ({}, None),
}
"""Keys that change what stored numbers mean, with the values under which they mean what is read here."""

_KNOWN = frozenset(
    {
        *("quant_method", "weight_block_size", "activation_scheme", "experts", "dense"),
        *("bits", "group_size", "sym", "checkpoint_format", "quant_algo"),
        # Where matrices are quantised is seen from the tensors; how codes were found does not matter to them.
        *("targets", "ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules", "lm_head"),
        *("modules_in_block_to_quantize", "block_name_to_quantize", "config_groups", "desc_act", "static_groups"),
        *("damp_percent", "damp_auto_increment", "true_sequential", "mse", "dataset", "tokenizer", "batch_size"),
        *("use_exllama", "exllama_config", "max_input_length", "cache_block_outputs", "pad_token_id"),
        *("model_name_or_path", "model_file_base_name", "meta", "producer", "version"),
        *("quantization_status", "global_compression_ratio"),
    }
)
"""Keys that are read, or change nothing here."""

_GPTQ = ("gptq", "gptq_marlin")
_NVFP4 = ("nvfp4", "nvfp4-pack-quantized")


@dataclass(frozen=True)
class Quantisation:
    """How matrices are stored: ``method`` is the file's word for it."""

    method: str
    experts: Form
    """Of the routed experts."""
    rest: Form
    """Of all other tensors; those it does not hold are plain."""

    def form(self, name: str) -> Form:
        """The form that tensor ``name`` may lie in."""
        return self.experts if ".mlp.experts." in name else self.rest


def read_quantisation(values: Any) -> Quantisation | None:
    """Read ``quantization_config`` (None: not quantised).

    Raises ``UnsupportedFormatError`` naming what is read for a method that is not, ``ConfigError`` for a broken one.
    """
    if values is None:
        return None
    if not isinstance(values, Mapping):
        raise ConfigError(f"quantization_config must be an object, not {values!r}")
    quantisation = _read(values, "quantization_config")
    for where, section in _sections(values):
        _require_fixed(section, where)
    return quantisation


def _read(values: Mapping[str, Any], where: str) -> Quantisation:
    method = values.get("quant_method")
    if method == QUANT_METHOD:
        integer = IntegerForm(Scheme.from_dict(values))
        return Quantisation(method, integer, integer)
    if method in ("bsgemm-moe", "fp8"):
        form = BlockFp8Form(_block(values, where))
        return Quantisation(method, form, form if method == "fp8" else PlainForm())
    if method == "drama3-int4":
        experts, dense = (_gptq(values.get(part), f"{where}.{part}") for part in ("experts", "dense"))
        return Quantisation(method, experts, dense)
    if method in _GPTQ:
        gptq = GptqForm.from_dict(values, where)
        return Quantisation(method, gptq, gptq)
    if _is_nvfp4(values):
        return Quantisation("nvfp4", NvFp4Form(), NvFp4Form())
    raise UnsupportedFormatError(f"weights quantised by {method!r} cannot be read; what can: {'; '.join(SUPPORTED)}")


def ignored_keys(values: Any) -> tuple[str, ...]:
    """Keys of a ``quantization_config`` that nobody here knows and that are not switched off."""
    if not isinstance(values, Mapping) or values.get("quant_method") == QUANT_METHOD:
        return ()
    return tuple(
        f"{prefix}.{key}"
        for prefix, section in _sections(values)
        for key, value in section.items()
        if key not in _KNOWN and key not in _FIXED and value not in (None, False, 0, "", [], {})
    )


def _sections(values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The object, and those in it that describe a part of the model, with their names."""
    yield "quantization_config", values
    for part in ("experts", "dense"):
        if isinstance(section := values.get(part), Mapping):
            yield f"quantization_config.{part}", section


def _require_fixed(section: Mapping[str, Any], where: str) -> None:
    for key, allowed in _FIXED.items():
        if (value := section.get(key)) not in allowed:
            read = " or ".join(repr(one) for one in allowed if one is not None)
            raise ConfigError(f"{where}.{key} is {value!r}, which changes what the numbers mean; {read} is read")


def _is_nvfp4(values: Mapping[str, Any]) -> bool:
    method = values.get("quant_method")
    if method in ("modelopt", "modelopt_fp4"):
        return str(values.get("quant_algo")).lower() in _NVFP4
    return method == "compressed-tensors" and values.get("format") in _NVFP4


def _gptq(values: Any, where: str) -> GptqForm:
    if not isinstance(values, Mapping) or values.get("quant_method") not in _GPTQ:
        raise ConfigError(f"{where} must be an object with quant_method gptq or gptq_marlin, not {values!r}")
    return GptqForm.from_dict(values, where)


def _block(values: Mapping[str, Any], where: str) -> tuple[int, int]:
    block, scheme = values.get("weight_block_size"), values.get("activation_scheme", "dynamic")
    if scheme != "dynamic":
        raise ConfigError(f"{where}.activation_scheme is {scheme!r}; 'dynamic' is read")
    if not isinstance(block, list) or len(block) != 2 or not all(type(n) is int and n > 0 for n in block):
        raise ConfigError(f"{where}.weight_block_size must be two positive integers, not {block!r}")
    return block[0], block[1]
