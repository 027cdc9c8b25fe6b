"""Voices from recordings: made, stored, restored bit for bit, refused when they are another model's or damaged."""

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.core import AudioChunk, ClonedVoice, Finished, Policy, Recording, Utterance
from engine.engine import Engine, load_engine
from engine.errors import (
    ClipError,
    ForeignVoiceError,
    NoCloningError,
    StructuralTokenError,
    TextError,
    TextTooLongError,
    UnknownVoiceError,
    VoiceError,
    VoiceExistsError,
)
from engine.loading import load_parts
from engine.speak import speak
from engine.voices.book import ReadyVoice
from engine.voices.clips import read_clip
from engine.voices.files import _content_hash, load_voice, read_label, save_voice
from engine.voices.folder import VoiceFolder
from engine.voices.identity import model_identity
from engine.voices.library import VoiceLibrary
from engine.voices.local import Place, list_voices
from tests.engine.doubles import SumCodec, babble
from tests.engine.voice_doubles import (
    GOLDEN,
    TRANSCRIPT,
    HearingCodec,
    clip,
    engine_of,
    link_checkpoint,
    load,
    recording,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return link_checkpoint(tmp_path / "model")


@pytest.fixture
def engine(folder: Path) -> Engine:
    return engine_of(load(folder))


def add(engine: Engine, name: str, *recordings: Recording) -> ReadyVoice:
    made = engine.make_voice(name, recordings or (recording(),))
    engine.keep_voice(made)
    return made.ready


def library(engine: Engine) -> VoiceLibrary:
    voices = engine._voices
    assert isinstance(voices, VoiceLibrary)
    return voices


def names(engine: Engine) -> tuple[str, ...]:
    return engine.info.voices


def tensors_of(voice: ReadyVoice) -> list[Tensor]:
    memory = voice.memory
    parts = [memory.recurrent.window, memory.recurrent.matrix]
    for kv in (memory.kv, memory.tower):
        (rows,) = kv.lengths
        parts += [kv.keys[:, :, :, :rows], kv.values[:, :, :, :rows]]
    return [voice.prefix.rows, voice.pending, *parts]


def assert_same(one: ReadyVoice, other: ReadyVoice) -> None:
    for a, b in zip(tensors_of(one), tensors_of(other), strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
    assert one.memory.lengths == other.memory.lengths
    assert one.memory.tower.lengths == other.memory.tower.lengths


class TestStates:
    def test_a_restored_voice_is_the_prefilled_one_bit_for_bit(self, engine: Engine, folder: Path) -> None:
        prefilled = add(engine, "ada")
        restored = load(folder).voices.ready("ada")
        assert restored is not prefilled
        assert_same(prefilled, restored)
        assert restored.memory.lengths == restored.memory.tower.lengths == [len(restored.prefix.rows) - 1]

    def test_restoring_computes_nothing(self, engine: Engine, folder: Path) -> None:
        add(engine, "ada")
        again = load(folder)
        again.voices.ready("ada")
        assert again.runner.prompt_rows == 0

    def test_the_next_frames_are_the_same(self, engine: Engine, folder: Path) -> None:
        add(engine, "ada")
        text = "Yes, of course I do. No."
        samples, _ = babble(engine, text, "ada")
        again, _ = babble(engine_of(load(folder)), text, "ada")
        assert np.array_equal(samples, again)
        assert not np.array_equal(babble(engine, text, "default")[0][: len(samples)], samples)

    def test_opening_an_utterance_copies_and_leaves_the_voice_alone(self, engine: Engine) -> None:
        ready = add(engine, "ada")
        before = [tensor.clone() for tensor in tensors_of(ready)]
        babble(engine, "Yes, of course I do.", "ada")
        assert all(torch.equal(a, b) for a, b in zip(before, tensors_of(ready), strict=True))

    def test_references_make_the_prompt_of_the_specification(self, engine: Engine) -> None:
        recordings = (recording("  <|speaker:1|>The lamps came on.", 1.2), recording(hertz=330))
        rows = add(engine, "two", *recordings).prefix.rows
        stored = library(engine).folder.load("two")
        builder = library(engine).maker._builder
        assert torch.equal(rows, builder.system_block(stored.references))
        assert [reference.transcript for reference in stored.references] == [r.transcript for r in recordings]
        assert [codes.shape[1] for codes in stored.codes] == [24, 30]
        audio = rows[:, 0] >= builder.config.semantic_start_token_id
        assert torch.equal(rows[audio][:, 1:].t(), torch.cat(stored.codes, 1))

    def test_a_telephones_sound_is_noted(self, engine: Engine) -> None:
        made = engine.make_voice("ada", [Recording(clip(1.5, rate=8000), TRANSCRIPT), recording()])
        assert len(made.notes) == 1
        assert "8000 Hz" in made.notes[0]

    def test_recordings_differ(self, engine: Engine) -> None:
        add(engine, "low", recording(hertz=110, seconds=1.3))
        add(engine, "other", recording(hertz=990, seconds=1.7))
        assert not np.array_equal(babble(engine, "Yes.", "low")[0], babble(engine, "Yes.", "other")[0])


class TestTexts:
    def test_speakers_cues_and_tags_reach_the_prompt_untouched(self, engine: Engine) -> None:
        text = "[sighs] Well, <whisper>come here.</whisper>\n<|speaker:1|> Why? [laughs]\n<|speaker:2|> Yes."
        utterance = Utterance("u", "default", policy=Policy.WHOLE)
        front, stream = engine._make_front(utterance), engine._make_stream(utterance)
        for character in text:
            stream.add(front.append(character))
        stream.add(front.finish())
        stream.finish()
        assert stream.take_prompt() == tuple(library(engine).maker._builder.turn_ids(text))

    def test_a_scene_is_spoken(self, engine: Engine) -> None:
        add(engine, "cast", recording("<|speaker:0|> The lamps came on."), recording("<|speaker:1|> None of them."))
        samples, words = speak(engine, "<|speaker:0|> Yes. <|speaker:1|> [laughs] No.", "cast")
        assert len(samples)
        assert [word.text for word in words if word.spoken] == ["Yes.", "No."]


class TestLibrary:
    def test_info_names_it_at_once(self, engine: Engine) -> None:
        assert engine.info.can_clone
        assert names(engine) == ("default",)
        add(engine, "ada")
        assert names(engine) == ("default", "ada")
        assert engine.info.cloned == (ClonedVoice("ada", 1.5, 1),)
        engine.remove_voice("ada")
        assert names(engine) == ("default",)
        with pytest.raises(UnknownVoiceError, match="choose one of default"):
            engine.add(Utterance("u", "ada"))

    def test_voices_of_the_folder_are_found_at_the_next_start(self, engine: Engine, folder: Path) -> None:
        add(engine, "ada")
        again = load(folder)
        assert again.info.voices == ("default", "ada")
        assert again.info.cloned[0].name == "ada"

    def test_what_another_process_does_is_seen(self, engine: Engine, folder: Path) -> None:
        other = engine_of(load(folder))
        add(other, "ada", recording(hertz=440))
        assert engine.refresh_voices()
        assert not engine.refresh_voices()
        assert names(engine) == ("default", "ada")
        first, _ = babble(engine, "Yes.", "ada")
        other.remove_voice("ada")
        add(other, "ada", recording("Something else is said.", seconds=2.5))
        assert not np.array_equal(babble(engine, "Yes.", "ada")[0], first)
        other.remove_voice("ada")
        with pytest.raises(UnknownVoiceError):
            engine.add(Utterance("u", "ada"))

    def test_a_voice_that_is_loaded_is_not_read_again(self, engine: Engine) -> None:
        kept = add(engine, "ada")
        assert library(engine).ready("ada") is kept

    def test_an_utterance_keeps_its_voice(self, engine: Engine) -> None:
        add(engine, "ada")
        engine.add(Utterance("u", "ada"))
        engine.append_text("u", "Yes, of course I do. And")
        events = engine.step()
        engine.remove_voice("ada")
        engine.append_text("u", " so do they.")
        engine.finish("u")
        while engine.has_work():
            events += engine.step()
        assert isinstance(events[-1], Finished)

    def test_only_the_last_used_stay_in_memory(self, folder: Path) -> None:
        parts = load(folder)
        made = parts.voices
        assert isinstance(made, VoiceLibrary)
        engine = engine_of(parts)
        one = add(engine, "one").nbytes
        made._kept_bytes = int(2.5 * one)
        for name in ("two", "three"):
            add(engine, name)
        assert list(made._loaded) == ["two", "three"]
        made.ready("two")
        made.ready("one")
        assert list(made._loaded) == ["two", "one"]
        assert made.nbytes <= 2.5 * one + 1

    def test_a_start_reads_the_voices_that_are_kept(self, engine: Engine, folder: Path) -> None:
        for name in ("ada", "bad", "eve"):
            add(engine, name)
        path = folder / "voices" / "bad.safetensors"
        path.write_bytes(path.read_bytes()[:-8] + bytes(8))
        voices = load(folder).voices
        assert isinstance(voices, VoiceLibrary)
        voices.warm()
        assert list(voices._loaded) == ["ada", "eve"]
        few = load(folder).voices
        assert isinstance(few, VoiceLibrary)
        few._kept_bytes = 1
        few.warm()
        assert list(few._loaded) == []

    def test_it_may_be_made_in_a_thread_while_others_speak(self, engine: Engine) -> None:
        alone, _ = babble(engine, "Yes, of course I do. No, not at all.", "default")
        engine.add(Utterance("u", "default"))
        engine.append_text("u", "Yes, of course I do. No, not at all.")
        engine.finish("u")
        made: list[Any] = []
        thread = threading.Thread(target=lambda: made.append(engine.make_voice("ada", [recording()])))
        thread.start()
        events = []
        while engine.has_work():
            events += engine.step()
        thread.join()
        chunks = [event.samples for event in events if isinstance(event, AudioChunk)]
        assert np.array_equal(np.concatenate(chunks), alone)
        assert_same(made[0].ready, library(engine).ready("ada"))

    def test_remake_serves_another_model(self, engine: Engine, tmp_path: Path) -> None:
        add(engine, "ada")
        other = engine_of(load(another_model(tmp_path)))
        shutil.copytree(library(engine).folder.path, library(other).folder.path)
        other.refresh_voices()
        assert "ada" not in names(other)
        assert "another model" in str(other.info.cloned[0].problem)
        with pytest.raises(ForeignVoiceError, match="footlights voice remake ada"):
            other.add(Utterance("u", "ada"))
        library(other).remake("ada")
        other.refresh_voices()
        assert "ada" in names(other)
        fresh = library(other).ready("ada")
        assert torch.equal(fresh.prefix.rows, library(engine).ready("ada").prefix.rows)
        assert not torch.equal(fresh.memory.kv.keys, library(engine).ready("ada").memory.kv.keys)

    def test_codes_of_another_codec_are_not_remade(self, engine: Engine, folder: Path) -> None:
        add(engine, "ada")
        stored = library(engine).folder.load("ada")
        with pytest.raises(ForeignVoiceError, match="another codec"):
            library(engine).maker.remake(replace(stored, probe=stored.probe + 0.1))


def another_model(tmp_path: Path) -> Path:
    """The golden model with one number changed."""
    folder = tmp_path / "other"
    folder.mkdir()
    for path in GOLDEN.iterdir():
        shutil.copy(path, folder / path.name)
    path = sorted(folder.glob("model-*.safetensors"))[0]
    tensors = load_file(path)
    name = max(tensors, key=lambda each: tensors[each].numel())
    tensors[name] = tensors[name] * 1.01
    save_file(tensors, path, {"format": "pt"})
    return folder


class TestIdentity:
    def test_another_name_or_licence_is_the_same_model(self, tmp_path: Path) -> None:
        folder = link_checkpoint(tmp_path / "renamed")
        config = folder / "config.json"
        values = json.loads(config.read_text(encoding="utf-8"))
        config.unlink()
        config.write_text(json.dumps(values | {"footlights": {"name": "x"}}), encoding="utf-8")
        assert model_identity(folder) == model_identity(GOLDEN)
        config.write_text(json.dumps(values | {"rope_theta": 3}), encoding="utf-8")
        assert model_identity(folder) != model_identity(GOLDEN)

    def test_weights_count(self, tmp_path: Path) -> None:
        assert model_identity(another_model(tmp_path)) != model_identity(GOLDEN)

    def test_another_dtype_has_another_memory(self, engine: Engine, folder: Path) -> None:
        add(engine, "ada")
        parts = load_parts(folder, codec=HearingCodec(4), dtype=torch.bfloat16)
        assert parts.info.voices == ("default",)
        with pytest.raises(ForeignVoiceError, match="in float32, which computes in bfloat16 here"):
            parts.voices.ready("ada")


class TestRefusals:
    @pytest.mark.parametrize(
        "name",
        [
            "",
            "Ada",
            "../ada",
            "a/b",
            "a\\b",
            ".ada",
            "-ada",
            "ada\n",
            "ada\0",
            "a" * 65,
            "ädä",
            "ada.safetensors",
            "/x",
        ],
    )
    def test_names(self, engine: Engine, folder: Path, name: str) -> None:
        with pytest.raises(VoiceError, match="1 to 64 of"):
            engine.make_voice(name, [recording()])
        with pytest.raises(UnknownVoiceError):
            engine.add(Utterance("u", name))
        with pytest.raises(VoiceError):
            VoiceFolder(folder).remove(name)
        assert not (folder / "voices").exists()

    def test_a_name_that_is_taken(self, engine: Engine) -> None:
        add(engine, "ada")
        with pytest.raises(VoiceExistsError, match="remove it first"):
            engine.make_voice("ada", [recording()])
        with pytest.raises(VoiceError, match="the model's own"):
            engine.make_voice("default", [recording()])
        with pytest.raises(NoCloningError, match="own voice"):
            engine.remove_voice("default")

    def test_removing_what_is_not_there(self, engine: Engine) -> None:
        with pytest.raises(UnknownVoiceError, match="no voice 'ada'"):
            engine.remove_voice("ada")

    @pytest.mark.parametrize(
        ("transcript", "error"),
        [
            ("", TextError),
            (" \t", TextError),
            ("a <|im_end|> b", StructuralTokenError),
            ("<|semantic:3|>", StructuralTokenError),
            ("<|speaker:16|> no", TextError),
            ("x" * 2001, TextTooLongError),
        ],
    )
    def test_transcripts(self, engine: Engine, transcript: str, error: type[Exception]) -> None:
        with pytest.raises(error):
            engine.make_voice("ada", [recording(transcript)])

    @pytest.mark.parametrize("count", [0, 9])
    def test_how_many_recordings(self, engine: Engine, count: int) -> None:
        with pytest.raises(ClipError, match="1 to 8 recordings"):
            engine.make_voice("ada", [recording()] * count)

    def test_a_minute_in_all(self, engine: Engine) -> None:
        with pytest.raises(ClipError, match="60 s long in all"):
            engine.make_voice("ada", [recording(seconds=31)] * 2)

    def test_more_rows_than_leave_room_to_speak(self, engine: Engine) -> None:
        library(engine).maker._most_rows = 50
        with pytest.raises(ClipError, match="50 are the most"):
            engine.make_voice("ada", [recording()])

    def test_a_bad_recording_leaves_nothing_behind(self, engine: Engine, folder: Path) -> None:
        with pytest.raises(ClipError, match="something else"):
            engine.make_voice("ada", [recording(), Recording(b"no sound", TRANSCRIPT)])
        assert not (folder / "voices").exists()

    def test_a_codec_without_an_encoder(self, folder: Path) -> None:
        engine = engine_of(load_parts(folder, codec=SumCodec(4)))
        assert not engine.info.can_clone
        with pytest.raises(NoCloningError, match="no encoder"):
            engine.make_voice("ada", [recording()])

    def test_the_understudy_has_learned_voices(self) -> None:
        engine = load_engine(is_warm=False)
        assert not engine.info.can_clone
        with pytest.raises(NoCloningError, match=r"learned its voices \(heart, .*Drama 3"):
            engine.make_voice("ada", [recording()])
        with pytest.raises(NoCloningError, match="own voice"):
            engine.remove_voice("heart")


class TestFiles:
    @pytest.fixture
    def path(self, engine: Engine, folder: Path) -> Path:
        add(engine, "ada")
        return folder / "voices" / "ada.safetensors"

    def test_one_file_with_hash_and_model(self, path: Path) -> None:
        assert [each.name for each in path.parent.iterdir()] == ["ada.safetensors"]
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
        assert len(metadata["content_hash"]) == 64
        assert len(metadata["model"]) == 32
        label = read_label(path)
        assert (label.transcripts, label.durations_s, label.duration_s) == ((TRANSCRIPT,), (1.5,), 1.5)

    def test_a_changed_number_is_found(self, path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[-5] ^= 1
        path.write_bytes(data)
        with pytest.raises(VoiceError, match="damaged"):
            load_voice(path)

    @pytest.mark.parametrize("key", ["model", "dtype", "transcripts", "durations_s"])
    def test_a_changed_label_is_found(self, path: Path, key: str) -> None:
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata())
        tensors = load_file(path)
        metadata[key] = {"model": "0" * 32, "dtype": "int8", "transcripts": '["Else."]', "durations_s": "[9.0]"}[key]
        save_file(tensors, path, metadata)
        with pytest.raises(VoiceError, match="damaged"):
            load_voice(path)

    @pytest.mark.parametrize("size", [0, 4, 100, 5000, -1])
    def test_a_truncated_file_is_no_voice(self, path: Path, folder: Path, size: int) -> None:
        data = path.read_bytes()
        path.write_bytes(data[:size])
        with pytest.raises(VoiceError, match="no voice of format"):
            load_voice(path)
        parts = load(folder)
        assert parts.info.voices == ("default",)
        assert "no voice of format" in str(parts.info.cloned[0].problem)
        with pytest.raises(VoiceError):
            parts.voices.ready("ada")

    @pytest.mark.parametrize(
        ("metadata", "tensors"),
        [
            ({"transcripts": "[" * 100_000}, {}),
            ({"transcripts": '["One."]', "durations_s": "[NaN]"}, {}),
            ({}, {"references.0.codes": torch.zeros(4, dtype=torch.int16)}),
            ({}, {"references.0.codes": torch.full((4, 30), 30_000, dtype=torch.int16)}),
            ({}, {"kv.keys": torch.zeros(1, 1, 2, 5, 16).to(torch.float8_e4m3fn)}),
        ],
        ids=["nested", "no length", "shape of codes", "codes of another size", "numbers"],
    )
    def test_a_file_made_to_disturb_disturbs_nobody(
        self, path: Path, folder: Path, metadata: dict[str, str], tensors: dict[str, Tensor]
    ) -> None:
        """The hash is no secret: whoever makes a file can make it fit."""
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() | metadata
        tensors = load_file(path) | tensors
        metadata["content_hash"] = _content_hash(tensors, metadata)
        save_file(tensors, path, metadata)
        parts = load(folder)
        parts.voices.warm()
        json.dumps([voice.duration_s for voice in parts.info.cloned], allow_nan=False)
        with pytest.raises(VoiceError):
            parts.voices.ready("ada")

    def test_other_files_are_not_voices(self, path: Path, folder: Path) -> None:
        (path.parent / "Bad Name.safetensors").write_bytes(path.read_bytes())
        (path.parent / ".0123.part").write_bytes(b"")
        (path.parent / "notes.txt").write_text("x")
        assert load(folder).info.voices == ("default", "ada")

    def test_a_file_named_like_the_models_own_voice_is_told(self, path: Path, folder: Path) -> None:
        path.rename(path.with_stem("default"))
        parts = load(folder)
        assert parts.info.voices == ("default",)
        assert "of its own" in str(parts.info.cloned[0].problem)
        assert len(parts.voices.ready("default").prefix.rows) < 20

    def test_the_list_of_a_folder_is_that_of_the_loaded_model(self, engine: Engine, path: Path, folder: Path) -> None:
        stored = load_voice(path)
        labels = {"other": replace(stored.label, model="0" * 32), "half": replace(stored.label, dtype="bfloat16")}
        for name, label in labels.items():
            save_voice(path.with_stem(name), replace(stored, label=label))
        shutil.copy(path, path.with_stem("default"))
        path.with_stem("broken").write_bytes(b"")
        voices = list_voices(Place(str(folder)))
        assert (voices.own, voices.cloned) == (("default",), load(folder).info.cloned)
        problems = {voice.name: voice.problem for voice in voices.cloned}
        assert problems.pop("ada") is None
        for name, says in {
            "other": "`footlights voice remake other`",
            "half": "`footlights voice remake half`",
            "default": "of its own",
            "broken": "no voice of format",
        }.items():
            assert says in str(problems.pop(name))
        assert problems == {}

    def test_memory_of_other_shapes_is_foreign(self, engine: Engine, path: Path) -> None:
        stored = load_voice(path)
        stored.memory.recurrent.matrix = stored.memory.recurrent.matrix[:-1]
        with pytest.raises(ForeignVoiceError, match="other shapes"):
            library(engine).maker.restore("ada", stored)

    def test_another_prompt_is_foreign(self, engine: Engine, path: Path) -> None:
        stored = load_voice(path)
        stored.rows[3, 0] += 1
        with pytest.raises(ForeignVoiceError, match="form of the prompt"):
            library(engine).maker.restore("ada", stored)

    def test_a_folder_that_cannot_be_written(self, folder: Path) -> None:
        (folder / "voices").write_text("a file where the folder should be")
        engine = engine_of(load(folder))
        with pytest.raises(VoiceError, match="cannot be written"):
            engine.make_voice("ada", [recording()])

    def test_an_interrupted_write_leaves_nothing(self, engine: Engine, folder: Path, monkeypatch: Any) -> None:
        def fail(*arguments: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("engine.voices.files.os.replace", fail)
        with pytest.raises(VoiceError, match="No space left"):
            engine.make_voice("ada", [recording()])
        assert list((folder / "voices").iterdir()) == []

    def test_voices_may_lie_elsewhere(self, tmp_path: Path) -> None:
        parts = load_parts(GOLDEN, codec=SumCodec(4), voices_folder=tmp_path / "mine")
        assert isinstance(parts.voices, VoiceLibrary)
        assert parts.voices.folder.path == tmp_path / "mine"


def test_the_clip_of_these_tests_is_one() -> None:
    assert read_clip(clip(), 24_000).duration_s == 1.5
