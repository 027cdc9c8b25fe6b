"""Tracks on real decoders: the golden one and a small aligned one with random weights."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from engine.bank import MemoryBank
from engine.config import AlignedTextConfig, BackboneConfig, ModelConfig, TowerConfig
from engine.core import SamplingParams
from engine.errors import StateError
from engine.model.decoder import Decoder, initialise
from engine.runner import NotFiniteError, Runner, Track
from engine.streams.aligned import AlignedStream
from engine.streams.aligned_symbols import AlignedSettings
from engine.streams.base import Demand, Frame, Guide
from engine.text.words import Boundary, SpokenWord
from engine.voices.book import ReadyVoice, VoicePrefix
from engine.weights import load_decoder
from tests.engine.doubles import SumCodec, SumMemory

GOLDEN = Path(__file__).parents[1] / "golden" / "drama3-tiny"
GREEDY = SamplingParams(temperature=0)
FREE = Guide()


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def golden() -> Runner:
    return Runner(load_decoder(GOLDEN / "checkpoint-bf16")[0], SumCodec(4), GREEDY)


@pytest.fixture(scope="module")
def prompt() -> torch.Tensor:
    return load_file(GOLDEN / "inputs.safetensors")["prompt_frames"].long()


@pytest.fixture(scope="module")
def aligned() -> Runner:
    """Hidden 32, four layers of both kinds, four codebooks."""
    backbone = BackboneConfig(
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        linear_num_key_heads=2,
        linear_key_head_dim=8,
        linear_num_value_heads=2,
        linear_value_head_dim=16,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
        vocab_size=164,
    )
    tower = TowerConfig(
        dim=32,
        n_head=2,
        n_local_heads=1,
        head_dim=16,
        n_layer=1,
        intermediate_size=32,
        num_codebooks=4,
        vocab_size=64,
        vq_backbone_codebooks=2,
    )
    text = AlignedTextConfig(num_symbols=20, embedding_dim=8, num_voices=2, max_elapsed=20, hidden_dim=32, look_ahead=4)
    decoder = Decoder(ModelConfig(backbone, tower, 100, 99, text))
    initialise(decoder)
    return Runner(decoder.eval().requires_grad_(False), SumCodec(4), SamplingParams())


def voice(runner: Runner, index: int = 0) -> ReadyVoice:
    rows = torch.zeros(6, 5, dtype=torch.int64)
    rows[:, 0] = torch.tensor([1, 2, 3, 4 + index, 5, 6])
    return runner.prepare(VoicePrefix(rows, index))


def stream(text: str) -> AlignedStream:
    words = [SpokenWord(w, w, 0, len(w), w, Boundary.NONE) for w in text.split()]
    made = AlignedStream(AlignedSettings(symbols=" abcdefgh,.", look_ahead=4))
    made.add(words)
    made.finish()
    return made


def step(runner: Runner, tracks: Sequence[Track], streams: Sequence[AlignedStream]) -> list[tuple[int, ...]]:
    """One frame of each: codes and, appended, the pointer's move."""
    out = []
    for made, each in zip(runner.decode_step(tracks, [s.guide() for s in streams]), streams, strict=True):
        assert isinstance(made, Frame), made
        each.accept(made)
        out.append((*made.codes, made.move))
    return out


class TestGolden:
    def test_greedy_frames(self, golden: Runner, prompt: torch.Tensor) -> None:
        expected = load_file(GOLDEN / "expected.safetensors")["greedy.frames"].long()
        track = golden.open(golden.prepare(VoicePrefix(prompt)), GREEDY)
        for row in expected:
            (frame,) = golden.decode_step([track], [FREE])
            assert isinstance(frame, Frame)
            assert track.pending.tolist() == row.tolist()
            assert frame.codes == tuple(row[1:].tolist())
        golden.close(track)

    def test_a_prompt_in_pieces_is_the_same_prompt(self, golden: Runner, prompt: torch.Tensor) -> None:
        cut = int((prompt[:, 1:].sum(1) > 0).nonzero().max()) + 2
        expected = load_file(GOLDEN / "expected.safetensors")["greedy.frames"].long()
        track = golden.open(golden.prepare(VoicePrefix(prompt[:cut])), GREEDY)
        golden.prefill(track, prompt[cut : cut + 3, 0].tolist())
        golden.prefill(track, prompt[cut + 3 :, 0].tolist())
        for row in expected:
            golden.decode_step([track], [FREE])
            assert track.pending.tolist() == row.tolist()
        golden.close(track)

    def test_a_turn_goes_on_from_live_state_as_from_a_prompt_that_tells_the_history(
        self, golden: Runner, prompt: torch.Tensor
    ) -> None:
        base = golden.prepare(VoicePrefix(prompt))
        live = golden.open(base, GREEDY)
        spoken = []
        for _ in range(5):
            golden.decode_step([live], [FREE])
            spoken.append(live.pending)
        more = [402, 10, 400, 60, 61, 62, 402, 10]
        golden.prefill(live, more)
        text = torch.zeros(len(more), prompt.shape[1], dtype=torch.int64)
        text[:, 0] = torch.tensor(more)
        told = golden.open(golden.prepare(VoicePrefix(torch.cat((prompt, torch.stack(spoken), text)))), GREEDY)
        assert live.rows == told.rows
        for _ in range(6):
            golden.decode_step([live], [FREE])
            golden.decode_step([told], [FREE])
            assert live.pending.tolist() == told.pending.tolist()
        for track in (live, told):
            golden.close(track)

    def test_end_of_turn_is_drawn_only_where_it_may(self, golden: Runner, prompt: torch.Tensor) -> None:
        ends = {}
        for may in (True, False):
            track = golden.open(golden.prepare(VoicePrefix(prompt)), SamplingParams(temperature=8.0, top_p=1.0, seed=5))
            frames = [golden.decode_step([track], [Guide(is_end_allowed=may)])[0] for _ in range(60)]
            assert all(isinstance(frame, Frame) for frame in frames)
            ends[may] = sum(frame.is_end for frame in frames if isinstance(frame, Frame))
            golden.close(track)
        assert ends[True] > 0
        assert ends[False] == 0


class TestBatches:
    TEXTS = ("abc de fgh", "a", "hgf edc, ba abcd.", "fed cba")

    def test_batched_equals_alone(self, aligned: Runner) -> None:
        alone, samples = [], []
        for i, text in enumerate(self.TEXTS):
            track, text_stream = aligned.open(voice(aligned, i % 2), SamplingParams(seed=i)), stream(text)
            frames, pieces = [], []
            while text_stream.demand() is Demand.DECODE:
                frames += step(aligned, [track], [text_stream])
                pieces += aligned.vocode([track], [[frames[-1][:-1]]])
            alone.append(frames)
            samples.append(np.concatenate([piece for piece in pieces if not isinstance(piece, Exception)]))
            aligned.close(track)
        tracks = [aligned.open(voice(aligned, i % 2), SamplingParams(seed=i)) for i in range(len(self.TEXTS))]
        streams = [stream(text) for text in self.TEXTS]
        together: list[list[tuple[int, ...]]] = [[] for _ in tracks]
        heard: list[list[np.ndarray]] = [[] for _ in tracks]
        while active := [i for i, s in enumerate(streams) if s.demand() is Demand.DECODE]:
            made = step(aligned, [tracks[i] for i in active], [streams[i] for i in active])
            vocoded = aligned.vocode([tracks[i] for i in active], [[frame[:-1]] for frame in made])
            for i, frame, piece in zip(active, made, vocoded, strict=True):
                together[i].append(frame)
                assert not isinstance(piece, Exception)
                heard[i].append(piece)
        assert together == alone
        for i in range(len(tracks)):
            np.testing.assert_allclose(np.concatenate(heard[i]), samples[i], atol=1e-6)
            aligned.close(tracks[i])
        assert aligned.nbytes == 0

    def test_tracks_of_different_length_and_age_share_a_batch(self, aligned: Runner) -> None:
        tracks = [aligned.open(voice(aligned), SamplingParams(seed=i)) for i in range(3)]
        streams = [stream("abc def abc def abc") for _ in tracks]
        for _ in range(7):
            step(aligned, tracks[:1], streams[:1])
        for _ in range(3):
            step(aligned, tracks[:2], streams[:2])
        late = step(aligned, tracks, streams)
        assert [track.rows for track in tracks] == [6 + 11, 6 + 4, 6 + 1]
        fresh = aligned.open(voice(aligned), SamplingParams(seed=2))
        assert step(aligned, [fresh], [stream("abc def abc def abc")]) == late[2:]
        for track in (*tracks, fresh):
            aligned.close(track)

    def test_frames_of_uneven_number(self, aligned: Runner) -> None:
        codes = [[(1, 2, 3, 4)], [], [(5, 6, 7, 8), (9, 10, 11, 12)]]
        tracks = [aligned.open(voice(aligned), None) for _ in codes]
        together = aligned.vocode(tracks, codes)
        assert [len(samples) for samples in together if not isinstance(samples, Exception)] == [1200, 0, 2400]
        fresh = aligned.open(voice(aligned), None)
        (alone,) = aligned.vocode([fresh], [codes[2]])
        assert np.array_equal(np.asarray(together[2]), np.asarray(alone))
        for track in (*tracks, fresh):
            aligned.close(track)


class TestSnapshots:
    @pytest.mark.parametrize("at", [0, 1, 5, 12])
    @pytest.mark.parametrize("neighbours", [0, 2])
    def test_restored_equals_never_branched_to_the_last_bit(self, aligned: Runner, at: int, neighbours: int) -> None:
        """The track and its neighbours run on past the point, and again from it after going back."""
        texts = ("abc de fgh, abc de fgh", "hgf edc ba abcd abcd", "dcba dcba dcba dcba")[: 1 + neighbours]
        tracks = [aligned.open(voice(aligned, 1), SamplingParams(seed=i)) for i in range(len(texts))]
        streams = [stream(text) for text in texts]

        def run(count: int) -> tuple[list[object], list[torch.Tensor]]:
            seen: list[object] = []
            for _ in range(count):
                made = step(aligned, tracks, streams)
                pieces = aligned.vocode(tracks, [[frame[:-1]] for frame in made])
                seen += [made, *(np.asarray(piece).tobytes() for piece in pieces)]
            state = aligned._decoders.gather([track.key for track in tracks])
            tensors = [state.recurrent.matrix, state.recurrent.window]
            tensors += [
                state.kv.keys[:, :, :, : max(state.kv.lengths)],
                state.tower.values[:, :, :, : max(state.tower.lengths)],
            ]
            return seen, [tensor.clone() for tensor in tensors]

        run(at)
        taken = [(aligned.snapshot(track), s.snapshot()) for track, s in zip(tracks, streams, strict=True)]
        first, first_state = run(6)
        for _ in range(2):
            for track, text_stream, (mine, text) in zip(tracks, streams, taken, strict=True):
                aligned.restore(track, mine)
                text_stream.restore(text)
            again, again_state = run(6)
            assert again == first
            assert all(torch.equal(a, b) for a, b in zip(again_state, first_state, strict=True))
        for track in tracks:
            aligned.close(track)

    def test_one_goes_back_and_its_neighbour_does_not_notice(self, aligned: Runner) -> None:
        def pair() -> tuple[list[Track], list[AlignedStream]]:
            opened = [aligned.open(voice(aligned), SamplingParams(seed=i)) for i in range(2)]
            return opened, [stream("abc de fgh abc de fgh"), stream("hgf edc ba abcd hgf")]

        tracks, streams = pair()
        plain = [step(aligned, tracks, streams) for _ in range(10)]
        branched, branched_streams = pair()
        for _ in range(3):
            step(aligned, branched, branched_streams)
        taken = aligned.snapshot(branched[0]), branched_streams[0].snapshot()
        for _ in range(2):
            step(aligned, branched, branched_streams)
        aligned.restore(branched[0], taken[0])
        branched_streams[0].restore(taken[1])
        assert branched[0].rows == branched[1].rows - 2
        rest = [step(aligned, branched, branched_streams) for _ in range(5)]
        assert [made[0] for made in rest] == [made[0] for made in plain[3:8]]
        assert [made[1] for made in rest] == [made[1] for made in plain[5:10]]
        for track in (*tracks, *branched):
            aligned.close(track)

    def test_a_voice_is_never_changed_by_those_who_speak_with_it(self, aligned: Runner) -> None:
        ready = voice(aligned)
        before = ready.memory.recurrent.matrix.clone()
        outcomes = []
        for _ in range(2):
            track, text_stream = aligned.open(ready, None), stream("abc de fgh")
            outcomes.append([step(aligned, [track], [text_stream]) for _ in range(8)])
            aligned.close(track)
        assert outcomes[0] == outcomes[1]
        assert torch.equal(ready.memory.recurrent.matrix, before)

    def test_renewed_goes_on_like_new_but_with_other_random_numbers(self, aligned: Runner) -> None:
        ready = voice(aligned)
        track, text_stream = aligned.open(ready, GREEDY), stream("abc de fgh")
        first = [step(aligned, [track], [text_stream]) for _ in range(4)]
        aligned.renew(track, ready)
        assert track.rows == len(ready.prefix.rows)
        assert [step(aligned, [track], [other]) for other in [stream("abc de fgh")] for _ in range(4)] == first
        aligned.close(track)


class TestFaults:
    def test_a_batch_is_taken_back_and_run_one_by_one(self, aligned: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
        tracks = [aligned.open(voice(aligned), SamplingParams(seed=i)) for i in range(3)]
        copies = [aligned.open(voice(aligned), SamplingParams(seed=i)) for i in range(3)]
        streams = [stream("abc de fgh abc") for _ in range(3)]
        expected = [step(aligned, [copy], [stream("abc de fgh abc")])[0] for copy in copies]
        real = aligned.decoder.tower_step

        def fail(rows: torch.Tensor, *arguments: Any) -> torch.Tensor:
            # After backbone and tower have written, so that there is something to take back.
            made = real(rows, *arguments)
            if len(rows) > 1:
                raise ZeroDivisionError
            return made

        monkeypatch.setattr(aligned.decoder, "tower_step", fail)
        assert step(aligned, tracks, streams) == expected
        for track in (*tracks, *copies):
            aligned.close(track)

    def test_no_number_is_an_error_of_that_track(self, aligned: Runner) -> None:
        tracks = [aligned.open(voice(aligned), SamplingParams(seed=i)) for i in range(2)]
        streams = [stream("abc de fgh abc") for _ in tracks]
        step(aligned, tracks, streams)
        with torch.inference_mode():
            aligned._decoders.gather([track.key for track in tracks]).recurrent.matrix[:, 0] = torch.nan
        made = aligned.decode_step(tracks, [s.guide() for s in streams])
        assert isinstance(made[0], NotFiniteError)
        assert isinstance(made[1], Frame)
        for track in tracks:
            aligned.close(track)


class TestBank:
    @staticmethod
    def memory(value: float) -> SumMemory:
        return SumMemory(torch.tensor([value]))

    def test_a_batch_stays_while_the_same_ask_for_it(self) -> None:
        bank: MemoryBank[SumMemory] = MemoryBank()
        for key in range(3):
            bank.put(key, self.memory(float(key)))
        batch = bank.gather([0, 2])
        assert batch.value.tolist() == [0, 2]
        assert bank.gather([0, 2]) is batch
        assert bank.gather([1]).value.tolist() == [1]
        assert bank.gather([0, 2]) is batch

    def test_changes_follow_their_sequence(self) -> None:
        bank: MemoryBank[SumMemory] = MemoryBank()
        for key in range(3):
            bank.put(key, self.memory(float(key)))
        bank.gather([0, 1]).value.add_(10)
        bank.gather([2, 1, 0]).value.add_(100)
        bank.gather([1]).value.add_(1000)
        assert bank.gather([0, 1, 2]).value.tolist() == [110, 1111, 102]
        bank.drop(1)
        assert bank.gather([2, 0]).value.tolist() == [102, 110]
        assert 1 not in bank
        assert len(bank) == 2

    def test_snapshots_in_and_out_of_a_batch(self) -> None:
        bank: MemoryBank[SumMemory] = MemoryBank()
        for key in range(2):
            bank.put(key, self.memory(float(key)))
        alone = bank.snapshot(1)
        bank.gather([0, 1]).value.add_(5)
        within = bank.snapshot(1)
        bank.restore(1, alone)
        assert bank.gather([0, 1]).value.tolist() == [5, 1]
        bank.drop(0)
        bank.restore(1, within)
        assert bank.gather([1]).value.tolist() == [6]

    def test_truncation_asks_for_a_snapshot(self, aligned: Runner) -> None:
        track = aligned.open(voice(aligned), None)
        with pytest.raises(StateError, match="snapshot"):
            aligned._decoders.gather([track.key]).truncate([1])
        aligned.close(track)
