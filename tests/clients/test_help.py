"""The help of every command teaches: what it is for, what each argument means, examples."""

import re

import pytest

from clients.cli import COMMANDS, main


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: footlights {name}")
    assert re.search(rf"^examples:\n(?:  .*\n)*  .*footlights {name}\b", text, re.MULTILINE)
    assert "``" not in text


def test_arguments_of_doctor_say_what_they_mean(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["doctor", "--help"])
    assert re.search(r"--device DEVICE\s+\S", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("voice", ["footlights bench setup", "about an hour", "(heart,michael,bella)", "below --out"]),
        ("samples", ["footlights bench setup", "about a minute", "all of the model's"]),
    ],
)
def test_help_of_benches_teaches(command: str, told: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", command, "--help"])
    text = capsys.readouterr().out
    for each in ("examples:\n", rf"  footlights bench {command}\b", "exit status:", *map(re.escape, told)):
        assert re.search(each, text), each
    assert text.index("usage: ") < text.index({"voice": "Measure", "samples": "Record"}[command])
