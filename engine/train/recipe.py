"""The understudy's shape: one size dial, everything else follows. Also its alphabet, tokenizer and prompt prefix."""

from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models

from engine.codec.understudy import CODEBOOK_SIZE, CODEBOOK_STREAMS
from engine.config import AlignedTextConfig, BackboneConfig, ModelConfig, TowerConfig

NUM_CODEBOOKS = len(CODEBOOK_STREAMS)
ALPHABET = " !,.:;?AIOTWYbdfhijklmnpstuvwzæðŋɐɑɔəɛɜɡɪɹʃʊʌʒʤʧˈˌθᵊᵻ"
"""Symbols with an id of their own in the aligned stream: 2 + position; 0 is "none", 1 is SIL."""
NO_SYMBOL, SIL = 0, 1
VOICES = ("heart", "michael", "bella", "puck", "fenrir", "george", "emma", "aoede")
TEACHER_STYLES = (
    "af_heart",
    "am_michael",
    "af_bella",
    "am_puck",
    "am_fenrir",
    "bm_george",
    "bf_emma",
    "af_aoede",
)
"""Of which of the teacher's voices each of ``VOICES`` learned."""
TEACHER_VOICES = {style: voice for voice, style in enumerate(TEACHER_STYLES)}
LEANS_ON = {"puck": "michael", "fenrir": "michael", "george": "michael", "emma": "heart", "aoede": "heart"}
"""Voices taught with minutes of speech, each with the one nearest to it of those that were taught with hours."""
LEANING = 0.3
"""How far of the way towards that voice: they are understood better and stay who they are (``docs/experiments.md``)."""
LEARNED_SHARE = 0.5
"""Where a run goes on from a checkpoint, what is kept lies so far on the way from its weights to the trained ones, so
that what was learned of earlier speech is not lost (``docs/experiments.md``)."""
SPECIAL_TOKENS = (
    ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|voice|>", "<|text|>", "<|interleave|>", "<|audio_pad|>"]
    + [f"<|speaker:{i}|>" for i in range(16)]
    + [f"<|semantic:{i}|>" for i in range(CODEBOOK_SIZE)]
)
PROMPT_WORDS = ("system\n", "user\n", "assistant\n", "\n", "convert the provided text to speech")
"""Pieces of the prompt template that are one token each, so that a voice prefix is short."""


def symbol_ids(phonemes: str) -> list[int]:
    """Aligned-stream ids of phoneme characters; a character outside the alphabet gives ``NO_SYMBOL``."""
    return [ALPHABET.find(symbol) + 2 if symbol in ALPHABET else NO_SYMBOL for symbol in phonemes]


def build_tokenizer() -> Tokenizer:
    """Phonemes are characters, one token each; structure and prompt words are tokens of their own."""
    vocabulary = {symbol: i for i, symbol in enumerate(["<unk>", *ALPHABET])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in PROMPT_WORDS])
    return tokenizer


def model_config(hidden: int = 256, layers: int = 8) -> ModelConfig:
    """The configuration for one ``hidden`` size; heads, experts and the tower scale with it."""
    tokenizer = build_tokenizer()
    heads, head_dim = hidden // 64, 64
    return ModelConfig(
        backbone=BackboneConfig(
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=heads // 2,
            head_dim=head_dim,
            linear_num_key_heads=heads,
            linear_key_head_dim=32,
            linear_num_value_heads=heads,
            linear_value_head_dim=64,
            num_experts=8,
            num_experts_per_tok=2,
            moe_intermediate_size=hidden // 2,
            shared_expert_intermediate_size=hidden,
            vocab_size=-(-tokenizer.get_vocab_size() // 64) * 64,
        ),
        tower=TowerConfig(
            dim=hidden,
            n_head=heads,
            n_local_heads=heads // 2,
            head_dim=head_dim,
            n_layer=1,
            intermediate_size=hidden * 3 // 2,
            num_codebooks=NUM_CODEBOOKS,
            vocab_size=CODEBOOK_SIZE,
            vq_backbone_codebooks=NUM_CODEBOOKS - 1,
        ),
        semantic_start_token_id=_token_id(tokenizer, "<|semantic:0|>"),
        eos_token_id=_token_id(tokenizer, "<|im_end|>"),
        aligned=AlignedTextConfig(
            num_symbols=2 + len(ALPHABET),
            embedding_dim=64,
            num_voices=len(VOICES),
            max_elapsed=15,
            hidden_dim=2 * hidden,
            look_behind=2,
            look_ahead=6,
        ),
    )


def aligned_prefix(tokenizer: Tokenizer, voice: int) -> list[int]:
    """Token ids before the first frame of an aligned utterance: a user turn that only names the speaker."""
    segments = ["<|im_start|>system\n", "convert the provided text to speech", "<|im_end|>\n"]
    return _encode(tokenizer, [*segments, *_turn(f"<|speaker:{voice}|> ")])


def turn_prefix(tokenizer: Tokenizer, voice: int, phonemes: str, is_first: bool) -> list[int]:
    """Token ids of a turn whose text is read first: system block (first turn only), user turn, assistant opening."""
    segments = (
        ["<|im_start|>system\n", "convert the provided text to speech", "<|im_end|>\n"]
        if is_first
        else ["<|im_end|>\n"]
    )
    return _encode(tokenizer, [*segments, *_turn(f"<|speaker:{voice}|> {phonemes}")])


def speaker_token(tokenizer: Tokenizer, voice: int) -> int:
    """Id of the tag that names a voice in the prompt."""
    return _token_id(tokenizer, f"<|speaker:{voice}|>")


def _token_id(tokenizer: Tokenizer, token: str) -> int:
    found = tokenizer.token_to_id(token)
    assert found is not None, token
    return int(found)


def _turn(text: str) -> list[str]:
    return ["<|im_start|>user\n", text, "<|im_end|>\n", "<|im_start|>assistant\n<|voice|>"]


def _encode(tokenizer: Tokenizer, segments: list[str]) -> list[int]:
    return [token for segment in segments for token in tokenizer.encode(segment, add_special_tokens=False).ids]


def manifest() -> dict[str, Any]:
    """The ``footlights`` object of the checkpoint's ``config.json``."""
    return {
        "name": "understudy",
        "text_stream": "aligned",
        "voices": list(VOICES),
        "alphabet": ALPHABET,
        "languages": ["en"],
        "licence": "Apache-2.0",
        "sampling": {"temperature": 0.2, "top_p": 0.8},
        "renew_rows": 400,
    }
