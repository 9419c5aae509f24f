"""Services: `warrener up`, `agent`, `scheduler` and `supervisor` run them; `agents` and `types` list them."""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from warrener.context import resolve_endpoints, resolve_namespace, run, show_list
from warrener.errors import ExitCode, exit_with_error
from warrener.options import Json, Store
from warrener.render.jobs import agents_table, types_table
from warrener.up.folder import DEFAULT_FOLDER, DataFolder
from warrener.up.output import JsonOutput, PlainOutput
from warrener.up.processes import process_specs
from warrener.up.run import Up, UpOptions
from warrener_store import StateStore
from warrener_store.agents.rows import AgentRow, JobTypeRow

_HIDDEN_AFTER = timedelta(hours=1)


def up(
    modules: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODULE[:NAME]]...", help="Modules with an Agent, importable from this folder."
        ),
    ] = None,
    *,
    agents: Annotated[int, typer.Option(min=1, max=100, help="Number of agents for the modules.")] = 1,
    slots: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Concurrent jobs per agent and queue; jobs of one message count as one.",
            show_default="10",
        ),
    ] = None,
    data: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the state, the ledger and the broker's data.")
    ] = Path(DEFAULT_FOLDER),
    broker: Annotated[
        str | None,
        typer.Option(metavar="URL", help="An existing broker.", show_default="a private RabbitMQ"),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="An existing store.", show_default="SQLite in FOLDER"),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(metavar="URL", help="An existing ledger.", show_default="SQLite in FOLDER"),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="All log lines of the services, not only warnings.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a whole Warrener in this terminal.

    It starts a broker, a scheduler, a supervisor, and agents for your modules, and restarts each that dies.
    Ctrl-C drains; a second Ctrl-C hurries. Other commands in this folder use it without options. Unfinished
    jobs go on at the next `up`.

    $ warrener up shop.jobs
    $ warrener up shop.jobs billing.jobs --agents 3 --slots 20
    $ warrener up shop.jobs --broker amqp://guest:guest@localhost/ --store postgresql://localhost/warrener
    """
    options = UpOptions(
        modules or (),
        agents if modules else 0,
        slots,
        broker,
        store,
        ledger,
        resolve_namespace(),
        log_level="info" if verbose else "warning",
    )
    width = max(
        len("broker"),
        *(len(spec.name) for spec in process_specs(options.modules, options.agents, options.slots)),
    )
    run(Up(options, DataFolder(data), JsonOutput() if as_json else PlainOutput(width)).run())


def agent(
    context: typer.Context,
    modules: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODULE[:NAME]...", help="Modules with an Agent."),
    ] = None,
) -> None:
    """Run an agent that serves the jobs of these modules.

    Any number may run; SIGTERM or Ctrl-C drains it. Options are those of `python -m warrener_agent`:
    --slots N, --queue NAME.

    $ warrener agent shop.jobs
    $ warrener agent shop.jobs billing.jobs --slots 20 --queue mails
    """
    exec_service("agent", [*(modules or ()), *context.args])


def scheduler(context: typer.Context) -> None:
    """Run a scheduler.

    Any number may run; SIGTERM or Ctrl-C drains it.

    $ warrener scheduler
    $ WARRENER_BROKER_URL=amqp://… WARRENER_STORE_URL=postgresql://… warrener scheduler
    """
    exec_service("scheduler", context.args)


def supervisor(context: typer.Context) -> None:
    """Run a supervisor.

    Any number may run; SIGTERM or Ctrl-C drains it.

    $ warrener supervisor
    $ WARRENER_BROKER_URL=amqp://… WARRENER_STORE_URL=postgresql://… warrener supervisor
    """
    exec_service("supervisor", context.args)


def exec_service(service: str, arguments: Sequence[str], *, submodule: str = "") -> None:
    """Replace this process by `python -m warrener_<service><submodule> ARGUMENTS`; never returns.

    The service joins the `up` of this folder, if one runs. Exits with an error if it is not installed.
    """
    module = f"warrener_{service}"
    if find_spec(module) is None:
        exit_with_error(
            f"expected the {service} to be installed, got no module {module}",
            f"pip install warrener-{service}",
            ExitCode.FAILED,
        )
    endpoints = resolve_endpoints()
    environment = {**os.environ, **(endpoints.environment() if endpoints.from_up else {})}
    command = [sys.executable, "-m", f"{module}{submodule}", *arguments]
    os.execve(sys.executable, command, environment)  # noqa: S606 - our own service


def agents(
    *,
    everyone: Annotated[
        bool, typer.Option("--all", help="Also agents that have been silent for an hour.")
    ] = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List the agents: queues, slots, running attempts.

    $ warrener agents
    $ warrener agents --all --json
    """

    async def query(open_store: StateStore) -> list[AgentRow]:
        return await open_store.agents(None if everyone else datetime.now(UTC) - _HIDDEN_AFTER)

    none = "No agent has reported yet: start one with `warrener up MODULE` or `warrener agent MODULE`."
    show_list(store, query, agents_table, as_json=as_json, none=none)


def types(*, store: Store = None, as_json: Json = False) -> None:
    """List the job types that agents have announced, with their policies (and schemas, in JSON).

    $ warrener job-types
    $ warrener job-types --json | jq '.[].arguments_schema'
    """

    async def query(open_store: StateStore) -> list[JobTypeRow]:
        return [row for _, row in sorted((await open_store.job_types()).items())]

    show_list(store, query, types_table, as_json=as_json, none="No agent has announced a job type yet.")
