"""Which matrix of a decoder a tensor of a checkpoint is part of: matrices with the same inputs are one there."""

import re

_NAMES = (
    (r"model\.language_model\.layers\.(\d+)\.self_attn\.[qkv]_proj", r"layers.\1.mixer.in_proj"),
    (r"model\.language_model\.layers\.(\d+)\.self_attn\.o_proj", r"layers.\1.mixer.out_proj"),
    (r"model\.language_model\.layers\.(\d+)\.linear_attn\.in_proj_(?:qkv|z)", r"layers.\1.mixer.in_proj"),
    (r"model\.language_model\.layers\.(\d+)\.linear_attn\.out_proj", r"layers.\1.mixer.out_proj"),
    (r"model\.language_model\.layers\.(\d+)\.mlp\.shared_expert\.(?:gate|up)_proj", r"layers.\1.moe.shared.gate_up"),
    (r"model\.language_model\.layers\.(\d+)\.mlp\.shared_expert\.down_proj", r"layers.\1.moe.shared.down"),
    (
        r"model\.language_model\.layers\.(\d+)\.mlp\.experts\.(\d+)\.(?:gate|up)_proj",
        r"layers.\1.moe.experts.\2.gate_up",
    ),
    (r"model\.language_model\.layers\.(\d+)\.mlp\.experts\.(\d+)\.down_proj", r"layers.\1.moe.experts.\2.down"),
    (r"aligned_text\.(in|out)_proj", r"aligned_text.\1_proj"),
    (r"lm_head", r"main_head"),
    (r"audio_decoder_mtp\.heads\.(\d+)", r"tower.heads.\1"),
    (r"(audio_decoder_mtp.*)\.transformer_layer\.attention\.wqkv", r"\1.attention.in_proj"),
    (r"(audio_decoder_mtp.*)\.transformer_layer\.attention\.wo", r"\1.attention.out_proj"),
    (r"(audio_decoder_mtp.*)\.transformer_layer\.feed_forward\.w[13]", r"\1.feed_forward.gate_up"),
    (r"(audio_decoder_mtp.*)\.transformer_layer\.feed_forward\.w2", r"\1.feed_forward.down"),
    (r"(audio_decoder_mtp.*)\.eh_proj", r"\1.joint_proj"),
)


def input_name(name: str) -> str:
    """The matrix of a decoder (module path; experts by number) that tensor ``name`` of a checkpoint is part of."""
    base = name.removesuffix(".weight")
    for pattern, path in _NAMES:
        if (match := re.fullmatch(pattern, base)) is not None:
            found = match.expand(path)
            found = found.replace("audio_decoder_mtp_shared.layers", "tower.shared")
            return found.replace("audio_decoder_mtp.layers", "tower.residual")
    raise AssertionError(f"{name} is never quantised")


def expert_of(name: str) -> tuple[str, int, str] | None:
    """Of an ``input_name``: path of the experts, number of the expert, its matrix; None if it is no expert's."""
    match = re.fullmatch(r"(.*\.moe\.experts)\.(\d+)\.(gate_up|down)", name)
    return None if match is None else (match[1], int(match[2]), match[3])
