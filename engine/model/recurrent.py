"""Gated DeltaNet: a layer whose memory is one matrix per head, corrected row by row.

Axes: B sequences, T rows, HK key heads, HV value heads, DK, DV their dimensions, K convolution kernel, N convolution
channels, H hidden. In the chunked form: M chunks of C rows.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.cache.kv import Span
from engine.cache.recurrent import RecurrentMemory
from engine.config import BackboneConfig
from engine.model.linear import Leaf, Linear
from engine.model.norm import rms_norm

CHUNK = 64


def delta_rule_step(
    queries: Tensor, keys: Tensor, values: Tensor, decay: Tensor, beta: Tensor, matrix: Tensor
) -> Tensor:
    """One row: decay the memory, read it, correct it in place, read again -> [B, HV, DV].

    ``queries``, ``keys`` [B, HV, DK], ``values`` [B, HV, DV], ``decay``, ``beta`` [B, HV], ``matrix``
    [B, HV, DV, DK], all float32.
    """
    # Products and sums instead of matrix products, which start slowly: the matrices are small.
    key = keys.unsqueeze(-2)
    matrix.mul_(decay[..., None, None])
    known = (matrix * key).sum(-1)
    correction = (values - known).mul_(beta.unsqueeze(-1))
    matrix.addcmul_(correction.unsqueeze(-1), key)
    return (matrix * queries.unsqueeze(-2)).sum(-1)


def delta_rule_chunked(
    queries: Tensor, keys: Tensor, values: Tensor, log_decay: Tensor, beta: Tensor, matrix: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Many rows at once, equal to ``delta_rule_step`` row by row; differentiable, nothing is changed in place.

    ``queries``, ``keys`` [B, T, HV, DK], ``values`` [B, T, HV, DV], ``log_decay``, ``beta`` [B, T, HV], ``matrix``
    [B, HV, DV, DK] before the rows (None: zero), all float32. Returns the outputs [B, T, HV, DV] and the matrix after.

    Within a chunk the corrections depend on each other through a unit lower triangular system; what they need from
    earlier chunks is linear in the matrix at the chunk's start. So everything but a short recurrence over chunks is
    done for all chunks together (Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule", with
    decay as in "Gated Delta Networks").
    """
    batch, rows, heads, value_dim = values.shape
    key_dim = keys.shape[-1]
    chunk = min(CHUNK, rows)
    padding = -rows % chunk
    chunks = (rows + padding) // chunk

    def split(x: Tensor) -> Tensor:
        """[B, T, HV, ...] -> [B * HV, M, C, ...]; padding rows have beta 0 and log decay 0: they change nothing."""
        if padding:
            x = F.pad(x, (0, 0) * (x.dim() - 2) + (0, padding))
        return x.transpose(1, 2).reshape(batch * heads, chunks, chunk, *x.shape[3:])

    queries, keys, values, log_decay, beta = (split(x) for x in (queries, keys, values, log_decay, beta))
    since_start = log_decay.cumsum(-1)
    total = since_start[..., -1:]
    future = torch.ones(chunk, chunk, dtype=torch.bool, device=keys.device).triu(1)
    between = (since_start[..., :, None] - since_start[..., None, :]).masked_fill(future, -torch.inf).exp()

    transposed = keys.transpose(-1, -2)
    # The solver takes the diagonal as ones and reads nothing above it.
    system = torch.matmul(keys, transposed) * between * beta[..., None]
    from_start = since_start.exp()[..., None]
    sides = torch.cat((values, keys * from_start), -1) * beta[..., None]
    solved = torch.linalg.solve_triangular(system, sides, upper=False, unitriangular=True)
    own, of_matrix = solved.split_with_sizes([value_dim, key_dim], -1)
    to_end = (keys * (total - since_start).exp()[..., None]).transpose(-1, -2)
    decays = total.exp()[..., None]

    # [B * HV, DK, DV]: transposed, so that the products below need no further transposes.
    state = own.new_zeros(batch * heads, key_dim, value_dim)
    if matrix is not None:
        state = matrix.reshape(batch * heads, value_dim, key_dim).transpose(1, 2)
    states, corrections = [], []
    for own_m, of_m, to_end_m, decay_m in zip(
        own.unbind(1), of_matrix.unbind(1), to_end.unbind(1), decays.unbind(1), strict=True
    ):
        states.append(state)
        corrections.append(torch.baddbmm(own_m, of_m, state, alpha=-1))
        state = torch.baddbmm(state * decay_m, to_end_m, corrections[-1])

    inside = torch.matmul(queries, transposed) * between
    out = torch.matmul(queries * from_start, torch.stack(states, 1)) + torch.matmul(inside, torch.stack(corrections, 1))
    out = out.view(batch, heads, chunks * chunk, value_dim).transpose(1, 2)[:, :rows]
    return out, state.transpose(1, 2).reshape(batch, heads, value_dim, key_dim)


class GatedDeltaNet(Leaf):
    """Convolution, delta rule with decay, gated norm.

    ``in_proj`` makes ``[queries | keys | values | z]``, ``ba_proj`` ``[b | a]``; ``conv`` [K, N] is depthwise, oldest
    row first; ``out_gain`` [DV] is plain (not zero-centred in the file).
    """

    def __init__(self, config: BackboneConfig, layer: int) -> None:
        super().__init__()
        self.config = config
        self.layer = layer
        """Index of this layer in the recurrent memory."""
        hidden, heads = config.hidden_size, config.linear_num_value_heads
        self.in_proj = Linear(hidden, config.conv_dim + config.value_dim)
        self.ba_proj = Linear(hidden, 2 * heads)
        self.out_proj = Linear(config.value_dim, hidden)
        self.conv = nn.Parameter(torch.empty(config.linear_conv_kernel_dim, config.conv_dim))
        self.a_log = nn.Parameter(torch.zeros(heads))
        self.dt_bias = nn.Parameter(torch.zeros(heads))
        self.out_gain = nn.Parameter(torch.ones(config.linear_value_head_dim))

    def forward(self, x: Tensor, memory: RecurrentMemory | None, span: Span | None) -> Tensor:
        """``x`` [B, T, H] -> the same; with ``memory``, continues from it and leaves it after the span's real rows."""
        c = self.config
        mixed, z = self.in_proj(x).split_with_sizes([c.conv_dim, c.value_dim], -1)
        b, a = self.ba_proj(x).float().chunk(2, -1)
        log_decay = -self.a_log.float().exp() * F.softplus(a + self.dt_bias)
        beta = torch.sigmoid(b)
        if memory is None or span is None:
            mixed = self._convolve(mixed, mixed.new_zeros(x.shape[0], self.conv.shape[0] - 1, c.conv_dim))
            with torch.autocast(x.device.type, enabled=False):
                out, _ = delta_rule_chunked(*self._heads(mixed), log_decay, beta, None)
        elif x.shape[1] == 1:
            out = self._step(mixed, log_decay, beta, memory, span)
        else:
            out = self._block(mixed, log_decay, beta, memory, span)
        # Queries came in scaled up by DK (see _heads); so did the outputs, and the norm's eps has to follow.
        eps = c.rms_norm_eps * c.linear_key_head_dim**2
        out = rms_norm(out, self.out_gain.float(), eps) * F.silu(z.float()).view_as(out)
        return self.out_proj(out.flatten(2).to(x.dtype))

    def _heads(self, mixed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Convolved rows [B, T, N] -> queries and keys [B, T, HV, DK], values [B, T, HV, DV], float32.

        Keys have length 1; queries DK times the length the delta rule asks for, which the output's norm takes out.
        """
        c = self.config
        batch, rows, _ = mixed.shape
        qk, values = mixed.float().split_with_sizes([2 * c.key_dim, c.value_dim], -1)
        dim = c.linear_key_head_dim
        # x / sqrt(sum(x^2) + 1e-6) is an RMS norm divided by sqrt(DK).
        qk = rms_norm(qk.view(batch, rows, 2 * c.linear_num_key_heads, dim), None, 1e-6 / dim)
        queries, keys = qk.chunk(2, 2)
        keys = keys * dim**-0.5
        if (repeats := c.linear_num_value_heads // c.linear_num_key_heads) > 1:
            queries, keys = queries.repeat_interleave(repeats, 2), keys.repeat_interleave(repeats, 2)
        return queries, keys, values.view(batch, rows, c.linear_num_value_heads, c.linear_value_head_dim)

    def _convolve(self, mixed: Tensor, before: Tensor) -> Tensor:
        """Causal convolution and SiLU of ``mixed`` [B, T, N], preceded by the rows ``before`` [B, K - 1, N]."""
        rows, padded = mixed.shape[1], torch.cat((before, mixed), 1)
        out = padded[:, :rows] * self.conv[0]
        for tap in range(1, self.conv.shape[0]):
            out = torch.addcmul(out, padded[:, tap : tap + rows], self.conv[tap])
        return F.silu(out)

    def _step(self, mixed: Tensor, log_decay: Tensor, beta: Tensor, memory: RecurrentMemory, span: Span) -> Tensor:
        """One row per sequence, memory changed in place."""
        window, matrix = memory.windows[self.layer], memory.matrices[self.layer]
        seen = torch.cat((window, mixed), 1)
        mixed = F.silu((seen * self.conv).sum(1, keepdim=True))
        queries, keys, values = (x[:, 0] for x in self._heads(mixed))
        if span.is_full:
            window.copy_(seen[:, 1:])
            return delta_rule_step(queries, keys, values, log_decay[:, 0].exp(), beta[:, 0], matrix)[:, None]
        active = torch.tensor(span.counts, dtype=torch.bool, device=mixed.device).nonzero()[:, 0]
        window[active] = seen[active, 1:]
        # Sequences without a row keep their matrix to the bit: the rule runs on a copy, of which the others are kept.
        after = matrix.clone()
        out = delta_rule_step(queries, keys, values, log_decay[:, 0].exp(), beta[:, 0], after)
        matrix[active] = after[active]
        return out[:, None]

    def _block(self, mixed: Tensor, log_decay: Tensor, beta: Tensor, memory: RecurrentMemory, span: Span) -> Tensor:
        """Many rows per sequence, right-padded; padding leaves the memory as the last real row left it."""
        window, matrix = memory.windows[self.layer], memory.matrices[self.layer]
        counts = torch.tensor(span.counts, device=mixed.device)
        seen = torch.cat((window, mixed), 1)
        mixed = self._convolve(mixed, window)
        if not span.is_full:
            real = torch.arange(mixed.shape[1], device=mixed.device) < counts[:, None]
            log_decay, beta = log_decay * real[..., None], beta * real[..., None]
        out, after = delta_rule_chunked(*self._heads(mixed), log_decay, beta, matrix)
        last = counts[:, None] + torch.arange(window.shape[1], device=mixed.device)
        window.copy_(seen.gather(1, last[..., None].expand(-1, -1, seen.shape[2])))
        matrix.copy_(torch.where((counts > 0)[:, None, None, None], after, matrix))
        return out
