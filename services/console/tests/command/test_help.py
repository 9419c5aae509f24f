"""Help and the reference teach each command; a call imports what its own needs, and ends with its reader."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from services.console.tests.conftest import Run, put_jobs
from tests.store_rows import queued_job, succeeded
from typer.core import TyperGroup
from typer.main import get_group

from warrener.command.app import app
from warrener.command.tree import WORDS
from warrener.errors import ExitCode
from warrener.web.site import NOUNS

GROUP = get_group(app)
COMMANDS = sorted(GROUP.commands)
CALLS = [
    f"{name} {word}"
    for name, group in sorted(GROUP.commands.items())
    if isinstance(group, TyperGroup)
    for word in sorted(group.commands)
    if (name, word) != ("escalation", "test")  # its help is the supervisor's
]


def test_without_a_command_it_shows_them_all_and_refuses_any_other(run: Run) -> None:
    result = run()
    assert all(f" {command} " in result.output for command in COMMANDS)
    assert run("--version").stdout.startswith("warrener 1.")
    wrong = run("jbs")
    assert (wrong.exit_code, "jbs" in wrong.output) == (2, True)


def _find(words: str) -> Any:
    """The command of these words."""
    found: Any = GROUP
    for word in words.split():
        found = found.commands[word]
    return found


@pytest.mark.parametrize("words", [*COMMANDS, *CALLS])
def test_help_is_for_people_and_shows_examples_that_each_command_takes(run: Run, words: str) -> None:
    shown = run(*words.split(), "-h")
    assert shown.exit_code == 0
    assert f"$ warrener {words}" in shown.stdout
    assert "<bool>" not in shown.stdout, "a flag takes no value"
    assert "[[" not in shown.stdout, "an argument has one pair of brackets"
    for example in re.findall(r"\$\[/cyan\] (.*)", _find(words).epilog):
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
    of_nouns = {
        "cancel",
        "find",
        "job",
        "resume",
        "send",
        "undo",
        *((noun.command or noun.word).split()[0] for noun in NOUNS),
    }
    made = modules_after(*(f"{word} --help" for word in of_nouns), folder=tmp_path)
    assert made.isdisjoint({*NEVER, *STORE, *ALL_EVENTS, "warrener_client"})
    words = [word.name for word in WORDS if word.name not in of_nouns]
    calls = ["--help", "--version", *(f"{word} --help" for word in words)]
    loaded = modules_after(*calls, folder=tmp_path)
    assert {f"warrener.command.{name}" for name in ("doctor", "services")} < loaded
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
        ("jobs", {"agents", "jobs"}, ()),
        ("jobs --json", {"agents", "jobs"}, ()),
        ("find x", {"agents", "jobs", "parked", "schedules"}, (SCHEDULES,)),
        ("jobs --state rejected", {"agents", "jobs", "parked"}, (EVENT,)),
        ("job {job}", {"agents", "dead_letters", "jobs"}, (EVENT,)),
        ("trace {job}", {"agents", "jobs"}, ()),
        ("explain {job}", {"agents", "dead_letters", "jobs"}, ()),
        ("agents", {"agents"}, ()),
        ("audit", {"agents"}, ()),
        ("job-types", {"agents", "jobs"}, ()),
        ("dead-letters", {"agents", "dead_letters", "jobs"}, (EVENT,)),
        ("parked", {"agents", "parked"}, (EVENT,)),
        ("breaker list", {"agents", "jobs"}, ()),
        ("gate list", {"agents", "jobs"}, ()),
        ("escalation list", {"agents", "incidents"}, ()),
        ("schedule list", {"agents", "schedules"}, (SCHEDULES,)),
        ("schedule export", {"schedules"}, (SCHEDULES,)),
        ("doctor", {"agents", "dead_letters", "incidents", "jobs", "parked"}, BROKER),
    ],
)
def test_a_read_imports_the_rows_that_it_shows(
    call: str, rows: set[str], also: tuple[str, ...], sqlite_store_url: str, tmp_path: Path
) -> None:
    """A job that is over, so that the broker has nothing to say about it."""
    row = queued_job()
    put_jobs(sqlite_store_url, row, saves=[succeeded(row)])
    broker = " --broker amqp://127.0.0.1:1/" if call.split(maxsplit=1)[0] in {"doctor", "explain"} else ""
    loaded = modules_after(
        f"{call.format(job=row.job_id)} --store {sqlite_store_url}{broker}", folder=tmp_path
    )
    assert loaded & ROWS <= {f"warrener_store.{name}.rows" for name in rows}
    elsewhere = {*WHOLE_STORE, *BROKER, *ALL_EVENTS, EVENT, SCHEDULES, "asyncpg", "warrener_client"}
    wrong = (elsewhere | {*NEVER}) - {*also}
    assert loaded.isdisjoint(wrong), sorted(loaded & wrong)


def test_help_lists_each_command_as_it_is() -> None:
    shown = [
        (name, getattr(command, "rich_help_panel", None), (command.help or "").split("\n\n")[0])
        for name, command in GROUP.commands.items()
    ]
    panels = [*dict.fromkeys(panel for _, panel, _ in shown)]
    assert sorted(shown, key=lambda word: panels.index(word[1])) == WORDS


@pytest.mark.parametrize("service", ["warrener_agent", "warrener_scheduler", "warrener_supervisor"])
def test_a_service_has_built_all_events_when_it_is_imported(service: str) -> None:
    """The command builds those that it uses; a service would build them while messages wait."""
    program = (
        f"import {service}.wiring; from warrener_contracts.registry import RELEASED; "
        "print(*(kind.__name__ for kind in RELEASED if not kind.__pydantic_complete__))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("arguments", [("doctor",), ("doctor", "--json"), ("jobs", "--json"), ("agents",)])
def test_a_command_ends_quietly_when_its_reader_has_gone(
    here: Path, vhost_url: str, arguments: tuple[str, ...]
) -> None:
    environment = os.environ | {
        "WARRENER_BROKER_URL": vhost_url,
        "WARRENER_STORE_URL": f"sqlite:///{here}/state.db",
    }
    warrener = (sys.executable, "-m", "warrener")
    subprocess.run([*warrener, "migrate"], env=environment, check=True, capture_output=True)
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [*warrener, *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        check=False,
    )
    os.close(writer)
    nothing_to_print = arguments == ("agents",)
    assert ended.returncode == (0 if nothing_to_print else 141), ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.splitlines()) <= 1


REFERENCE = Path(__file__).parents[4] / "docs" / "reference" / "command.md"
SHELL = {"--install-completion", "--show-completion", "--help"}


def test_every_command_option_and_exit_code_is_documented_and_nothing_else() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    assert set(re.findall(r"`warrener ([a-z][a-z-]*)", text)) == {*COMMANDS}
    calls = [*CALLS, "escalation test"]  # CALLS lacks it: its help is the supervisor's
    assert [call for call in calls if f"`warrener {call}" not in text] == []
    bodies = [GROUP.commands[name] for name in COMMANDS] + [_find(call) for call in calls]
    known = {option for body in bodies for each in body.params for option in each.opts}
    written = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
    assert {option for option in known if option.startswith("--")} - written - SHELL == set()
    assert written - known - SHELL - {"--version"} == set()
    codes = re.findall(r"^\| (\d+) \|", text, re.MULTILINE)
    assert [int(code) for code in codes] == [code.value for code in ExitCode]
