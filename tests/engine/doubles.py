"""A decoder and a codec without weights, of the real ones' surface, whose every output shows its whole past.

With them, an engine that is real in all else.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.cache.base import Memory, pair_rows
from engine.cache.decoder import DecoderState
from engine.codec.speeds import Speeds
from engine.config import AlignedTextConfig, BackboneConfig, ModelConfig, TowerConfig
from engine.core import (
    AudioChunk,
    Cancelled,
    EngineEvent,
    Failed,
    Finished,
    ModelInfo,
    Policy,
    SamplingParams,
    Utterance,
    WordTiming,
)
from engine.engine import Engine
from engine.errors import StructuralTokenError
from engine.loading import ContextLimits, Parts
from engine.model.aligned import AlignedWindow
from engine.model.codebooks import ChooseCodes
from engine.model.decoder import Decoder
from engine.recall import Recalled
from engine.runner import Runner
from engine.scheduler import Scheduler
from engine.streams.aligned import AlignedStream
from engine.streams.aligned_symbols import AlignedSettings
from engine.streams.base import SpokenTurn, TextStream
from engine.streams.guards import GuardSettings
from engine.streams.guesses import Guessing
from engine.streams.turn_speech import AlignedTurn, GuessedTurn, TurnSettings
from engine.streams.turns import TurnStream
from engine.text.reader import Reader
from engine.text.render import render_phonemes
from engine.text.segment import ClauseCutter
from engine.voices.book import VoiceBook, VoicePrefix

SEMANTIC_START = 100
EOS = 99
CODEBOOKS, CODEBOOK_SIZE = 4, 32
SYMBOLS = " abcdefghijklmnopqrstuvwxyzAIOWYɑɐæɔðəɚɛɜɡɪŋɹʃʊʌʒʤʧˈˌθᵊᵻT;:,.!?—…"


def small_config(is_aligned: bool) -> ModelConfig:
    """The least a decoder can be."""
    backbone = BackboneConfig(
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=8,
        linear_num_key_heads=1,
        linear_key_head_dim=2,
        linear_num_value_heads=1,
        linear_value_head_dim=2,
        num_experts=2,
        num_experts_per_tok=1,
        moe_intermediate_size=4,
        shared_expert_intermediate_size=4,
        vocab_size=SEMANTIC_START + CODEBOOK_SIZE,
        max_position_embeddings=4096,
        layer_types=("linear_attention", "full_attention"),
    )
    tower = TowerConfig(
        dim=8,
        n_head=1,
        n_local_heads=1,
        head_dim=8,
        n_layer=1,
        intermediate_size=4,
        num_codebooks=CODEBOOKS,
        vocab_size=CODEBOOK_SIZE,
        vq_backbone_codebooks=1,
    )
    aligned = AlignedTextConfig(
        num_symbols=2 + len(SYMBOLS), embedding_dim=4, num_voices=3, max_elapsed=40, hidden_dim=8, look_ahead=4
    )
    return ModelConfig(backbone, tower, SEMANTIC_START, EOS, aligned if is_aligned else None)


class MockDecoder:
    """A chaotic number per sequence stands for all that a decoder remembers; logits are waves of it.

    ``fault``, if set, is called with the rows and the window of every step and may raise.
    """

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.fault: Callable[[Tensor, AlignedWindow | None], None] | None = None
        self.batch_sizes: list[int] = []
        """B of every call of ``backbone``."""
        self._waves = 1 + torch.arange(config.num_candidates, dtype=torch.float32).sqrt()
        self._weights = torch.arange(1, config.num_codebooks + 2, dtype=torch.float32).sqrt()

    def allocate(self, batch_size: int) -> DecoderState:
        return DecoderState.allocate(self.config, batch_size)

    def embed(self, rows: Tensor, aligned: AlignedWindow | None = None) -> Tensor:
        if self.fault is not None:
            self.fault(rows, aligned)
        x = (rows * self._weights).sum(-1)
        if aligned is not None:
            places = torch.arange(2, 2 + aligned.symbols.shape[-1], dtype=torch.float32).sqrt()
            seen = (aligned.symbols * places).sum(-1) + 0.7 * aligned.elapsed[..., 0] + 1.3 * aligned.elapsed[..., 1]
            x = x + (seen + 2.1 * aligned.voice) * aligned.mask
        return x[..., None] * 0.3137

    def backbone(self, x: Tensor, state: DecoderState, counts: list[int] | None = None) -> Tensor:
        assert counts is None
        self.batch_sizes.append(x.shape[0])
        memory = state.recurrent.matrix[0, :, 0, 0, 0]
        hidden = []
        for t in range(x.shape[1]):
            memory.copy_((3.9 * memory * (1 - memory) + x[:, t, 0]).frac().clamp(0.01, 0.99))
            hidden.append(memory.clone())
        state.kv.advance(state.kv.span(x.shape[1]))
        return torch.stack(hidden, 1)[..., None]

    def main_logits(self, hidden: Tensor) -> Tensor:
        return 3 * torch.sin(50 * hidden * self._waves)

    def main_token(self, candidate: Tensor) -> Tensor:
        return torch.where(candidate == CODEBOOK_SIZE, EOS, candidate + SEMANTIC_START)

    def pointer_logits(self, hidden: Tensor) -> Tensor:
        return 3 * torch.cos(70 * hidden * self._waves[:4])

    def prefill(
        self, rows: Tensor, state: DecoderState, counts: list[int] | None = None, aligned: AlignedWindow | None = None
    ) -> Tensor:
        hidden = self.backbone(self.embed(rows[:, :-1], aligned), state, counts)
        state.tower.advance(state.tower.span(hidden.shape[1]))
        return hidden

    def tower_step(
        self, rows: Tensor, hidden: Tensor, main: Tensor, state: DecoderState, choose: ChooseCodes
    ) -> Tensor:
        codes = [(main - SEMANTIC_START).clamp(0, CODEBOOK_SIZE - 1)]
        for i in range(1, CODEBOOKS):
            logits = 3 * torch.sin(
                (40 * hidden[:, 0] + codes[-1][:, None] + rows[:, 0, i + 1, None]) * self._waves[:-1]
            )
            codes.append(choose(logits, i))
        state.tower.advance(state.tower.span(1))
        return torch.stack((main, *codes), 1)


class SumMemory(Memory):
    """One running number per sequence, ``value`` [B]."""

    def __init__(self, value: Tensor) -> None:
        self.value = value

    @property
    def batch_size(self) -> int:
        return self.value.shape[0]

    @property
    def nbytes(self) -> int:
        return self.value.nbytes

    def reset(self, mask: Tensor) -> None:
        self.value[mask] = 0

    def truncate(self, lengths: Sequence[int]) -> None:
        raise AssertionError("never asked")

    def extract(self, rows: Sequence[int]) -> Self:
        return type(self)(self.value[list(rows)].clone())

    def restore(self, snapshot: Self, rows: Sequence[int] | None = None) -> None:
        for target, source in pair_rows(self.batch_size, snapshot.batch_size, rows):
            self.value[target] = snapshot.value[source]

    @classmethod
    def merge(cls, memories: Sequence[Self]) -> Self:
        return cls(torch.cat([memory.value for memory in memories]))


class SumCodec:
    """Samples are a decaying sum of all codes so far: any frame lost, doubled or swapped is heard ever after."""

    sample_rate = 24_000
    samples_per_frame = 1200
    device = torch.device("cpu")
    num_codebooks = CODEBOOKS
    speeds = Speeds(slowest=0.5, fastest=2.0, hop=150)

    def __init__(self, num_codebooks: int = CODEBOOKS) -> None:
        self.num_codebooks = num_codebooks

    def allocate(self, batch_size: int) -> SumMemory:
        return SumMemory(torch.zeros(batch_size))

    def decode_step(self, codes: Tensor, state: SumMemory, speed: float = 1.0) -> Tensor:
        ramp = torch.linspace(1, 0.5, 8 * self.speeds.samples(speed))
        weights = 1 / (1 + torch.arange(self.num_codebooks, dtype=torch.float32))
        pieces = []
        for frame in codes.unbind(-1):
            state.value.copy_(0.9 * state.value + 0.001 * (frame * weights).sum(1))
            pieces.append(state.value[:, None] * ramp)
        return torch.cat(pieces, 1)


class FakeClock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


VOICES = ("heart", "michael", "bella")


@dataclass
class Stage:
    """An engine and the parts a test may want to reach."""

    engine: Engine
    decoder: MockDecoder
    codec: SumCodec
    runner: Runner
    clock: FakeClock
    events: list[EngineEvent] = field(default_factory=list)

    def step(self) -> list[EngineEvent]:
        new = self.engine.step()
        self.events += new
        return new

    def run(self, most: int = 5000) -> list[EngineEvent]:
        """Steps as long as there is work; all events so far."""
        for _ in range(most):
            if not self.engine.has_work():
                return self.events
            self.step()
        raise AssertionError("the engine never came to rest")

    def say(self, utterance_id: str, text: str, voice: str = "heart", seed: int = 0) -> None:
        """Opens an utterance with all its text."""
        self.engine.add(Utterance(utterance_id, voice, sampling=SamplingParams(seed=seed)))
        self.engine.append_text(utterance_id, text)
        self.engine.finish(utterance_id)

    def of(self, utterance_id: str) -> list[EngineEvent]:
        return [event for event in self.events if event.utterance_id == utterance_id]

    def audio(self, utterance_id: str) -> NDArray[np.float32]:
        """All samples; checks that chunks follow each other without a gap."""
        chunks = [event for event in self.of(utterance_id) if isinstance(event, AudioChunk)]
        start = 0
        for chunk in chunks:
            assert chunk.first_sample == start
            start += len(chunk.samples)
        return np.concatenate([chunk.samples for chunk in chunks]) if chunks else np.zeros(0, np.float32)

    def words(self, utterance_id: str) -> list[WordTiming]:
        """Final times."""
        chunks = [event for event in self.of(utterance_id) if isinstance(event, AudioChunk)]
        final = {word.char_start: word for chunk in chunks for word in chunk.words}
        return [final[start] for start in sorted(final)]

    def ending(self, utterance_id: str) -> Finished | Cancelled | Failed:
        """The terminal event; checks that it is the only one and the last."""
        events = self.of(utterance_id)
        endings = [event for event in events if isinstance(event, Finished | Cancelled | Failed)]
        assert len(endings) == 1
        assert endings == events[-1:]
        return endings[0]


def stage(
    is_aligned: bool = True,
    max_batch: int = 8,
    max_lead_s: float = math.inf,
    limits: ContextLimits | None = None,
    guessing: Guessing | None = None,
    guards: GuardSettings | None = None,
    has_pointer: bool = True,
) -> Stage:
    """An engine on the mock decoder; with ``guessing``, in turns that see their own symbols if they have a pointer.

    Without ``guards``, no turn is too short and no pace too fast: the mock decoder draws them without a thought.
    """
    config = small_config(is_aligned or (guessing is not None and has_pointer))
    decoder, codec, clock = MockDecoder(config), SumCodec(), FakeClock()
    runner = Runner(cast(Decoder, decoder), codec, SamplingParams())
    prefixes = {}
    for i, name in enumerate(VOICES):
        rows = torch.zeros(5, 1 + CODEBOOKS, dtype=torch.int64)
        rows[:, 0] = torch.tensor([1, 2, 3, 10 + i, 4])
        prefixes[name] = VoicePrefix(rows, index=i)

    def make_stream(utterance: Utterance) -> TextStream:
        judge = guards or GuardSettings(fewest_ms_per_character=0, fewest_ms_per_sound=0)
        # With guesses, none is too long either.
        spare_ms = 2500 if guessing is None else 60_000
        settings = AlignedSettings(SYMBOLS, look_behind=2, look_ahead=4, speeds=SumCodec.speeds, speed=utterance.speed)
        if guessing is not None and has_pointer:
            settings = replace(settings, end_frames=6)
            cutter = ClauseCutter(Policy.CLAUSE)
            return TurnStream(50, cutter, partial(AlignedTurn, settings), render_phonemes, prompt, guessing, settle)
        if is_aligned:
            return AlignedStream(settings, guards=judge)
        open_turn = partial(GuessedTurn, TurnSettings(frame_ms=50, spare_ms=spare_ms), guards=judge)
        cutter = ClauseCutter(utterance.policy if guessing is None else Policy.CLAUSE)
        return TurnStream(50, cutter, open_turn, render_phonemes, prompt, guessing, settle)

    def settle(text: str, known: int, is_first: bool, is_closed: bool) -> tuple[int, ...]:
        return prompt(text[:known], is_first, is_closed)[:-1]

    def recall(utterance: Utterance, turn: SpokenTurn) -> Recalled:
        codes = torch.tensor(turn.codes)
        rows = torch.zeros(len(turn.text) + len(codes) + 4, 1 + CODEBOOKS, dtype=torch.int64)
        rows[: len(turn.text) + 3, 0] = torch.tensor(prompt(turn.text, True, False))
        rows[len(turn.text) + 3 : -1] = torch.cat((codes[:, :1] + SEMANTIC_START, codes), 1)
        rows[-1, 0] = 8
        before = len(turn.text) + 2
        return Recalled(rows, (*[None] * before, *turn.windows, *[None] * (len(codes) + 1 - len(turn.windows)), None))

    def prompt(text: str, is_first: bool, is_closed: bool) -> tuple[int, ...]:
        if "q" in text:
            raise StructuralTokenError("no q in prompts")
        return (5 + is_first, 7 + is_closed, *(20 + ord(c) % 60 for c in text), 4)

    can_hurry = is_aligned or guessing is not None
    speeds = (SumCodec.speeds.slowest, SumCodec.speeds.fastest) if can_hurry else (1.0, 1.0)
    info = ModelInfo("mock", 24_000, 1200, "aligned" if is_aligned else "turns", VOICES, speeds=speeds)
    parts = Parts(
        info,
        runner,
        VoiceBook(prefixes, runner.prepare),
        Reader(speeds=speeds).front,
        make_stream,
        limits or ContextLimits(),
        recall,
    )
    # With guesses, what a step takes decides how early a turn is begun.
    timer = time.perf_counter if guessing is None else clock
    engine = Engine(parts, Scheduler(max_batch, max_lead_s, clock), timer)
    return Stage(engine, decoder, codec, runner, clock)


def babble(
    engine: Engine, text: str, voice: str, size: int = 1000, policy: Policy = Policy.EAGER
) -> tuple[NDArray[np.float32], list[WordTiming]]:
    """Samples and words of a model that was never trained, ``text`` in pieces of ``size`` with steps in between.

    Such a model seldom ends a turn: the utterance then fails as bad speech when the turn's frames are used up.
    """
    engine.add(Utterance("babble", voice, policy=policy))
    events: list[EngineEvent] = []
    for start in range(0, len(text), size):
        engine.append_text("babble", text[start : start + size])
        events += engine.step()
    engine.finish("babble")
    while engine.has_work():
        events += engine.step()
    ending = events[-1]
    assert isinstance(ending, Finished) or (isinstance(ending, Failed) and ending.code == "bad_speech"), ending
    chunks = [event for event in events if isinstance(event, AudioChunk)]
    words = {word.char_start: word for chunk in chunks for word in chunk.words}
    return np.concatenate([chunk.samples for chunk in chunks]), [words[start] for start in sorted(words)]
