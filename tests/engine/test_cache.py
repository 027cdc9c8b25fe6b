"""One suite for every kind of decoder memory, then what is particular to each."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engine.cache.base import Memory
from engine.cache.decoder import DecoderState
from engine.cache.kv import KVMemory
from engine.cache.recurrent import RecurrentMemory
from engine.config import BackboneConfig, ModelConfig, TowerConfig
from engine.errors import StateError

LAYERS, HEADS, DIM = 2, 2, 4

CONFIG = ModelConfig(
    BackboneConfig(
        hidden_size=8,
        num_hidden_layers=4,
        num_attention_heads=2,
        num_key_value_heads=HEADS,
        head_dim=DIM,
        linear_num_key_heads=1,
        linear_key_head_dim=4,
        linear_num_value_heads=2,
        linear_value_head_dim=4,
        num_experts=2,
        num_experts_per_tok=1,
        moe_intermediate_size=4,
        shared_expert_intermediate_size=4,
        vocab_size=20,
        partial_rotary_factor=0.5,
    ),
    TowerConfig(
        dim=8,
        n_head=2,
        n_local_heads=HEADS,
        head_dim=DIM,
        n_layer=1,
        intermediate_size=8,
        num_codebooks=3,
        vocab_size=10,
        vq_backbone_codebooks=1,
        rotary_percent=0.5,
    ),
    semantic_start_token_id=10,
    eos_token_id=1,
)


def write_kv(memory: KVMemory, rows: int, seed: int, counts: list[int] | None = None) -> None:
    """Append rows that are the same for the same seed, sequence by sequence."""
    span = memory.span(rows, counts)
    for layer in range(memory.keys.shape[0]):
        blocks = [torch.randn(2, rows, HEADS, DIM, generator=torch.Generator().manual_seed(seed + layer))]
        keys, values = torch.stack(blocks * memory.batch_size, 1)
        memory.append(layer, keys, values, span)
    memory.advance(span)


def write_recurrent(memory: RecurrentMemory, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    memory.window += torch.randn(memory.window[:, :1].shape, generator=generator)
    memory.matrix += torch.randn(memory.matrix[:, :1].shape, generator=generator)


def make_kv(batch: int) -> KVMemory:
    return KVMemory.allocate(LAYERS, batch, HEADS, DIM, capacity=4)


def make_recurrent(batch: int) -> RecurrentMemory:
    return RecurrentMemory.allocate(LAYERS, batch, (3, 6), (2, 4, 4))


def make_state(batch: int) -> DecoderState:
    return DecoderState.allocate(CONFIG, batch)


def write(memory: Memory, seed: int) -> None:
    """Change every sequence of a memory; the same seed changes it alike."""
    if isinstance(memory, KVMemory):
        write_kv(memory, 3, seed)
    elif isinstance(memory, RecurrentMemory):
        write_recurrent(memory, seed)
    else:
        assert isinstance(memory, DecoderState)
        write_kv(memory.kv, 3, seed)
        write_kv(memory.tower, 3, seed + 50)
        write_recurrent(memory.recurrent, seed + 90)


def content(memory: Memory, row: int) -> list[Tensor]:
    """All that a memory holds of one sequence."""
    if isinstance(memory, KVMemory):
        length = memory.lengths[row]
        return [torch.tensor(length), memory.keys[:, row, :, :length], memory.values[:, row, :, :length]]
    if isinstance(memory, RecurrentMemory):
        return [memory.window[:, row], memory.matrix[:, row]]
    assert isinstance(memory, DecoderState)
    return [t for part in (memory.kv, memory.recurrent, memory.tower) for t in content(part, row)]


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def frozen(memory: Memory, row: int) -> list[Tensor]:
    return [t.clone() for t in content(memory, row)]


kinds = pytest.mark.parametrize("make", [make_kv, make_recurrent, make_state])
Make = Callable[[int], Memory]


@kinds
def test_sequences_start_alike_and_empty(make: Make) -> None:
    memory = make(3)
    assert memory.batch_size == 3
    assert all(same(content(memory, row), content(make(1), 0)) for row in range(3))
    assert all(not t.any() for t in content(memory, 0))


@kinds
def test_snapshot_is_a_copy_and_survives_restoring_twice(make: Make) -> None:
    memory = make(2)
    write(memory, 1)
    snapshot, before = memory.snapshot(), frozen(memory, 1)
    for seed in (2, 3):
        write(memory, seed)
        assert not same(content(memory, 1), before)
        assert same(content(snapshot, 1), before)
        memory.restore(snapshot)
        assert same(content(memory, 1), before)


@kinds
def test_restore_touches_only_the_rows_named(make: Make) -> None:
    memory = make(3)
    write(memory, 1)
    snapshot = memory.extract([1])
    write(memory, 2)
    kept = [frozen(memory, row) for row in range(3)]
    memory.restore(snapshot, [2])
    assert same(content(memory, 0), kept[0])
    assert same(content(memory, 1), kept[1])
    assert same(content(memory, 2), content(snapshot, 0))


@kinds
def test_one_snapshot_fills_several_rows(make: Make) -> None:
    voice = make(1)
    write(voice, 1)
    memory = make(3)
    write(memory, 5)
    memory.restore(voice, [0, 2])
    assert same(content(memory, 0), content(voice, 0))
    assert same(content(memory, 2), content(voice, 0))
    assert not same(content(memory, 1), content(voice, 0))


@kinds
def test_restore_refuses_another_number_of_sequences(make: Make) -> None:
    with pytest.raises(AssertionError):
        make(3).restore(make(2))


@kinds
def test_extract_picks_in_order(make: Make) -> None:
    memory = merged(make)
    picked = memory.extract([2, 0])
    assert picked.batch_size == 2
    assert same(content(picked, 0), content(memory, 2))
    assert same(content(picked, 1), content(memory, 0))
    before = frozen(memory, 2)
    write(picked, 9)
    assert same(content(memory, 2), before)


def merged(make: Make) -> Memory:
    """Three sequences of different history and, where it has one, length."""
    members = [make(1) for _ in range(3)]
    for number, member in enumerate(members):
        for step in range(number):
            write(member, 10 * number + step)
    return type(members[0]).merge(members)


@kinds
def test_merge_keeps_every_sequence_and_copies(make: Make) -> None:
    members = [make(1), make(2)]
    write(members[0], 1)
    write(members[0], 2)
    write(members[1], 3)
    memory = type(members[0]).merge(members)
    before = [frozen(members[0], 0), frozen(members[1], 0), frozen(members[1], 1)]
    assert memory.batch_size == 3
    assert all(same(content(memory, row), before[row]) for row in range(3))
    write(memory, 4)
    assert same(content(members[0], 0), before[0])


@kinds
def test_scattered_and_gathered_again_nothing_changes(make: Make) -> None:
    memory = merged(make)
    again = type(memory).merge([memory.extract([row]) for row in range(3)])
    assert all(same(content(again, row), content(memory, row)) for row in range(3))


@kinds
def test_a_merged_memory_goes_on_like_its_members(make: Make) -> None:
    members = [make(1) for _ in range(2)]
    write(members[1], 1)
    memory = type(members[0]).merge(members)
    write(memory, 2)
    for row, member in enumerate(members):
        write(member, 2)
        assert same(content(memory, row), content(member, 0))


@kinds
def test_reset_empties_where_the_mask_is_true(make: Make) -> None:
    memory = merged(make)
    kept = frozen(memory, 1)
    memory.reset(torch.tensor([True, False, True]))
    assert same(content(memory, 1), kept)
    assert all(not t.any() for row in (0, 2) for t in content(memory, row))
    write(memory, 7)
    fresh = make(1)
    write(fresh, 7)
    assert same(content(memory, 2), content(fresh, 0))


@kinds
def test_nbytes_counts_what_is_held(make: Make) -> None:
    assert make(4).nbytes == 4 * make(1).nbytes > 0


def test_kv_grows_by_doubling_and_keeps_rows() -> None:
    memory = make_kv(2)
    write_kv(memory, 3, 1)
    first = frozen(memory, 0)
    write_kv(memory, 3, 2)
    assert memory.capacity >= 6
    assert torch.equal(memory.keys[:, 0, :, :3], first[1])
    capacity = memory.capacity
    write_kv(memory, capacity, 3)
    assert memory.capacity == max(2 * capacity, 6 + capacity)
    assert torch.equal(memory.keys[:, 1, :, :3], first[1])


def test_kv_truncates_each_sequence_to_its_length() -> None:
    memory = make_kv(2)
    write_kv(memory, 4, 1)
    before = frozen(memory, 1)
    memory.truncate([1, 3])
    assert memory.lengths == [1, 3]
    assert torch.equal(memory.keys[:, 1, :, :3], before[1][:, :, :3])
    write_kv(memory, 2, 5)
    alone = make_kv(1)
    write_kv(alone, 4, 1)
    alone.truncate([1])
    write_kv(alone, 2, 5)
    assert same(content(memory, 0), content(alone, 0))


@pytest.mark.parametrize("lengths", [[5, 4], [-1, 4]])
def test_kv_cannot_truncate_to_rows_it_has_not(lengths: list[int]) -> None:
    memory = make_kv(2)
    write_kv(memory, 4, 1)
    with pytest.raises(StateError):
        memory.truncate(lengths)
    assert memory.lengths == [4, 4]


def test_kv_appends_only_the_real_rows_of_a_padded_block() -> None:
    memory = make_kv(3)
    write_kv(memory, 2, 1)
    idle = frozen(memory, 1)
    write_kv(memory, 3, 2, counts=[3, 0, 1])
    assert memory.lengths == [5, 2, 3]
    assert same(content(memory, 1), idle)
    alone = make_kv(1)
    write_kv(alone, 2, 1)
    write_kv(alone, 3, 2)
    assert same(content(memory, 0), content(alone, 0))
    assert torch.equal(memory.keys[:, 2, :, :3], alone.keys[:, 0, :, :3])


def test_a_span_shows_each_row_the_rows_before_it() -> None:
    memory = make_kv(2)
    write_kv(memory, 2, 1, counts=[2, 1])
    span = memory.span(2, [2, 2])
    assert span.mask is not None
    assert span.mask[:, 0].tolist() == [
        [[True, True, True, False], [True, True, True, True]],
        [[True, True, False, False], [True, True, True, False]],
    ]


@pytest.mark.parametrize("make", [make_recurrent, make_state])
def test_recurrent_memory_cannot_be_truncated(make: Make) -> None:
    memory = make(1)
    write(memory, 1)
    before = frozen(memory, 0)
    with pytest.raises(StateError, match="snapshot"):
        memory.truncate([0])
    assert same(content(memory, 0), before)


def test_a_row_of_each_lies_where_a_block_would_put_it() -> None:
    memory, other = make_kv(3), make_kv(3)
    for each in (memory, other):
        write_kv(each, 3, 1, [1, 3, 2])
    keys, values = torch.randn(2, 3, 1, HEADS, DIM)
    counts = [1, 0, 1]
    span, same_span = memory.span(1, counts), other.span(1, counts)
    for layer in range(LAYERS):
        own = memory.append_each(layer, keys, values, span)
        together = other.append(layer, keys, values, same_span)
        for b, end in enumerate((2, 3, 3)):
            for mine, block in zip(own[b], together, strict=True):
                assert torch.equal(mine[0], block[b, :, :end])
    memory.advance(span)
    other.advance(same_span)
    assert all(same(content(memory, row), content(other, row)) for row in range(3))
