"""From a checkpoint folder to the parts an engine is made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from engine.checkpoint.source import find_model
from engine.codec.codec import Codec
from engine.codec.dac.loading import has_dac, load_dac
from engine.codec.understudy import UnderstudyCodec
from engine.core import ModelInfo, Policy, Utterance
from engine.errors import ConfigError
from engine.manifest import Manifest
from engine.model.ready import make_ready
from engine.prompt import PromptBuilder, load_tokenizer
from engine.quant.modules import prepare
from engine.quant.scheme import Scheme
from engine.recall import Recalled
from engine.runner import Runner
from engine.streams.aligned import AlignedStream
from engine.streams.aligned_symbols import AlignedSettings
from engine.streams.base import SpokenTurn, TextStream
from engine.streams.guesses import Guessing
from engine.streams.turn_speech import AlignedTurn, GuessedTurn, TurnSettings, TurnSpeech
from engine.streams.turns import TurnStream
from engine.text.front import TextFront
from engine.text.reader import Reader
from engine.text.render import render_phonemes, render_text
from engine.text.segment import ClauseCutter
from engine.text.words import SpokenWord
from engine.voices.book import VoiceBook
from engine.voices.opening import MOST_SHARE, open_voices
from engine.weights import load_decoder

CODEC_FILE = "codec.safetensors"
TOKENIZER_FILE = "tokenizer.json"
TURN_END_FRAMES = 6
"""Frames of closing silence after which a turn ends that the model has not ended itself."""


@dataclass(frozen=True)
class ContextLimits:
    """How long an utterance's context may get, in rows."""

    renew_rows: int = 2000
    """From here on it is let go at the next pause."""
    most_rows: int = 4000
    """An utterance that found no pause until here fails."""

    @property
    def history_rows(self) -> int:
        """What a voice and turns that are shown again may fill of a renewed context."""
        return int(MOST_SHARE * self.renew_rows)


@dataclass(frozen=True)
class Parts:
    """What ``Engine`` takes, but for the scheduler."""

    info: ModelInfo
    runner: Runner
    voices: VoiceBook
    make_front: Callable[[Utterance], TextFront]
    make_stream: Callable[[Utterance], TextStream]
    limits: ContextLimits = ContextLimits()
    recall: Callable[[Utterance, SpokenTurn], Recalled] | None = None
    """Rows of a turn that was spoken; None: a renewed context holds the voice alone."""


def load_parts(
    folder: Path,
    text_stream: str | None = None,
    codec: Codec | None = None,
    dtype: torch.dtype | None = None,
    device: str = "cpu",
    voices_folder: Path | None = None,
    lexicon: Path | None = None,
    scheme: Scheme | None = None,
) -> Parts:
    """Read a checkpoint: a folder, or a model on the hub (see ``find_model``).

    ``text_stream`` and ``codec`` None: the checkpoint's own. ``dtype`` None: bfloat16 for large models, else float32.
    ``voices_folder``: where voices from recordings lie (None: in the checkpoint's own folder). ``lexicon``: a file of
    pronunciations for all utterances. ``scheme``: weights are quantised as they are read, to the nearest.

    Raises ``ConfigError``, ``WeightsError`` and ``DownloadError``.
    """
    folder = find_model(folder)
    manifest = Manifest.from_folder(folder)
    text_stream = text_stream or manifest.text_stream
    decoder, config = load_decoder(folder, dtype, scheme)
    if text_stream == "aligned" and config.aligned is None:
        raise ConfigError(f"{manifest.name} has no aligned text stream; use turns")
    codec = codec or load_codec(folder, device)
    if codec.num_codebooks != config.num_codebooks:
        raise ConfigError(f"the codec has {codec.num_codebooks} codebooks, the decoder {config.num_codebooks}")
    # The pointer tells which words a frame belongs to.
    speeds = codec.speeds if config.aligned is not None else None
    limits = (speeds.slowest, speeds.fastest) if speeds else (1.0, 1.0)
    reader = Reader.with_lexicon(lexicon, manifest.alphabet is not None, manifest.cues, limits)
    builder = PromptBuilder(load_tokenizer(folder / TOKENIZER_FILE), config)
    runner = Runner(make_ready(prepare(decoder.to(device))), codec, manifest.sampling, device)
    voices = open_voices(folder, manifest, builder, runner, text_stream == "aligned", voices_folder)
    frame_ms = 1000 * codec.samples_per_frame / codec.sample_rate

    aligned: AlignedSettings | None = None
    if manifest.alphabet and config.aligned:
        look_behind, look_ahead = config.aligned.look_behind, config.aligned.look_ahead
        aligned = AlignedSettings(manifest.alphabet, look_behind, look_ahead, unit_ms=frame_ms / 2, speeds=speeds)

    def make_aligned(utterance: Utterance) -> TextStream:
        assert aligned
        return AlignedStream(replace(aligned, speed=utterance.speed))

    def tag_of(utterance: Utterance) -> str:
        return f"<|speaker:{manifest.voices.index(utterance.voice)}|> " if manifest.voices else ""

    def recall(utterance: Utterance, turn: SpokenTurn) -> Recalled:
        return Recalled.of(turn, builder, tag_of(utterance))

    def make_turns(utterance: Utterance) -> TextStream:
        tag = tag_of(utterance)

        def settle(text: str, known: int, is_first: bool, is_closed: bool) -> tuple[int, ...]:
            return tuple(builder.settled_ids(tag + text, len(tag) + known, is_first, is_closed))

        def prompt(text: str, is_first: bool, is_closed: bool) -> tuple[int, ...]:
            return tuple(builder.turn_ids(tag + text) if is_first else builder.continuation_ids(tag + text, is_closed))

        def open_turn(words: Sequence[SpokenWord]) -> TurnSpeech:
            if aligned:
                return AlignedTurn(replace(aligned, end_frames=TURN_END_FRAMES, speed=utterance.speed), words)
            return GuessedTurn(TurnSettings(frame_ms), words)

        is_eager = utterance.policy is Policy.EAGER
        return TurnStream(
            frame_ms,
            ClauseCutter(Policy.CLAUSE if is_eager else utterance.policy),
            open_turn,
            render_phonemes if manifest.alphabet else render_text,
            prompt,
            Guessing() if is_eager else None,
            # The others sound the same to the bit however late their text comes, and pieces sum up in another order.
            settle if is_eager else None,
            keeps_history=manifest.pins_history,
        )

    return Parts(
        info=ModelInfo(
            name=manifest.name,
            sample_rate=codec.sample_rate,
            samples_per_frame=codec.samples_per_frame,
            text_stream=text_stream,
            voices=voices.names,
            languages=manifest.languages,
            licence=manifest.licence,
            notes=manifest.notes,
            reads_phonemes=reader.reads_phonemes,
            can_clone=voices.can_clone,
            cloned=voices.cloned,
            speeds=limits,
        ),
        runner=runner,
        voices=voices,
        make_front=reader.front,
        make_stream=make_aligned if text_stream == "aligned" else make_turns,
        limits=ContextLimits(renew_rows=manifest.renew_rows),
        recall=recall if manifest.pins_history else None,
    )


def load_codec(folder: Path, device: str = "cpu", keeps_converted: bool = True) -> Codec:
    """The codec of a checkpoint folder; Drama 3's on ``device``, the understudy's on the CPU in any case.

    ``keeps_converted`` False: nothing is written.

    Raises ``ConfigError`` if there is none, ``WeightsError`` if it is unfit.
    """
    if has_dac(folder):
        return load_dac(folder, device, keeps_converted)
    path = folder / CODEC_FILE
    if not path.exists():
        raise ConfigError(f"{folder} has no codec: neither {CODEC_FILE} nor codec.pth")
    return UnderstudyCodec.load(path)
