"""``quantization_config`` of ``config.json``: in which form the matrices of a checkpoint are stored."""

from collections.abc import Mapping
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
    where = "quantization_config"
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where} must be an object, not {values!r}")
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
