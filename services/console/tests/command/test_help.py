"""Help teaches: every command says what it is for and shows how it is used."""

from collections.abc import Callable

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


def test_all_commands_are_there() -> None:
    assert COMMANDS == [
        "agent",
        "agents",
        "audit",
        "breaker",
        "cancel",
        "console",
        "dead-letters",
        "doctor",
        "env",
        "escalation",
        "explain",
        "find",
        "job",
        "job-types",
        "jobs",
        "migrate",
        "parked",
        "queues",
        "request",
        "schedule",
        "scheduler",
        "supervisor",
        "top",
        "topology",
        "trace",
        "up",
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_shows_examples_of_itself(run: Callable[..., Result], command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "Examples" in result.stdout
    assert f" warrener {command}" in result.stdout


@pytest.mark.parametrize("words", WORDS)
def test_each_command_of_a_group_shows_examples_of_itself(run: Callable[..., Result], words: str) -> None:
    result = run(*words.split(), "-h")
    assert result.exit_code == 0
    assert f"$ warrener {words}" in result.stdout


def test_without_a_command_it_shows_them_all(run: Callable[..., Result]) -> None:
    result = run()
    assert all(f" {command} " in result.output for command in COMMANDS)
    assert run("--version").stdout.startswith("warrener 1.")


def test_what_is_not_a_command_is_a_usage_error(run: Callable[..., Result]) -> None:
    result = run("jbs")
    assert result.exit_code == 2
    assert "jbs" in result.output
