"""Rows of a prompt that is not whole yet: which they are, and that speech is the same as without them."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import ModelConfig
from engine.context_rows import AHEAD_ROWS
from engine.core import Utterance
from engine.loading import load_parts
from engine.prompt import PromptBuilder, load_tokenizer
from engine.rewind import Prompt
from engine.runner import Runner, Track
from engine.streams.base import Guide
from engine.streams.turns import TurnStream
from engine.train.recipe import ALPHABET, build_tokenizer, model_config
from engine.voices.book import ReadyVoice
from tests.engine.doubles import VOICES, SumCodec, stage
from tests.engine.test_rewind import Listener

GOLDEN = Path(__file__).parents[1] / "golden" / "drama3-tiny" / "checkpoint-bf16"
TEXT = "I told the old captain of our ship that nobody on the island had seen him since the winter"
BUILDERS = {
    "bytes": PromptBuilder(load_tokenizer(GOLDEN / "tokenizer.json"), ModelConfig.from_file(GOLDEN / "config.json")),
    "phonemes": PromptBuilder(build_tokenizer(), model_config(hidden=128, layers=4)),
}
LETTERS = {"bytes": "ab é你'sl.!,-1 \n\t\u00a0🙂", "phonemes": ALPHABET}


class TestSettledIds:
    @pytest.mark.parametrize("kind", BUILDERS)
    @given(data=st.data(), is_first=st.booleans(), is_closed=st.booleans())
    @settings(max_examples=150, deadline=None)
    def test_no_text_behind_changes_them(self, kind: str, data: st.DataObject, is_first: bool, is_closed: bool) -> None:
        builder, letters = BUILDERS[kind], st.text(LETTERS[kind], max_size=12)
        known = data.draw(st.sampled_from(["so ", "so a", "<|speaker:2|> x"])) + data.draw(letters)
        text = known + data.draw(st.sampled_from(["", " and"]))
        settled = builder.settled_ids(text, len(known), is_first, is_closed)
        for rest in ("", " " + data.draw(letters)):
            ids = builder.turn_ids(known + rest)
            if not is_first:
                ids = builder.continuation_ids(known + rest, is_closed)
            assert ids[: len(settled)] == settled

    @pytest.mark.parametrize("kind", BUILDERS)
    def test_all_words_but_an_open_one_are_settled(self, kind: str) -> None:
        builder, text = BUILDERS[kind], "sə ðə kæt ɪz"
        whole = builder.turn_ids("sə ðə kæt")
        closing = len(builder.token_ids("<|im_end|>\n", "<|im_start|>assistant\n<|voice|>"))
        assert builder.settled_ids(text, len("sə ðə kæt"), True, False) == whole[:-closing]
        open_word = builder.settled_ids(text, len("sə ðə kæ"), True, False)
        assert open_word == builder.turn_ids("sə ðə")[:-closing]


def spoken(pieces: Sequence[str], neighbours: int = 0, seed: int = 0) -> tuple[Listener, int]:
    """A text in pieces, all steps taken in between; and the most rows that were ahead of their prompt."""
    opened = stage(is_aligned=False)
    listener = Listener(opened, seed=seed)
    for voice in VOICES[:neighbours]:
        opened.say(voice, TEXT * 4, voice)
    most = 0
    for piece in pieces:
        listener.append(piece)
        for _ in range(30):
            listener.step(0.01)
            most = max(most, len(opened.engine._sequences["u"].track.ahead))
    listener.finish()
    return listener, most


class TestSpeech:
    @pytest.mark.parametrize("neighbours", [0, 2])
    def test_is_the_same_wherever_the_text_is_cut(self, neighbours: int) -> None:
        whole, none = spoken([TEXT], neighbours)
        words = TEXT.split(" ")
        for at in range(3, len(words), 4):
            pieces = [" ".join(words[:at]), " " + " ".join(words[at:])]
            listener, _ = spoken(pieces, neighbours)
            assert np.array_equal(listener.samples, whole.samples)
        by_word, most = spoken([word + " " for word in words], neighbours)
        assert np.array_equal(by_word.samples, whole.samples)
        assert by_word.words == whole.words
        assert most > none or most > AHEAD_ROWS

    def test_a_whole_prompt_needs_only_its_last_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        opened = stage(is_aligned=False)
        opened.engine.add(Utterance("u", "heart"))
        opened.engine.append_text("u", "The old captain of")
        opened.run()
        ahead = opened.engine._sequences["u"].track.ahead
        rows = list[int]()
        prefill = opened.runner.prefill

        def count(track: Track, ids: Sequence[int], is_ahead: bool = False) -> None:
            rows.append(len(ids))
            prefill(track, ids, is_ahead)

        monkeypatch.setattr(opened.runner, "prefill", count)
        opened.engine.append_text("u", " ships. ")
        opened.engine.flush("u")
        opened.step()
        prompt = opened.engine._sequences["u"].tape._entries[-2].work
        assert isinstance(prompt, Prompt)
        assert len(ahead) > AHEAD_ROWS
        assert rows == [len(prompt.token_ids) - len(ahead)]

    def test_rows_that_were_no_beginning_are_taken_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        plain, _ = spoken([TEXT])
        listener = Listener(stage(is_aligned=False))
        stream = listener.stage.engine._sequences["u"].stream
        assert isinstance(stream, TurnStream)
        ahead = stream._ahead
        settle = ahead._settle
        assert settle is not None
        monkeypatch.setattr(ahead, "_settle", lambda *given: (*settle(*given), 20))
        for word in TEXT.split(" "):
            listener.append(word + " ")
            for _ in range(20):
                listener.step(0.01)
        listener.finish()
        assert np.array_equal(listener.samples, plain.samples)

    def test_a_revision_takes_back_no_more_than_it_changes(self) -> None:
        listener = Listener(stage(is_aligned=False))
        listener.append("The old captain of our ")
        listener.stage.run()
        track = listener.stage.engine._sequences["u"].track
        before = track.ahead
        assert len(before) > AHEAD_ROWS
        listener.revise(19, "the ")
        assert 0 < len(track.ahead) <= len(before)
        listener.append("island went home and was never seen again.")
        listener.finish()
        reference = Listener(stage(is_aligned=False))
        reference.append("The old captain of the island went home and was never seen again.")
        reference.finish()
        assert np.array_equal(listener.samples, reference.samples)

    def test_nothing_is_done_ahead_where_others_would_run_dry(self) -> None:
        opened = stage(is_aligned=False)
        opened.say("v", "Good evening to you all. " * 3)
        opened.engine.add(Utterance("u", "heart"))
        opened.engine.append_text("u", "The old captain of our ship ")
        opened.step()
        opened.clock.now_s += 1.0
        opened.step()
        assert not opened.engine._sequences["u"].track.ahead
        assert opened.engine.has_work()

    def test_it_rests_when_all_is_done(self) -> None:
        opened = stage(is_aligned=False)
        opened.engine.add(Utterance("u", "heart"))
        opened.engine.append_text("u", "The old captain ")
        opened.run()
        assert opened.engine.idle_s() is None
        opened.engine.finish("u")
        opened.run()
        assert opened.ending("u")


@pytest.fixture(scope="module")
def opened() -> tuple[Runner, ReadyVoice]:
    """The tiny Drama 3 and its voice."""
    parts = load_parts(GOLDEN, codec=SumCodec(4))
    return parts.runner, parts.voices.ready("default")


class TestState:
    """What pieces leave behind, in a real decoder with random weights."""

    IDS = tuple(random.Random(0).choices(range(300), k=24))

    def after(self, opened: tuple[Runner, ReadyVoice], cuts: Sequence[int], neighbours: int = 0) -> list[torch.Tensor]:
        """All memory after ``IDS`` in pieces, between which ``neighbours`` make frames as a batch."""
        runner, voice = opened
        track, *others = (runner.open(voice, None) for _ in range(1 + neighbours))
        for start, end in zip((0, *cuts), (*cuts, len(self.IDS)), strict=True):
            runner.decode_step(others, [Guide()] * neighbours)
            runner.prefill(track, self.IDS[start:end], is_ahead=end < len(self.IDS))
        memory = runner._decoders.snapshot(track.key)
        for each in (track, *others):
            runner.close(each)
        return [
            memory.recurrent.matrix, memory.recurrent.window, memory.kv.keys, memory.kv.values, memory.tower.keys,
            memory.tower.values,
        ]  # fmt: skip

    def test_pieces_leave_what_one_piece_leaves(self, opened: tuple[Runner, ReadyVoice]) -> None:
        """But for the last bits: sums over rows (the delta rule's blocks, attention) are taken in another order."""
        whole = self.after(opened, [])
        for cut in range(1, len(self.IDS)):
            for cuts in ([cut], sorted({cut, 11})):
                for one, pieces in zip(whole, self.after(opened, cuts), strict=True):
                    torch.testing.assert_close(pieces, one, rtol=1e-4, atol=5e-5)

    @pytest.mark.parametrize("cuts", [[8], [3, 14], [1, 2, 3, 20]])
    def test_the_same_pieces_leave_the_same_to_the_bit_whoever_else_speaks(
        self, opened: tuple[Runner, ReadyVoice], cuts: list[int]
    ) -> None:
        assert all(map(torch.equal, self.after(opened, cuts), self.after(opened, cuts, neighbours=2)))
