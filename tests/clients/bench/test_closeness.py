"""``footlights quality``: sums of agreement, predictions of decoders, tables, the command."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from clients.bench import fidelity, steps
from clients.bench.closeness import Sums, compare, predictions
from clients.bench.fidelity import STANDARD, closeness_table, names_of
from clients.bench.report import console
from clients.cli import COMMANDS
from engine.config import ModelConfig
from engine.model.decoder import Decoder
from engine.quant import cli as quantize
from engine.quant.modules import prepare
from engine.quant.scheme import KEPT, PartScheme, Scheme
from engine.quant.shrink import shrink
from engine.quant.takes import Recorded
from engine.weights import load_decoder

GOLDEN = Path(__file__).parents[2] / "golden" / "drama3-tiny"
SOURCE = GOLDEN / "checkpoint-bf16"
UNDERSTUDY = Path(__file__).parents[3] / "engine" / "understudy"


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
    variant = fidelity.Variant("four", None, 1_000_000, (), found)  # type: ignore[arg-type]
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
