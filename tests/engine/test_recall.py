"""What a renewed context begins with: turns kept while they are spoken, and chosen by the room there is."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.core import AudioChunk, Finished, Policy, SamplingParams, Utterance
from engine.engine import Engine
from engine.loading import ContextLimits, load_parts
from engine.prompt import PromptBuilder, load_tokenizer
from engine.recall import Recalled, fitting
from engine.runner import Runner, Track
from engine.scheduler import Scheduler
from engine.streams.base import Frame, Guide, SpokenTurn, Window
from engine.streams.history import Step, pinned, spoken_turn
from engine.voices.book import ReadyVoice
from tests.engine.doubles import FakeClock, SumCodec, stage

GOLDEN = Path(__file__).parents[1] / "golden" / "drama3-tiny" / "checkpoint-bf16"
TEXT = "The bell rang twice, and nobody came. Then it rang once more, and we all stood up. It was late."


def turn(text: str, frames: int = 1) -> SpokenTurn:
    return SpokenTurn(text, ((1, 2),) * frames, (None,) * (frames + 1))


def rows(count: int) -> Recalled:
    return Recalled(torch.zeros(count, 3, dtype=torch.int64), (None,) * count)


def test_the_first_and_the_previous_turn_are_pinned() -> None:
    turns = [turn(letter) for letter in "abcd"]
    texts = ["".join(each.text for each in pinned(turns[:n])) for n in range(5)]
    assert texts == ["", "a", "ab", "ac", "ad"]
    kept: tuple[SpokenTurn, ...] = ()
    for each in turns:
        kept = pinned([*kept, each])
    assert [each.text for each in kept] == ["a", "d"]


def test_a_turn_is_its_frames_with_the_window_each_was_made_under() -> None:
    windows = [Window((i,), (0, 0)) for i in range(4)]
    made: Step | None = None
    for i, window in enumerate(windows):
        made = Step(made, window, ((i,),) if i < 3 else ())
    assert spoken_turn("abc", made) == SpokenTurn("abc", ((0,), (1,), (2,)), tuple(windows))
    # One that was left before the model could end it has no window beside its last frame.
    assert made is not None
    assert spoken_turn("abc", made.before) == SpokenTurn("abc", ((0,), (1,), (2,)), (*windows[:3], None))


def test_a_turn_without_a_sound_or_a_text_is_none() -> None:
    assert spoken_turn("abc", None) is None
    assert spoken_turn("abc", Step(None, None)) is None
    assert spoken_turn(" ", Step(None, None, ((1,),))) is None


@pytest.mark.parametrize(("room", "kept"), [(100, [30, 60]), (90, [30, 60]), (89, [30]), (30, [30]), (29, [])])
def test_what_fits_is_kept_the_first_before_the_last(room: int, kept: list[int]) -> None:
    assert [len(each.rows) for each in fitting([rows(30), rows(60)], room)] == kept


def test_where_the_first_is_too_long_the_last_is_kept() -> None:
    assert [len(each.rows) for each in fitting([rows(60), rows(30)], 40)] == [30]


def context(runner: Runner, track: Track) -> list[Tensor]:
    memory = runner._decoders.snapshot(track.key)
    return [memory.recurrent.matrix, memory.kv.keys, memory.kv.values, memory.tower.keys, track.pending]


class TestGolden:
    """The tiny Drama 3: a renewed context is, to the number, the prompt that the specification asks for."""

    @torch.inference_mode()
    def test_the_context_is_the_prompt_with_the_pinned_history(self, monkeypatch: pytest.MonkeyPatch) -> None:
        parts = load_parts(GOLDEN, codec=SumCodec(4))
        builder = PromptBuilder(load_tokenizer(GOLDEN / "tokenizer.json"), parts.runner.config)
        parts = replace(parts, limits=ContextLimits(renew_rows=230, most_rows=4000))
        engine = Engine(parts, Scheduler(4, float("inf"), FakeClock()))
        runner, frames_of_turn = engine.runner, 0
        made, renew = runner.decode_step, runner.renew

        def decode_step(tracks: Sequence[Track], guides: Sequence[Guide]) -> list[Frame | Exception]:
            """A model with random weights would not end its turns."""
            nonlocal frames_of_turn
            frames_of_turn = (frames_of_turn + 1) % 25
            frames = made(tracks, guides)
            return [replace(f, is_end=not frames_of_turn) if isinstance(f, Frame) else f for f in frames]

        renewals = list[tuple[tuple[SpokenTurn, ...], list[Tensor], list[int]]]()

        def note(track: Track, voice: ReadyVoice, recalled: Recalled | None = None) -> None:
            renew(track, voice, recalled)
            history = engine._sequences["u"].stream.history
            renewals.append((history, context(runner, track), list(track.sampler.recent)))

        monkeypatch.setattr(runner, "decode_step", decode_step)
        monkeypatch.setattr(runner, "renew", note)
        engine.add(Utterance("u", "default", policy=Policy.CLAUSE, sampling=SamplingParams(seed=3)))
        engine.append_text("u", TEXT * 3)
        engine.finish("u")
        events = []
        while engine.has_work():
            events += engine.step()
        assert isinstance(events[-1], Finished), events[-1]
        assert len(renewals) >= 2
        words = [w.text for e in events if isinstance(e, AudioChunk) for w in e.words]
        assert set(TEXT.split()) == set(words)

        voice = parts.voices.ready("default")
        for history, memory, recent in renewals:
            assert [turn.text for turn in history][0] == "The bell rang twice,"
            codes = [(turn.text, torch.tensor(turn.codes).t()) for turn in history]
            prompt = builder.prompt("ignored", history=codes)[: -len(builder.turn("ignored"))]
            fresh = runner.open(voice, None)
            state = runner._decoders.gather([fresh.key])
            runner.decoder.prefill(prompt[None, len(voice.prefix.rows) - 1 :], state)
            fresh.pending = prompt[-1]
            for one, other in zip(memory, context(runner, fresh), strict=True):
                torch.testing.assert_close(one, other, rtol=0, atol=0)
            assert recent == prompt[-len(recent) :, 0].tolist()
            runner.close(fresh)


def speak(renew_rows: int, recalls: bool = True) -> tuple[np.ndarray, list[int]]:
    opened = stage(is_aligned=False, limits=ContextLimits(renew_rows=renew_rows, most_rows=4000))
    if not recalls:
        opened.engine._rows._recall = None
    opened.say("u", TEXT * 4)
    lengths = []
    while opened.engine.has_work():
        opened.step()
        lengths += [sequence.track.rows for sequence in opened.engine._sequences.values()]
    assert isinstance(opened.ending("u"), Finished)
    assert [word.text for word in opened.words("u")] == (TEXT * 4).replace(".The", ". The").split()
    return opened.audio("u"), lengths


def falls(lengths: list[int]) -> list[int]:
    """Rows of the context after each time that it was renewed."""
    return [after for before, after in pairwise(lengths) if after < before]


def test_speech_goes_on_from_other_rows_than_without_a_history() -> None:
    with_history, rows_with = speak(300)
    without, rows_without = speak(300, recalls=False)
    assert falls(rows_with)
    assert min(falls(rows_with)) > min(falls(rows_without))
    assert not np.array_equal(with_history[: len(without)], without[: len(with_history)])
