"""What loading and quantising take, measured in processes of their own: beside the model, one tensor is in memory."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.checkpoint.synthetic import small_config, write_synthetic

ROOT = Path(__file__).parents[2]
SHARD_BYTES = 60_000_000


def run(*arguments: str, module: str = "engine.checkpoint.load_cost") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's account of memory")
def test_the_peak_is_the_model_and_little_more(tmp_path: Path) -> None:
    config = small_config()
    backbone = replace(config.backbone, hidden_size=512, moe_intermediate_size=512, num_experts=48)
    wide = replace(config, backbone=backbone, tower=replace(config.tower, dim=512))
    write_synthetic(tmp_path / "model", wide, "fp8", shard_bytes=SHARD_BYTES)
    done = run(str(tmp_path / "model"), "--dtype", "bfloat16")
    assert done.returncode == 0, done.stdout + done.stderr
    cost = json.loads(done.stdout.splitlines()[-1])
    assert cost["files"] > 2 * SHARD_BYTES
    assert SHARD_BYTES // 2 < cost["largest_shard"] <= SHARD_BYTES + 2_000_000
    assert cost["final"] > 300_000_000
    assert cost["peak"] < cost["bound"]
    assert cost["bound"] == cost["final"] + int(1.2 * cost["largest_shard"])


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's account of memory")
@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_calibrating_takes_no_more_than_the_copy_and_little_more(tmp_path: Path, method: str) -> None:
    """The model as it computes would take over 400 MB. Only some matrices are calibrated, so that it takes seconds."""
    config = small_config(2)
    backbone = replace(config.backbone, hidden_size=512, moe_intermediate_size=512, num_experts=64)
    wide = replace(config, backbone=backbone, tower=replace(config.tower, dim=512))
    write_synthetic(tmp_path / "model", wide, "fp8", shard_bytes=SHARD_BYTES)
    options = ("--experts", "8", "--dense", "4", "--method", method, "--sentences", "1")
    done = run(str(tmp_path / "model"), str(tmp_path / "small"), *options, module="engine.quant.cost")
    assert done.returncode == 0, done.stdout + done.stderr
    cost = json.loads(done.stdout.splitlines()[-1])
    assert 100_000_000 < cost["final"] < 200_000_000
    assert cost["peak"] < cost["bound"] == cost["final"] + int(1.2 * cost["largest_shard"])


QUANTISED = """
import sys
from pathlib import Path
from engine.quant.scheme import PartScheme, Scheme
from engine.weights import load_decoder
load_decoder(Path(sys.argv[1]), None, Scheme(*[PartScheme(8)] * 4))
print("sympy" in sys.modules)
"""


def test_a_quantised_model_does_not_load_torchs_compiler(tmp_path: Path) -> None:
    """150 MB in each process, and seconds of its start."""
    write_synthetic(tmp_path / "model", small_config(), "bf16")
    command = [sys.executable, "-c", QUANTISED, str(tmp_path / "model")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    assert done.stdout == "False\n", done.stdout + done.stderr


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    done = run(str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("footlights: cannot read")
