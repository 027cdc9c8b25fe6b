"""What the understudy is trained on is what the engine will show it: prompts, windows, elapsed units, pointer moves."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

from engine.config import ModelConfig
from engine.prompt import PromptBuilder
from engine.streams.aligned import AlignedStream
from engine.streams.aligned_symbols import AlignedSettings
from engine.streams.base import Demand, Frame
from engine.streams.turn_speech import AlignedTurn
from engine.text.words import Boundary, SpokenWord
from engine.train.data import CodedTake, ExampleBuilder, split_take
from engine.train.recipe import (
    ALPHABET,
    NUM_CODEBOOKS,
    SIL,
    aligned_prefix,
    build_tokenizer,
    model_config,
    symbol_ids,
    turn_prefix,
)

SENTENCES = ("hWˈɑɹ jˈu, mI fɹˈɛnd?", "ˈIm fˈIn!")


class NoChance:
    """A random generator that leaves everything as it is."""

    def integers(self, low: int, high: int) -> int:
        return low

    def random(self) -> float:
        return 0.99

    def choice(self, count: int, p: Sequence[float]) -> int:
        return self.cuts

    def permutation(self, values: Sequence[int]) -> NDArray[np.int64]:
        return np.array(values)

    cuts = 0


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return build_tokenizer()


@pytest.fixture(scope="module")
def config() -> ModelConfig:
    return model_config(hidden=128, layers=4)


@pytest.fixture(scope="module")
def builder(config: ModelConfig, tokenizer: Tokenizer) -> ExampleBuilder:
    return ExampleBuilder(config, tokenizer, cast(Any, NoChance()))


def take(phonemes: str, seed: int) -> CodedTake:
    """A take of random durations, two units of silence before it and an even number of units in all."""
    rng = np.random.default_rng(seed)
    durations = np.concatenate([[2], rng.integers(1, 9, len(phonemes)), [2]])
    durations[-1] += durations.sum() % 2
    frames = int(durations.sum()) // 2
    codes = rng.integers(0, 1024, (frames, NUM_CODEBOOKS))
    nearest = np.zeros((frames, NUM_CODEBOOKS, 8))
    symbols = np.array([SIL, *symbol_ids(phonemes), SIL])
    return CodedTake(1, phonemes, symbols, durations, codes, nearest.astype(np.int16), nearest.astype(np.float16))


def words_of(sentence: str) -> list[SpokenWord]:
    parts = sentence.split(" ")
    ends = [Boundary.NONE] * (len(parts) - 1) + [Boundary.SENTENCE]
    return [SpokenWord(p, p, 0, 1, p, boundary) for p, boundary in zip(parts, ends, strict=True)]


@pytest.mark.parametrize("seed", range(5))
def test_windows_and_moves_of_the_teachers_path(builder: ExampleBuilder, config: ModelConfig, seed: int) -> None:
    takes = [take(sentence, seed + i) for i, sentence in enumerate(SENTENCES)]
    example = builder.aligned_example(takes)
    assert config.aligned is not None
    settings = AlignedSettings(
        ALPHABET, look_behind=config.aligned.look_behind, look_ahead=config.aligned.look_ahead, end_frames=50
    )
    stream = AlignedStream(settings, trims_end=False)
    for sentence in SENTENCES:
        stream.add(words_of(sentence))
    stream.finish()
    for row in np.flatnonzero(example.has_window):
        assert stream.demand() is Demand.DECODE
        guide = stream.guide()
        assert guide.window is not None
        assert guide.moves is not None
        assert list(guide.window.symbols) == example.symbols[row].tolist()
        assert list(guide.window.elapsed) == example.elapsed[row].tolist()
        move = int(example.pointer[row])
        if move < 0:
            break
        assert guide.moves[move]
        stream.accept(Frame(codes=(0,), move=move))
    assert row == np.flatnonzero(example.has_window)[-1]


@pytest.mark.parametrize("cuts", [0, 1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_turns_show_what_speaking_them_will(config: ModelConfig, tokenizer: Tokenizer, seed: int, cuts: int) -> None:
    chance = NoChance()
    chance.cuts = cuts
    builder = ExampleBuilder(config, tokenizer, cast(Any, chance))
    takes = [take(sentence, seed + i) for i, sentence in enumerate(SENTENCES)]
    example = builder.turn_example(takes)
    ends = np.flatnonzero(example.frame == -2).tolist()
    assert len(ends) == 2 + cuts + min(cuts, 1), "the second sentence has one place to cut"
    assert (example.frame >= 0).sum() == sum(len(t.codes) for t in takes)
    decode = [tokenizer.decode([token], skip_special_tokens=False) for token in example.rows[:, 0]]
    start = 0
    assert config.aligned is not None
    settings = AlignedSettings(ALPHABET, config.aligned.look_behind, config.aligned.look_ahead, end_frames=50)
    for end in ends:
        rows = start + np.flatnonzero(example.has_window[start : end + 1])
        assert (np.diff(rows) == 1).all()
        prompt = "".join(decode[start : rows[0] + 1])
        phonemes = prompt.rsplit("<|speaker:1|> ")[1].split("<|im_end|>")[0]
        turn = AlignedTurn(settings, words_of(phonemes))
        for row in rows:
            guide = turn.guide()
            assert guide.window is not None
            assert guide.moves is not None
            assert list(guide.window.symbols) == example.symbols[row].tolist(), (phonemes, row - rows[0])
            assert list(guide.window.elapsed) == example.elapsed[row].tolist()
            assert guide.is_end_allowed >= (row == end)
            if row < end:
                move = int(example.pointer[row])
                assert guide.moves[move]
                turn.accept(Frame(codes=(0,), move=move))
        start = end + 1


@pytest.mark.parametrize("seed", range(20))
def test_a_cut_loses_no_frame_and_no_symbol(seed: int) -> None:
    whole = take(SENTENCES[0], seed)
    for space in (i for i, symbol in enumerate(whole.phonemes) if symbol == " "):
        halves = split_take(whole, space)
        assert halves is not None
        assert " ".join(half.phonemes for half in halves) == whole.phonemes
        assert np.array_equal(np.concatenate([half.codes for half in halves]), whole.codes)
        for half in halves:
            assert half.symbols.tolist() == [SIL, *symbol_ids(half.phonemes), SIL]
            assert half.durations.min() >= 1
            assert half.durations.sum() == 2 * len(half.codes)
        assert halves[1].durations[0] >= 2, "an utterance begins with a frame of silence"


def test_prompts(config: ModelConfig, tokenizer: Tokenizer) -> None:
    prompts = PromptBuilder(tokenizer, config)
    system = prompts.system_block()[:, 0].tolist()
    tag, phonemes = "<|speaker:2|> ", SENTENCES[0]
    assert [*system, *prompts.turn_ids(tag)] == aligned_prefix(tokenizer, 2)
    assert [*system, *prompts.turn_ids(tag + phonemes)] == turn_prefix(tokenizer, 2, phonemes, is_first=True)
    assert prompts.continuation_ids(tag + phonemes, is_closed=False) == turn_prefix(
        tokenizer, 2, phonemes, is_first=False
    )
