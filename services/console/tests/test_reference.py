"""The reference names every command and every option, and no other."""

import re
from pathlib import Path
from typing import Any

from typer.main import get_group

from warrener.command.app import app
from warrener.exits import Exit

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "command.md"
SHELL = {"--install-completion", "--show-completion", "--help"}


def test_every_command_and_option_is_documented_and_nothing_else() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    commands = get_group(app).commands
    assert set(re.findall(r"`warrener ([a-z]+)", text)) == set(commands)
    parts = [part for command in commands.values() for part in _parts(command)]
    known = {option for part in parts for each in part.params for option in each.opts}
    written = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
    assert {option for option in known if option.startswith("--")} - written - SHELL == set()
    assert written - known - SHELL - {"--version"} == set()


def _parts(command: Any) -> list[Any]:
    """The command, or the commands of a group."""
    return list(command.commands.values()) if hasattr(command, "commands") else [command]


def test_every_exit_code_is_documented() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)] == [
        code.value for code in Exit
    ]
