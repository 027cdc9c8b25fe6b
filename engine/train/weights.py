"""Weights put into a network for a while."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


def copied(network: nn.Module) -> dict[str, Tensor]:
    """A copy of its parameters, by name."""
    return {name: parameter.detach().clone() for name, parameter in network.named_parameters()}


@torch.no_grad()
def put(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Overwrite its parameters."""
    for name, parameter in network.named_parameters():
        parameter.copy_(weights[name])


@contextmanager
def showing(network: nn.Module, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """``weights`` are in the network inside, its own again behind."""
    own = copied(network)
    put(network, weights)
    try:
        yield
    finally:
        put(network, own)


def between(before: Mapping[str, Tensor], after: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """Weights ``share`` of the way from those ``before`` to those ``after``."""
    return {name: weight.to(after[name].dtype).lerp(after[name], share) for name, weight in before.items()}
