"""Help teaches: every command says what it is for and shows how it is used."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_group
from typer.testing import Result

from warrener.command.app import app

GROUP = get_group(app)
COMMANDS = sorted(GROUP.commands)
WORDS = [
    f"{name} {word}"
    for name, group in sorted(GROUP.commands.items())
    if isinstance(group, TyperGroup)
    for word in sorted(group.commands)
    if (name, word) != ("escalation", "test")  # its help is the supervisor's
]


def test_without_a_command_it_shows_them_all(run: Callable[..., Result]) -> None:
    result = run()
    assert all(f" {command} " in result.output for command in COMMANDS)
    assert run("--version").stdout.startswith("warrener 1.")


def test_what_is_not_a_command_is_a_usage_error(run: Callable[..., Result]) -> None:
    result = run("jbs")
    assert result.exit_code == 2
    assert "jbs" in result.output


@pytest.mark.parametrize("words", [*COMMANDS, *WORDS])
def test_help_is_for_people_and_shows_examples_of_each_command(
    run: Callable[..., Result], words: str
) -> None:
    shown = run(*words.split(), "-h")
    assert shown.exit_code == 0
    assert f"$ warrener {words}" in shown.stdout
    assert "<bool>" not in shown.stdout, "a flag takes no value"
    assert "[[" not in shown.stdout, "an argument has one pair of brackets"


@pytest.mark.parametrize("words", [*COMMANDS, *WORDS])
def test_examples_are_calls_that_the_command_takes(words: str) -> None:
    command: Any = GROUP
    for word in words.split():
        command = command.commands[word]
    for example in re.findall(r"\$\[/cyan\] (.*)", command.epilog):
        called: Any = GROUP
        call = re.split(r" [|>] ", example[example.index("warrener ") :])[0]
        arguments = shlex.split(call)[1:]
        while isinstance(called, TyperGroup) and arguments and arguments[0] in called.commands:
            called = called.commands[arguments.pop(0)]
        called.make_context("warrener", arguments)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("warrener dead", {"dead-letters"}),
        ("warrener cancel --ty", {"--type"}),
        ("warrener parked req", {"requeue"}),
        ("warrener schedule put a b --overlap qu", {"queue_one", "queue_all"}),
    ],
)
def test_a_shell_completes_what_is_typed(line: str, expected: set[str]) -> None:
    variables = {
        "_WARRENER_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }
    done = subprocess.run(
        [sys.executable, "-m", "warrener"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )
    assert expected == set(done.stdout.split()), done.stderr
