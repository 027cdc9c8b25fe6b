"""The checkpoint that comes with the project."""

import pytest

from engine.engine import UNDERSTUDY


@pytest.fixture(scope="session", autouse=True)
def checkpoint() -> None:
    """Fails every test here if there is none: nothing else shows that what is shipped speaks."""
    missing = [name for name in ("config.json", "model.safetensors", "codec.safetensors", "tokenizer.json")
               if not (UNDERSTUDY / name).exists()]  # fmt: skip
    if missing:
        pytest.fail(f"the understudy's checkpoint is incomplete: {UNDERSTUDY} lacks {', '.join(missing)}")
