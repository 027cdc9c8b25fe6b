"""Calibration layer by layer: the inputs that a whole decoder sees, in any order, from files; the copy that speaks."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.checkpoint.reader import CheckpointReader, open_checkpoint
from engine.codec.hum import HumCodec
from engine.errors import ConfigError
from engine.loudness import loudness_db
from engine.model.decoder import BackboneLayer, Decoder
from engine.model.linear import Linear
from engine.model.moe import MixtureOfExperts
from engine.quant.calibrated import Calibrated, speaking_scheme, walk_of
from engine.quant.inputs import MOST_ROWS
from engine.quant.kept import KeptTensors
from engine.quant.places import input_name
from engine.quant.scheme import PartScheme, Scheme
from engine.quant.shrink import shrink
from engine.quant.takes import Recorded, load_speaker, record, takes_of_tensors, takes_to_tensors
from engine.quant.walk import Walk
from engine.streams.turn_speech import TurnSettings
from engine.weights import load_decoder

GOLDEN = Path(__file__).parents[1] / "golden" / "drama3-tiny"
SOURCE = GOLDEN / "checkpoint-bf16"
UNDERSTUDY = Path(__file__).parents[2] / "engine" / "understudy"
GPTQ, AWQ = (Scheme(*[PartScheme(4, 64, method)] * 4) for method in ("gptq", "awq"))


@pytest.fixture(scope="module")
def takes() -> list[Recorded]:
    """Two takes of different length."""
    rows = load_file(GOLDEN / "inputs.safetensors")["prompt_frames"].long()
    return [Recorded(part, None, torch.ones(len(part), dtype=torch.bool)) for part in (rows, rows[30:])]


@pytest.fixture(scope="module")
def spoken() -> list[Recorded]:
    """What the understudy says, with the text beside it."""
    return record(load_speaker(UNDERSTUDY), ["Good evening.", "Sit down, please."], 1)


@pytest.fixture
def reader() -> CheckpointReader:
    return open_checkpoint(SOURCE)


def whole_decoder_sees(decoder: Decoder, takes: list[Recorded]) -> dict[str, Tensor]:
    """Inputs of every matrix, by its place, written down by the modules of a whole decoder."""
    seen: dict[str, list[Tensor]] = {}

    def note(place: str, linear: Linear) -> None:
        plain = linear.forward

        def forward(x: Tensor) -> Tensor:
            seen.setdefault(place, []).append(x.reshape(-1, x.shape[-1]))
            return plain(x)

        linear.forward = forward  # type: ignore[method-assign]

    for path, module in decoder.named_modules():
        if isinstance(module, Linear):
            note(path, module)
    moes: dict[str, list[Tensor]] = {}
    for i, layer in enumerate(decoder.layers):
        assert isinstance(layer, BackboneLayer)

        def hook(module: MixtureOfExperts, given: tuple[Tensor], place: str = f"layers.{i}.moe.experts") -> None:
            moes.setdefault(place, []).append(given[0][0])

        layer.moe.register_forward_pre_hook(hook)
    with torch.inference_mode():
        routings = [decoder.forward_train(take.rows[None], take.aligned).routing for take in takes]
    for i, (place, xs) in enumerate(moes.items()):
        x, chosen = torch.cat(xs), torch.cat([routing[i].chosen[0] for routing in routings])
        for expert in range(decoder.config.backbone.num_experts):
            seen[f"{place}.{expert}.gate_up"] = [x[(chosen == expert).any(1)]]
    return {place: torch.cat(xs) for place, xs in seen.items()}


def walk(reader: CheckpointReader, takes: list[Recorded], folder: Path, scheme: Scheme = GPTQ) -> Walk:
    return walk_of(reader, takes, scheme, KeptTensors(folder))


def wanted_places(reader: CheckpointReader, scheme: Scheme = GPTQ) -> list[str]:
    return list(dict.fromkeys(input_name(name) for name in reader.names() if scheme.of_tensor(name).is_packed))


@pytest.mark.parametrize("is_backwards", [False, True])
def test_a_walk_sees_what_the_whole_decoder_sees(
    reader: CheckpointReader, takes: list[Recorded], tmp_path: Path, is_backwards: bool
) -> None:
    expected = whole_decoder_sees(load_decoder(SOURCE)[0], takes)
    walked = walk(reader, takes, tmp_path)
    places = wanted_places(reader)
    for place in reversed(places) if is_backwards else places:
        found = walked.inputs(place)
        if ".down" in place and ".experts." in place:
            up = walked.inputs(place.replace(".down", ".gate_up"))
            assert (found is None) == (up is None)
            assert found is None or up is None or len(found) == len(up)
        elif found is None:
            assert not len(expected[place])
        else:
            torch.testing.assert_close(found.float(), expected[place], atol=2e-3, rtol=2**-7)


def test_a_walk_sees_the_text_beside_the_audio(spoken: list[Recorded], tmp_path: Path) -> None:
    assert len(spoken) == 2
    assert all(take.aligned is not None and take.spoken.any() for take in spoken)
    expected = whole_decoder_sees(load_decoder(UNDERSTUDY)[0], spoken)
    with open_checkpoint(UNDERSTUDY) as reader:
        walked = walk(reader, spoken, tmp_path)
        for place in ("aligned_text.in_proj", "aligned_text.out_proj", "layers.0.mixer.in_proj", "main_head"):
            found = walked.inputs(place)
            assert found is not None
            torch.testing.assert_close(found.float(), expected[place], atol=2e-3, rtol=2**-7)


def test_weights_are_joined_as_a_decoder_joins_them(
    reader: CheckpointReader, takes: list[Recorded], tmp_path: Path
) -> None:
    decoder, walked = load_decoder(SOURCE)[0], walk(reader, takes, tmp_path)
    for place in (
        "layers.3.mixer.in_proj",
        "layers.0.moe.shared.gate_up",
        "tower.shared.0.joint_proj",
        "tower.heads.1",
    ):
        assert torch.equal(walked.weight(place), decoder.get_parameter(f"{place}.weight"))
    for part in ("gate_up", "down"):
        expected = decoder.get_parameter(f"layers.1.moe.experts.{part}")[2]
        assert torch.equal(walked.weight(f"layers.1.moe.experts.2.{part}"), expected)
    assert torch.equal(walked.weight("main_head"), decoder.main_head.weight[:-1])


def test_a_layer_at_a_time_is_in_memory(
    reader: CheckpointReader, takes: list[Recorded], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked = walk(reader, takes, tmp_path)
    for place in wanted_places(reader):
        walked.inputs(place)
        full = {
            name.split(".")[0] + "." + name.split(".")[1]
            for name, parameter in walked._decoder.named_parameters()
            if not parameter.is_meta and "embed" not in name
        }
        assert len(full) <= 1, full
        assert not [n for n, p in walked._decoder.named_parameters() if ".experts." in n and not p.is_meta]


def test_what_was_worked_out_is_not_worked_out_again(
    reader: CheckpointReader, takes: list[Recorded], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "tower.residual.1.attention.in_proj"
    before = walk(reader, takes, tmp_path).inputs(place)
    opened: list[str] = []
    plain = Walk._open

    def watched(self: Walk, name: str) -> object:
        opened.append(name)
        return plain(self, name)

    monkeypatch.setattr(Walk, "_open", watched)
    after = walk(reader, takes, tmp_path).inputs(place)
    assert before is not None
    assert after is not None
    assert torch.equal(before, after)
    assert opened == ["tower.residual.1"]


def test_a_damaged_station_is_an_error_that_says_what_to_do(
    reader: CheckpointReader, takes: list[Recorded], tmp_path: Path
) -> None:
    walk(reader, takes, tmp_path).inputs("layers.1.mixer.in_proj")
    path = tmp_path / "quantising.station-001.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ConfigError, match="delete it and run the same command again"):
        walk(reader, takes, tmp_path).inputs("layers.1.mixer.in_proj")


def test_no_more_rows_are_kept_than_are_needed(reader: CheckpointReader, takes: list[Recorded], tmp_path: Path) -> None:
    many = [takes[0]] * (MOST_ROWS // len(takes[0].rows) + 2)
    walked = walk(reader, many, tmp_path)
    for place in ("layers.0.mixer.in_proj", "main_head", "tower.heads.0"):
        found = walked.inputs(place)
        assert found is not None
        assert len(found) == MOST_ROWS


def test_gains_of_joined_matrices_are_kept_for_the_next_run(
    reader: CheckpointReader, takes: list[Recorded], tmp_path: Path
) -> None:
    kept = KeptTensors(tmp_path)

    def gains(name: str, made: list[Recorded]) -> Tensor:
        matrix = Calibrated(walk_of(reader, made, AWQ, kept), AWQ, kept)(name, weight(name), PartScheme(4, 64, "awq"))
        assert matrix.gains is not None
        return matrix.gains

    def weight(name: str) -> Tensor:
        return reader.dense(name, torch.float32)

    experts = "model.language_model.layers.0.mlp.experts.0"
    first = gains(f"{experts}.gate_proj.weight", takes)
    assert float(first.max()) > float(first.min())
    # A later run may hear something a little different; what is joined must fit all the same.
    assert torch.equal(gains(f"{experts}.up_proj.weight", takes[::-1]), first)


def test_takes_come_back_from_tensors(spoken: list[Recorded], takes: list[Recorded], tmp_path: Path) -> None:
    for given in (spoken, takes):
        kept = KeptTensors(tmp_path)
        kept.put("takes", takes_to_tensors(given))
        tensors = kept.get("takes")
        assert tensors is not None
        for mine, theirs in zip(takes_of_tensors(tensors), given, strict=True):
            assert torch.equal(mine.rows, theirs.rows)
            assert torch.equal(mine.spoken, theirs.spoken)
            assert (mine.aligned is None) == (theirs.aligned is None)
            if mine.aligned is not None and theirs.aligned is not None:
                for name, part in vars(theirs.aligned).items():
                    assert torch.equal(getattr(mine.aligned, name), part)


def test_humming_is_not_taken_for_silence() -> None:
    codec = HumCodec(24_000, 1200, 8)
    samples = codec.decode_step(torch.zeros(1, 8, 2, dtype=torch.int64), codec.allocate(1))[0]
    assert min(loudness_db(samples.numpy(), 2)) > TurnSettings(50.0).quiet_db
    assert samples.abs().max() < 1


def test_the_copy_that_speaks_is_small_and_its_tower_at_8_bits() -> None:
    scheme = speaking_scheme(Scheme(PartScheme(4, 64, "gptq"), PartScheme(8), PartScheme(4, 32, "gptq"), PartScheme()))
    assert [part.bits for part in vars(scheme).values()] == [4, 8, 8, 16]
    assert {part.method for part in vars(scheme).values()} == {"rtn"}


def test_a_model_quantised_as_it_is_read_is_what_rounding_in_memory_gives(
    takes: list[Recorded], only: Callable[[], Scheme]
) -> None:
    read, expected = load_decoder(SOURCE, scheme=only())[0], load_decoder(SOURCE)[0]
    shrink(expected, only())
    with torch.inference_mode():
        mine, theirs = (model.forward_train(takes[0].rows[None]) for model in (read, expected))
    torch.testing.assert_close(mine.main, theirs.main, atol=1e-5, rtol=1e-5)


@pytest.fixture
def only() -> Callable[[], Scheme]:
    return lambda: Scheme(PartScheme(4, 64), PartScheme(8), PartScheme(8), PartScheme(8))
