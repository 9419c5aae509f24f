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
    spoken = [*commands.values(), *(inner for each in commands.values() for inner in _inside(each))]
    known = {option for command in spoken for each in command.params for option in each.opts}
    written = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
    assert {option for option in known if option.startswith("--")} - written - SHELL == set()
    assert written - known - SHELL - {"--version"} == set()


def _inside(command: Any) -> list[Any]:
    """The commands of a group."""
    return list(getattr(command, "commands", {}).values())


def test_every_exit_code_is_documented() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)] == [
        code.value for code in Exit
    ]
