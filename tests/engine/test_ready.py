"""A decoder made ready against the plain one, and sequences of a batch against each alone."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from engine.cache.decoder import DecoderState
from engine.config import ModelConfig
from engine.model.aligned import AlignedWindow
from engine.model.decoder import Decoder, initialise
from engine.model.ready import ReadyAttention, ReadyDeltaNet, ReadyMixture, ReadyTowerLayer, make_ready
from engine.quant.half import is_supported
from engine.quant.scheme import PartScheme, Scheme
from engine.quant.shrink import shrink
from tests.engine.test_model import CONFIG, greedy, make_rows, make_window, state_tensors

pytestmark = pytest.mark.skipif(not is_supported(), reason="x86 only")
ALL_SEEN = replace(CONFIG, tower=replace(CONFIG.tower, vq_backbone_codebooks=CONFIG.num_codebooks - 1))


def plain_decoder(config: ModelConfig) -> Decoder:
    """Random weights that bfloat16 and float16 both hold."""
    model = Decoder(config)
    initialise(model, seed=3)
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            if parameter.dim() == 1:
                parameter.add_(torch.linspace(-0.3, 0.3, len(parameter)).roll(number))
            parameter.copy_(parameter.bfloat16())
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="module", params=[CONFIG, ALL_SEEN], ids=["feature", "all_seen"])
def plain(request: pytest.FixtureRequest) -> Decoder:
    return plain_decoder(request.param)


@pytest.fixture(scope="module")
def ready(plain: Decoder) -> Decoder:
    return make_ready(copy.deepcopy(plain))


def window_at(window: AlignedWindow, row: int, batch: slice) -> AlignedWindow:
    parts = (window.symbols, window.elapsed, window.voice, window.mask)
    return AlignedWindow(*(part[batch, row : row + 1] for part in parts))


class Forcer:
    """Chooses the codes of ``rows`` [B, 1 + C] and keeps the logits."""

    def __init__(self, rows: Tensor) -> None:
        self.rows, self.logits = rows, list[Tensor]()

    def __call__(self, logits: Tensor, codebook: int) -> Tensor:
        self.logits.append(logits)
        return self.rows[:, 1 + codebook]


@torch.inference_mode()
def forced(
    model: Decoder, rows: Tensor, lengths: list[int], batch: slice = slice(None)
) -> tuple[list[Tensor], list[Tensor]]:
    """Prefill of ``lengths`` rows, then steps through the rest: all numbers on the way, and the memory afterwards."""
    sequences, total = rows[batch], rows.shape[1]
    counts = lengths[batch]
    state, window = model.allocate(len(counts)), make_window(len(rows), total)
    block = max(counts)
    model.prefill(sequences[:, : block + 1], state, counts)
    at = list(counts)
    seen: list[Tensor] = []
    for step in range(total - max(lengths) - 1):
        pending = torch.stack([sequences[b, n + step] for b, n in enumerate(at)])[:, None]
        hidden = model.backbone(model.embed(pending, window_at(window, step, batch)), state)
        label = torch.stack([sequences[b, n + step + 1] for b, n in enumerate(at)])
        forcer = Forcer(label)
        model.tower_step(pending, hidden, label[:, 0], state, forcer)
        seen += [hidden[:, 0], model.main_logits(hidden)[:, 0], model.pointer_logits(hidden)[:, 0], *forcer.logits]
    memory = [part for row in range(len(counts)) for part in state_tensors(state, row)]
    return seen, memory


@pytest.mark.parametrize("lengths", [[6], [6, 6, 6], [4, 7, 5]], ids=["alone", "uniform", "ragged"])
def test_ready_equals_plain(plain: Decoder, ready: Decoder, lengths: list[int]) -> None:
    rows = make_rows(len(lengths), 20)
    for ours, theirs in zip(forced(ready, rows, lengths), forced(plain, rows, lengths), strict=True):
        for mine, expected in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine, expected, atol=1e-4, rtol=1e-4)


def test_steps_of_a_batch_equal_each_alone(ready: Decoder) -> None:
    lengths, rows = [6, 6, 6, 6, 6], make_rows(5, 20)
    together, _ = forced(ready, rows, lengths)
    for b in range(5):
        alone, _ = forced(ready, rows, lengths, slice(b, b + 1))
        for mine, expected in zip(alone, together, strict=True):
            torch.testing.assert_close(mine[0], expected[b], atol=1e-5, rtol=1e-5)


def test_sequences_of_any_length_compute_in_a_batch_what_they_compute_alone_to_the_bit() -> None:
    """At widths whose rows fill the processor's vectors, as those of real models do."""
    backbone = replace(
        CONFIG.backbone,
        hidden_size=64,
        head_dim=32,
        linear_key_head_dim=32,
        linear_value_head_dim=32,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=64,
    )
    tower = replace(ALL_SEEN.tower, dim=64, head_dim=32, intermediate_size=96)
    aligned = replace(CONFIG.aligned, hidden_dim=64) if CONFIG.aligned else None
    model = make_ready(plain_decoder(replace(CONFIG, backbone=backbone, tower=tower, aligned=aligned)))
    rows, lengths = make_rows(5, 24), [6, 3, 9, 6, 4]

    @torch.inference_mode()
    def run(members: list[int]) -> list[list[Tensor]]:
        states = []
        for b in members:
            states.append(model.allocate(1))
            model.prefill(rows[b : b + 1, : lengths[b] + 1], states[-1])
        state = DecoderState.merge(states)
        seen: list[list[Tensor]] = [[] for _ in members]
        for step in range(14):
            pending, label = (torch.stack([rows[b, lengths[b] + step + i] for b in members]) for i in range(2))
            hidden = model.backbone(model.embed(pending[:, None]), state)
            forcer = Forcer(label)
            model.tower_step(pending[:, None], hidden, label[:, 0], state, forcer)
            for i, mine in enumerate(seen):
                mine += [part[i] for part in (hidden, model.main_logits(hidden), *forcer.logits)]
        return seen

    together = run([0, 1, 2, 3, 4])
    for b in range(5):
        (alone,) = run([b])
        assert all(torch.equal(x, y) for x, y in zip(alone, together[b], strict=True)), b


def test_everything_is_made_ready(ready: Decoder) -> None:
    kinds = {type(module).__name__ for module in ready.modules()}
    assert {ReadyAttention.__name__, ReadyDeltaNet.__name__, ReadyMixture.__name__, ReadyTowerLayer.__name__} <= kinds
    assert not kinds & {"Linear", "RMSNorm", "Experts"}


def test_many_positions_and_frames_that_end_the_turn(plain: Decoder, ready: Decoder) -> None:
    rows, end = make_rows(1, 2), torch.tensor([plain.config.eos_token_id])
    with torch.inference_mode():
        frames = []
        for model in (plain, ready):
            state = model.allocate(1)
            # Beyond the first tables of rotations.
            for _ in range(600):
                hidden = model.backbone(model.embed(rows[:, 1:]), state)
            frame = model.tower_step(rows[:, 1:], hidden, end, state, greedy)
            frames.append(torch.cat((hidden[0, 0], frame[0].float())))
    torch.testing.assert_close(frames[1], frames[0], atol=1e-3, rtol=1e-3)


def test_what_is_quantised_stays_quantised(plain: Decoder) -> None:
    model, eight = copy.deepcopy(plain), PartScheme(8)
    shrink(model, Scheme(eight, eight, eight, eight))
    make_ready(model)
    kinds = [type(module).__name__ for module in model.modules()]
    assert "QuantisedLinear" in kinds
    assert "ReadyNorm" in kinds
    rows = make_rows(1, 12)
    for mine, expected in zip(forced(model, rows, [6])[0], forced(plain, rows, [6])[0], strict=True):
        assert (mine - expected).abs().max() < 0.2 * expected.abs().max() + 0.1


def test_other_types_stay_as_they_are(plain: Decoder) -> None:
    model = make_ready(copy.deepcopy(plain).bfloat16())
    assert "Linear" in {type(module).__name__ for module in model.modules()}
