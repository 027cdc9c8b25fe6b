"""Fit the understudy's codebooks: principal components of a frame, then residual k-means.

A frame's 8 x 45 vocoder parameters are two vectors: *spectrum* (8 x 40 cepstra) and *source* (8 x log f0, voicing and
aperiodicity). Each is reduced to its principal components and quantised in stages, each on what the one before left.
Codebook 0 (the semantic token) is the first spectral stage, codebooks 1 and 2 are the source, the others refine the
spectrum. The vectors keep their meaning, so a decoder can be taught by distance (see ``loss.py``).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from engine.codec.understudy import (
    CODEBOOK_SIZE,
    CODEBOOK_STREAMS,
    NUM_COMPONENTS,
    SOURCE_WEIGHTS,
    UnderstudyCodec,
)
from engine.codec.vocoder import NUM_CEPSTRA, SUBFRAMES_PER_FRAME


def split_streams(features: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    """Subframe features [S, 45] to frame vectors: spectrum [F, 320] and weighted source [F, 40], F = S // 8."""
    frames = len(features) // SUBFRAMES_PER_FRAME
    grid = features[: frames * SUBFRAMES_PER_FRAME].reshape(frames, SUBFRAMES_PER_FRAME, -1)
    source = grid[..., NUM_CEPSTRA:] * np.array(SOURCE_WEIGHTS, np.float32)
    return {"spectrum": grid[..., :NUM_CEPSTRA].reshape(frames, -1), "source": source.reshape(frames, -1)}


@dataclass
class Quantiser:
    """Fitted parts, all float32: per stream ``mean`` [D] and ``components`` [P, D]; ``codebooks`` C x [V, P]."""

    mean: dict[str, torch.Tensor]
    components: dict[str, torch.Tensor]
    codebooks: list[torch.Tensor]

    def project(self, features: NDArray[np.float32]) -> dict[str, torch.Tensor]:
        """Principal components of each stream, [F, P]."""
        vectors = {name: torch.from_numpy(part) for name, part in split_streams(features).items()}
        return {name: (vector - self.mean[name]) @ self.components[name].T for name, vector in vectors.items()}

    def encode(self, features: NDArray[np.float32]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Codes [F, C] and, per codebook, the exact residual [F, P] that stage was asked to quantise."""
        residual = self.project(features)
        codes, targets = [], []
        for stream, codebook in zip(CODEBOOK_STREAMS, self.codebooks, strict=True):
            targets.append(residual[stream])
            code = nearest(residual[stream], codebook)
            residual[stream] = residual[stream] - codebook[code]
            codes.append(code)
        return torch.stack(codes, dim=1), targets

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Flat tensors, as ``load`` reads them from a file."""
        flat = {f"quantiser.{i}.codebook": codebook for i, codebook in enumerate(self.codebooks)}
        for name in self.mean:
            flat[f"{name}.mean"], flat[f"{name}.components"] = self.mean[name], self.components[name]
        return flat

    @classmethod
    def load(cls, path: Path) -> "Quantiser":
        """What ``fit_codec`` wrote, or that of a codec (``codec.safetensors``), whose codebooks were rounded."""
        flat = load_file(path)
        if "quantiser.0.codebook" not in flat:
            return cls.of(UnderstudyCodec.load(path))
        return cls(
            {name: flat[f"{name}.mean"] for name in NUM_COMPONENTS},
            {name: flat[f"{name}.components"] for name in NUM_COMPONENTS},
            [flat[f"quantiser.{i}.codebook"] for i in range(len(CODEBOOK_STREAMS))],
        )

    @classmethod
    def of(cls, codec: UnderstudyCodec) -> "Quantiser":
        """The one whose codes ``codec`` decodes."""
        tables = codec.features
        return cls(
            {name: tables.get_buffer(f"{name}_mean") for name in NUM_COMPONENTS},
            {name: tables.get_buffer(f"{name}_components") for name in NUM_COMPONENTS},
            [tables.get_buffer(f"codebook_{i}") for i in range(len(CODEBOOK_STREAMS))],
        )


def nearest(vectors: torch.Tensor, codebook: torch.Tensor) -> torch.Tensor:
    """Index [N] of the codebook row [V, P] closest to each vector [N, P]."""
    half_norm = codebook.square().sum(1) / 2
    return torch.cat([(part @ codebook.T - half_norm).argmax(1) for part in torch.split(vectors, 16384)])


def k_means(
    vectors: torch.Tensor, size: int, iterations: int, generator: torch.Generator, start: torch.Tensor | None = None
) -> torch.Tensor:
    """Codebook [size, P] of ``vectors`` [N, P]; entries that lose all members restart at random vectors.

    ``start`` [size, P]: the codebook to improve, so that an entry goes on meaning about what it meant.
    """
    codebook = vectors[torch.randperm(len(vectors), generator=generator)[:size]] if start is None else start
    codebook = codebook.clone()
    for _ in range(iterations):
        code = nearest(vectors, codebook)
        count = torch.bincount(code, minlength=size)
        total = torch.zeros_like(codebook).index_add_(0, code, vectors)
        codebook = total / count.clamp(min=1)[:, None]
        dead = torch.nonzero(count == 0).flatten()
        codebook[dead] = vectors[torch.randint(len(vectors), (len(dead),), generator=generator)]
    return codebook


def fit(
    features: list[NDArray[np.float32]],
    size: int = CODEBOOK_SIZE,
    iterations: int = 25,
    seed: int = 1,
    start: Quantiser | None = None,
) -> Quantiser:
    """Fit all codebooks (``size`` entries each) on the takes' features; prints the error left after each stage.

    With ``start`` its means and components stay and its codebooks are improved: a decoder trained on it can go on.
    """
    generator = torch.Generator().manual_seed(seed)
    parts = [split_streams(take) for take in features]
    mean, components, residual = {}, {}, {}
    for name, count in NUM_COMPONENTS.items():
        vectors = torch.from_numpy(np.concatenate([part[name] for part in parts]))
        if start is None:
            mean[name] = vectors.mean(0)
            _, basis = torch.linalg.eigh(torch.cov(vectors.T, correction=0).double())
            components[name] = basis.flip(1)[:, :count].T.float().contiguous()
        else:
            mean[name], components[name] = start.mean[name], start.components[name]
        centred = vectors - mean[name]
        residual[name] = centred @ components[name].T
        variance = centred.square().sum(1).mean()
        kept = residual[name].square().sum(1).mean() / variance
        print(f"{name}: {count} components keep {kept:.4f} of variance {variance:.1f}", flush=True)
    codebooks = []
    for i, stream in enumerate(CODEBOOK_STREAMS):
        earlier = None if start is None else start.codebooks[i]
        codebook = k_means(residual[stream], size, iterations, generator, earlier)
        residual[stream] = residual[stream] - codebook[nearest(residual[stream], codebook)]
        codebooks.append(codebook)
        print(
            f"codebook {len(codebooks) - 1} ({stream}): error left {residual[stream].square().sum(1).mean():.3f}",
            flush=True,
        )
    return Quantiser(mean, components, codebooks)
