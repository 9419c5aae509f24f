"""Services: `warrener up`, `agent`, `scheduler` and `supervisor` run them; job types and escalation tests."""

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warrener.context import ResolvedEndpoints, query_store, resolve_endpoints, resolve_namespace, run
from warrener.errors import CommandError, ExitCode, exit_with_error
from warrener.options import Json, Modules, Store
from warrener.render.screen import err, out, print_json
from warrener_runtime.running_up import DEFAULT_FOLDER, find_running_up

if TYPE_CHECKING:
    from warrener.up.processes import LogLevels
    from warrener.up.run import ConsoleAddress


def up(
    modules: Modules = None,
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
        str | None, typer.Option(metavar="URL", help="An existing broker.", show_default="a private RabbitMQ")
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="An existing store.", show_default="SQLite in FOLDER")
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(metavar="URL", help="An existing ledger.", show_default="SQLite in FOLDER")
    ] = None,
    no_console: Annotated[
        bool, typer.Option("--no-console", help="Without the console, which else serves this machine.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="All log lines of services and handlers, not only warnings."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a whole Warrener in this terminal.

    It starts a broker, a scheduler, a supervisor, agents for your modules, and the console, and restarts each
    that dies.
    Ctrl-C drains; a second Ctrl-C hurries. Other commands in this folder use it without options. Unfinished
    jobs go on at the next `up`.

    $ warrener up shop.jobs
    $ warrener up shop.jobs billing.jobs --agents 3 --slots 20
    $ warrener up shop.jobs --broker amqp://guest:guest@localhost/ --store postgresql://localhost/warrener
    """
    from warrener.up.folder import DataFolder
    from warrener.up.output import JsonOutput, PlainOutput, QuietOutput
    from warrener.up.processes import process_specs
    from warrener.up.run import Up, UpOptions

    levels = choose_log_levels(verbose=verbose)
    options = UpOptions(
        modules or (),
        agents if modules else 0,
        slots,
        broker,
        store,
        ledger,
        resolve_namespace(),
        log_levels=levels,
        console=None if no_console else _listen_for_console(),
    )
    width = max(
        len("broker"),
        *(len(spec.name) for spec in process_specs(options.modules, options.agents, options.slots)),
    )
    output = JsonOutput() if as_json else PlainOutput(width)
    run(Up(options, DataFolder(data), QuietOutput(output) if levels.handlers else output).run())


def choose_log_levels(*, verbose: bool) -> "LogLevels":
    """Choose the levels of log lines of `up`: those of handlers are stored from `info` on, unless the user's
    settings say otherwise."""
    from warrener.up.processes import LogLevels
    from warrener_runtime.settings import SettingsError, read_file

    if verbose:
        return LogLevels()
    name = "agent_handler_log_level"
    try:
        chosen = os.environ.get(f"WARRENER_{name.upper()}") or name in read_file("agent").values
    except SettingsError as error:
        raise CommandError(str(error), code=ExitCode.USAGE) from error
    return LogLevels("warning", None if chosen else "info")


def _listen_for_console() -> "ConsoleAddress | None":
    """Open the console's socket on loopback; None if the console is not installed."""
    if find_spec("uvicorn") is None or find_spec("fastapi") is None:
        return None
    from warrener.up.run import ConsoleAddress
    from warrener.web.listener import address_of, bind_near
    from warrener.web.settings import ConsoleSettings
    from warrener_runtime.settings import SettingsError, load

    try:
        port = load(ConsoleSettings).console_port
    except SettingsError as error:
        raise CommandError(str(error), code=ExitCode.USAGE) from error
    listener = bind_near("127.0.0.1", port)
    url = address_of(listener)
    return ConsoleAddress(listener.detach(), url)


def env(*, as_json: Json = False) -> None:
    """Print the exports by which programs elsewhere find the `warrener up` of this folder.

    They contain the passwords of broker and store. A shell reads them by `eval "$(warrener env)"`; programs
    in this folder need none of them.

    $ warrener env
    $ warrener env --json | jq -r .WARRENER_BROKER_URL
    """
    found = find_running_up()
    if found is None:
        raise CommandError(
            "expected a `warrener up` that runs in this folder, got none",
            do="start one with `warrener up MODULE`, or go to its folder",
        )
    variables = ResolvedEndpoints(**asdict(found), from_up=True).environment()
    if as_json:
        print_json(variables)
        return
    for name, value in variables.items():
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")


def agent(context: typer.Context, modules: Modules = None) -> None:
    """Run an agent that serves the jobs of these modules.

    Any number may run; SIGTERM or Ctrl-C drains it. Options are those of `python -m warrener_agent`:
    --slots N, --queue NAME.

    $ warrener agent shop.jobs
    $ warrener agent shop.jobs billing.jobs --slots 20 --queue mails
    """
    exec_service("agent", [*(modules or ()), *context.args])


def scheduler(context: typer.Context) -> None:
    """Run a scheduler: it accepts requests, dispatches attempts, and decides the ticks of schedules.

    Any number may run; SIGTERM or Ctrl-C drains it.

    $ warrener scheduler
    $ WARRENER_BROKER_URL=amqp://… WARRENER_STORE_URL=postgresql://… warrener scheduler
    """
    exec_service("scheduler", context.args)


def supervisor(context: typer.Context) -> None:
    """Run a supervisor: it judges the ends of attempts, retries jobs, and raises incidents.

    Any number may run; SIGTERM or Ctrl-C drains it.

    $ warrener supervisor
    $ WARRENER_BROKER_URL=amqp://… WARRENER_STORE_URL=postgresql://… warrener supervisor
    """
    exec_service("supervisor", context.args)


def test(context: typer.Context) -> None:
    """Check an escalation file, and play its policies offline: nothing is sent.

    Prints the first mistake of the file with key and remedy, and exits with code 2; if there is none, the
    supervisor's own code plays the policy on virtual time. --help shows its options.

    $ warrener escalation test escalation.toml --job-type bank.pay --at 2026-11-21T23:30 --times 100
    """
    exec_service("supervisor", context.args, submodule=".escalation")


def exec_service(service: str, arguments: Sequence[str], *, submodule: str = "") -> None:
    """Replace this process by `python -m warrener_<service><submodule> ARGUMENTS`; never returns.

    The service joins the `up` of this folder, if one runs. Exits with an error if it is not installed.
    """
    module = f"warrener_{service}"
    if find_spec(module) is None:
        exit_with_error(
            f"expected the {service} to be installed, got no module {module}",
            f"install warrener-{service} beside warrener",
            ExitCode.FAILED,
        )
    endpoints = resolve_endpoints()
    environment = {**os.environ, **(endpoints.environment() if endpoints.from_up else {})}
    command = [sys.executable, "-m", f"{module}{submodule}", *arguments]
    os.execve(sys.executable, command, environment)  # noqa: S606 - our own service


def types(*, store: Store = None, as_json: Json = False) -> None:
    """List the job types that agents have announced, with their arguments and policies (schemas in JSON).

    $ warrener job-types
    $ warrener job-types --json | jq '.[].arguments_schema'
    """
    from warrener.render.jobs import types_table

    found = query_store(store, lambda open_store: open_store.job_types())
    rows = [row for _, row in sorted(found.items())]
    if as_json:
        print_json(rows)
    elif rows:
        out().print(types_table(rows, datetime.now(UTC)))
    else:
        err().print("[soft]No agent has announced a job type yet.[/]")
