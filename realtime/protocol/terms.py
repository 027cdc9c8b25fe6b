"""What both sides of the wire agree on: its version, names of choices, bounds of values."""

from typing import Literal

PROTOCOL_VERSION = 1
SUBPROTOCOL = "footlights.v1"
KEY_SUBPROTOCOL_PREFIX = "footlights.key."
DEFAULT_CONTEXT = "main"
"""The one context that the first `TextAppend` opens by itself."""

MAX_CLIENT_MESSAGE_BYTES = 64 * 1024
MAX_SERVER_MESSAGE_BYTES = 1024 * 1024
"""A report holds the whole text of its context, so server messages may be longer."""
MAX_JSON_DEPTH = 16
MAX_CONTEXT_ID_CHARACTERS = 64
MAX_NAME_CHARACTERS = 128
MAX_PRONUNCIATION_CHARACTERS = 256
MIN_SAMPLE_RATE, MAX_SAMPLE_RATE = 8_000, 48_000

Encoding = Literal["pcm_s16le"]
PolicyName = Literal["eager", "clause", "sentence", "whole"]
TextFormatName = Literal["plain", "markdown", "ssml"]
Precision = Literal["exact", "estimated"]
LagPolicy = Literal["skip", "speed"]
MIN_LAG_MS, MAX_LAG_MS = 500, 600_000
MIN_SPEED, MAX_SPEED = 0.5, 2.0

CONSENT_NOTICE = (
    "Make voices only of people who have agreed to it, and tell listeners that the speech is made by a machine."
)
"""Told to everybody who makes a voice from a recording."""
MAX_RECORDING_BYTES = 32 * 1024 * 1024
