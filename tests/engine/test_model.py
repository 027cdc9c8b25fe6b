"""The decoder against itself: batched equals alone, pieces equal the whole, fast paths equal plain formulas."""

import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.cache.decoder import DecoderState
from engine.config import AlignedTextConfig, BackboneConfig, ModelConfig, TowerConfig
from engine.model.aligned import AlignedWindow
from engine.model.attention import attend
from engine.model.decoder import Decoder, TrainOutput, initialise
from engine.model.moe import MixtureOfExperts, Routing, load_balance_loss
from engine.model.norm import rms_norm
from engine.model.recurrent import CHUNK, delta_rule_chunked, delta_rule_step
from engine.model.rotary import Rotary

START, EOS, SIZE, CODEBOOKS = 40, 3, 24, 4

CONFIG = ModelConfig(
    BackboneConfig(
        hidden_size=48,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        linear_num_key_heads=2,
        linear_key_head_dim=8,
        linear_num_value_heads=4,
        linear_value_head_dim=12,
        num_experts=6,
        num_experts_per_tok=2,
        moe_intermediate_size=20,
        shared_expert_intermediate_size=28,
        vocab_size=START + SIZE + 5,
    ),
    TowerConfig(
        dim=48,
        n_head=4,
        n_local_heads=2,
        head_dim=16,
        n_layer=2,
        intermediate_size=40,
        num_codebooks=CODEBOOKS,
        vocab_size=SIZE,
        vq_backbone_codebooks=1,
    ),
    semantic_start_token_id=START,
    eos_token_id=EOS,
    aligned=AlignedTextConfig(num_symbols=11, embedding_dim=6, num_voices=2, max_elapsed=5, hidden_dim=20),
)


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    model = Decoder(CONFIG)
    initialise(model, seed=3)
    with torch.no_grad():
        # Gains, decays and biases that would show if they were mixed up.
        for number, parameter in enumerate(model.parameters()):
            if parameter.dim() == 1:
                parameter.add_(torch.linspace(-0.3, 0.3, len(parameter)).roll(number))
    return model


def make_rows(batch: int, rows: int, seed: int = 0, text_rows: int = 3) -> Tensor:
    """Text rows, then audio rows [B, T, 1 + C]."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(SIZE, (batch, rows, CODEBOOKS), generator=generator)
    audio = torch.cat((START + codes[..., :1], codes), -1)
    text = torch.randint(START, (batch, rows, 1), generator=generator) * torch.eye(1 + CODEBOOKS, dtype=torch.int64)[0]
    return torch.where((torch.arange(rows) < text_rows)[:, None], text, audio)


def make_window(batch: int, rows: int, seed: int = 0) -> AlignedWindow:
    generator = torch.Generator().manual_seed(seed)
    return AlignedWindow(
        symbols=torch.randint(11, (batch, rows, 10), generator=generator),
        elapsed=torch.randint(9, (batch, rows, 2), generator=generator),
        voice=torch.randint(2, (batch, rows), generator=generator),
        mask=torch.arange(rows) >= torch.zeros(batch, 1) + 2,
    )


def greedy(logits: Tensor, codebook: int) -> Tensor:
    return logits.argmax(-1)


def state_tensors(state: DecoderState, row: int) -> list[Tensor]:
    kv, tower = state.kv, state.tower
    return [
        state.recurrent.window[:, row],
        state.recurrent.matrix[:, row],
        kv.keys[:, row, :, : kv.lengths[row]],
        kv.values[:, row, :, : kv.lengths[row]],
        tower.keys[:, row, :, : tower.lengths[row]],
        tower.values[:, row, :, : tower.lengths[row]],
    ]


def assert_same_state(state: DecoderState, row: int, other: DecoderState, other_row: int) -> None:
    for ours, theirs in zip(state_tensors(state, row), state_tensors(other, other_row), strict=True):
        torch.testing.assert_close(ours, theirs, atol=3e-5, rtol=1e-4)


def take(window: AlignedWindow, rows: slice, sequences: slice = slice(None)) -> AlignedWindow:
    return AlignedWindow(*(getattr(window, f)[sequences, rows] for f in ("symbols", "elapsed", "voice", "mask")))


@torch.inference_mode()
def generate(decoder: Decoder, state: DecoderState, pending: Tensor, steps: int) -> Tensor:
    """Greedy frames [steps, B, 1 + C]."""
    frames = []
    for _ in range(steps):
        hidden = decoder.backbone(decoder.embed(pending), state)
        main = decoder.main_token(decoder.main_logits(hidden)[:, 0, :-1].argmax(-1))
        frames.append(decoder.tower_step(pending, hidden, main, state, greedy))
        pending = frames[-1][:, None]
    return torch.stack(frames)


@torch.inference_mode()
@pytest.mark.parametrize("pieces", [[79], [1] * 79, [3, 64, 1, 11], [70, 9]])
def test_prefill_in_pieces_equals_the_whole(decoder: Decoder, pieces: list[int]) -> None:
    rows, window = make_rows(2, 80), make_window(2, 79)
    whole, state = decoder.allocate(2), decoder.allocate(2)
    expected = decoder.prefill(rows, whole, aligned=window)
    hidden, start = [], 0
    for piece in pieces:
        part = take(window, slice(start, start + piece))
        hidden.append(decoder.prefill(rows[:, start : start + piece + 1], state, aligned=part))
        start += piece
    torch.testing.assert_close(torch.cat(hidden, 1), expected, atol=1e-5, rtol=1e-5)
    for row in range(2):
        assert_same_state(state, row, whole, row)


@torch.inference_mode()
def test_padded_prefill_of_a_batch_equals_each_alone(decoder: Decoder) -> None:
    rows, lengths = make_rows(3, 71), [70, 1, 33]
    state = decoder.allocate(3)
    hidden = decoder.prefill(rows, state, lengths)
    # Again on top of it, with other lengths: everybody continues from a place of his own.
    more = make_rows(3, 10, seed=1, text_rows=0)
    later = decoder.prefill(more, state, [2, 9, 0])
    assert state.lengths == state.tower.lengths == [72, 10, 33]
    for b, (length, added) in enumerate(zip(lengths, [2, 9, 0], strict=True)):
        alone = decoder.allocate(1)
        expected = decoder.prefill(rows[b : b + 1, : length + 1], alone)
        torch.testing.assert_close(hidden[b, :length], expected[0], atol=1e-5, rtol=1e-5)
        if added:
            expected = decoder.prefill(more[b : b + 1, : added + 1], alone)
            torch.testing.assert_close(later[b, :added], expected[0], atol=1e-5, rtol=1e-5)
        assert_same_state(state, b, alone, 0)


@torch.inference_mode()
def test_steps_of_a_batch_equal_each_alone(decoder: Decoder) -> None:
    lengths = [5, 40, 18]
    alone = []
    for b, length in enumerate(lengths):
        rows = make_rows(1, length + 1, seed=b)
        alone.append((decoder.allocate(1), rows[:, -1:]))
        decoder.prefill(rows, alone[-1][0])
    batch = DecoderState.merge([state for state, _ in alone])
    frames = generate(decoder, batch, torch.cat([pending for _, pending in alone]), 12)
    for b, (state, pending) in enumerate(alone):
        assert torch.equal(generate(decoder, state, pending, 12)[:, 0], frames[:, b])
        assert_same_state(batch, b, state, 0)


@torch.inference_mode()
@pytest.mark.parametrize("rows", [1, 6])
def test_sequences_that_sit_out_keep_their_memory_to_the_bit(decoder: Decoder, rows: int) -> None:
    state = decoder.allocate(3)
    decoder.prefill(make_rows(3, 21), state, [20, 7, 11])
    before = [t.clone() for t in state_tensors(state, 1)]
    counts = [rows, 0, rows]
    block = make_rows(3, rows + 1, seed=5, text_rows=0)
    hidden = decoder.backbone(decoder.embed(block[:, :-1]), state, counts)
    if rows == 1:
        decoder.tower_step(block[:, :1], hidden, block[:, 1, 0], state, greedy, counts)
    else:
        decoder.tower_prefill(block, hidden, state, counts)
    assert state.lengths == state.tower.lengths == [20 + rows, 7, 11 + rows]
    assert all(torch.equal(a, b) for a, b in zip(state_tensors(state, 1), before, strict=True))


@torch.inference_mode()
def test_a_restored_snapshot_goes_on_as_before(decoder: Decoder) -> None:
    rows = make_rows(1, 30)
    state = decoder.allocate(1)
    decoder.prefill(rows, state)
    snapshot = state.snapshot()
    first = generate(decoder, state, rows[:, -1:], 8)
    state.restore(snapshot)
    assert torch.equal(generate(decoder, state, rows[:, -1:], 8), first)


@torch.inference_mode()
def test_tower_steps_fill_the_same_memory_as_teacher_forcing(decoder: Decoder) -> None:
    rows = make_rows(1, 20)
    stepped = decoder.allocate(1)
    decoder.prefill(rows, stepped)
    frames = generate(decoder, stepped, rows[:, -1:], 9)
    forced = decoder.allocate(1)
    decoder.prefill(torch.cat((rows, frames.transpose(0, 1)), 1), forced)
    assert_same_state(stepped, 0, forced, 0)


@torch.inference_mode()
def test_a_label_that_ends_the_turn_is_embedded_as_nothing(decoder: Decoder) -> None:
    """A step whose main token is the end leaves the memory that a text label leaves."""
    rows = make_rows(2, 12)
    stepped = decoder.allocate(2)
    decoder.prefill(rows, stepped)
    hidden = decoder.backbone(decoder.embed(rows[:, -1:]), stepped)
    main = torch.tensor([EOS, START + 2])
    decoder.tower_step(rows[:, -1:], hidden, main, stepped, greedy)
    forced = decoder.allocate(1)
    label = torch.zeros(1, 1, 1 + CODEBOOKS, dtype=torch.int64)
    label[..., 0] = EOS
    decoder.prefill(torch.cat((rows[:1], label), 1), forced)
    # Residual layers get the codes chosen so far multiplied by nothing, so all of the tower agrees.
    assert_same_state(stepped, 0, forced, 0)


def test_training_pass_equals_prefill(decoder: Decoder) -> None:
    rows, window = make_rows(2, 70), make_window(2, 70)
    out = decoder.forward_train(rows, window)
    with torch.inference_mode():
        state = decoder.allocate(2)
        hidden = decoder.prefill(rows, state, aligned=take(window, slice(69)))
        fresh = decoder.allocate(2)
        outputs = decoder.tower_prefill(rows, hidden, fresh)
        codebooks = [head(x) for head, x in zip(decoder.tower.heads, outputs, strict=True)]
        torch.testing.assert_close(out.main[:, :-1], decoder.main_logits(hidden), atol=1e-4, rtol=1e-4)
        assert out.pointer is not None
        torch.testing.assert_close(out.pointer[:, :-1], decoder.pointer_logits(hidden), atol=1e-4, rtol=1e-4)
        for ours, expected in zip(out.codebooks, codebooks, strict=True):
            torch.testing.assert_close(ours[:, :-1], expected, atol=1e-4, rtol=1e-4)
    assert len(out.routing) == 4
    assert out.routing[0].logits.shape == (2, 70, 6)


def test_training_pass_is_causal_and_padding_does_nothing(decoder: Decoder) -> None:
    rows = make_rows(2, 30)
    other = rows.clone()
    other[:, 20:] = 0
    with torch.no_grad():
        a, b = decoder.forward_train(rows), decoder.forward_train(other)
    for ours, theirs in zip((a.main, *a.codebooks), (b.main, *b.codebooks), strict=True):
        # Row 19 is labelled by row 20, so its codebook logits already differ.
        torch.testing.assert_close(ours[:, :19], theirs[:, :19], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(a.main[:, 19], b.main[:, 19], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(a.codebooks[1][:, 19], b.codebooks[1][:, 19], atol=1e-3)
    assert not torch.allclose(a.main[:, 20], b.main[:, 20], atol=1e-3)


def train_loss(out: TrainOutput, rows: Tensor) -> Tensor:
    losses = [F.cross_entropy(out.main[:, 3:-1].flatten(0, 1), rows[:, 4:, 1].flatten())]
    losses += [
        F.cross_entropy(logits[:, 3:-1].flatten(0, 1), rows[:, 4:, 2 + i].flatten())
        for i, logits in enumerate(out.codebooks)
    ]
    assert out.pointer is not None
    losses.append(
        F.cross_entropy(out.pointer.flatten(0, 1), torch.ones(out.pointer[..., 0].numel(), dtype=torch.int64))
    )
    mask = torch.ones(rows.shape[:2], dtype=torch.bool)
    losses += [0.01 * load_balance_loss(routing, mask) for routing in out.routing]
    return torch.stack(losses).sum()


def test_every_weight_learns(decoder: Decoder) -> None:
    rows, window = make_rows(4, 40), make_window(4, 40)
    model = copy.deepcopy(decoder)
    train_loss(model.forward_train(rows, window), rows).backward()  # type: ignore[no-untyped-call]
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_gradients_are_those_of_differences() -> None:
    """The slope along each weight's own gradient. Every expert is chosen, so that routing cannot jump."""
    model = Decoder(replace(CONFIG, backbone=replace(CONFIG.backbone, num_experts_per_tok=6)))
    initialise(model, seed=3)
    rows, window = make_rows(2, 12), make_window(2, 12)
    train_loss(model.forward_train(rows, window), rows).backward()  # type: ignore[no-untyped-call]
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        size = parameter.grad.norm().item()
        step = min(0.02 / size, 0.02) * parameter.grad / size
        values = []
        with torch.no_grad():
            for move in (step, -step):
                parameter.add_(move)
                values.append(train_loss(model.forward_train(rows, window), rows).item())
                parameter.sub_(move)
        slope = (values[0] - values[1]) / (2 * step.norm().item())
        assert slope == pytest.approx(size, rel=0.05, abs=2e-3), name


def test_delta_rule_gradient() -> None:
    generator = torch.Generator().manual_seed(0)

    def randn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    inputs = [randn(1, 5, 2, 3), F.normalize(randn(1, 5, 2, 3), dim=-1), randn(1, 5, 2, 4)]
    inputs += [-F.softplus(randn(1, 5, 2)), randn(1, 5, 2).sigmoid(), randn(1, 2, 4, 3)]
    assert torch.autograd.gradcheck(delta_rule_chunked, [x.requires_grad_() for x in inputs])


def test_a_few_steps_of_training_learn_in_bfloat16_autocast(decoder: Decoder) -> None:
    rows, window = make_rows(2, 20), make_window(2, 20)
    model = copy.deepcopy(decoder)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(15):
        with torch.autocast("cpu", torch.bfloat16):
            out = model.forward_train(rows, window)
            loss = train_loss(out, rows)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_autocast_is_close_to_float32(decoder: Decoder) -> None:
    rows = make_rows(2, 40)
    with torch.no_grad():
        exact = decoder.forward_train(rows).main
    with torch.autocast("cpu", torch.bfloat16):
        rounded = decoder.forward_train(rows).main.detach().float()
    # Single rows may be routed elsewhere, so the median is judged.
    assert float((exact - rounded).abs().median()) < 0.05 * float(exact.std())


def test_window_says_nothing_where_its_mask_is_false(decoder: Decoder) -> None:
    rows, window = make_rows(1, 6), make_window(1, 6)
    plain, added = decoder.embed(rows), decoder.embed(rows, window)
    assert torch.equal(plain[:, :2], added[:, :2])
    assert (plain[:, 2:] - added[:, 2:]).abs().amin(-1).gt(0).all()


def test_elapsed_units_are_clamped(decoder: Decoder) -> None:
    rows, window = make_rows(1, 6), make_window(1, 6)
    long = replace(window, elapsed=window.elapsed + 1000)
    longest = replace(window, elapsed=torch.full_like(window.elapsed, 5))
    assert torch.equal(decoder.embed(rows, long), decoder.embed(rows, longest))


def test_without_aligned_text_a_window_is_refused() -> None:
    model = Decoder(replace(CONFIG, aligned=None))
    initialise(model)
    with pytest.raises(ValueError, match="aligned"):
        model.embed(make_rows(1, 6), make_window(1, 6))
    with pytest.raises(ValueError, match="aligned"):
        model.pointer_logits(torch.zeros(1, 1, 48))
    assert model.forward_train(make_rows(1, 6)).pointer is None


@pytest.mark.parametrize("seen", [0, 1, 3])
def test_frame_embedding_and_tower_feature_share_out_the_codes(seen: int) -> None:
    model = Decoder(replace(CONFIG, tower=replace(CONFIG.tower, vq_backbone_codebooks=seen)))
    initialise(model)
    rows = make_rows(1, 5)
    table, codes = model.codebook_embeddings.weight, rows[0, :, 1:]
    embedded = [table[i * SIZE + codes[:, i]] for i in range(CODEBOOKS)]
    is_audio = (torch.arange(5) >= 3)[:, None]
    token = model.embed_tokens.weight[rows[0, :, 0]]
    audio = (token + sum(embedded[1 : 1 + seen])) / (1 + seen) ** 0.5
    torch.testing.assert_close(model.embed(rows)[0], torch.where(is_audio, audio, token))
    feature = model.tower_feature(rows)
    assert (feature is not None) == model.has_feature == (seen < CODEBOOKS - 1)
    if feature is not None:
        torch.testing.assert_close(feature[0], sum(embedded[1 + seen :]) * is_audio + torch.zeros(5, 48))


def test_codes_out_of_range_are_clamped(decoder: Decoder) -> None:
    rows = make_rows(1, 5)
    wild, tame = rows.clone(), rows.clone()
    wild[0, 4, 2], tame[0, 4, 2] = SIZE + 7, SIZE - 1
    wild[0, 3, 4], tame[0, 3, 4] = -2, 0
    assert torch.equal(decoder.embed(wild), decoder.embed(tame))
    with torch.no_grad():
        a, b = decoder.forward_train(wild), decoder.forward_train(tame)
    assert torch.equal(a.codebooks[-1], b.codebooks[-1])


@pytest.mark.parametrize("rows", [1, 5, CHUNK, CHUNK + 1, 3 * CHUNK - 7])
@pytest.mark.parametrize("has_state", [False, True])
def test_chunked_delta_rule_equals_the_recurrence(rows: int, has_state: bool) -> None:
    generator = torch.Generator().manual_seed(rows)

    def randn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    queries, keys = randn(2, rows, 3, 8), F.normalize(randn(2, rows, 3, 8), dim=-1)
    values, beta = randn(2, rows, 3, 5), randn(2, rows, 3).sigmoid()
    # From keeping everything to forgetting everything within one row.
    log_decay = -F.softplus(randn(2, rows, 3) * 8)
    matrix = randn(2, 3, 5, 8) if has_state else torch.zeros(2, 3, 5, 8)
    out, after = delta_rule_chunked(queries, keys, values, log_decay, beta, matrix if has_state else None)
    expected = [
        delta_rule_step(queries[:, t], keys[:, t], values[:, t], log_decay[:, t].exp(), beta[:, t], matrix)
        for t in range(rows)
    ]
    torch.testing.assert_close(out, torch.stack(expected, 1), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(after, matrix, atol=1e-4, rtol=1e-4)


def test_delta_rule_step_is_the_formula() -> None:
    matrix, key, query = torch.randn(5, 8), F.normalize(torch.randn(8), dim=0), torch.randn(8)
    value, decay, beta = torch.randn(5), torch.tensor(0.8), torch.tensor(0.3)
    decayed = decay * matrix
    expected = decayed + torch.outer(beta * (value - decayed @ key), key)
    memory = matrix.clone()[None, None]
    out = delta_rule_step(
        query[None, None], key[None, None], value[None, None], decay[None, None], beta[None, None], memory
    )
    torch.testing.assert_close(memory[0, 0], expected)
    torch.testing.assert_close(out[0, 0], expected @ query)


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_experts_equal_the_plain_sum(rows: int) -> None:
    moe = MixtureOfExperts(16, experts=5, per_row=3, intermediate=8, shared_intermediate=12)
    generator = torch.Generator().manual_seed(0)
    for parameter in moe.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    x = torch.randn(1, rows, 16, generator=generator)
    out, routing = moe(x)
    for t in range(rows):
        row = x[0, t]
        p = F.softmax(moe.router[:-1] @ row, 0)
        best = p.topk(3)
        expected = torch.zeros(16)
        for weight, expert in zip(best.values / best.values.sum(), best.indices.tolist(), strict=True):
            gate, up = (moe.experts.get_parameter("gate_up")[expert] @ row).chunk(2)
            expected = expected + weight * (moe.experts.get_parameter("down")[expert] @ (F.silu(gate) * up))
        gate, up = moe.shared.gate_up(row).chunk(2)
        expected = expected + torch.sigmoid(moe.router[-1] @ row) * moe.shared.down(F.silu(gate) * up)
        torch.testing.assert_close(out[0, t], expected, atol=1e-5, rtol=1e-5)
        assert set(routing.chosen[0, t].tolist()) == set(best.indices.tolist())


def test_balance_loss_is_one_when_even_and_grows_when_not() -> None:
    even = Routing(torch.zeros(1, 4, 4), torch.arange(4).view(1, 4, 1))
    skewed_logits = torch.zeros(1, 4, 4)
    skewed_logits[..., 0] = 3.0
    skewed = Routing(skewed_logits, torch.zeros(1, 4, 1, dtype=torch.int64))
    everywhere = torch.ones(1, 4, dtype=torch.bool)
    assert float(load_balance_loss(even, everywhere)) == pytest.approx(1.0)
    assert float(load_balance_loss(skewed, everywhere)) > 3
    half = torch.tensor([[True, True, False, False]])
    assert float(load_balance_loss(even, half)) == pytest.approx(1.0)


@pytest.mark.parametrize("is_interleaved", [False, True])
def test_rotation_turns_pairs_by_position(is_interleaved: bool) -> None:
    rotation = Rotary(8, 4, 100.0, is_interleaved).rows(700, None, torch.device("cpu"))
    x = torch.randn(1, 700, 2, 8)
    out = rotation.apply(x)
    pairs = [(0, 1), (2, 3)] if is_interleaved else [(0, 2), (1, 3)]
    for j, (a, b) in enumerate(pairs):
        angle = torch.arange(700)[:, None] * 100.0 ** (-2 * j / 4)
        torch.testing.assert_close(out[0, ..., a], x[0, ..., a] * angle.cos() - x[0, ..., b] * angle.sin())
        torch.testing.assert_close(out[0, ..., b], x[0, ..., b] * angle.cos() + x[0, ..., a] * angle.sin())
    assert torch.equal(out[..., 4:], x[..., 4:])


@pytest.mark.parametrize("heads", [2, 6])
def test_attention_to_learn_from_equals_the_fused_kernel(heads: int) -> None:
    queries, keys, values = torch.randn(2, 9, heads, 8), torch.randn(2, 2, 9, 8), torch.randn(2, 2, 9, 8)
    with torch.no_grad():
        fused = attend(queries, keys, values, None)
    torch.testing.assert_close(attend(queries, keys, values, None), fused, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("has_gain", [False, True])
def test_norm_and_its_gradient(has_gain: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 4, 6, generator=generator, requires_grad=True)
    gain = torch.randn(6, generator=generator).requires_grad_() if has_gain else None
    expected = F.rms_norm(x, (6,), gain, 1e-2)
    weights = torch.randn(3, 4, 6, generator=generator)
    inputs = [x, gain] if gain is not None else [x]
    slopes = torch.autograd.grad((expected * weights).sum(), inputs)
    out = rms_norm(x, gain, 1e-2)
    torch.testing.assert_close(out, expected)
    for ours, theirs in zip(torch.autograd.grad((out * weights).sum(), inputs), slopes, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(rms_norm(x, gain, 1e-2), expected)
        assert not rms_norm(torch.zeros(2, 6), None, 1e-6).any()


def test_one_short_sequence_can_be_trained_on(decoder: Decoder) -> None:
    """Fewer rows than a chunk, and experts that nobody chose."""
    out = decoder.forward_train(make_rows(1, 2))
    assert out.main.shape == (1, 2, SIZE + 1)
    out.main.sum().backward()  # type: ignore[no-untyped-call]
    decoder.zero_grad()
