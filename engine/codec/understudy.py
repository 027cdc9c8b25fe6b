"""The understudy's causal codec: codes to vocoder parameters by a small network, parameters to samples.

Frames are 1200 samples at 24 kHz. Codebook 0 and 3.. quantise the spectrum of a frame, 1 and 2 its source (pitch,
voicing, aperiodicity); see ``engine/train/quantiser.py``. There is no encoder at run time: voices are fixed.

Axes: B sequences, C codebooks, F frames, P components, N network width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

from engine.cache.base import Memory, pair_rows
from engine.codec.post_filter import sharpen
from engine.codec.speeds import Speeds
from engine.codec.vocoder import (
    NUM_BANDS,
    NUM_CEPSTRA,
    NUM_FEATURES,
    SAMPLE_RATE_HZ,
    SAMPLES_PER_FRAME,
    SUBFRAME_SAMPLES,
    SUBFRAMES_PER_FRAME,
    Vocoder,
)
from engine.errors import StateError, WeightsError
from engine.quant.half import steady_linear

CODEBOOK_STREAMS = ("spectrum", "source", "source", "spectrum", "spectrum", "spectrum", "spectrum", "spectrum")
NUM_COMPONENTS = {"spectrum": 96, "source": 16}
CODEBOOK_SIZE = 1024
SOURCE_FEATURES = NUM_BANDS + 2
SOURCE_WEIGHTS = (0.5,) * NUM_BANDS + (12.0, 1.5)
"""How much an error in aperiodicity (dB / 10), log f0 and voicing counts beside one in the log envelope."""
KERNEL = 4
SILENT_LOG_POWER = -18.4
"""Envelope before the first frame: ln 1e-8, the floor of the analysis."""


class CausalBlock(nn.Module):
    """ConvNeXt block on frames: depthwise causal convolution, norm, two linear layers, residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Parameter(torch.randn(KERNEL, width) * KERNEL**-0.5)
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 3 * width)
        self.down = nn.Linear(3 * width, width)
        nn.init.zeros_(self.down.weight)

    def forward(self, x: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        """``x`` [B, F, N] after the frames ``before`` [B, KERNEL - 1, N]: output and the frames to carry on."""
        seen = torch.cat([before, x], 1)
        frames = x.shape[1]
        mixed = seen[:, :frames] * self.conv[0]
        for tap in range(1, KERNEL):
            mixed = torch.addcmul(mixed, seen[:, tap : tap + frames], self.conv[tap])
        return x + self.down(F.gelu(self.up(self.norm(mixed)))), seen[:, frames:]


class FeatureDecoder(nn.Module):
    """Dequantises codes and lets past frames correct them: vocoder parameters [B, 8F, 45]."""

    def __init__(self, width: int = 384, blocks: int = 5) -> None:
        super().__init__()
        self.width, self.num_blocks = width, blocks
        for i, stream in enumerate(CODEBOOK_STREAMS):
            self.register_buffer(f"codebook_{i}", torch.zeros(CODEBOOK_SIZE, NUM_COMPONENTS[stream]))
        for stream, size in (("spectrum", NUM_CEPSTRA), ("source", SOURCE_FEATURES)):
            dimension = SUBFRAMES_PER_FRAME * size
            self.register_buffer(f"{stream}_mean", torch.zeros(dimension))
            self.register_buffer(f"{stream}_components", torch.zeros(NUM_COMPONENTS[stream], dimension))
        self.register_buffer("input_scale", torch.ones(sum(NUM_COMPONENTS.values())))
        self.inward = nn.Linear(sum(NUM_COMPONENTS.values()), width)
        self.blocks = nn.ModuleList(CausalBlock(width) for _ in range(blocks))
        self.outward = nn.Linear(width, SUBFRAMES_PER_FRAME * NUM_FEATURES)
        nn.init.zeros_(self.outward.weight)
        nn.init.zeros_(self.outward.bias)

    def dequantise(self, codes: Tensor) -> dict[str, Tensor]:
        """Components of each stream [B, F, P] for ``codes`` [B, C, F], clamped to the codebooks."""
        total: dict[str, Tensor] = {}
        for i, stream in enumerate(CODEBOOK_STREAMS):
            part = F.embedding(codes[:, i].clamp(0, CODEBOOK_SIZE - 1), self.get_buffer(f"codebook_{i}"))
            total[stream] = part if stream not in total else total[stream] + part
        return total

    def linear_part(self, components: dict[str, Tensor]) -> Tensor:
        """[B, F, N + 8 * 45]: the network's input and the parameters without its correction."""
        batch, frames, _ = components["spectrum"].shape
        plain = []
        for stream in ("spectrum", "source"):
            part = components[stream] @ self.get_buffer(f"{stream}_components") + self.get_buffer(f"{stream}_mean")
            plain.append(part.view(batch, frames, SUBFRAMES_PER_FRAME, -1))
        plain[1] = plain[1] / plain[1].new_tensor(SOURCE_WEIGHTS)
        x = self.inward(torch.cat([components["spectrum"], components["source"]], -1) * self.get_buffer("input_scale"))
        return torch.cat([x, torch.cat(plain, -1).flatten(2)], -1)

    def forward(self, components: dict[str, Tensor], windows: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Parameters [B, 8F, 45] of ``components`` after ``windows`` ([B, KERNEL - 1, N] a block); the next windows."""
        x, plain = self.linear_part(components).split_with_sizes([self.width, SUBFRAMES_PER_FRAME * NUM_FEATURES], -1)
        carried = []
        for block, window in zip(self.blocks, windows, strict=True):
            x, window = block(x, window)
            carried.append(window)
        return (plain + self.outward(x)).unflatten(-1, (SUBFRAMES_PER_FRAME, NUM_FEATURES)).flatten(1, 2), carried

    def empty_windows(self, batch: int) -> list[Tensor]:
        """Windows of sequences that have heard nothing."""
        like = self.inward.weight
        return [like.new_zeros(batch, KERNEL - 1, self.width) for _ in self.blocks]


class StreamingBlock:
    """A ``CausalBlock`` for one frame a call."""

    def __init__(self, block: CausalBlock) -> None:
        self.block = block
        self.up, self.down = steady_linear(block.up), steady_linear(block.down)

    def __call__(self, x: Tensor, window: Tensor) -> Tensor:
        """``x`` [B, N] after the frames ``window`` [B, KERNEL - 1, N], which moves on by one."""
        seen = torch.cat([window, x[:, None]], 1)
        window.copy_(seen[:, 1:])
        mixed = self.block.norm((seen * self.block.conv).sum(1))
        return x + self.down(F.gelu(self.up(mixed)))


class StreamingFeatures:
    """What ``FeatureDecoder`` computes, one frame a call and faster.

    A sequence computes to the bit the same whatever else is in the batch: pitch is summed up into phase, and so would
    rounding be, until a stream in a batch no longer sounded as it does alone.
    """

    def __init__(self, decoder: FeatureDecoder) -> None:
        self._width = decoder.width
        # Input of the network and plain parameters are linear in the codes: a table says what each code adds to them.
        none = {stream: torch.zeros(1, 1, size) for stream, size in NUM_COMPONENTS.items()}
        self._constant = decoder.linear_part(none)[0, 0]
        tables = []
        for i, stream in enumerate(CODEBOOK_STREAMS):
            components = {name: part.expand(1, CODEBOOK_SIZE, -1) for name, part in none.items()}
            components[stream] = decoder.get_buffer(f"codebook_{i}")[None]
            tables.append(decoder.linear_part(components)[0] - self._constant)
        self._table = torch.cat(tables)
        self._offsets = torch.arange(len(CODEBOOK_STREAMS)) * CODEBOOK_SIZE
        self._blocks = [StreamingBlock(block) for block in decoder.blocks if isinstance(block, CausalBlock)]
        self._outward = steady_linear(decoder.outward)

    def __call__(self, codes: Tensor, windows: Sequence[Tensor]) -> Tensor:
        """Parameters [B, 8, 45] of the frame ``codes`` [B, C]; ``windows`` ([B, KERNEL - 1, N] a block) move on."""
        index = codes.clamp(0, CODEBOOK_SIZE - 1) + self._offsets
        linear = F.embedding_bag(index, self._table, mode="sum") + self._constant
        x, plain = linear[:, : self._width], linear[:, self._width :]
        for block, window in zip(self._blocks, windows, strict=True):
            x = block(x, window)
        return (plain + self._outward(x)).view(-1, SUBFRAMES_PER_FRAME, NUM_FEATURES)


@dataclass
class CodecMemory(Memory):
    """What B streams remember: network windows, the last subframe [B, 45], glottal phase,
    overlap, memory of the high-pass, frames made."""

    windows: list[Tensor]
    last: Tensor
    phase: Tensor
    tail: Tensor
    rumble: Tensor
    position: Tensor

    def _tensors(self) -> list[Tensor]:
        return [*self.windows, self.last, self.phase, self.tail, self.rumble, self.position]

    @classmethod
    def _of(cls, tensors: list[Tensor]) -> Self:
        return cls(tensors[:-5], *tensors[-5:])

    @property
    def batch_size(self) -> int:
        """B."""
        return self.last.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(tensor.nbytes for tensor in self._tensors())

    def reset(self, mask: Tensor) -> None:
        """Make the sequences where ``mask`` [B] (bool) is true as new."""
        for tensor in self._tensors():
            tensor[mask] = 0
        self.last[mask] = silent_parameters()

    def truncate(self, lengths: Sequence[int]) -> None:
        """Raise ``StateError``: filters cannot run backwards."""
        raise StateError("codec memory cannot be truncated; restore a snapshot taken at that frame")

    def extract(self, rows: Sequence[int]) -> Self:
        """A memory of its own holding copies of the sequences ``rows``."""
        index = torch.tensor(list(rows), dtype=torch.long)
        return self._of([tensor[index] for tensor in self._tensors()])

    def restore(self, snapshot: Self, rows: Sequence[int] | None = None) -> None:
        """Overwrite the sequences ``rows`` with those of ``snapshot``."""
        for target, source in pair_rows(self.batch_size, snapshot.batch_size, rows):
            for mine, theirs in zip(self._tensors(), snapshot._tensors(), strict=True):
                mine[target] = theirs[source]

    @classmethod
    def merge(cls, memories: Sequence[Self]) -> Self:
        """One memory with the sequences of all ``memories``, in order."""
        return cls._of([torch.cat(parts) for parts in zip(*(m._tensors() for m in memories), strict=True)])


def silent_parameters() -> Tensor:
    """Parameters [45] of silence, unvoiced at 150 Hz."""
    last = torch.zeros(NUM_FEATURES)
    last[0], last[-2] = SILENT_LOG_POWER, 5.0
    return last


class UnderstudyCodec(nn.Module):
    """The ``Codec`` of the understudy (see ``engine/codec/codec.py``)."""

    sample_rate = SAMPLE_RATE_HZ
    samples_per_frame = SAMPLES_PER_FRAME
    num_codebooks = len(CODEBOOK_STREAMS)
    device = torch.device("cpu")
    """Always: its sound is made of pulses at places that are looked up one by one, work for a processor."""
    speeds = Speeds(slowest=0.5, fastest=2.0, hop=SUBFRAME_SAMPLES)

    def __init__(self, width: int = 384, blocks: int = 5) -> None:
        super().__init__()
        self.features = FeatureDecoder(width, blocks)
        self.vocoder = Vocoder()
        self._streaming: StreamingFeatures | None = None

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read ``codec.safetensors``; raises ``WeightsError`` naming the first tensor that does not fit."""
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        except Exception as error:
            raise WeightsError(f"cannot read {path}: {error}") from error
        codec = cls(int(metadata.get("width", 384)), int(metadata.get("blocks", 5)))
        expected = codec.state_dict()
        for name in sorted(expected.keys() | tensors.keys()):
            if name not in tensors or name not in expected:
                raise WeightsError(f"{path}: tensor {name} is {'missing' if name not in tensors else 'unexpected'}")
            if tensors[name].shape != expected[name].shape:
                raise WeightsError(f"{path}: {name} is {list(tensors[name].shape)}, not {list(expected[name].shape)}")
            if not torch.isfinite(tensors[name].float()).all():
                raise WeightsError(f"{path}: {name} holds values that are not finite")
        codec.load_state_dict({name: tensor.to(expected[name].dtype) for name, tensor in tensors.items()})
        return codec.for_streaming()

    def for_streaming(self) -> Self:
        """Freeze, and make ready to decode; training goes on with the network as it was."""
        self.eval().requires_grad_(False)
        with torch.no_grad():
            self._streaming = StreamingFeatures(self.features)
        return self

    def allocate(self, batch_size: int) -> CodecMemory:
        """Memory of ``batch_size`` streams that have heard nothing."""
        return CodecMemory(
            windows=self.features.empty_windows(batch_size),
            last=silent_parameters().repeat(batch_size, 1),
            phase=torch.zeros(batch_size, dtype=torch.float64),
            tail=torch.zeros(batch_size, Vocoder.tail_samples()),
            rumble=torch.zeros(batch_size, 2, dtype=torch.float64),
            position=torch.zeros(batch_size, dtype=torch.int64),
        )

    @torch.inference_mode()
    def decode_step(self, codes: Tensor, state: CodecMemory, speed: float = 1.0) -> Tensor:
        """``codes`` [B, C, F] (int64) -> float32 samples [B, F * 1200 / speed] in [-1, 1]; advances ``state``."""
        hop = self.speeds.samples(speed)
        # Frame by frame, so that not even rounding depends on how frames are grouped.
        return torch.cat([self._decode_frame(frame, state, hop) for frame in codes.unbind(2)], 1)

    def _decode_frame(self, codes: Tensor, state: CodecMemory, hop: int) -> Tensor:
        assert self._streaming is not None, "not made ready: see for_streaming"
        parameters = torch.cat([state.last[:, None], sharpen(self._streaming(codes, state.windows))], 1)
        state.last.copy_(parameters[:, -1])
        samples: Tensor = self.vocoder(parameters, state.phase, state.tail, state.rumble, state.position, hop)
        return samples
