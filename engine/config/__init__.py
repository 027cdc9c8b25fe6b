"""``config.json`` of a Drama 3 checkpoint as frozen dataclasses, and the arithmetic that follows from it.

Reading is strict where strictness protects the sound: a flag that would make the same weights mean something else is
an error, a key that changes nothing here (``dtype``, ``pad_token_id``) is let through.
"""

from engine.config.aligned import AlignedTextConfig
from engine.config.backbone import FULL_ATTENTION, BackboneConfig
from engine.config.json_file import parse_json, read_json
from engine.config.model import CONFIG_FILE, LARGE_PARAMETERS, ModelConfig
from engine.config.tower import TowerConfig
from engine.config.unknown import unknown_keys

__all__ = [
    "CONFIG_FILE",
    "FULL_ATTENTION",
    "LARGE_PARAMETERS",
    "AlignedTextConfig",
    "BackboneConfig",
    "ModelConfig",
    "TowerConfig",
    "parse_json",
    "read_json",
    "unknown_keys",
]
