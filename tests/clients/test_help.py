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
