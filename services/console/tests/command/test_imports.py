"""A call imports what its own command needs: the start of the command is most of what a quick one costs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_group

from warrener.command.app import app
from warrener.command.overview import WORDS
from warrener.command.tree import make_app_for

SERVICES = ("faststream", "aio_pika", "warrener_devservers", "warrener_scheduler", "warrener_agent")
NEVER = (*SERVICES, "sqlalchemy", "alembic", "structlog", "opentelemetry.sdk", "jsonschema_rs")
STORE = ("warrener_store.store", "aiosqlite", "asyncpg")
MODELS = ("pydantic", "pydantic_settings", "warrener_contracts.events")
ALL_EVENTS = ("warrener_contracts.registry", "warrener_contracts.events.agents")

PROGRAM = """
import json, os, sys
from warrener.__main__ import main
for words in json.loads(sys.argv.pop(1)):
    sys.argv[1:] = words
    try:
        main()
    except SystemExit:
        pass
sys.stderr.write("\\n" + json.dumps(sorted(sys.modules)))
"""


def modules_after(*calls: str, folder: Path) -> set[str]:
    """The modules that one process has imported after these calls of the command."""
    arguments = json.dumps([call.split() for call in calls])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, arguments], capture_output=True, text=True, check=True, cwd=folder
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_help_of_no_command_imports_a_model_a_client_or_a_store(tmp_path: Path) -> None:
    calls = ["--help", "--version", *(f"{word.name} --help" for word in WORDS)]
    loaded = modules_after(*calls, folder=tmp_path)
    assert {f"warrener.command.{name}" for name in ("jobs", "schedule", "topology")} < loaded
    wrong = {*NEVER, *STORE, *MODELS, "warrener_client"}
    assert loaded.isdisjoint(wrong), sorted(loaded & wrong)


def test_the_list_of_all_commands_imports_none_of_them(tmp_path: Path) -> None:
    loaded = modules_after("--help", "", "-h", "--version", "jbs", folder=tmp_path)
    commands = {name for name in loaded if name.startswith("warrener.command.")}
    assert commands == {"warrener.command.overview", "warrener.command.tree"}
    assert "asyncio" not in loaded


@pytest.mark.parametrize(
    ("call", "unwanted"),
    [
        ("jobs --store {sqlite}", ("asyncpg", "warrener_client", "warrener.explanations", *ALL_EVENTS)),
        ("job 01 --store {sqlite}", ("asyncpg", "warrener_client", "warrener.explanations", *ALL_EVENTS)),
        ("explain 01 --store {sqlite} --broker {nowhere}", ("asyncpg", "warrener_client", *ALL_EVENTS)),
        ("agents --store {sqlite}", ("asyncpg", "warrener_client", *ALL_EVENTS)),
        ("dead --store {sqlite}", ("asyncpg", "warrener_client", *ALL_EVENTS)),
        ("breaker list --store {sqlite}", ("asyncpg", "warrener_client", *ALL_EVENTS)),
        ("request a.b --broker {nowhere}", (*STORE, *ALL_EVENTS)),
        ("jobs --store postgresql://127.0.0.1:1/store", ("aiosqlite", "warrener_client", *ALL_EVENTS)),
    ],
)
def test_a_command_imports_only_its_own(
    call: str, unwanted: tuple[str, ...], sqlite_store_url: str, tmp_path: Path
) -> None:
    words = call.format(sqlite=sqlite_store_url, nowhere="amqp://127.0.0.1:1/")
    loaded = modules_after(words, folder=tmp_path)
    wrong = {*unwanted, *NEVER}
    assert loaded.isdisjoint(wrong), sorted(loaded & wrong)


def test_help_lists_each_command_as_it_is() -> None:
    group = get_group(app)
    shown = [
        (
            name,
            getattr(command, "rich_help_panel", None),
            command.hidden,
            (command.help or "").split("\n\n")[0],
        )
        for name, command in group.commands.items()
    ]
    assert [(name, hidden, about) for name, _, hidden, about in shown] == [
        (word.name, word.panel is None, word.about) for word in WORDS
    ]
    panels = {name: panel for name, panel, hidden, _ in shown if not hidden}
    assert panels == {word.name: word.panel for word in WORDS if word.panel is not None}


@pytest.mark.parametrize(
    ("line", "option"), [("warrener jobs --st", "state"), ("warrener dead", None), ("warrener ", None)]
)
def test_a_shell_completes_all_words_and_the_options_of_one(line: str, option: str | None) -> None:
    completed = get_group(make_app_for([], line))
    assert set(completed.commands) == {word.name for word in WORDS}
    options = {parameter.name for parameter in completed.commands["jobs"].params}
    assert option is None or option in options


@pytest.mark.parametrize("service", ["warrener_agent", "warrener_scheduler", "warrener_supervisor"])
def test_a_service_has_built_all_events_when_it_is_imported(service: str) -> None:
    """The command builds those that it uses; a service would build them while messages wait."""
    program = (
        f"import {service}.wiring; from warrener_contracts.registry import RELEASED; "
        "print(*(kind.__name__ for kind in RELEASED if not kind.__pydantic_complete__))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
