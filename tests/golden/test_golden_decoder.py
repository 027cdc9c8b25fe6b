"""Backbone and tower against stored values; tolerances are those of the golden set's README."""

import pytest
import torch
from torch import Tensor

from engine.cache.decoder import DecoderState
from engine.model.decoder import Decoder, Trace

HIDDEN = 5e-4
RESIDUAL = 2e-3
CACHE = 5e-4

Expected = dict[str, Tensor]


class Prefilled:
    """The golden prompt, prefilled in one piece: all of its rows in the backbone, all but the last in the tower."""

    def __init__(self, decoder: Decoder, rows: Tensor) -> None:
        self.rows = rows[None]
        self.state: DecoderState = decoder.allocate(1)
        self.trace = Trace()
        self.tower_trace: list[Tensor] = []
        with torch.inference_mode():
            self.embeddings = decoder.embed(self.rows)
            self.hidden = decoder.backbone(self.embeddings, self.state, trace=self.trace)
            decoder.tower_prefill(self.rows, self.hidden[:, :-1], self.state, trace=self.tower_trace)


@pytest.fixture(scope="session")
def prefilled(decoder: Decoder, inputs: dict[str, Tensor]) -> Prefilled:
    """Shared by tests: copy its ``state`` (``snapshot``) before stepping on."""
    return Prefilled(decoder, inputs["prompt_frames"])


def assert_close(actual: Tensor, expected: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=0)


def test_frame_embeddings_are_equal(prefilled: Prefilled, expected: Expected) -> None:
    assert torch.equal(prefilled.embeddings[0], expected["prefill.embeddings"])


def test_prefill_hidden_and_main_logits(decoder: Decoder, prefilled: Prefilled, expected: Expected) -> None:
    assert_close(prefilled.hidden[0], expected["prefill.hidden"], HIDDEN)
    assert_close(decoder.main_logits(prefilled.hidden)[0], expected["prefill.main_logits"], HIDDEN)


def test_candidates_are_the_band_then_the_end(decoder: Decoder, inputs: Expected) -> None:
    tokens = decoder.main_token(torch.arange(decoder.config.num_candidates))
    assert torch.equal(tokens, inputs["candidate_ids"])


def test_prefill_residual_stream(prefilled: Prefilled, expected: Expected) -> None:
    for layer, output in enumerate(prefilled.trace.layer_outputs):
        assert_close(output[0], expected[f"prefill.layer_out.{layer}"], RESIDUAL)


def test_prefill_routing(prefilled: Prefilled, expected: Expected) -> None:
    for layer, routing in enumerate(prefilled.trace.routing):
        logits = expected["prefill.router_logits"][layer]
        assert_close(routing.logits[0], logits, HIDDEN)
        best = logits.topk(routing.chosen.shape[-1]).indices
        assert torch.equal(routing.chosen[0].sort(-1).values, best.sort(-1).values)


def test_prefill_recurrent_memory(prefilled: Prefilled, expected: Expected) -> None:
    recurrent = prefilled.state.recurrent
    for layer in range(3):
        assert_close(recurrent.window[layer, 0], expected[f"prefill.conv_state.{layer}"], CACHE)
        assert_close(recurrent.matrix[layer, 0], expected[f"prefill.recurrent_state.{layer}"], CACHE)


def test_prefill_attention_memory(prefilled: Prefilled, expected: Expected) -> None:
    kv = prefilled.state.kv
    assert kv.lengths == [116]
    assert_close(kv.keys[0, 0, :, :116], expected["prefill.key_cache.3"], CACHE)
    assert_close(kv.values[0, 0, :, :116], expected["prefill.value_cache.3"], CACHE)


@pytest.mark.parametrize("layer", range(5))
def test_prefill_tower(prefilled: Prefilled, expected: Expected, layer: int) -> None:
    tower = prefilled.state.tower
    assert tower.lengths == [115]
    assert_close(prefilled.tower_trace[layer][0], expected[f"prefill.tower_layer_out.{layer}"], RESIDUAL)
    assert_close(tower.keys[layer, 0, :, :115], expected[f"prefill.tower_key_cache.{layer}"], CACHE)
    assert_close(tower.values[layer, 0, :, :115], expected[f"prefill.tower_value_cache.{layer}"], CACHE)


def test_forced_steps(decoder: Decoder, prefilled: Prefilled, expected: Expected, inputs: Expected) -> None:
    state, hidden, row = prefilled.state.snapshot(), prefilled.hidden[:, -1:], prefilled.rows[:, -1:]
    for step, frame in enumerate(inputs["forced_frames"]):
        logits: list[Tensor] = []
        tower_trace: list[Tensor] = []

        def force(of_codebook: Tensor, codebook: int, frame: Tensor = frame, seen: list[Tensor] = logits) -> Tensor:
            seen.append(of_codebook[0])
            return frame[None, 1 + codebook]

        with torch.inference_mode():
            assert_close(decoder.main_logits(hidden)[0, 0], expected["forced.main_logits"][step], HIDDEN)
            decoder.tower_step(row, hidden, frame[None, 0], state, force, trace=tower_trace)
            row, trace = frame[None, None], Trace()
            hidden = decoder.backbone(decoder.embed(row), state, trace=trace)
        assert_close(torch.stack(logits), expected["forced.codebook_logits"][step], HIDDEN)
        assert_close(torch.cat(tower_trace)[:, 0], expected["forced.tower_layer_out"][step], RESIDUAL)
        assert_close(torch.cat(trace.layer_outputs)[:, 0], expected["forced.layer_out"][step], RESIDUAL)
        assert_close(hidden[0, 0], expected["forced.hidden"][step], HIDDEN)
    assert state.lengths == [126]
    assert state.tower.lengths == [125]


def test_greedy_frames_are_exact(decoder: Decoder, prefilled: Prefilled, expected: Expected) -> None:
    state, hidden, row = prefilled.state.snapshot(), prefilled.hidden[:, -1:], prefilled.rows[:, -1:]
    for step, frame in enumerate(expected["greedy.frames"].long()):
        logits: list[Tensor] = []

        def greedy(of_codebook: Tensor, codebook: int, seen: list[Tensor] = logits) -> Tensor:
            seen.append(of_codebook[0])
            return of_codebook.argmax(-1)

        with torch.inference_mode():
            main = decoder.main_logits(hidden)[:, 0]
            chosen = decoder.tower_step(row, hidden, decoder.main_token(main.argmax(-1)), state, greedy)
            assert torch.equal(chosen[0], frame)
            assert_close(main[0], expected["greedy.main_logits"][step], HIDDEN)
            assert_close(torch.stack(logits), expected["greedy.codebook_logits"][step], HIDDEN)
            row = chosen[:, None]
            hidden = decoder.backbone(decoder.embed(row), state)
        assert_close(hidden[0, 0], expected["greedy.hidden"][step], HIDDEN)


def test_training_pass_gives_the_stored_logits(decoder: Decoder, expected: Expected, inputs: Expected) -> None:
    """The differentiable pass over prompt and forced frames equals prefill followed by steps."""
    rows = torch.cat((inputs["prompt_frames"], inputs["forced_frames"]))[None]
    with torch.no_grad():
        out = decoder.forward_train(rows)
    assert_close(out.main[0, 115:125], expected["forced.main_logits"], HIDDEN)
    # The last forced frame ends the turn; the row before it is labelled by it all the same.
    codebooks = torch.stack(out.codebooks, 2)[0, 115:125]
    assert_close(codebooks, expected["forced.codebook_logits"], HIDDEN)
    assert out.pointer is None
