"""``footlights quality``: sums of agreement, predictions of decoders, tables, the command."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file

from clients.bench import fidelity, steps
from clients.bench.closeness import Sums, compare, predictions
from clients.bench.fidelity import STANDARD, common_voices, names_of, sound
from clients.bench.fidelity_report import closeness_table, sound_table
from clients.bench.report import console
from clients.bench.store import Store
from clients.bench.variants import Sounded, Variant
from clients.cli import COMMANDS
from engine.config import ModelConfig
from engine.errors import ConfigError
from engine.model.decoder import Decoder
from engine.quant import cli as quantize
from engine.quant.modules import prepare
from engine.quant.scheme import KEPT, PartScheme, Scheme
from engine.quant.shrink import shrink
from engine.quant.takes import Recorded
from engine.weights import load_decoder
from tests.clients.bench.doubles import FakeJudges, FakeReader

GOLDEN = Path(__file__).parents[2] / "golden" / "drama3-tiny"
SOURCE = GOLDEN / "checkpoint-bf16"
UNDERSTUDY = Path(__file__).parents[3] / "engine" / "understudy"


def variant_of(name: str, voices: tuple[str, ...] = ("heart", "bella"), **fields: Any) -> Variant:
    """A variant without an engine."""
    return Variant(name, cast("Any", None), 1_000_000, voices, name, f"{name}-1", **fields)


@pytest.fixture(scope="module")
def take() -> Recorded:
    rows = load_file(GOLDEN / "inputs.safetensors")["prompt_frames"].long()
    return Recorded(rows, None, torch.arange(len(rows)) >= 60)


def decoder(scheme: Scheme | None = None) -> Decoder:
    made = load_decoder(SOURCE)[0]
    if scheme is not None:
        shrink(made, scheme)
        prepare(made)
    return made


def test_kl_and_agreement_by_hand() -> None:
    sums = Sums()
    p, q = torch.tensor([[0.5, 0.5], [0.9, 0.1]]), torch.tensor([[0.25, 0.75], [0.9, 0.1]])
    sums.add("main", p.log() + 3, q.log())
    agreement = sums.closeness().by_head["main"]
    assert agreement.kl == pytest.approx((0.5 * math.log(2) + 0.5 * math.log(0.5 / 0.75)) / 2, rel=1e-5)
    assert agreement.top1 == 0.5
    assert agreement.rows == 2


def test_takes_are_added_by_rows() -> None:
    sums = Sums()
    same, other = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    sums.add("code 1", same.repeat(3, 1), same.repeat(3, 1))
    sums.add("code 1", same, other)
    assert sums.closeness().by_head["code 1"].top1 == 0.75


def test_a_model_agrees_with_itself_and_less_with_fewer_bits(take: Recorded) -> None:
    eight, four = PartScheme(8), PartScheme(4, 32)
    others = [decoder(), decoder(Scheme(*[eight] * 4)), decoder(Scheme(*[four] * 4))]
    itself, at_eight, at_four = compare(decoder(), others, [take])
    assert set(itself.by_head) == {"main", "code 1", "code 2", "code 3"}
    assert itself.codes.kl == itself.by_head["main"].kl == 0
    assert itself.codes.top1 == itself.by_head["main"].top1 == 1
    assert 0 < at_eight.by_head["main"].kl < at_four.by_head["main"].kl
    assert 0 < at_eight.codes.kl < at_four.codes.kl
    assert at_four.by_head[at_four.worst_code].kl >= at_four.codes.kl
    assert itself.by_head["main"].rows == int(take.spoken.sum())


def test_only_what_was_drawn_counts(take: Recorded) -> None:
    for _, logits in predictions(decoder(), take):
        assert len(logits) == int(take.spoken.sum())


def test_options_of_the_standard_precisions_are_those_of_the_command() -> None:
    for options in STANDARD.values():
        quantize.parser().parse_args(["a", "b", *options])
    assert "footlights quality" in fidelity.parser().format_help()
    assert COMMANDS["quality"].target == "clients.bench.fidelity:main"


def test_the_command_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fidelity.main([str(tmp_path / "nowhere")]) == 1
    assert "nowhere" in capsys.readouterr().err


def test_steps_count_what_a_row_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = tmp_path / "small"
    assert quantize.main([str(SOURCE), str(small), "--dense", "16"]) == 0
    out = tmp_path / "steps.json"
    assert steps.main([f"{SOURCE}@bf16", f"{small}@f32", "--steps", "2", "--out", str(out)]) == 0
    results = json.loads(out.read_text())["results"]
    assert "of the floor" in capsys.readouterr().out
    plain, quantised = (results[name]["read_bytes"] for name in ("checkpoint-bf16@bf16", "small@f32"))
    config = load_decoder(SOURCE)[1]
    counts, b = config.parameter_counts(), config.backbone
    # Matrices as bfloat16; the router, with its gate of the shared expert, is float32.
    norms = sum(counts[part] for part in ("norms",)) + config.tower.num_layers * 5 * b.hidden_size
    assert plain == pytest.approx(2 * (config.active_parameters_per_frame - norms), rel=0.02)
    assert quantised < plain
    assert steps.main([str(tmp_path / "nowhere")]) == 1


def test_the_table_shows_the_worst_code(take: Recorded) -> None:
    found = compare(decoder(), [decoder(Scheme(KEPT, KEPT, PartScheme(4, 32), KEPT))], [take])[0]
    variant = variant_of("four", closeness=found)
    shown = console()
    with shown.capture() as captured:
        shown.print(closeness_table([variant]))
    assert f"{found.worst_code.removeprefix('code ')}: " in captured.get()
    assert variant.as_json()["closeness"]["code 1"]["kl"] == found.by_head["code 1"].kl


def test_models_in_folders_of_the_same_name_are_kept_apart() -> None:
    assert names_of([Path("a/int4"), Path("int8")]) == ["int4", "int8"]
    assert names_of([Path("a/int4"), Path("b/int4"), Path("b/int4")]) == ["int4", "b/int4", "b/int4 (2)"]
    assert names_of([Path("original"), Path("original"), Path()]) == ["original (2)", "original (3)", Path.cwd().name]


@pytest.mark.parametrize("count", ["0", "-1", "100000"])
def test_as_many_sentences_as_there_are_not(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fidelity.main([str(SOURCE), "--sentences", count]) == 1
    assert f"sentences, not {count}" in capsys.readouterr().err


def test_where_results_cannot_go_is_said_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    assert fidelity.main([str(SOURCE), "--out", str(tmp_path / "file" / "out")]) == 1
    assert "results cannot go to" in capsys.readouterr().err


def test_another_model_is_refused_before_anything_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = ModelConfig.from_dict(json.loads((UNDERSTUDY / "config.json").read_text()))
    assert other != load_decoder(SOURCE)[1]
    assert fidelity.main([str(UNDERSTUDY), str(SOURCE), "--out", str(tmp_path)]) == 1
    assert "is not made of" in capsys.readouterr().err


# Going on after an interruption


class ToneVariant(Variant):
    """Reads as ``FakeReader`` does."""

    reader: FakeReader

    def read(self, text: str, voice: str, seed: int) -> Any:
        return self.reader.read(text, voice, seed)

    def cpu_ms_of(self, take: Any) -> float | None:
        return 7.0


class TonesAreAlike:
    """A speaker judge to whom all are one."""

    def embed(self, samples: Any, rate: int) -> Any:
        return torch.tensor([0.6, 0.8]).numpy()


@pytest.fixture
def tone() -> ToneVariant:
    made = ToneVariant("tone", cast("Any", None), 1, ("heart",), "tone", "tone-1")
    made.reader = FakeReader(silent=("Hush.",))
    return made


def test_a_take_is_made_once_for_the_judges_that_are_there(tone: ToneVariant, tmp_path: Path) -> None:
    judges, speakers, key = FakeJudges(tone.reader), cast("Any", TonesAreAlike()), ("heart", 3, "Good evening.")

    def again(judges: Any, speakers: Any) -> tuple[Sounded, int]:
        """The take by a new run, and how often it was read in all."""
        store = Store(tmp_path / "takes.jsonl", Sounded, tone)
        return sound(tone, store, key, judges, speakers), len(tone.reader.read_texts)

    first, reads = again(None, None)
    assert (first.reading, first.speaker, first.cpu_ms, reads) == (None, None, 7.0, 1)
    assert again(None, None) == (first, 1)
    judged, reads = again(judges, speakers)
    assert reads == 2, "judges that were not there before need its sound"
    assert judged.reading is not None
    assert (judged.reading.mos, judged.reading.text) == (4.0, "Good evening.")
    assert judged.speaker == pytest.approx([0.6, 0.8])
    assert again(judges, speakers) == again(None, None) == (judged, 2)
    tone.identity = "tone-2"
    assert again(None, None)[1] == 3, "other weights or code"


def test_silence_is_not_read_again_for_want_of_a_speaker(tone: ToneVariant, tmp_path: Path) -> None:
    for _ in range(2):
        store = Store(tmp_path / "takes.jsonl", Sounded, tone)
        made = sound(tone, store, ("heart", 3, "Hush."), FakeJudges(tone.reader), cast("Any", TonesAreAlike()))
        assert made.is_silent
        assert made.speaker is None
    assert len(tone.reader.read_texts) == 1


def test_voices_are_those_that_all_have() -> None:
    original = variant_of("original", ("plain", "ada", "bob"))
    assert common_voices([original, variant_of("int8", ("bob", "plain"))]) == ("plain", "bob")
    with pytest.raises(ConfigError, match="original: plain, ada, bob; int8: eve"):
        common_voices([original, variant_of("int8", ("eve",))])


def test_a_model_that_said_nothing_has_no_speed() -> None:
    shown = console()
    with shown.capture() as captured:
        shown.print(sound_table([variant_of("mute"), variant_of("slow", cpu_ms=[7.0])]))
    assert "mute" in captured.get()
    assert "x" not in captured.get().split("slow")[1]


def test_predictions_of_an_earlier_run_are_recalled(take: Recorded) -> None:
    others = [decoder(Scheme(*[PartScheme(8)] * 4)), decoder(Scheme(*[PartScheme(4, 32)] * 4))]
    known: dict[tuple[int, int], Any] = {}

    def recall(other: int, number: int, find: Any) -> Any:
        return known.setdefault((other, number), json.loads(json.dumps(find())))

    first = compare(decoder(), others, [take, take], recall=recall)
    assert set(known) == {(0, 0), (0, 1), (1, 0), (1, 1)}

    def must_not(*arguments: object) -> Iterator[Any]:
        raise AssertionError("predicted again")

    class Mute(Decoder):
        forward_train = must_not  # type: ignore[assignment]

    mute = Mute(others[0].config)
    assert compare(mute, [mute, mute], [take, take], recall=lambda other, number, find: known[other, number]) == first
    assert first[0].by_head["main"].rows == 2 * int(take.spoken.sum())


def test_quality_goes_on_where_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small, out = tmp_path / "small", tmp_path / "out"
    assert quantize.main([str(UNDERSTUDY), str(small), "--experts", "8"]) == 0
    command = [str(UNDERSTUDY), str(small), "--sentences", "2", "--no-judges", "--out", str(out)]
    plain, reads = Variant.read, [0]

    def read(self: Variant, text: str, voice: str, seed: int) -> Any:
        reads[0] += 1
        if reads[0] == 3:
            raise KeyboardInterrupt
        return plain(self, text, voice, seed)

    monkeypatch.setattr(Variant, "read", read)
    assert fidelity.main(command) == 130
    assert "the same command goes on from here" in capsys.readouterr().err
    assert not (out / "fidelity.json").exists()
    kept = {path: path.stat().st_mtime_ns for path in out.rglob("take.*")}
    assert len(kept) == 2
    assert fidelity.main(command) == 0
    assert reads[0] == 3 + 2, "two takes were there"
    results = json.loads((out / "fidelity.json").read_text())["results"]
    assert results["small"]["closeness"]["main"]["kl"] > 0
    assert results["original"]["cpu_ms_per_frame"] > 0
    assert fidelity.main(command) == 0
    assert reads[0] == 5
    assert {path: path.stat().st_mtime_ns for path in out.rglob("take.*")} == kept
    assert json.loads((out / "fidelity.json").read_text())["results"] == results
