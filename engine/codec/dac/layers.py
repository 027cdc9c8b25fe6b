"""Causal layers that carry their past from call to call.

Every convolution looks back only: its memory is the input that the next output still needs. A transposed convolution
reaches forward: its memory is what it has added to outputs that are not due yet. So pieces of any lengths give what
the whole gives, at the same cost.

Axes: B streams, N channels, T time steps of a piece, K kernel.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.dac.memory import Remembering, StreamMemory

DILATIONS = (1, 3, 9)
MOST_STEPS_BY_PRODUCT = 32
"""Steps of a piece up to which a convolution is faster as one matrix product: oneDNN would reorder the weights first,
which costs as much as many steps."""


class CausalConv(Remembering):
    """Convolution whose output t ends at input t. T must be a multiple of ``stride``."""

    def __init__(
        self, inward: int, outward: int, kernel: int, stride: int = 1, dilation: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inward, outward, kernel, stride, dilation=dilation, groups=groups)
        self.reach = (kernel - 1) * dilation + 1
        """Inputs one output spans."""
        self.carried = self.reach - stride

    def empty(self, batch_size: int) -> Tensor:
        """The last inputs [B, N, carried]."""
        return self.conv.weight.new_zeros(batch_size, self.conv.in_channels, self.carried)

    def forward(self, x: Tensor, memory: StreamMemory) -> Tensor:
        """``x`` [B, N, T] -> [B, N', T / stride]."""
        if self.carried:
            window = self.recall(memory)
            x = torch.cat((window, x), 2)
            window.copy_(x[..., -self.carried :])
        conv = self.conv
        steps = (x.shape[2] - self.reach) // conv.stride[0] + 1
        if conv.groups == 1 and x.device.type == "cpu" and x.shape[0] * steps <= MOST_STEPS_BY_PRODUCT:
            patches = x.unfold(2, self.reach, conv.stride[0])[..., :: conv.dilation[0]]
            return F.linear(patches.transpose(1, 2).flatten(2), conv.weight.flatten(1), conv.bias).transpose(1, 2)
        out: Tensor = conv(x)
        return out


class CausalTransposedConv(Remembering):
    """Transposed convolution, K = stride or 2 * stride, that emits the first T * stride outputs.

    Every input reaches its own ``stride`` outputs and, when K is twice that, the next ``stride``. One matrix product
    for all of it: torch's kernel would reorder the weights in every call, 20 times as long as the product.
    """

    def __init__(self, inward: int, outward: int, kernel: int, stride: int) -> None:
        super().__init__()
        assert kernel in (stride, 2 * stride), (kernel, stride)
        self.conv = nn.ConvTranspose1d(inward, outward, kernel, stride)
        self.stride, self.carried = stride, kernel - stride

    def empty(self, batch_size: int) -> Tensor:
        """What the last input adds to the next outputs [B, N', carried], without the bias."""
        return self.conv.weight.new_zeros(batch_size, self.conv.out_channels, self.carried)

    def forward(self, x: Tensor, memory: StreamMemory) -> Tensor:
        """``x`` [B, N, T] -> [B, N', T * stride]."""
        assert self.conv.bias is not None
        steps = x.shape[2]
        reached = x.transpose(1, 2) @ self.conv.weight.flatten(1)
        reached = reached.view(x.shape[0], steps, self.conv.out_channels, -1).transpose(1, 2)
        out: Tensor = reached[..., : self.stride] + self.conv.bias[:, None, None]
        if self.carried:
            late, overlap = reached[..., self.stride :], self.recall(memory)
            out[:, :, 0] += overlap
            out[:, :, 1:] += late[:, :, : steps - 1]
            overlap.copy_(late[:, :, -1])
        return out.flatten(2)


class Snake(nn.Module):
    """``x + sin(alpha x)^2 / alpha`` per channel (Ziyin et al. 2020, as DAC uses it)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        """``x`` [B, N, T] -> the same shape."""
        wave = (self.alpha * x).sin_()
        return torch.addcmul(x, wave, wave / (self.alpha + 1e-9))


class ResidualUnit(nn.Module):
    """Snake, dilated convolution, snake, pointwise convolution, plus the input."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.block = nn.ModuleList(
            [
                Snake(channels),
                CausalConv(channels, channels, 7, dilation=dilation),
                Snake(channels),
                CausalConv(channels, channels, 1),
            ]
        )

    def forward(self, x: Tensor, memory: StreamMemory) -> Tensor:
        """``x`` [B, N, T] -> the same shape."""
        return x + run(self.block, x, memory)


class ConvNeXt(nn.Module):
    """Depthwise causal convolution, norm, two linear layers, plus the input (Liu et al. 2022)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dwconv = CausalConv(channels, channels, 7, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.pwconv1 = nn.Linear(channels, 4 * channels)
        self.pwconv2 = nn.Linear(4 * channels, channels)
        self.gamma = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor, memory: StreamMemory) -> Tensor:
        """``x`` [B, N, T] -> the same shape."""
        mixed = self.norm(self.dwconv(x, memory).transpose(1, 2))
        change: Tensor = self.gamma * self.pwconv2(F.gelu(self.pwconv1(mixed)))
        return x + change.transpose(1, 2)


def run(layers: nn.ModuleList, x: Tensor, memory: StreamMemory) -> Tensor:
    """``x`` through ``layers`` in order, those that know no past among them."""
    for layer in layers:
        x = layer(x) if isinstance(layer, Snake) else layer(x, memory)
    return x
