"""Training examples: takes on the frame grid, joined, cut and batched.

Axes: F frames, U = 2F units, C codebooks, N nearest codes kept per target. Frame f covers units 2f (A) and 2f + 1 (B).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from engine.codec.vocoder import LOG_F0, VOICED
from engine.config import ModelConfig
from engine.model.aligned import AlignedWindow
from engine.train.features import SUBFRAMES_PER_UNIT, Take
from engine.train.quantiser import Quantiser
from engine.train.recipe import SIL, TEACHER_VOICES, aligned_prefix, symbol_ids, turn_prefix

NUM_NEAREST = 8
CLAUSE_CUTS = (0.4, 0.4, 0.2)
"""How often a take in turn form is left whole, cut once, cut twice."""
SOFTNESS = 0.25
"""A target's weight falls by e for this share of the stage's mean squared error."""
TEMPI = (0.9, 1.12)
"""How much longer a take may become: durations are what is learned by heart first."""

LATER_SHARE = 0.3
"""Takes that begin a unit later: the other half of the frame grid, but seldom enough that speech begins at once."""


@dataclass(frozen=True)
class CodedTake:
    """A take ready for training: ``codes`` [F, C], soft targets ``nearest`` [F, C, N] with ``weights``, its text."""

    voice: int
    phonemes: str
    symbols: NDArray[np.int64]
    """[SIL, *phonemes, SIL] as aligned-stream ids."""
    durations: NDArray[np.int64]
    """Units of each symbol; they sum to 2F."""
    codes: NDArray[np.int64]
    nearest: NDArray[np.int16]
    weights: NDArray[np.float16]


def vary(take: Take, rng: np.random.Generator) -> Take:
    """The same speech on another frame grid, a shade faster, higher or louder: new codes for the same text.

    Half of the takes keep their tempo. The grid of some moves by a whole unit, which durations follow exactly, and by a
    quarter of one either way.
    """
    if rng.random() < 0.5:
        take = at_tempo(take, rng.uniform(*TEMPI))
    features, durations = take.features, list(take.durations)
    if rng.random() < LATER_SHARE:
        features = np.concatenate([features[:1].repeat(SUBFRAMES_PER_UNIT, axis=0), features])
        durations[0] += 1
    jitter = int(rng.integers(-1, 2))
    features = np.concatenate([features[:1], features]) if jitter < 0 else features[jitter:]
    features = features.copy()
    features[:, 0] += rng.normal(0, 0.12)
    features[:, LOG_F0] += rng.normal(0, 0.015)
    return replace(take, features=features, durations=tuple(durations))


def at_tempo(take: Take, stretch: float) -> Take:
    """``take`` lasting ``stretch`` times as long at the same pitch; durations stay whole units, at least one."""
    ends = [0]
    for end in np.cumsum(take.durations):
        ends.append(max(round(float(end) * stretch), ends[-1] + 1))
    old, count = np.arange(len(take.features)), ends[-1] * SUBFRAMES_PER_UNIT
    at = np.linspace(0, len(take.features) - 1, count)
    features = np.stack([np.interp(at, old, track) for track in take.features.T], axis=1).astype(np.float32)
    features[:, VOICED] = features[:, VOICED] > 0.5
    return replace(take, features=features, durations=tuple(int(d) for d in np.diff(ends)))


def encode_take(take: Take, quantiser: Quantiser) -> CodedTake:
    """Quantise a take; the last symbol (SIL) is stretched or cut so that durations fill whole frames."""
    codes, targets = quantiser.encode(take.features)
    nearest, weights = [], []
    for target, codebook in zip(targets, quantiser.codebooks, strict=True):
        distance = torch.cdist(target, codebook).square()
        best, index = distance.topk(NUM_NEAREST, largest=False)
        scale = SOFTNESS * best[:, 0].mean().clamp(min=1e-6)
        nearest.append(index)
        weights.append(torch.softmax(-best / scale, dim=1))
    durations = np.array(take.durations, np.int64)
    frames = len(codes)
    overhang = int(durations.sum()) - 2 * frames
    if overhang > 0:
        # An odd unit at the end: the last symbol that can spare it gives it up.
        durations[np.flatnonzero(durations > overhang)[-1]] -= overhang
    else:
        durations[-1] -= overhang
    assert durations.sum() == 2 * frames, (durations, frames)
    assert durations.min() >= 1, durations
    return CodedTake(
        voice=TEACHER_VOICES[take.voice],
        phonemes=take.phonemes,
        symbols=np.array([SIL, *symbol_ids(take.phonemes), SIL], np.int64),
        durations=durations,
        codes=codes.numpy(),
        nearest=torch.stack(nearest, 1).to(torch.int16).numpy(),
        weights=torch.stack(weights, 1).to(torch.float16).numpy(),
    )


def split_take(take: CodedTake, space: int) -> tuple[CodedTake, CodedTake] | None:
    """``take`` as two clauses, cut at the frame nearest to the end of the space ``phonemes[space]``.

    The first clause gets a closing SIL and the second an opening one, of at least one unit and one frame; where the
    speech runs on without a pause, its neighbours' units are relabelled for it. None: too short to cut there.
    """
    symbol = space + 1  # in ``symbols``, behind the opening SIL
    at = np.repeat(np.arange(len(take.symbols)), take.durations)
    cut = round(float(take.durations[: symbol + 1].sum()) / 2)
    before, after = at[: 2 * cut].copy(), at[2 * cut :] - symbol
    if min(len(before), len(after)) < 4:
        return None
    # Each label moves by one symbol a unit at most, from the opening SIL (0) and to the closing one.
    before = np.minimum(before, symbol)
    before[-1] = symbol
    for unit in range(len(before) - 2, -1, -1):
        before[unit] = max(before[unit], before[unit + 1] - 1)
    after = np.maximum(after, 0)
    after[:2] = 0
    for unit in range(2, len(after)):
        after[unit] = min(after[unit], after[unit - 1] + 1)
    if before[0] != 0 or after[-1] != len(take.symbols) - 1 - symbol:
        return None
    halves = []
    for labels, symbols, phonemes, frames in (
        (before, [*take.symbols[:symbol], SIL], take.phonemes[:space], slice(0, cut)),
        (after, [SIL, *take.symbols[symbol + 1 :]], take.phonemes[space + 1 :], slice(cut, None)),
    ):
        durations = np.bincount(labels, minlength=len(symbols)).astype(np.int64)
        half = replace(take, phonemes=phonemes, symbols=np.array(symbols, np.int64), durations=durations)
        codes, nearest, weights = take.codes[frames], take.nearest[frames], take.weights[frames]
        halves.append(replace(half, codes=codes, nearest=nearest, weights=weights))
    return halves[0], halves[1]


@dataclass
class Example:
    """One sequence of T rows; everything is indexed by the row that *predicts* (row t predicts frame of row t + 1)."""

    rows: NDArray[np.int64]
    symbols: NDArray[np.int64]
    elapsed: NDArray[np.int64]
    has_window: NDArray[np.bool_]
    voice: int
    frame: NDArray[np.int64]
    """[T]: index into ``nearest`` of the predicted frame, -1 where a text row follows, -2 where the turn ends."""
    nearest: NDArray[np.int16]
    weights: NDArray[np.float16]
    pointer: NDArray[np.int64]
    """[T]: class of the move to the frame after the predicted one, -1 where there is none."""


class ExampleBuilder:
    """Builds examples of both text streams from coded takes."""

    def __init__(self, config: ModelConfig, tokenizer: Tokenizer, rng: np.random.Generator) -> None:
        assert config.aligned is not None
        self.config, self.aligned, self.tokenizer, self.rng = config, config.aligned, tokenizer, rng

    def aligned_example(self, takes: list[CodedTake]) -> Example:
        """Takes of one voice spoken in a row, text beside the audio, sometimes with the future text hidden."""
        takes = [self._rested(take) for take in takes]
        symbols, durations = takes[0].symbols, takes[0].durations
        for take in takes[1:]:
            joined = np.array([durations[-1] + take.durations[0]])
            symbols = np.concatenate([symbols, take.symbols[1:]])
            durations = np.concatenate([durations[:-1], joined, take.durations[1:]])
        codes = np.concatenate([take.codes for take in takes])
        window, elapsed, moves, at = self._pointer(symbols, durations)
        c = self.aligned
        if self.rng.random() < 0.35:
            cut = self.rng.integers(1, len(symbols) + 1)
            b = at[:, 1:]
            hidden = (b + np.arange(1, c.look_ahead + 1) > cut) & (b <= cut)
            window[:, -c.look_ahead :][hidden] = 0

        prefix = aligned_prefix(self.tokenizer, takes[0].voice)
        first = len(prefix) - 1
        rows = self._rows([(prefix, codes)])
        example = self._empty(rows, takes)
        example.frame[first : first + len(codes)] = np.arange(len(codes))
        example.frame[first + len(codes)] = -2
        example.pointer[first : first + len(codes)] = moves
        example.symbols[first : first + len(codes)] = window
        example.elapsed[first : first + len(codes)] = elapsed
        example.has_window[first : first + len(codes)] = True
        return example

    def _rested(self, take: CodedTake) -> CodedTake:
        """``take`` with its closing silence held for up to four more frames, as when text is late or ends."""
        frames = int(self.rng.integers(0, 5))
        durations = take.durations.copy()
        durations[-1] += 2 * frames

        def held(values: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([values, values[-1:].repeat(frames, axis=0)])

        nearest, weights = held(take.nearest), held(take.weights)
        return replace(take, durations=durations, codes=held(take.codes), nearest=nearest, weights=weights)

    def _pointer(self, symbols: NDArray[np.int64], durations: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """Per frame: window [F, W] of symbol ids, units elapsed [F, 2], move to the next frame [F], place [F, 2]."""
        at = np.repeat(np.arange(len(symbols)), durations).reshape(-1, 2)
        starts = np.cumsum(durations) - durations
        elapsed = np.arange(len(at) * 2).reshape(-1, 2) - starts[at]
        moves = np.full(len(at), -1)
        moves[:-1] = 2 * (at[1:, 0] != at[:-1, 1]) + (at[1:, 1] != at[1:, 0])
        c = self.aligned
        padded = np.concatenate([np.zeros(c.look_behind, np.int64), symbols, np.zeros(c.look_ahead + 1, np.int64)])
        behind = np.arange(c.look_behind)
        ahead = np.arange(1, c.look_ahead + 1) + c.look_behind
        a, b = at[:, :1], at[:, 1:]
        places = [a + behind, a + c.look_behind, b + c.look_behind, b + ahead]
        window = np.concatenate([padded[place] for place in places], axis=1)
        return window, elapsed, moves, at

    def turn_example(self, takes: list[CodedTake]) -> Example:
        """Takes of one voice as turns: text rows, then audio rows that see the symbols of their own turn only.

        Some takes are cut into clauses at random words: a turn then goes on in the middle of a sentence.
        """
        turns = [turn for take in takes for turn in self._clauses(self._rested(take))]
        parts = []
        for i, turn in enumerate(turns):
            parts.append((turn_prefix(self.tokenizer, turn.voice, turn.phonemes, is_first=i == 0), turn.codes))
        example = self._empty(self._rows(parts), turns)
        row = done = 0
        for (prefix, codes), turn in zip(parts, turns, strict=True):
            row += len(prefix)
            example.frame[row - 1 : row - 1 + len(codes)] = done + np.arange(len(codes))
            # The row that tells the end sees the closing silence go on, as it will when speaking.
            resting = turn.durations.copy()
            resting[-1] += 2
            window, elapsed, moves, _ = self._pointer(turn.symbols, resting)
            spoken = slice(row - 1, row + len(codes))
            example.symbols[spoken], example.elapsed[spoken], example.pointer[spoken] = window, elapsed, moves
            example.has_window[spoken] = True
            row, done = row + len(codes), done + len(codes)
            example.frame[row - 1] = -2
        return example

    def _clauses(self, take: CodedTake) -> list[CodedTake]:
        """``take`` whole, or cut between words into two or three clauses."""
        spaces = [i for i, symbol in enumerate(take.phonemes) if symbol == " "]
        cuts = int(self.rng.choice(3, p=CLAUSE_CUTS))
        picked = sorted(self.rng.permutation(spaces)[:cuts].tolist())
        pieces = []
        for place in reversed(picked):
            halves = split_take(take, place)
            if halves is not None:
                take, rest = halves
                pieces.append(rest)
        return [take, *reversed(pieces)]

    def _rows(self, parts: list[tuple[list[int], NDArray[np.int64]]]) -> NDArray[np.int64]:
        start = self.config.semantic_start_token_id
        pieces = []
        for prefix, codes in parts:
            text = np.zeros((len(prefix), 1 + codes.shape[1]), np.int64)
            text[:, 0] = prefix
            pieces += [text, np.concatenate([start + codes[:, :1], codes], axis=1)]
        return np.concatenate(pieces)

    def _empty(self, rows: NDArray[np.int64], takes: list[CodedTake]) -> Example:
        count = len(rows)
        return Example(
            rows=rows,
            symbols=np.zeros((count, self.aligned.window), np.int64),
            elapsed=np.zeros((count, 2), np.int64),
            has_window=np.zeros(count, np.bool_),
            voice=takes[0].voice,
            frame=np.full(count, -1, np.int64),
            nearest=np.concatenate([take.nearest for take in takes]),
            weights=np.concatenate([take.weights for take in takes]),
            pointer=np.full(count, -1, np.int64),
        )


@dataclass(frozen=True)
class Batch:
    """Right-padded examples as tensors; targets are gathered at the rows that predict a frame.

    ``at`` [P] flat index (b * T + t) of each row that predicts a frame; ``nearest``, ``weights`` [P, C, N];
    ``ends`` [Q] flat index of rows whose turn ends; ``moves_at`` [M], ``moves`` [M] for the pointer.
    """

    rows: torch.Tensor
    window: AlignedWindow
    at: torch.Tensor
    nearest: torch.Tensor
    weights: torch.Tensor
    ends: torch.Tensor
    moves_at: torch.Tensor
    moves: torch.Tensor


def collate(examples: list[Example]) -> Batch:
    """Pad to the longest example."""
    longest = max(len(e.rows) for e in examples)

    def pad(name: str) -> torch.Tensor:
        parts = [getattr(e, name) for e in examples]
        return torch.from_numpy(np.stack([np.pad(p, [(0, longest - len(p))] + [(0, 0)] * (p.ndim - 1)) for p in parts]))

    at, ends, moves_at, nearest, weights, moves = [], [], [], [], [], []
    for i, e in enumerate(examples):
        rows = np.flatnonzero(e.frame >= 0)
        at.append(i * longest + rows)
        nearest.append(e.nearest[e.frame[rows]])
        weights.append(e.weights[e.frame[rows]])
        ends.append(i * longest + np.flatnonzero(e.frame == -2))
        moving = np.flatnonzero(e.pointer >= 0)
        moves_at.append(i * longest + moving)
        moves.append(e.pointer[moving])
    voice = torch.tensor([e.voice for e in examples])[:, None].expand(-1, longest)
    window = AlignedWindow(pad("symbols"), pad("elapsed"), voice, pad("has_window"))
    flat = [torch.from_numpy(np.concatenate(x)) for x in (at, nearest, weights, ends, moves_at, moves)]
    return Batch(pad("rows"), window, flat[0], flat[1].long(), flat[2].float(), flat[3], flat[4], flat[5])


class Sampler:
    """Endless batches of about ``rows_per_batch`` rows: one to three takes of a voice an example."""

    def __init__(
        self,
        takes: list[CodedTake],
        builder: ExampleBuilder,
        rows_per_batch: int,
        turn_share: float,
        max_rows: int = 400,
    ) -> None:
        self.builder, self.rows_per_batch, self.turn_share, self.max_rows = (
            builder,
            rows_per_batch,
            turn_share,
            max_rows,
        )
        self.by_voice = [[t for t in takes if t.voice == voice] for voice in range(len(TEACHER_VOICES))]
        self.share = np.array([sum(len(t.codes) for t in part) for part in self.by_voice], float)
        self.share /= self.share.sum()

    def example(self) -> Example:
        """One random example."""
        rng = self.builder.rng
        pool = self.by_voice[rng.choice(len(self.by_voice), p=self.share)]
        is_turn = rng.random() < self.turn_share
        budget = int(rng.integers(80, self.max_rows))
        takes: list[CodedTake] = []
        while True:
            take = pool[rng.integers(len(pool))]
            cost = len(take.codes) + (len(take.phonemes) if is_turn else 0)
            if takes and cost > budget:
                break
            takes.append(take)
            budget -= cost
            if budget < 40:
                break
        return self.builder.turn_example(takes) if is_turn else self.builder.aligned_example(takes)

    def batch(self) -> Batch:
        """The next batch, examples of similar length together."""
        pool = sorted((self.example() for _ in range(32)), key=lambda e: len(e.rows))
        start = int(self.builder.rng.integers(len(pool)))
        picked: list[Example] = []
        for example in pool[start:] + pool[:start][::-1]:
            picked.append(example)
            if max(len(e.rows) for e in picked) * len(picked) > self.rows_per_batch:
                break
        return collate(picked)
