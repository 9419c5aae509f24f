"""A call imports what its own command needs: the start of the command is most of what a quick one costs."""

import json
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest
from tests.store_access import on_store
from tests.store_rows import queued_job, succeeded
from typer.main import get_group

from warrener.command.app import app
from warrener.command.tree import WORDS
from warrener.web.site import NOUNS
from warrener_store import Store

SERVICES = ("icalendar", "warrener_devservers", "warrener_scheduler", "warrener_agent")
NEVER = (*SERVICES, "structlog", "opentelemetry.sdk", "jsonschema_rs", "pydantic_settings")
STORE = ("warrener_store.store", "warrener_store.opening", "aiosqlite", "asyncpg")
MODELS = ("pydantic", "warrener_contracts.events")
ALL_EVENTS = ("warrener_contracts.registry", "warrener_contracts.events.agents")
WHOLE_STORE = (
    "warrener_store.store",
    "warrener_store.sqlite",
    "warrener_store.postgres",
    "warrener_store.jobs.sqlite",
)
AGGREGATES = ("agents", "dead_letters", "incidents", "jobs", "logs", "parked", "retention", "schedules")
ROWS = {f"warrener_store.{name}.rows" for name in AGGREGATES}
BROKER = ("warrener_amqp", "warrener_runtime.bus", "urllib.request")
EVENT = "warrener_contracts.events.envelope"
SCHEDULES = "warrener_contracts.schedule_rules"

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


def test_help_imports_no_client_and_no_store_and_models_only_for_the_verbs_made_of_them(
    tmp_path: Path,
) -> None:
    of_nouns = {"cancel", "find", "job", *((noun.command or noun.word).split()[0] for noun in NOUNS)}
    made = modules_after(*(f"{word} --help" for word in of_nouns), folder=tmp_path)
    assert made.isdisjoint({*NEVER, *STORE, *ALL_EVENTS, "warrener_client"})
    words = [word.name for word in WORDS if word.name not in of_nouns]
    calls = ["--help", "--version", *(f"{word} --help" for word in words)]
    loaded = modules_after(*calls, folder=tmp_path)
    assert {f"warrener.command.{name}" for name in ("doctor", "topology")} < loaded
    wrong = {*NEVER, *STORE, *MODELS, "warrener_client"}
    assert loaded.isdisjoint(wrong), sorted(loaded & wrong)


def test_the_list_of_all_commands_imports_none_of_them(tmp_path: Path) -> None:
    loaded = modules_after("--help", "", "-h", "--version", "jbs", folder=tmp_path)
    commands = {name for name in loaded if name.startswith("warrener.command.")}
    assert commands == {"warrener.command.tree"}
    assert "asyncio" not in loaded


@pytest.mark.parametrize(
    ("call", "unwanted"),
    [
        ("jobs --store {sqlite}", ("asyncpg", "warrener_client", "warrener.explanations", *ALL_EVENTS)),
        ("job 01 --store {sqlite}", ("asyncpg", "warrener_client", "warrener.explanations", *ALL_EVENTS)),
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


@pytest.mark.parametrize(
    ("call", "rows", "also"),
    [
        ("jobs", {"jobs"}, ()),
        ("jobs --json", {"jobs"}, ()),
        ("find x", {"agents", "jobs", "parked", "schedules"}, (SCHEDULES,)),
        ("jobs --state rejected", {"jobs", "parked"}, (EVENT,)),
        ("job {job}", {"agents", "dead_letters", "jobs"}, (EVENT,)),
        ("trace {job}", {"agents", "jobs"}, ()),
        ("explain {job}", {"agents", "dead_letters", "jobs"}, ()),
        ("agents", {"agents"}, ()),
        ("audit", set[str](), ()),
        ("job-types", {"agents"}, ()),
        ("dead-letters", {"agents", "dead_letters", "jobs"}, (EVENT,)),
        ("parked", {"parked"}, (EVENT,)),
        ("breaker list", {"agents", "jobs"}, ()),
        ("escalation list", {"incidents"}, ()),
        ("schedule list", {"schedules"}, (SCHEDULES,)),
        ("schedule export", {"schedules"}, (SCHEDULES,)),
        ("doctor", {"agents", "dead_letters", "incidents", "jobs", "parked"}, BROKER),
    ],
)
def test_a_read_imports_the_rows_that_it_shows(
    call: str, rows: set[str], also: tuple[str, ...], sqlite_store_url: str, tmp_path: Path
) -> None:
    """A job that is over, so that the broker has nothing to say about it."""
    job = str(on_store(sqlite_store_url, _insert_job))
    broker = " --broker amqp://127.0.0.1:1/" if call.split(maxsplit=1)[0] in {"doctor", "explain"} else ""
    loaded = modules_after(f"{call.format(job=job)} --store {sqlite_store_url}{broker}", folder=tmp_path)
    assert loaded & ROWS <= {f"warrener_store.{name}.rows" for name in rows}
    elsewhere = {*WHOLE_STORE, *BROKER, *ALL_EVENTS, EVENT, SCHEDULES, "asyncpg", "warrener_client"}
    wrong = (elsewhere | {*NEVER}) - {*also}
    assert loaded.isdisjoint(wrong), sorted(loaded & wrong)


async def _insert_job(store: Store) -> UUID:
    row = queued_job()
    await store.insert_jobs([row])
    await store.save_jobs([succeeded(row)])
    return row.job_id


def test_help_lists_each_command_as_it_is() -> None:
    group = get_group(app)
    shown = [
        (name, getattr(command, "rich_help_panel", None), (command.help or "").split("\n\n")[0])
        for name, command in group.commands.items()
    ]
    assert shown == [(word.name, word.panel, word.about) for word in WORDS]


@pytest.mark.parametrize("service", ["warrener_agent", "warrener_scheduler", "warrener_supervisor"])
def test_a_service_has_built_all_events_when_it_is_imported(service: str) -> None:
    """The command builds those that it uses; a service would build them while messages wait."""
    program = (
        f"import {service}.wiring; from warrener_contracts.registry import RELEASED; "
        "print(*(kind.__name__ for kind in RELEASED if not kind.__pydantic_complete__))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
