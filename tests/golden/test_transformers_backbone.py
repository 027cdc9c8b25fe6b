"""The backbone against the implementation in transformers, on weights of other sizes than the golden ones."""

import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.config import BackboneConfig, ModelConfig
from engine.model.decoder import Decoder, initialise
from engine.weights import checkpoint_layout

PREFIX = "model.language_model."


@pytest.fixture(scope="module")
def model(checkpoint: Path) -> Decoder:
    config = ModelConfig.from_file(checkpoint / "config.json")
    backbone: BackboneConfig = replace(
        config.backbone,
        hidden_size=96,
        num_hidden_layers=8,
        layer_types=(),
        num_key_value_heads=4,
        head_dim=24,
        linear_num_key_heads=3,
        linear_key_head_dim=20,
        linear_num_value_heads=6,
        linear_value_head_dim=28,
        num_experts=10,
        num_experts_per_tok=3,
        moe_intermediate_size=44,
        shared_expert_intermediate_size=52,
    )
    tower = replace(config.tower, dim=96, n_local_heads=4, head_dim=24)
    decoder = Decoder(replace(config, backbone=backbone, tower=tower))
    initialise(decoder, seed=5)
    with torch.no_grad():
        for number, parameter in enumerate(decoder.parameters()):
            if parameter.dim() == 1:
                parameter.add_(torch.linspace(-0.4, 0.4, len(parameter)).roll(number))
    return decoder.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def reference(model: Decoder) -> torch.nn.Module:
    with warnings.catch_warnings():
        # Its imports warn of things that are not ours to mend.
        warnings.simplefilter("ignore")
        from transformers.models.qwen3_5_moe.configuration_qwen3_5_moe import Qwen3_5MoeTextConfig
        from transformers.models.qwen3_5_moe.modeling_qwen3_5_moe import Qwen3_5MoeTextModel

        text = model.config.to_dict()["text_config"]
        kept = ("model_type", "mlp_layer_types", "attn_output_gate", "layernorm_zero_centered_gamma")
        config = Qwen3_5MoeTextConfig(**{k: v for k, v in text.items() if k not in kept})
        config._attn_implementation = "eager"
        backbone: torch.nn.Module = Qwen3_5MoeTextModel(config)
    weights: dict[str, Tensor] = {}
    experts: dict[str, list[Tensor]] = {}
    for name, entry in checkpoint_layout(model).items():
        if not name.startswith(PREFIX):
            continue
        name = name.removeprefix(PREFIX)
        if ".experts." in name:
            layer, place = name.split(".experts.")
            experts.setdefault(f"{layer}.experts.{place.split('.')[1]}", []).append(entry.take().float())
        else:
            weights[name] = entry.take().float()
    for name, matrices in experts.items():
        layer, kind = name.rsplit(".", 1)
        if kind == "gate_proj":
            ups = experts[f"{layer}.up_proj"]
            joined = [torch.cat(pair) for pair in zip(matrices, ups, strict=True)]
            weights[f"{layer}.gate_up_proj"] = torch.stack(joined)
        elif kind == "down_proj":
            weights[f"{layer}.down_proj"] = torch.stack(matrices)
    backbone.load_state_dict(weights)
    return backbone.eval().requires_grad_(False)


@torch.inference_mode()
def test_prefill_and_steps(model: Decoder, reference: torch.nn.Module) -> None:
    tokens = torch.randint(400, (2, 150), generator=torch.Generator().manual_seed(0))
    rows = torch.zeros(2, 150, 1 + model.config.num_codebooks, dtype=torch.int64)
    rows[..., 0] = tokens
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = reference(input_ids=tokens, use_cache=False).last_hidden_state
    state = model.allocate(2)
    hidden = [model.backbone(model.embed(rows[:, :140]), state)]
    hidden += [model.backbone(model.embed(rows[:, t : t + 1]), state) for t in range(140, 150)]
    torch.testing.assert_close(torch.cat(hidden, 1), expected, atol=5e-4, rtol=0)
