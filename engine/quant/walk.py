"""Takes on their way through a decoder whose weights stay in the files: one layer is in memory at a time.

They go from station to station: what is embedded, what each layer of the backbone makes of it, what each layer of the
tower makes of that. What lies at a station is kept in a file, so a layer can be returned to in any order, by a later
run, too. Experts are not even in memory a layer at a time: each is read when rows go to it.

Axes: N rows of all takes, T rows of one, K experts of a row, H hidden, O outputs, I inputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.checkpoint.names import CODEBOOKS, EMBEDDING, HEAD, LANGUAGE, RESIDUAL, SHARED
from engine.checkpoint.packed import Packed
from engine.checkpoint.reader import CheckpointReader
from engine.model.codebooks import TowerLayer
from engine.model.decoder import BackboneLayer, Decoder
from engine.model.feed_forward import swiglu
from engine.quant.inputs import MOST_ROWS, Inputs, kept_rows, recording, replace_module
from engine.quant.kept import KeptTensors
from engine.quant.places import expert_of
from engine.quant.takes import Recorded
from engine.weights import checkpoint_layout, compute_dtype, parameter_dtype


class _StoredExperts(nn.Module):
    """The routed experts of a layer, each read from the files when rows are sent to it; notes which rows those are."""

    def __init__(self, reader: CheckpointReader, layer: int, dtype: torch.dtype) -> None:
        super().__init__()
        self._reader, self._dtype = reader, dtype
        self._prefix = f"{LANGUAGE}.layers.{layer}.mlp.experts"
        self._x, self._chosen = torch.empty(0), torch.empty(0)

    def gate_up(self, expert: int) -> Tensor:
        """[2I, H]."""
        return torch.cat([self._read(expert, part) for part in ("gate", "up")])

    def down(self, expert: int) -> Tensor:
        """[H, I]."""
        return self._read(expert, "down")

    def inputs(self, expert: int, part: str) -> Tensor:
        """What matrix ``part`` of an expert was multiplied with in the last pass: [N, H] or [N, I]."""
        x = self._x[(self._chosen == expert).any(1)][:MOST_ROWS]
        return kept_rows(x if part == "gate_up" else self._inner(expert, x))

    def forward(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """See ``ExpertMixture``; summed up in float32, expert by expert."""
        self._x, self._chosen = x, chosen
        out = torch.zeros_like(x, dtype=torch.float32)
        for expert in sorted(set(chosen.flatten().tolist())):
            row, place = (chosen == expert).nonzero(as_tuple=True)
            made = F.linear(self._inner(expert, x[row]), self.down(expert))
            out.index_add_(0, row, made.float() * weights[row, place, None])
        return out.to(x.dtype)

    def _inner(self, expert: int, x: Tensor) -> Tensor:
        return swiglu(F.linear(x, self.gate_up(expert)))

    def _read(self, expert: int, part: str) -> Tensor:
        return self._reader.dense(f"{self._prefix}.{expert}.{part}_proj.weight", self._dtype)


@dataclass
class _Stage:
    """A part of the decoder that is in memory, and what its matrices were multiplied with."""

    name: str
    module: nn.Module | None = None
    inputs: Inputs = field(default_factory=dict)
    """By the path of the matrix in ``module``."""
    experts: _StoredExperts | None = None


_NOWHERE = _Stage("")
MAIN_HEAD, _HEADS = "main_head", "tower.heads."


class Walk:
    """Inputs of the matrices of a checkpoint while it hears ``takes``, by ``input_name``.

    ``wants`` says of which paths; of others nothing is known. ``kept`` holds what lies at the stations.
    """

    def __init__(
        self, reader: CheckpointReader, takes: Sequence[Recorded], wants: Callable[[str], bool], kept: KeptTensors
    ) -> None:
        self._reader, self._takes, self._wants, self._kept = reader, takes, wants, kept
        self._dtype = compute_dtype(reader.config)
        tower = reader.config.tower
        # Its weights are rooms that nobody enters until they are filled.
        self._decoder = Decoder(reader.config).eval().requires_grad_(False)
        self._backbone = [f"layers.{i}" for i in range(reader.config.backbone.num_hidden_layers)]
        shared, residual = range(tower.n_layer), range(tower.num_residual_layers)
        self._layers = [
            *self._backbone,
            *(f"tower.shared.{i}" for i in shared),
            *(f"tower.residual.{i}" for i in residual),
        ]
        """Paths of all layers, in order: station i is what layer i is given."""
        self._stage = _NOWHERE
        self._opened: tuple[nn.Module, nn.Module] | None = None
        """A mixture of experts whose experts are in the files, and the ones without numbers that it had."""
        self._empty()

    @property
    def rows(self) -> int:
        """N."""
        return sum(len(take.rows) for take in self._takes)

    @torch.inference_mode()
    def inputs(self, place: str) -> Tensor | None:
        """[N, I] (bfloat16): what the matrix at ``place`` is multiplied with; None if nothing is."""
        if (found := expert_of(place)) is not None:
            experts = self._enter(place).experts
            assert experts is not None, place
            rows = experts.inputs(found[1], found[2])
            return rows if len(rows) else None
        if place == MAIN_HEAD:
            return kept_rows(self._heard())
        if place.startswith(_HEADS):
            return kept_rows(self._station(self._layers.index(place.replace("heads", "residual")) + 1))
        stage = self._enter(place)
        return stage.inputs.get(place.removeprefix(f"{stage.name}."))

    @torch.inference_mode()
    def weight(self, place: str) -> Tensor:
        """The matrix [O, I] at ``place``, joined as it is in memory; of the main head, rows that may be chosen."""
        if (found := expert_of(place)) is not None:
            experts = self._enter(place).experts
            assert experts is not None, place
            return experts.gate_up(found[1]) if found[2] == "gate_up" else experts.down(found[1])
        if place == MAIN_HEAD:
            config = self._reader.config
            return self._reader.dense(HEAD, self._dtype)[config.semantic_start_token_id :][: config.codebook_size]
        if place.startswith(_HEADS):
            return self._reader.dense(f"{RESIDUAL}.heads.{place.rpartition('.')[2]}.weight", self._dtype)
        stage = self._enter(place)
        assert stage.module is not None
        return stage.module.get_parameter(f"{place.removeprefix(f'{stage.name}.')}.weight")

    def places(self, stage: str) -> list[str]:
        """The matrices of a stage (see ``stage_of``) that are wanted."""
        if stage == MAIN_HEAD or stage.startswith(_HEADS):
            return [stage]
        entered = self._enter(stage)
        found = [f"{stage}.{path}" for path in entered.inputs]
        if entered.experts is not None and self._wants(f"{stage}.moe.experts"):
            count = self._reader.config.backbone.num_experts
            found += [f"{stage}.moe.experts.{x}.{part}" for x in range(count) for part in ("gate_up", "down")]
        return found

    @torch.inference_mode()
    def _enter(self, place: str) -> _Stage:
        name = stage_of(place)
        if self._stage.name != name:
            self._stage = self._text_stage() if name == "aligned_text" else self._layer_stage(name)
        return self._stage

    # Stations

    def _station(self, index: int) -> Tensor:
        """What layer ``index`` is given: [N, H]."""
        kept = self._kept.get(f"station-{index:03}")
        if kept is None:
            if index == 0:
                self._keep(0, self._embedded())
            else:
                self._layer_stage(self._layers[index - 1])
            kept = self._kept.get(f"station-{index:03}")
            assert kept is not None
        return kept["x"].clone()

    def _keep(self, index: int, x: Tensor) -> None:
        self._kept.put(f"station-{index:03}", {"x": x})

    def _heard(self) -> Tensor:
        """What tower and main head are given of the backbone: [N, H]."""
        x = self._station(len(self._backbone))
        self._fill("norm", f"{LANGUAGE}.norm.")
        out: Tensor = self._decoder.norm(x)
        return out

    def _embedded(self) -> Tensor:
        decoder = self._decoder
        decoder.embed_tokens.weight = _frozen(self._reader.dense(EMBEDDING, self._dtype))
        decoder.codebook_embeddings.weight = _frozen(self._reader.dense(CODEBOOKS, self._dtype))
        if decoder.aligned_text is not None:
            self._fill("aligned_text", "aligned_text.")
        return torch.cat([decoder.embed(take.rows[None], take.aligned)[0] for take in self._takes])

    # Stages

    def _text_stage(self) -> _Stage:
        self._fill("aligned_text", "aligned_text.")
        module = self._decoder.aligned_text
        assert module is not None
        with recording(module, lambda path: self._wants(f"aligned_text.{path}")) as inputs:
            for take in self._takes:
                if take.aligned is not None:
                    module(take.aligned)
        return _Stage("aligned_text", module, inputs)

    def _layer_stage(self, name: str) -> _Stage:
        index = self._layers.index(name)
        x = self._heard() if index == len(self._backbone) else self._station(index)
        module, experts = self._open(name)
        with recording(module, lambda path: self._wants(f"{name}.{path}")) as inputs:
            if isinstance(module, BackboneLayer):
                made = self._through_backbone(module, x)
            else:
                assert isinstance(module, TowerLayer)
                made = self._through_tower(module, index - len(self._backbone), x)
        if self._kept.get(f"station-{index + 1:03}") is None:
            self._keep(index + 1, made)
        return _Stage(name, module, inputs, experts)

    def _through_backbone(self, layer: BackboneLayer, x: Tensor) -> Tensor:
        mixed = []
        for take in torch.split(x, [len(take.rows) for take in self._takes]):
            rotation = self._decoder.rotary.rows(len(take), None, take.device)
            mixed.append(layer.mix(take[None], rotation, None, None)[0])
        # Rows meet in the mixer alone, so all takes go to the experts at once, and each expert is read once.
        x = torch.cat(mixed)
        out, _ = layer.moe(layer.moe_norm(x)[None])
        made: Tensor = x + out[0]
        return made

    def _through_tower(self, layer: TowerLayer, index: int, x: Tensor) -> Tensor:
        decoder, made = self._decoder, []
        if index == 0:
            decoder.codebook_embeddings.weight = _frozen(self._reader.dense(CODEBOOKS, self._dtype))
        for take, hidden in zip(self._takes, torch.split(x, [len(take.rows) for take in self._takes]), strict=True):
            codes, is_audio = decoder.labels(take.rows[None])
            embedded = layer.embed(codes[..., max(index - len(decoder.tower.shared), 0)], is_audio)
            if index == 0 and (feature := decoder.tower_feature(take.rows[None])) is not None:
                embedded = embedded + feature
            rotation = decoder.tower.rotary.rows(len(hidden), None, hidden.device)
            made.append(layer(hidden[None], embedded, rotation, None, None)[0])
        return torch.cat(made)

    # Weights

    def _open(self, name: str) -> tuple[nn.Module, _StoredExperts | None]:
        """The layer at path ``name`` with its weights, those of experts in the files."""
        module = self._decoder.get_submodule(name)
        *parts, number = name.split(".")
        prefix = {"layers": LANGUAGE, "shared": SHARED, "residual": RESIDUAL}[parts[-1]]
        self._fill(name, f"{prefix}.layers.{number}.")
        if not isinstance(module, BackboneLayer):
            return module, None
        experts = _StoredExperts(self._reader, int(number), self._dtype)
        self._opened = module.moe, module.moe.experts
        replace_module(module.moe, "experts", experts)
        return module, experts

    def _fill(self, path: str, prefix: str) -> None:
        """Give the module at ``path`` its weights: tensors whose names begin with ``prefix``; others lose theirs."""
        self._empty()
        module = self._decoder.get_submodule(path)
        for name, parameter in list(module.named_parameters()):
            if ".experts." not in name:
                room = torch.empty(parameter.shape, dtype=parameter_dtype(name, parameter, self._dtype))
                _set_parameter(module, name, room)
        layout = checkpoint_layout(self._decoder)
        for name in layout:
            if name.startswith(prefix) and ".experts." not in name:
                tensor = self._reader.read(name)
                layout[name].put(tensor.dequantise(self._dtype) if isinstance(tensor, Packed) else tensor)

    def _empty(self) -> None:
        self._stage = _NOWHERE
        if self._opened is not None:
            replace_module(self._opened[0], "experts", self._opened[1])
            self._opened = None
        for name, parameter in list(self._decoder.named_parameters()):
            is_table = name in ("embed_tokens.weight", "codebook_embeddings.weight")
            if not parameter.is_meta and not is_table:
                _set_parameter(self._decoder, name, torch.empty(parameter.shape, device="meta"))


def stage_of(place: str) -> str:
    """The stage that a matrix belongs to, given its ``input_name``: a layer, aligned text, or a head by itself."""
    parts = place.split(".")
    if parts[0] == "layers":
        return ".".join(parts[:2])
    return ".".join(parts[:3]) if parts[0] == "tower" else parts[0]


def _set_parameter(root: nn.Module, path: str, value: Tensor) -> None:
    parent, _, name = path.rpartition(".")
    setattr(root.get_submodule(parent), name, _frozen(value))


def _frozen(value: Tensor) -> nn.Parameter:
    return nn.Parameter(value, requires_grad=False)
