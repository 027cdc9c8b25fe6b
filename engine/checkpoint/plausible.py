"""What the numbers of a trained model cannot be: signs of a damaged file, or of something else in a tensor's place."""

from torch import Tensor

from engine.checkpoint.packed import Packed, extremes

LARGEST = 1e4
"""Trained weights are orders of magnitude smaller; bytes read from the wrong place are larger nearly always."""
LARGEST_LOG_DECAY = 20.0
"""Of ``A_log``, whose exponential is used: 16 is where training starts it at most."""
_MAY_BE_IDLE = ("_embedding.weight", ".alpha")


def plain_problem(name: str, tensor: Tensor) -> str | None:
    """What is wrong with the numbers of plain tensor ``name``, in words that follow its name; None if nothing is."""
    low, high = extremes(tensor)
    if not (low.isfinite() and high.isfinite()):
        return "has values that are not finite"
    is_log, largest = name.endswith(".A_log"), max(-float(low), float(high))
    most = LARGEST_LOG_DECAY if is_log else LARGEST
    if (float(high) if is_log else largest) > most:
        return f"has values up to {largest:,.6g}; none of a trained model is above {most:,g}"
    # Norms, biases and tables of what is never said may well be where training found them.
    is_learned = tensor.dim() > 1 and tensor.numel() > 1 and not name.endswith(_MAY_BE_IDLE)
    if is_learned and low == high:
        return f"has the value {float(low):g} throughout: its file was not written to the end, or holds something else"
    return None


def packed_problem(packed: Packed) -> str | None:
    """The same of a quantised matrix."""
    if (problem := packed.problem()) is not None:
        return problem
    # Values and scales come first; what follows (zero points, groups) may be zero.
    if any(not extremes(tensor, as_bytes=True)[1] for tensor in list(packed.tensors().values())[:2]):
        return "is zero throughout: its file was not written to the end, or holds something else"
    return None
