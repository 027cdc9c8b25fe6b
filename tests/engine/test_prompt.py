"""The prompt's parts and the errors for what may not be spoken; stored prompts are in ``tests/golden``."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.config import ModelConfig
from engine.errors import ConfigError, StructuralTokenError, TextError
from engine.prompt import (
    WHITE_SPACE,
    PromptBuilder,
    Reference,
    load_tokenizer,
    reference_transcript,
    validate_text,
    with_speaker_tag,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "drama3-tiny" / "checkpoint-bf16"
EOS = 402


@pytest.fixture(scope="module")
def builder() -> PromptBuilder:
    return PromptBuilder(load_tokenizer(GOLDEN / "tokenizer.json"), ModelConfig.from_file(GOLDEN / "config.json"))


def test_white_space_is_the_unicode_property() -> None:
    assert len(WHITE_SPACE) == len(set(WHITE_SPACE)) == 25
    # Python strips these too; they are not white space.
    assert not set("\x1c\x1d\x1e\x1f\u200b\ufeff") & set(WHITE_SPACE)
    assert {c for c in WHITE_SPACE if not c.isspace()} == set()


@pytest.mark.parametrize(
    "token", ["<|im_start|>", "<|im_end|>", "<|voice|>", "<|text|>", "<|interleave|>", "<|semantic:7|>"]
)
def test_structure_typed_as_text_is_refused(builder: PromptBuilder, token: str) -> None:
    for build in (builder.turn, builder.turn_ids, builder.prompt, lambda text: builder.continuation_ids(text, True)):
        with pytest.raises(StructuralTokenError, match="structures"):
            build(f"so {token} there")
    with pytest.raises(StructuralTokenError):
        builder.system_block([Reference(f"x{token}", torch.zeros(4, 1, dtype=torch.int64))])
    with pytest.raises(StructuralTokenError):
        builder.history(token, torch.zeros(4, 1, dtype=torch.int64))


@pytest.mark.parametrize(
    "tag", ["<|speaker:16|>", "<|speaker:01|>", "<|speaker:-1|>", "<|speaker:" + "9" * 5000 + "|>"]
)
def test_speakers_there_are_not(tag: str) -> None:
    with pytest.raises(TextError, match=r"speaker:15"):
        validate_text(f"well {tag} then")


def test_every_speaker_there_is() -> None:
    validate_text("".join(f"<|speaker:{n}|> hi " for n in range(16)))


@given(st.text(max_size=30))
def test_tagged_text_starts_with_a_tag_and_loses_nothing(text: str) -> None:
    tagged = with_speaker_tag(text)
    assert tagged.endswith(text)
    transcript = reference_transcript(text)
    assert transcript.startswith("<|speaker:")
    assert sorted(transcript) == sorted(tagged)


def test_turns_follow_each_other(builder: PromptBuilder) -> None:
    """A continuation is what the history would have put there, after the end token if the model gave it."""
    codes = torch.arange(8).view(4, 2)
    whole = builder.prompt("And now?", history=[("First.", codes)])
    start = torch.cat((builder.system_block(), builder.turn("First."), builder.audio_rows(codes)))
    for end, is_closed in (([], False), ([EOS], True)):
        ids = [*end, *builder.continuation_ids("And now?", is_closed)]
        assert torch.equal(torch.cat((start, builder.text_rows(ids))), whole)


def test_rows_of_text_and_audio(builder: PromptBuilder) -> None:
    assert builder.text_rows([5, 6]).tolist() == [[5, 0, 0, 0, 0], [6, 0, 0, 0, 0]]
    codes = torch.tensor([[3], [63], [0], [1]], dtype=torch.int32)
    assert builder.audio_rows(codes).tolist() == [[425, 3, 63, 0, 1]]
    assert builder.text_rows([]).shape == (0, 5)


@pytest.mark.parametrize(
    "codes",
    [
        torch.zeros(3, 2, dtype=torch.int64),
        torch.zeros(4, 0, dtype=torch.int64),
        torch.zeros(4, dtype=torch.int64),
        torch.zeros(4, 2),
        torch.full((4, 2), -1),
        torch.full((4, 2), 64),
    ],
)
def test_codes_of_no_codec(builder: PromptBuilder, codes: torch.Tensor) -> None:
    with pytest.raises(TextError, match="codes must be"):
        builder.audio_rows(codes)


def test_segments_are_tokenised_apart(builder: PromptBuilder) -> None:
    joined, apart = builder.token_ids("the canal"), builder.token_ids("the ca", "nal")
    assert joined != apart
    assert apart == builder.token_ids("the ca") + builder.token_ids("nal")


def test_a_tokenizer_of_another_model(builder: PromptBuilder, tmp_path: Path) -> None:
    tokenizer, config = load_tokenizer(GOLDEN / "tokenizer.json"), builder.config
    with pytest.raises(ConfigError, match="im_end"):
        PromptBuilder(tokenizer, replace(config, eos_token_id=401))
    with pytest.raises(ConfigError, match="semantic:0"):
        PromptBuilder(tokenizer, replace(config, semantic_start_token_id=423))
    tower = replace(config.tower, vocab_size=80)
    with pytest.raises(ConfigError, match="semantic:79"):
        PromptBuilder(tokenizer, replace(config, tower=tower))
    (tmp_path / "tokenizer.json").write_text("{}")
    for path in (tmp_path / "tokenizer.json", tmp_path / "none.json"):
        with pytest.raises(ConfigError, match="cannot read"):
            load_tokenizer(path)
