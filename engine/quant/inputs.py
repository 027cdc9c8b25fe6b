"""What linear layers are multiplied with, written down while something goes through them.

Axes: N rows, I inputs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from engine.model.linear import Leaf, Linear

MOST_ROWS = 4096
"""Rows that are kept for each matrix."""

Inputs = dict[str, Tensor]
"""[N, I] (bfloat16) by the path of the matrix."""


class _Recording(Leaf):
    def __init__(self, linear: Linear, keep: Callable[[Tensor], None]) -> None:
        super().__init__()
        self._linear, self._keep = linear, keep

    def forward(self, x: Tensor) -> Tensor:
        self._keep(x)
        return self._linear(x)


@contextmanager
def recording(module: nn.Module, wants: Callable[[str], bool]) -> Iterator[Inputs]:
    """While the block runs, the inputs of the linear layers in ``module`` whose path in it is wanted are kept."""
    linears = {path: part for path, part in module.named_modules() if isinstance(part, Linear) and wants(path)}
    inputs: Inputs = {}

    def keeper(path: str) -> Callable[[Tensor], None]:
        def keep(x: Tensor) -> None:
            rows = kept_rows(x.reshape(-1, x.shape[-1]))
            inputs[path] = kept_rows(torch.cat((inputs[path], rows))) if path in inputs else rows

        return keep

    try:
        for path, linear in linears.items():
            replace_module(module, path, _Recording(linear, keeper(path)))
        yield inputs
    finally:
        for path, linear in linears.items():
            replace_module(module, path, linear)


def kept_rows(x: Tensor) -> Tensor:
    """Of rows [N, I] those that are kept, as they are kept."""
    return x[:MOST_ROWS].detach().to(torch.bfloat16)


def replace_module(root: nn.Module, path: str, module: nn.Module) -> None:
    """Put ``module`` at ``path`` of ``root``."""
    parent, _, name = path.rpartition(".")
    setattr(root.get_submodule(parent), name, module)
