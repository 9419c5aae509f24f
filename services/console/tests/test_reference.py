"""The reference names every command and every option, and no other."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.core import TyperGroup
from typer.main import get_group

from warrener.command.app import app
from warrener.errors import ExitCode

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "command.md"
SHELL = {"--install-completion", "--show-completion", "--help"}


def test_every_command_and_option_is_documented_and_nothing_else() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    commands = get_group(app).commands
    assert set(re.findall(r"`warrener ([a-z][a-z-]*)", text)) == {
        name for name, each in commands.items() if not each.hidden
    }
    known = {option for command in _all(get_group(app)) for each in command.params for option in each.opts}
    written = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
    assert {option for option in known if option.startswith("--")} - written - SHELL == set()
    assert written - known - SHELL - {"--version"} == set()


def _all(group: TyperGroup) -> Iterator[Any]:
    """The commands, and those within groups such as `warrener breaker`."""
    for command in group.commands.values():
        yield command
        if isinstance(command, TyperGroup):
            yield from _all(command)


def test_every_command_of_a_group_is_documented() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    groups = {
        name: each
        for name, each in get_group(app).commands.items()
        if isinstance(each, TyperGroup) and not each.hidden
    }
    for name, group in groups.items():
        assert {word for word in group.commands if f"`warrener {name} {word}" not in text} == set()


def test_every_exit_code_is_documented() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)] == [
        code.value for code in ExitCode
    ]
