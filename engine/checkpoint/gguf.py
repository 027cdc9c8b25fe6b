"""GGUF, as llama.cpp writes the backbone of Drama 3 (architecture ``qwen35moe``), under the names used here.

Its converter renames tensors, stacks experts, stores ``1 + w`` of zero-centred norms and ``-exp`` of ``A_log``, and
puts the value heads of DeltaNet into another order; all of that is undone here. The codebook tower is not in that
file: llama.cpp keeps it in a second one (``mmproj``), whose names have no published map, so it comes from safetensors
files of the original that lie in the same folder.
"""

import functools
import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.checkpoint.mapped import MappedFile
from engine.checkpoint.names import EMBEDDING, HEAD, LANGUAGE, tensor_shapes
from engine.checkpoint.packed import Packed
from engine.checkpoint.stored import Get, Headers, Stored, checked
from engine.config import BackboneConfig, ModelConfig
from engine.errors import UnsupportedFormatError, WeightsError

ARCHITECTURE = "qwen35moe"
_PLAIN = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_GLOBAL = {EMBEDDING: "token_embd.weight", f"{LANGUAGE}.norm.weight": "output_norm.weight", HEAD: "output.weight"}
_LAYER = {
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "post_attention_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "linear_attn.in_proj_qkv.weight": "attn_qkv.weight",
    "linear_attn.in_proj_z.weight": "attn_gate.weight",
    "linear_attn.in_proj_a.weight": "ssm_alpha.weight",
    "linear_attn.in_proj_b.weight": "ssm_beta.weight",
    "linear_attn.conv1d.weight": "ssm_conv1d.weight",
    "linear_attn.A_log": "ssm_a",
    "linear_attn.dt_bias": "ssm_dt.bias",
    "linear_attn.norm.weight": "ssm_norm.weight",
    "linear_attn.out_proj.weight": "ssm_out.weight",
    "mlp.gate.weight": "ffn_gate_inp.weight",
    "mlp.shared_expert.gate_proj.weight": "ffn_gate_shexp.weight",
    "mlp.shared_expert.up_proj.weight": "ffn_up_shexp.weight",
    "mlp.shared_expert.down_proj.weight": "ffn_down_shexp.weight",
    "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp.weight",
}


@dataclass(frozen=True)
class GgufBlocks(Packed):
    """A matrix in one of GGML's block types, dequantised by the ``gguf`` package."""

    data: Tensor
    """[out, bytes of a row] uint8"""
    inputs: int
    kind: str
    """GGML's name of the type, such as ``Q4_K``."""
    rows: Tensor | None = None
    """[out]: which stored row each row is; None: in order."""
    columns: Tensor | None = None
    """[in]: the same for columns."""

    @property
    def shape(self) -> tuple[int, int]:
        """``(out, in)``."""
        return self.data.shape[0], self.inputs

    def dequantise(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The matrix [out, in]: computed in float32, rounded once to ``dtype``."""
        gguf = _package()
        wide = gguf.quants.dequantize(self.data.numpy(), gguf.GGMLQuantizationType[self.kind])
        return _reordered(torch.from_numpy(wide), self.rows, self.columns).to(dtype)

    def problem(self) -> str | None:
        """What is wrong with the numbers in it, in words that follow its name; None if nothing is."""
        # Scales lie inside the blocks, where every type has them elsewhere.
        return None if bool(self.dequantise().sum().isfinite()) else "has scales that are not finite"


@dataclass(frozen=True)
class Entry:
    """A tensor of the model in the file: what lies there, where, and what has to be undone."""

    dtype: torch.dtype
    """uint8 if it is in a block type."""
    shape: tuple[int, ...]
    """Logical."""
    kind: str
    start: int
    stop: int
    rows: Tensor | None = None
    columns: Tensor | None = None

    @property
    def nbytes(self) -> int:
        """Its size in the file."""
        return self.stop - self.start


class GgufFile(MappedFile):
    """The tensors of one GGUF file, under the names used here.

    Raises ``UnsupportedFormatError`` for other models and types, ``WeightsError`` for a broken file or an unknown name.
    """

    def __init__(self, path: Path, config: ModelConfig) -> None:
        super().__init__(path)
        gguf = _package()
        try:
            reader = gguf.GGUFReader(path)
            field = reader.get_field("general.architecture")
            architecture = None if field is None else field.contents()
            found = {tensor.name: tensor for tensor in reader.tensors}
        except Exception as error:  # the package raises whatever its arithmetic on the bytes runs into
            raise WeightsError(f"{path} cannot be read: {error!r}") from error
        if architecture != ARCHITECTURE:
            raise UnsupportedFormatError(
                f"{path} holds a model of architecture {architecture!r}. Of GGUF, {ARCHITECTURE} files are read, the "
                "backbone as llama.cpp converts it; the codebook tower comes from safetensors files beside it"
            )
        self.entries: dict[str, Entry] = {}
        used, shapes = set(), tensor_shapes(config)
        for name, stored, index in _map(shapes):
            if stored in found:
                used.add(stored)
                self.entries[name] = _entry(path, config.backbone, name, shapes[name], found[stored], index)
        if unknown := sorted(set(found) - used):
            raise WeightsError(f"{path}: unexpected tensor {unknown[0]} ({len(unknown)} in all)")

    def tensor(self, name: str) -> Tensor:
        """A tensor: floating-point ones as the original has them, block types as rows of bytes."""
        entry = self.entries[name]
        if entry.dtype == torch.uint8:
            return self.view(entry.start, entry.stop, torch.uint8, (entry.shape[0], -1))
        raw = self.view(entry.start, entry.stop, entry.dtype, entry.shape)
        if name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
            return raw.float() - 1
        if name.endswith(".A_log"):
            raw = (-raw.float()).log()
        return _reordered(raw, entry.rows, entry.columns)


class GgufForm:
    """Matrices in GGML's block types."""

    def find(self, name: str, shape: tuple[int, ...], headers: Headers) -> Stored | None:
        """Where tensor ``name`` is, if it lies in this form. Raises ``WeightsError`` if it does so wrongly."""
        entry = headers.get(name)
        if not isinstance(entry, Entry) or entry.dtype != torch.uint8:
            return None
        if entry.shape != shape or len(shape) != 2:
            raise WeightsError(f"{name} has shape {list(entry.shape)}, not {list(shape)}")
        return _Stored(name, entry)


@dataclass(frozen=True)
class _Stored(Stored):
    name: str
    entry: Entry

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.name,)

    def read(self, name: str, get: Get) -> Packed:
        entry = self.entry
        return checked(name, GgufBlocks(get(self.name), entry.shape[1], entry.kind, entry.rows, entry.columns))


def _map(shapes: Iterable[str]) -> Iterator[tuple[str, str, int | None]]:
    """Name, name in the file, and the place in a stack of experts."""
    for name, stored in _GLOBAL.items():
        yield name, stored, None
    for name in shapes:
        if not name.startswith(f"{LANGUAGE}.layers."):
            continue
        layer, _, rest = name.removeprefix(f"{LANGUAGE}.layers.").partition(".")
        if rest.startswith("mlp.experts."):
            expert, projection = rest.removeprefix("mlp.experts.").split(".")[:2]
            yield name, f"blk.{layer}.ffn_{projection.removesuffix('_proj')}_exps.weight", int(expert)
        else:
            yield name, f"blk.{layer}.{_LAYER[rest]}", None


def _entry(
    path: Path, config: BackboneConfig, name: str, wanted: tuple[int, ...], tensor: Any, index: int | None
) -> Entry:
    kind, shape = tensor.tensor_type.name, tuple(int(size) for size in reversed(tensor.shape))
    start, stop = int(tensor.data_offset), int(tensor.data_offset) + int(tensor.n_bytes)
    if index is not None:
        if len(shape) != 3 or shape[0] != config.num_experts:
            raise WeightsError(f"{path}: {tensor.name} of shape {list(shape)} is no stack of experts")
        size = (stop - start) // shape[0]
        start, shape = start + index * size, shape[1:]
        stop = start + size
    is_plain = kind in _PLAIN
    # The convolution and the gate of the shared expert lose an axis of length 1 on the way.
    if is_plain and 1 in wanted and torch.Size(shape).numel() == torch.Size(wanted).numel():
        shape = wanted
    if not is_plain and not _is_readable(kind):
        raise UnsupportedFormatError(f"{path}: {tensor.name} is {kind}, which the gguf package does not dequantise")
    rows, columns = _orders(config, name)
    return Entry(_PLAIN[kind] if is_plain else torch.uint8, shape, kind, start, stop, rows, columns)


def _orders(b: BackboneConfig, name: str) -> tuple[Tensor | None, Tensor | None]:
    """Where each row and column of a DeltaNet tensor lies: value heads are stored one of every key head in turn."""
    if ".linear_attn." not in name or b.linear_num_key_heads == b.linear_num_value_heads:
        return None, None
    rest = name.rpartition("linear_attn.")[2]
    of_heads = _head_order(b, 1)
    of_values = _head_order(b, b.linear_value_head_dim)
    if rest in ("in_proj_qkv.weight", "conv1d.weight"):
        return torch.cat((torch.arange(2 * b.key_dim), 2 * b.key_dim + of_values)), None
    if rest == "in_proj_z.weight":
        return of_values, None
    if rest in ("in_proj_a.weight", "in_proj_b.weight", "A_log", "dt_bias"):
        return of_heads, None
    return None, of_values if rest == "out_proj.weight" else None


def _head_order(b: BackboneConfig, width: int) -> Tensor:
    keys, values = b.linear_num_key_heads, b.linear_num_value_heads
    return torch.arange(values * width).view(values // keys, keys, width).transpose(0, 1).reshape(-1)


def _reordered(tensor: Tensor, rows: Tensor | None, columns: Tensor | None) -> Tensor:
    if rows is not None:
        tensor = tensor.index_select(0, rows)
    return tensor if columns is None else tensor.index_select(1, columns)


@functools.cache
def _is_readable(kind: str) -> bool:
    """Whether the package dequantises a block type."""
    gguf = _package()
    block = gguf.GGMLQuantizationType[kind]
    _, nbytes = gguf.GGML_QUANT_SIZES[block]
    try:
        gguf.quants.dequantize(np.zeros((1, nbytes), dtype=np.uint8), block)
    except NotImplementedError:
        return False
    return True


def _package() -> Any:
    try:
        return importlib.import_module("gguf")
    except ModuleNotFoundError as error:
        raise UnsupportedFormatError("GGUF files need the package gguf: pip install -e '.[gguf]'") from error
