"""Services: `warrener up`, `agent`, `scheduler`, `supervisor` and `console` run them, and `migrate`."""

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from warrener.context import ResolvedEndpoints, command_settings, query_store, resolve_endpoints, run
from warrener.errors import CommandError, ExitCode, UsageError, exit_with_error
from warrener.options import Broker, Json, Modules, Store, argument, flag, option
from warrener.render.screen import err, out, print_json
from warrener_runtime.running_up import DEFAULT_FOLDER, find_running_up
from warrener_runtime.secrets import mask

if TYPE_CHECKING:
    from warrener.up.processes import LogLevels
    from warrener.up.run import ConsoleAddress
    from warrener_store.databases.address import SqliteAddress

_SCHEMA = "public"


def up(
    modules: Modules = None,
    *,
    agents: int = option("Number of agents for the modules.", default=1, min=1, max=100),
    slots: int | None = option(
        "Concurrent jobs per agent and queue; jobs of one message count as one.", min=1, show_default="10"
    ),
    data: Path = option(
        "Folder of the state, the ledger and the broker's data.", "FOLDER", default=Path(DEFAULT_FOLDER)
    ),
    broker: str | None = option("An existing broker.", "URL", show_default="a private RabbitMQ"),
    store: str | None = option("An existing store.", "URL", show_default="SQLite in FOLDER"),
    ledger: str | None = option("An existing ledger.", "URL", show_default="SQLite in FOLDER"),
    no_console: bool = flag("--no-console", "Without the console, which else serves this machine."),
    verbose: bool = flag("--verbose -v", "All log lines of services and handlers, not only warnings."),
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
    services = process_specs(modules or (), agents, slots)
    options = UpOptions(
        services,
        broker,
        store,
        ledger,
        command_settings().namespace,
        log_levels=levels,
        console=None if no_console else _listen_for_console(),
    )
    width = max(len("broker"), *(len(spec.name) for spec in services))
    output = JsonOutput() if as_json else PlainOutput(width)
    run(Up(options, DataFolder(data), QuietOutput(output) if levels.handlers else output).run())


def choose_log_levels(*, verbose: bool) -> "LogLevels":
    """Choose the levels of log lines of `up`: those of handlers are stored from `info` on, unless the user's
    settings say otherwise."""
    from warrener.up.processes import LogLevels
    from warrener_runtime.settings import read_file

    if verbose:
        return LogLevels()
    name = "agent_handler_log_level"
    chosen = os.environ.get(f"WARRENER_{name.upper()}") or name in read_file("agent").values
    return LogLevels("warning", None if chosen else "info")


def _listen_for_console() -> "ConsoleAddress | None":
    """Open the console's socket on loopback; None if the console is not installed."""
    if not _has_console():
        return None
    from warrener.up.run import ConsoleAddress
    from warrener.web.listener import address_of, bind_near
    from warrener.web.settings import ConsoleSettings
    from warrener_runtime.settings import load

    listener = bind_near("127.0.0.1", load(ConsoleSettings).console_port)
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


def console(
    ctx: typer.Context,
    *,
    host: str | None = option("Address to serve on (default: WARRENER_CONSOLE_HOST, else 127.0.0.1)."),
    port: int | None = option(
        "Port; 0: a free one (default: WARRENER_CONSOLE_PORT, else 8765).", min=0, max=65535
    ),
    open_browser: bool = flag("--open", "Open the console in the browser of this machine."),
    broker: Broker = None,
    store: Store = None,
) -> None:
    """Serve the console: pages about jobs, schedules and trouble, and their HTTP API.

    It joins the `warrener up` of this folder, if one runs, which has a console of its own already. Ctrl-C
    ends it. Any number may run; they share nothing but the store. On an address other than loopback it needs
    tokens or OpenID Connect.

    $ warrener console
    $ warrener console --port 9000 --store postgresql://db/warrener --broker amqp://broker/
    """
    if ctx.invoked_subcommand is not None:
        return
    _require_console()
    from warrener.web.listener import address_of, bind
    from warrener.web.server import load_settings, serve_console
    from warrener.web.settings import check_access

    settings = load_settings(console_host=host, console_port=port)
    check_access(settings)
    endpoints = resolve_endpoints(broker, store)
    query_store(store, lambda open_store: open_store.ping())  # else a traceback in its log would say so
    listener = bind(settings.console_host, settings.console_port)
    address = address_of(listener)
    sys.stdout.write(f"console at {address}\n")
    sys.stdout.flush()
    if open_browser:
        typer.launch(address)
    raise typer.Exit(serve_console(listener, endpoints, settings))


def token(
    name: str = argument("Person or program; it stands in the audit log.", "NAME"),
    *,
    role: str = option("viewer, operator or admin.", "ROLE", default="viewer"),
    file: Path | None = option(
        "File that gets the line of the token (default: WARRENER_CONSOLE_TOKENS_FILE, else none).", "FILE"
    ),
    as_json: Json = False,
) -> None:
    """Make an access token, and print it once: the file has a hash of it alone.

    A person signs in with name and token, a program sends `Authorization: Bearer TOKEN`. To end a token,
    delete its line: a running console sees the change.

    $ warrener console token ada --role admin --file tokens
    $ warrener console token deploy --role operator --json
    """
    _require_console()
    from warrener.operations.roles import Role
    from warrener.web.access.tokens import add_token, make_token
    from warrener.web.settings import ConsoleSettings
    from warrener_runtime.settings import load

    if role not in set(Role):
        raise UsageError(f"expected a role of {', '.join(Role)}, got {role!r}", do="choose one of them")
    file = file or load(ConsoleSettings).console_tokens_file
    secret, made = make_token(name, Role(role))
    if file is not None:
        add_token(file, made)
    if as_json:
        line, path = made.line, str(file) if file else None
        print_json({"name": name, "role": role, "token": secret, "line": line, "file": path})
        return
    out().print(secret, markup=False, highlight=False, soft_wrap=True)
    if file is None:
        err().print("  [soft]→[/] add this line to WARRENER_CONSOLE_TOKENS_FILE:")
        err().print(f"    {made.line}", markup=False, highlight=False, soft_wrap=True)
    else:
        err().print(f"  → its hash is in {file}; the token is not shown again", markup=False, highlight=False)


def _has_console() -> bool:
    return find_spec("uvicorn") is not None and find_spec("fastapi") is not None


def _require_console() -> None:
    if not _has_console():
        raise CommandError(
            "expected the packages of the console, got an installation without them",
            do="install warrener with its extra `console`",
        )


def migrate(
    *,
    grants: str | None = option(
        "Print the statements that give --user what a role needs in PostgreSQL: scheduler, supervisor, "
        "console or ledger; and migrate nothing.",
        "ROLE",
    ),
    user: str | None = option("Role of PostgreSQL, with --grants.", "NAME"),
    schema: str = option("Schema of the tables, with --grants.", "NAME", default=_SCHEMA),
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Create the tables of the state store, or bring them to this version; safe to repeat.

    The owner of the tables runs this, and the statements of --grants after it.

    $ warrener migrate
    $ warrener migrate --store postgresql://warrener@db/warrener
    $ warrener migrate --grants console --user console | psql postgresql://owner@db/warrener
    """
    from warrener_store import migrate as migrate_store

    if grants is None and (user is not None or schema != _SCHEMA):
        raise UsageError(
            "expected --user and --schema with --grants, got them alone", do="add --grants, or leave them out"
        )
    if grants is not None:
        _print_grants(grants, user, schema, as_json=as_json)
        return
    url = resolve_endpoints(store=store).store_url
    _ensure_folder(url)
    run(migrate_store(url))
    if as_json:
        print_json({"migrated": mask(url)})
    else:
        err().print(f"[good]✓[/] {mask(url)} is up to date")


def _print_grants(role: str, user: str | None, schema: str, *, as_json: bool) -> None:
    from warrener_store.grants import grants_of

    if user is None:
        raise UsageError("expected a role of PostgreSQL, got none; add --user NAME")
    try:
        statements = grants_of(role, user, schema)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if as_json:
        print_json(statements)
    else:
        sys.stdout.writelines(f"{each};\n" for each in statements)


def _ensure_folder(url: str) -> None:
    """Make the folder of `warrener up` for an SQLite file. Raises CommandError for any other folder."""
    from warrener_store.databases.address import SqliteAddress, parse_address

    where = parse_address(url)
    if not isinstance(where, SqliteAddress):
        return
    if where.path.parent.is_dir():
        _check_writable(where)
    elif where.path.parent.absolute() == Path(DEFAULT_FOLDER).absolute():
        from warrener.up.folder import DataFolder

        DataFolder().make()
    else:
        raise CommandError(
            f"expected a folder {where.path.parent} for {where}, got none",
            do="make it, or correct --store or WARRENER_STORE_URL",
        )


def _check_writable(where: "SqliteAddress") -> None:
    """SQLite writes files beside its own; without the right it would wait for a lock without end."""
    import tempfile

    folder = where.path.parent
    try:
        with tempfile.TemporaryFile(dir=folder):  # the mode of the folder ignores a read-only file system
            return
    except OSError as error:
        raise CommandError(
            f"expected to write in folder {folder} for {where}, got: {error}",
            do="let this user write there, or correct --store or WARRENER_STORE_URL",
        ) from None
