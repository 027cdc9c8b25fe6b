"""Checkpoint folders to engines: Drama 3's own form (the golden set) and the understudy's, both text streams."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from engine.codec.understudy import UnderstudyCodec
from engine.core import AudioChunk, Finished, Policy, SamplingParams, Utterance
from engine.engine import Engine, load_engine
from engine.errors import ConfigError
from engine.loading import load_parts
from engine.manifest import Manifest
from engine.model.decoder import Decoder, initialise
from engine.scheduler import Scheduler
from engine.speak import speak
from engine.streams.base import SpokenTurn
from engine.train.recipe import VOICES, build_tokenizer, manifest, model_config
from engine.weights import save_decoder
from tests.engine.doubles import FakeClock, SumCodec, babble

GOLDEN = Path(__file__).parents[1] / "golden" / "drama3-tiny" / "checkpoint-bf16"
TEXT = "Good morning, Dr. Smith! Shall we go?"


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def understudy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of the understudy's form, small and untrained."""
    folder = tmp_path_factory.mktemp("understudy")
    config = model_config(hidden=128, layers=4)
    decoder = Decoder(config)
    initialise(decoder)
    save_decoder(folder, decoder, config)
    (folder / "config.json").write_text(json.dumps(config.to_dict() | {"footlights": manifest()}), encoding="utf-8")
    build_tokenizer().save(str(folder / "tokenizer.json"))
    codec = UnderstudyCodec(width=16, blocks=1)
    metadata = {"width": "16", "blocks": "1"}
    save_file(codec.state_dict(), folder / "codec.safetensors", metadata)
    return folder


def engine_of(folder: Path, **options: Any) -> Engine:
    return Engine(load_parts(folder, **options), Scheduler(4, float("inf"), FakeClock()))


def streamed(engine: Engine, text: str, voice: str, size: int) -> NDArray[np.float32]:
    """Samples of ``text`` given in pieces with steps in between."""
    engine.add(Utterance("u", voice))
    events = []
    for start in range(0, len(text), size):
        engine.append_text("u", text[start : start + size])
        events += engine.step()
    engine.finish("u")
    while engine.has_work():
        events += engine.step()
    assert isinstance(events[-1], Finished)
    return np.concatenate([event.samples for event in events if isinstance(event, AudioChunk)])


class TestDrama:
    def test_the_golden_model_speaks_in_turns(self) -> None:
        engine = engine_of(GOLDEN, codec=SumCodec(4))
        assert engine.info.text_stream == "turns"
        assert engine.info.voices == ("default",)
        assert engine.info.licence == "Fish Audio Community License"
        assert "Built with Fish Audio" in engine.info.notes
        text = "Yes, of course I do. No."
        samples, words = babble(engine, text, "default", policy=Policy.WHOLE)
        assert [word.text for word in words] == text.split()
        assert words[-1].end_ms <= 1000 * len(samples) / 24_000 + 1e-6
        assert np.array_equal(babble(engine, text, "default", size=1, policy=Policy.WHOLE)[0], samples)

    def test_text_in_turns_is_the_original_text(self) -> None:
        parts = load_parts(GOLDEN, codec=SumCodec(4))
        made = parts.make_stream(Utterance("u", "default"))
        front = parts.make_front(Utterance("u", "default"))
        made.add([*front.append("It costs $20 to go. "), *front.finish()])
        made.finish()
        ids = made.take_prompt()
        tokenizer_bytes = json.loads((GOLDEN / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
        names = {index: token for token, index in tokenizer_bytes.items()}
        read = "".join(names.get(i, "") for i in ids).replace("Ġ", " ")
        assert "It costs $20 to go." in read


class TestUnderstudy:
    @pytest.mark.parametrize("text_stream", ["aligned", "turns"])
    def test_speaks_in_both_forms(self, understudy: Path, text_stream: str) -> None:
        engine = engine_of(understudy, text_stream=text_stream)
        assert engine.info.text_stream == text_stream
        assert engine.info.voices == VOICES
        assert engine.info.frame_ms == 50
        samples, words = speak(engine, "Yes, I do.", "michael", sampling=SamplingParams(seed=3))
        assert samples.dtype == np.float32
        assert np.abs(samples).max() <= 1
        assert [word.text for word in words] == ["Yes,", "I", "do."]

    def test_aligned_is_the_default_and_streams_bit_for_bit(self, understudy: Path) -> None:
        engine = load_engine(understudy, is_warm=False)
        assert engine.info.text_stream == "aligned"
        samples, _ = speak(engine, "Good morning, my friend!", "heart")
        assert np.array_equal(streamed(engine, "Good morning, my friend!", "heart", 1), samples)

    def test_voices_differ_by_speaker_tag(self, understudy: Path) -> None:
        tags = [f"<|speaker:{i}|>" for i in range(len(VOICES))]
        ids = [build_tokenizer().token_to_id(tag) for tag in tags]
        aligned = load_parts(understudy).voices
        for i, name in enumerate(VOICES):
            tokens = aligned.ready(name).prefix.rows[:, 0].tolist()
            assert [token for token in tokens if token in ids] == [ids[i]]
        turns = load_parts(understudy, text_stream="turns")
        for i, name in enumerate(VOICES):
            made = turns.make_stream(Utterance("u", name))
            made.add(turns.make_front(Utterance("u", name)).append("Hello there, my dear old friend. Yes"))
            assert [token for token in made.take_prompt() if token in ids] == [ids[i]]

    @pytest.mark.parametrize("pins_history", [True, False])
    def test_the_manifest_says_whether_turns_are_shown_again(self, understudy: Path, pins_history: bool) -> None:
        values = json.loads((understudy / "config.json").read_text(encoding="utf-8"))
        values["footlights"]["pins_history"] = pins_history
        folder = understudy.with_name(f"understudy-{pins_history}")
        shutil.copytree(understudy, folder)
        (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
        parts = load_parts(folder, text_stream="turns")
        assert (parts.recall is not None) is pins_history
        if parts.recall:
            turn = SpokenTurn("ˈoʊ", ((1,) * 8,) * 3, (None,) * 4)
            recalled = parts.recall(Utterance("u", VOICES[2]), turn)
            tag = build_tokenizer().token_to_id("<|speaker:2|>")
            assert recalled.rows[:, 0].tolist().count(tag) == 1
            assert len(recalled.rows) == len(recalled.windows)


class TestRefusals:
    def test_no_codec(self) -> None:
        with pytest.raises(ConfigError, match=r"codec\.safetensors"):
            load_parts(GOLDEN)

    def test_a_codec_of_another_size(self) -> None:
        with pytest.raises(ConfigError, match="8 codebooks, the decoder 4"):
            load_parts(GOLDEN, codec=SumCodec(8))

    def test_an_aligned_stream_the_model_does_not_have(self) -> None:
        with pytest.raises(ConfigError, match="use turns"):
            load_parts(GOLDEN, text_stream="aligned", codec=SumCodec(4))

    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"config\.json"):
            load_parts(tmp_path)

    @pytest.mark.parametrize(
        ("values", "says"),
        [
            ({}, "name"),
            ({"name": "x", "voice": []}, "known|none but"),
            ({"name": "x", "text_stream": "both"}, "aligned, turns"),
            ({"name": "x", "text_stream": "aligned"}, "alphabet"),
            ({"name": "x", "voices": "heart"}, "list of strings"),
            ({"name": "x", "alphabet": 3}, "string"),
            ({"name": "x", "sampling": {"heat": 1}}, "heat"),
            ({"name": "x", "sampling": {"temperature": "hot"}}, "sampling.temperature"),
            ({"name": "x", "sampling": {"top_p": float("nan")}}, "sampling.top_p"),
            ({"name": "x", "sampling": {"top_k": 0}}, "sampling.top_k"),
            ({"name": "x", "sampling": {"seed": None}}, "sampling.seed"),
            ({"name": "x", "renew_rows": 0}, "renew_rows"),
            ({"name": "x", "pins_history": "no"}, "pins_history must be true or false"),
        ],
    )
    def test_a_manifest_that_says_something_else(self, values: dict[str, Any], says: str) -> None:
        with pytest.raises(ConfigError, match=says):
            Manifest.from_dict(values)
