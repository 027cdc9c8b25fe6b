"""The voice registry: built when first asked for, once, never changed; unknown names are answered with the known."""

import pytest
import torch

from engine.cache.decoder import DecoderState
from engine.errors import UnknownVoiceError
from engine.voices.book import ReadyVoice, VoiceBook, VoicePrefix
from tests.engine.doubles import small_config


class Preparations:
    def __init__(self) -> None:
        self.prepared: list[int] = []

    def __call__(self, prefix: VoicePrefix) -> ReadyVoice:
        self.prepared.append(prefix.index)
        return ReadyVoice(prefix, prefix.rows[-1], DecoderState.allocate(small_config(is_aligned=True), 1))


@pytest.fixture
def preparations() -> Preparations:
    return Preparations()


@pytest.fixture
def book(preparations: Preparations) -> VoiceBook:
    rows = torch.zeros(3, 5, dtype=torch.int64)
    return VoiceBook({name: VoicePrefix(rows, i) for i, name in enumerate(("heart", "michael"))}, preparations)


def test_a_voice_is_prepared_when_first_asked_for_and_once(book: VoiceBook, preparations: Preparations) -> None:
    assert preparations.prepared == []
    first = book.ready("michael")
    assert preparations.prepared == [1]
    assert book.ready("michael") is first
    assert preparations.prepared == [1]


def test_names_keep_their_order(book: VoiceBook) -> None:
    assert book.names == ("heart", "michael")


def test_memory_is_counted_once_it_is_held(book: VoiceBook) -> None:
    assert book.nbytes == 0
    held = book.ready("heart").nbytes
    assert held > 0
    book.ready("michael")
    assert book.nbytes == 2 * held


@pytest.mark.parametrize("name", ["", "Heart", "ghost"])
def test_an_unknown_voice_lists_the_voices(book: VoiceBook, name: str) -> None:
    with pytest.raises(UnknownVoiceError, match="heart, michael") as caught:
        book.ready(name)
    assert caught.value.code == "unknown_voice"


def test_a_voice_that_could_not_be_prepared_is_tried_again() -> None:
    attempts = []

    def prepare(prefix: VoicePrefix) -> ReadyVoice:
        attempts.append(prefix.index)
        raise MemoryError

    book = VoiceBook({"heart": VoicePrefix(torch.zeros(3, 5, dtype=torch.int64))}, prepare)
    for _ in range(2):
        with pytest.raises(MemoryError):
            book.ready("heart")
    assert len(attempts) == 2
