"""The speech prompt ``reference-bracket-v1``: what the decoder is given to read, row by row.

Every segment is tokenised on its own, because tokenising the joined text would merge across the seams. White space
always means the Unicode property White_Space, which is not what ``str.strip()`` removes.

Axes: C codebooks, F frames, T rows. A row is ``[main, c0 .. c(C-1)]`` (int64), zeros after the token in a text row.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from engine.config import ModelConfig
from engine.errors import ConfigError, StructuralTokenError, TextError

_SPACES = (*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
WHITE_SPACE = "".join(map(chr, _SPACES))

_MOST_SPEAKERS = 16
_STRUCTURAL = ("<|im_start|>", "<|im_end|>", "<|voice|>", "<|text|>", "<|interleave|>", "<|semantic:")
_SPEAKER = re.compile(r"<\|speaker:(0|[1-9][0-9]?)\|>")

_END = "<|im_end|>"
_NEWLINE = "\n"
_SYSTEM = "<|im_start|>system\n"
_USER = "<|im_start|>user\n"
_ASSISTANT = "<|im_start|>assistant\n<|voice|>"
_PLAIN = "convert the provided text to speech"
_WITH_REFERENCES = "convert the provided text to speech reference to the following:"


def validate_text(text: str) -> None:
    """Raise ``TextError`` for text that says nothing or names a speaker there is not, ``StructuralTokenError`` for
    text that contains a token the prompt is built from."""
    if not text.strip(WHITE_SPACE):
        raise TextError("there is no text to speak")
    for token in _STRUCTURAL:
        if token in text:
            raise StructuralTokenError(f"the text contains {token!r}, which structures the prompt")
    for start in (match.start() for match in re.finditer(r"<\|speaker", text)):
        tag = _SPEAKER.match(text, start)
        if tag is None or int(tag[1]) >= _MOST_SPEAKERS:
            raise TextError(
                f"speaker tags are <|speaker:0|> to <|speaker:{_MOST_SPEAKERS - 1}|>, not {text[start:][:16]!r}"
            )


def with_speaker_tag(text: str) -> str:
    """``text``, with the tag of speaker 0 put before it unless it starts with a tag (white space aside)."""
    return text if _SPEAKER.match(text.lstrip(WHITE_SPACE)) else f"<|speaker:0|> {text}"


def reference_transcript(text: str) -> str:
    """``text`` tagged, white space before the tag moved behind it, so that the tag comes first."""
    tagged = with_speaker_tag(text)
    rest = tagged.lstrip(WHITE_SPACE)
    tag = _SPEAKER.match(rest)
    assert tag is not None, tagged
    return tag[0] + tagged[: len(tagged) - len(rest)] + rest[tag.end() :]


@dataclass(frozen=True)
class Reference:
    """A recording to take the voice from: its exact transcript and its codes [C, F]."""

    transcript: str
    codes: Tensor


def load_tokenizer(path: Path) -> Tokenizer:
    """Read ``tokenizer.json``; raises ``ConfigError``."""
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise ConfigError(f"cannot read {path}: {error}") from error


class PromptBuilder:
    """Builds prompts for one model. Raises ``ConfigError`` if tokenizer and configuration name different tokens."""

    def __init__(self, tokenizer: Tokenizer, config: ModelConfig) -> None:
        self.config = config
        self._tokenizer = tokenizer
        last = config.codebook_size - 1
        for token, expected in (
            ("<|semantic:0|>", config.semantic_start_token_id),
            (f"<|semantic:{last}|>", config.semantic_end_token_id),
            (_END, config.eos_token_id),
        ):
            if (found := tokenizer.token_to_id(token)) != expected:
                raise ConfigError(f"{token} is token {found} of the tokenizer, {expected} of the configuration")

    def token_ids(self, *segments: str) -> list[int]:
        """Token ids of ``segments``, each tokenised on its own."""
        return [i for text in segments for i in self._tokenizer.encode(text, add_special_tokens=False).ids]

    def turn_ids(self, text: str) -> list[int]:
        """Token ids that ask for ``text`` and open its speech. Raises ``TextError``."""
        validate_text(text)
        return self.token_ids(_USER, with_speaker_tag(text), _END + _NEWLINE, _ASSISTANT)

    def continuation_ids(self, text: str, is_closed: bool) -> list[int]:
        """Token ids that lead from the end of one turn's speech into the speech of ``text``. Raises ``TextError``.

        ``is_closed``: the end-of-turn token is already among the rows, because the model gave it.
        """
        return self.token_ids(_NEWLINE if is_closed else _END + _NEWLINE) + self.turn_ids(text)

    def settled_ids(self, text: str, known: int, is_first: bool, is_closed: bool) -> list[int]:
        """Token ids that the prompt begins with of any text that begins like ``text``.

        Like it for ``known`` characters, that is, and then with a space or not at all, if one follows in ``text``.
        ``is_first``: ``turn_ids`` is meant, else ``continuation_ids``. It holds for tokenizers that never join what a
        space parts (all that take texts apart before they merge). Raises ``TextError``.
        """
        validate_text(text)
        head = [] if is_first else self.token_ids(_NEWLINE if is_closed else _END + _NEWLINE)
        head += self.token_ids(_USER)
        tagged = with_speaker_tag(text)
        seam = len(tagged) - len(text) + known
        while seam > 0 and not (tagged[seam : seam + 1] == " " and tagged[seam - 1] not in WHITE_SPACE):
            seam -= 1
        encoding = self._tokenizer.encode(tagged, add_special_tokens=False)
        ends = [end for _, end in encoding.offsets]
        settled = next((i for i, end in enumerate(ends) if end > seam), len(ends))
        return head + encoding.ids[:settled]

    def text_rows(self, ids: Sequence[int]) -> Tensor:
        """Text rows [T, 1 + C] of token ids."""
        rows = torch.zeros(len(ids), 1 + self.config.num_codebooks, dtype=torch.int64)
        rows[:, 0] = torch.tensor(ids, dtype=torch.int64)
        return rows

    def audio_rows(self, codes: Tensor) -> Tensor:
        """Audio rows [F, 1 + C] of ``codes`` [C, F]. Raises ``TextError`` for codes of another shape or range."""
        count, size = self.config.num_codebooks, self.config.codebook_size
        if codes.dim() != 2 or codes.shape[0] != count or codes.shape[1] == 0 or codes.is_floating_point():
            raise TextError(f"codes must be integers [{count}, frames], at least one frame, not {list(codes.shape)}")
        if int(codes.min()) < 0 or int(codes.max()) >= size:
            raise TextError(f"codes must be in 0 .. {size - 1}")
        frames = codes.t().to(torch.int64)
        return torch.cat((frames[:, :1] + self.config.semantic_start_token_id, frames), 1)

    def system_block(self, references: Sequence[Reference] = ()) -> Tensor:
        """Rows [T, 1 + C] that every prompt of a voice starts with. Raises ``TextError`` for a bad reference."""
        if not references:
            return self.text_rows(self.token_ids(_SYSTEM, _PLAIN, _END + _NEWLINE))
        parts = [self.text_rows(self.token_ids(_SYSTEM, _WITH_REFERENCES))]
        for number, reference in enumerate(references, 1):
            validate_text(reference.transcript)
            transcript = reference_transcript(reference.transcript)
            heading = f"\n\n[Reference {number}]\nText: {transcript}\nSpeech: "
            parts += [self.text_rows(self.token_ids(heading)), self.audio_rows(reference.codes)]
        parts.append(self.text_rows(self.token_ids(_END + _NEWLINE)))
        return torch.cat(parts)

    def history(self, text: str, codes: Tensor) -> Tensor:
        """Rows [T, 1 + C] of a turn that has been spoken as ``codes`` [C, F]. Raises ``TextError``."""
        end = self.text_rows(self.token_ids(_END + _NEWLINE))
        return torch.cat((self.turn(text), self.audio_rows(codes), end))

    def turn(self, text: str) -> Tensor:
        """Rows [T, 1 + C] that ask for ``text``; frames follow. Raises ``TextError``."""
        return self.text_rows(self.turn_ids(text))

    def prompt(
        self, text: str, references: Sequence[Reference] = (), history: Sequence[tuple[str, Tensor]] = ()
    ) -> Tensor:
        """A whole prompt [T, 1 + C]: system block, history turns (oldest first) and the text to speak."""
        turns = [self.history(said, codes) for said, codes in history]
        return torch.cat((self.system_block(references), *turns, self.turn(text)))
