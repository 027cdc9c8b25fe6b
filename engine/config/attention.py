"""What backbone and tower share: their attention."""


def attention_parameters(hidden: int, heads_dim: int, kv_dim: int, head_dim: int) -> int:
    """Parameters of one gated attention layer; the dimensions of all its query heads, and of its keys."""
    return hidden * (2 * heads_dim + 2 * kv_dim) + heads_dim * hidden + 2 * head_dim
