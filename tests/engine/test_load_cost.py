"""What loading takes, measured in a process of its own: beside the model, one tensor is in memory."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.checkpoint.synthetic import small_config, write_synthetic

ROOT = Path(__file__).parents[2]
SHARD_BYTES = 60_000_000


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "engine.checkpoint.load_cost", *arguments]
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


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    done = run(str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("footlights: cannot read")
