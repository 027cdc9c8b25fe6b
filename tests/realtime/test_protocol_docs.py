"""docs/protocol.md says what the code does: its examples decode, its tables are complete."""

import json
import re
from pathlib import Path

from realtime.limits import LimitSettings
from realtime.protocol import (
    CLIENT_MESSAGES,
    SERVER_MESSAGES,
    CloseCode,
    ErrorCode,
    decode_client,
    decode_server,
    encode,
)
from realtime.roster import REMEMBERED_CHARACTERS, REMEMBERED_CONTEXTS

TEXT = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
EXAMPLES = re.findall(r"### `([a-z.]+)`\n(?:(?!###).)*?```json\n(.*?)\n```", TEXT, re.DOTALL)


def section(title: str) -> str:
    return TEXT.split(f"## {title}\n")[1].split("\n## ")[0]


def test_every_message_has_one_example() -> None:
    assert sorted(name for name, _ in EXAMPLES) == sorted([*CLIENT_MESSAGES, *SERVER_MESSAGES])


def test_examples_round_trip() -> None:
    for name, example in EXAMPLES:
        decode = decode_client if name in CLIENT_MESSAGES else decode_server
        message = decode(example)
        assert json.loads(example)["type"] == name
        assert json.loads(encode(message)) == json.loads(example), name


def test_error_codes_are_all_listed() -> None:
    assert re.findall(r"^\| `(\w+)` \|", section("Error codes"), re.MULTILINE) == [str(code) for code in ErrorCode]


def test_close_codes_are_all_listed() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", section("Close codes"), re.MULTILINE)}
    assert listed == {value for name, value in vars(CloseCode).items() if name.isupper()}


def test_reports_in_the_examples_add_up() -> None:
    for name, example in EXAMPLES:
        if name in ("cancelled", "heard"):
            assert len(json.loads(example)["spoken"]) == json.loads(example)["char_end"]


def test_numbers_are_the_defaults() -> None:
    limits = LimitSettings()
    for number in (limits.contexts, limits.bad_messages, f"{limits.start_s:g} s", REMEMBERED_CONTEXTS):
        assert str(number) in TEXT
    for number in (limits.context_characters, REMEMBERED_CHARACTERS):
        assert f"{number:,}" in TEXT
    assert f"about {limits.lead_ms // 1000} s" in TEXT
