"""What a recogniser heard, laid against a text."""

import pytest

from clients.bench.interruptions import words_apart

TEXT = "Well, they could still receive the sound."


@pytest.mark.parametrize(
    ("said", "heard", "apart"),
    [
        ("Well, they could", "well they could", 0),
        ("Well, they could", "Well, they cut", 0),
        ("Well, they could", "well they", 1),
        ("Well,", "well they could still", -3),
        ("", "", 0),
        ("", "you", 0),
        (TEXT, "well they could still receive the son", 0),
        (TEXT, "", 7),
    ],
)
def test_words_between_report_and_ear(said: str, heard: str, apart: int) -> None:
    assert words_apart(TEXT, len(said), heard) == apart
