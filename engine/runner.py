"""Where bookkeeping meets tensors: prompt rows in, one frame for a batch, samples out.

Axes: B sequences, T rows, C codebooks, V codebook size, H hidden, W symbols of a window.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.bank import MemoryBank
from engine.cache.base import Memory
from engine.cache.decoder import DecoderPoint, DecoderState
from engine.codec.codec import Codec
from engine.core import SamplingParams
from engine.errors import FootlightsError
from engine.model.aligned import AlignedWindow
from engine.model.decoder import Decoder
from engine.recall import Recalled
from engine.sampler import Sampler, SamplerState
from engine.streams.base import Frame, Guide, Window
from engine.voices.book import ReadyVoice, VoicePrefix

T = TypeVar("T")
Samples = NDArray[np.float32]
NOTHING: Samples = np.zeros(0, np.float32)
ONLY_STAY = (True, False, False, False)


class NotFiniteError(FootlightsError):
    """The model computed something that is no number."""

    code = "internal"
    retryable = True


@dataclass
class Track:
    """The decoding of one utterance. Its memories lie in the runner's banks under ``key``."""

    key: int
    voice: int
    rows: int
    """Rows so far, the pending one included."""
    pending: Tensor
    """[1 + C]: the last row, which the backbone has not seen."""
    sampler: SamplerState
    ahead: tuple[int, ...] = ()
    """Token ids at the end of the rows that belong to a prompt of which the rest is not there yet."""


@dataclass(frozen=True)
class TrackSnapshot:
    """All that decides how a track goes on, but for the keys and values of its rows: those it still has itself.

    ``base`` holds them where the track has let go of them since (see ``Runner.renew``).
    """

    rows: int
    pending: Tensor
    sampler: SamplerState
    ahead: tuple[int, ...]
    decoder: DecoderPoint
    codec: Memory
    base: DecoderState | None = None

    @property
    def nbytes(self) -> int:
        """Bytes held, those of ``base`` not included: many snapshots share one."""
        return self.decoder.nbytes + self.codec.nbytes


class Runner:
    """Runs tracks. Errors of a batch are confined: it is taken back and its members run one by one.

    ``sampling`` is what an utterance gets that asks for nothing.
    """

    def __init__(self, decoder: Decoder, codec: Codec, sampling: SamplingParams, device: str = "cpu") -> None:
        self.decoder, self.codec, self.sampling = decoder, codec, sampling
        self.config = decoder.config
        self.sampler = Sampler(self.config)
        self._device = torch.device(device)
        self._keys = count()
        self._decoders: MemoryBank[DecoderState] = MemoryBank()
        self._codecs: MemoryBank[Any] = MemoryBank()
        self.prompt_rows = 0
        """Rows prefilled so far."""

    @property
    def nbytes(self) -> int:
        """Bytes of all tracks' memories."""
        return self._decoders.nbytes + self._codecs.nbytes

    # Life of a track

    @torch.inference_mode()
    def prepare(self, prefix: VoicePrefix) -> ReadyVoice:
        """Run a voice's rows through the decoder."""
        state, rows = self.decoder.allocate(1), prefix.rows.to(self._device)
        self.decoder.prefill(rows[None], state)
        self.prompt_rows += len(rows) - 1
        return ReadyVoice(prefix, rows[-1], state.snapshot())

    @torch.inference_mode()
    def open(self, voice: ReadyVoice, sampling: SamplingParams | None) -> Track:
        """A new track that goes on from a voice."""
        rows = voice.prefix.rows
        sampler = SamplerState(sampling or self.sampling)
        sampler.observe(rows[:, 0].tolist())
        track = Track(next(self._keys), voice.prefix.index, len(rows), voice.pending, sampler)
        self._decoders.put(track.key, voice.memory.snapshot())
        self._codecs.put(track.key, self.codec.allocate(1))
        return track

    def close(self, track: Track) -> None:
        """Let go of a track's memories."""
        self._decoders.drop(track.key)
        self._codecs.drop(track.key)

    @torch.inference_mode()
    def renew(self, track: Track, voice: ReadyVoice, recalled: Recalled | None = None) -> None:
        """Put the decoder back to the voice's rows, and turns behind them; codec and random numbers run on."""
        self._decoders.restore(track.key, voice.memory)
        track.rows, track.pending, track.ahead = len(voice.prefix.rows), voice.pending, ()
        if recalled is not None:
            rows = torch.cat((track.pending[None], recalled.rows.to(self._device)))
            beside = self._windows([[None, *recalled.windows[:-1]]], [track.voice])
            self.decoder.prefill(rows[None], self._decoders.gather([track.key]), aligned=beside)
            track.pending = rows[-1]
            track.rows += len(recalled.rows)
            track.sampler.observe(recalled.rows[:, 0].tolist())
            self.prompt_rows += len(recalled.rows)

    @torch.inference_mode()
    def keep(self, track: Track) -> DecoderState:
        """A copy of all the decoder remembers of the track: the ``base`` of snapshots that outlive a ``renew``."""
        return self._decoders.snapshot(track.key)

    @torch.inference_mode()
    def snapshot(self, track: Track) -> TrackSnapshot:
        """Where the track stands, to go back to. Small: no row is copied."""
        state, row = self._decoders.locate(track.key)
        codec = self._codecs.snapshot(track.key)
        return TrackSnapshot(track.rows, track.pending, track.sampler.copy(), track.ahead, state.point(row), codec)

    @torch.inference_mode()
    def restore(self, track: Track, snapshot: TrackSnapshot) -> None:
        """Go back to an earlier snapshot of this track; it stays as it is and may be restored again."""
        if snapshot.base is not None:
            self._decoders.restore(track.key, snapshot.base)
        state, row = self._decoders.locate(track.key)
        state.go_back(row, snapshot.decoder)
        self._codecs.restore(track.key, snapshot.codec)
        track.rows, track.pending, track.sampler = snapshot.rows, snapshot.pending, snapshot.sampler.copy()
        track.ahead = snapshot.ahead

    @torch.inference_mode()
    def replay(
        self, track: Track, guide: Guide, row: Tensor, heard: Sequence[tuple[int, ...]], speed: float = 1.0
    ) -> None:
        """Make a frame once more that is known to have become ``row`` [1 + C], and of which ``heard`` was vocoded."""
        state = self._decoders.gather([track.key])
        rows = track.pending[None, None]
        hidden = self.decoder.backbone(self.decoder.embed(rows, self._window([track], [guide])), state)
        self.decoder.tower_step(rows, hidden, row[None, 0], state, lambda _, codebook: row[None, 1 + codebook])
        track.pending = row
        track.rows += 1
        track.sampler.advance(int(row[0]))
        self.vocode([track], [heard], [speed])

    # Work

    @torch.inference_mode()
    def prefill(self, track: Track, token_ids: Sequence[int], is_ahead: bool = False) -> None:
        """Append text rows; the last one is pending then. ``is_ahead``: there is more to come of their prompt."""
        text = torch.zeros(len(token_ids), len(track.pending), dtype=torch.int64, device=self._device)
        text[:, 0] = torch.tensor(token_ids, device=self._device)
        rows = torch.cat((track.pending[None], text))
        self.decoder.prefill(rows[None], self._decoders.gather([track.key]))
        track.pending = rows[-1]
        track.rows += len(token_ids)
        track.ahead = (*track.ahead, *token_ids) if is_ahead else ()
        track.sampler.observe(token_ids)
        self.prompt_rows += len(token_ids)

    @torch.inference_mode()
    def decode_step(self, tracks: Sequence[Track], guides: Sequence[Guide]) -> list[Frame | Exception]:
        """The next frame of each track, or what kept it from one: such a track cannot go on."""
        if not tracks:
            return []
        state = self._decoders.gather([track.key for track in tracks])
        if len(tracks) == 1:
            return [_attempt(lambda: self._decode(tracks, guides, state)[0])]
        # The KV parts forget by length; what the recurrent part has overwritten has to be kept for that.
        lengths, tower_lengths, recurrent = state.kv.lengths, state.tower.lengths, state.recurrent.snapshot()
        try:
            return list(self._decode(tracks, guides, state))
        except Exception:
            state.kv.truncate(lengths)
            state.tower.truncate(tower_lengths)
            state.recurrent.restore(recurrent)
            return [self.decode_step([t], [g])[0] for t, g in zip(tracks, guides, strict=True)]

    def _decode(self, tracks: Sequence[Track], guides: Sequence[Guide], state: DecoderState) -> list[Frame]:
        """One step of a batch. Tracks change only at the end, when nothing can fail any more."""
        samplers = [track.sampler for track in tracks]
        rows = torch.stack([track.pending for track in tracks])[:, None]
        hidden = self.decoder.backbone(self.decoder.embed(rows, self._window(tracks, guides)), state)
        logits = self.decoder.main_logits(hidden)[:, 0]
        if not bool(logits.isfinite().all()):
            raise NotFiniteError("the decoder gave logits that are no numbers")
        main = self.sampler.main_tokens(logits, samplers, [guide.is_end_allowed for guide in guides])
        moves = self._moves(hidden, samplers, guides)
        frames = self.decoder.tower_step(
            rows, hidden, main, state, lambda logits, codebook: self.sampler.codes(logits, codebook, samplers)
        )
        out = []
        for track, pending, row, move in zip(tracks, frames, frames.tolist(), moves, strict=True):
            track.pending = pending
            track.rows += 1
            track.sampler.advance(row[0])
            out.append(Frame(tuple(row[1:]), is_end=row[0] == self.config.eos_token_id, move=move))
        return out

    def _window(self, tracks: Sequence[Track], guides: Sequence[Guide]) -> AlignedWindow | None:
        """The guides' windows as tensors; None when no guide has one."""
        return self._windows([[guide.window] for guide in guides], [track.voice for track in tracks])

    def _windows(self, windows: Sequence[Sequence[Window | None]], voices: Sequence[int]) -> AlignedWindow | None:
        """``windows`` [B][T] of sequences with ``voices`` [B] as tensors; None when no row has one."""
        aligned = self.config.aligned
        if aligned is None or not any(window for row in windows for window in row):
            return None
        blank = Window((0,) * aligned.window, (0, 0))
        packed = torch.tensor(
            [
                [[*(w or blank).symbols, *(w or blank).elapsed, voice] for w in row]
                for row, voice in zip(windows, voices, strict=True)
            ],
            device=self._device,
        )
        mask = torch.tensor([[window is not None for window in row] for row in windows], device=self._device)
        return AlignedWindow(packed[..., :-3], packed[..., -3:-1], packed[..., -1], mask)

    def _moves(self, hidden: Tensor, samplers: Sequence[SamplerState], guides: Sequence[Guide]) -> list[int]:
        if all(guide.moves is None for guide in guides):
            return [0] * len(guides)
        logits = self.decoder.pointer_logits(hidden)[:, 0]
        return self.sampler.moves(logits, samplers, [guide.moves or ONLY_STAY for guide in guides])

    @torch.inference_mode()
    def vocode(
        self,
        tracks: Sequence[Track],
        frames: Sequence[Sequence[tuple[int, ...]]],
        speeds: Sequence[float] | None = None,
    ) -> list[Samples | Exception]:
        """Samples of each track's next ``frames`` (any number of frames, each [C]), or what went wrong with it.

        ``speeds`` of the tracks, among those of the codec; None: all 1.
        """
        speeds = speeds or [1.0] * len(tracks)
        pieces: list[list[Samples]] = [[] for _ in tracks]
        errors: dict[int, Exception] = {}
        for i in range(max((len(each) for each in frames), default=0)):
            for speed in dict.fromkeys(speeds):
                # Nearly always every track has one frame; a frame held back makes it none, or two.
                members = [
                    b for b, each in enumerate(frames) if len(each) > i and b not in errors and speeds[b] == speed
                ]
                made = self._vocode_step([tracks[b] for b in members], [frames[b][i] for b in members], speed)
                for b, samples in zip(members, made, strict=True):
                    if isinstance(samples, Exception):
                        errors[b] = samples
                    else:
                        pieces[b].append(samples)
        return [errors.get(b) or (np.concatenate(p) if p else NOTHING) for b, p in enumerate(pieces)]

    def _vocode_step(
        self, tracks: Sequence[Track], codes: Sequence[tuple[int, ...]], speed: float
    ) -> list[Samples | Exception]:
        if not tracks:
            return []
        state = self._codecs.gather([track.key for track in tracks])
        batch = torch.tensor(codes, device=self.codec.device)[:, :, None]
        if len(tracks) == 1:
            return [_attempt(lambda: self._samples(batch, state, speed)[0])]
        before = state.snapshot()
        try:
            return list(self._samples(batch, state, speed))
        except Exception:
            state.restore(before)
            return [self._vocode_step([t], [c], speed)[0] for t, c in zip(tracks, codes, strict=True)]

    def _samples(self, codes: Tensor, state: Memory, speed: float) -> Samples:
        """[B, C, 1] -> [B, samples_per_frame / speed]."""
        samples = self.codec.decode_step(codes, state, speed).float()
        if not bool(samples.isfinite().all()):
            raise NotFiniteError("the codec gave samples that are no numbers")
        out: Samples = samples.clamp(-1, 1).cpu().numpy()
        return out


def _attempt(work: Callable[[], T]) -> T | Exception:
    try:
        return work()
    except Exception as error:
        return error
