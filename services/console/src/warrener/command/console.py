"""The console: `warrener console` serves pages and the HTTP API, `warrener console token` makes access
tokens."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from warrener.context import query_store, resolve_endpoints
from warrener.errors import CommandError, ExitCode
from warrener.options import Broker, Json, Store
from warrener.render.screen import err, out, print_json


def console(
    ctx: typer.Context,
    *,
    host: Annotated[
        str | None, typer.Option(help="Address to serve on (default: WARRENER_CONSOLE_HOST, else 127.0.0.1).")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Port; 0: a free one (default: WARRENER_CONSOLE_PORT, else 8765)."
        ),
    ] = None,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the console in the browser of this machine.")
    ] = False,
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
    _check_packages()
    from warrener.web.access.settings import check_access
    from warrener.web.listener import address_of, bind
    from warrener.web.server import load_settings, serve_console

    settings = load_settings(console_host=host, console_port=port)
    check_access(settings, settings.console_host)
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
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Person or program; it stands in the audit log.", show_default=False
        ),
    ],
    *,
    role: Annotated[str, typer.Option(metavar="ROLE", help="viewer, operator or admin.")] = "viewer",
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File that gets the line of the token (default: WARRENER_CONSOLE_TOKENS_FILE, else none).",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make an access token, and print it once: the file has a hash of it alone.

    A person signs in with name and token, a program sends `Authorization: Bearer TOKEN`. To end a token,
    delete its line: a running console sees the change.

    $ warrener console token ada --role admin --file tokens
    $ warrener console token deploy --role operator --json
    """
    _check_packages()
    from warrener.operations.roles import Role
    from warrener.web.access.tokens import add_token, make_token
    from warrener.web.settings import ConsoleSettings
    from warrener_runtime.settings import SettingsError, load

    if role not in set(Role):
        raise CommandError(
            f"expected a role of {', '.join(Role)}, got {role!r}",
            do="choose one of them",
            code=ExitCode.USAGE,
        )
    try:
        file = file or load(ConsoleSettings).console_tokens_file
    except SettingsError as error:
        raise CommandError(str(error), code=ExitCode.USAGE) from error
    secret, made = make_token(name, Role(role))
    if file is not None:
        add_token(file, made)
    if as_json:
        print_json(
            {
                "name": name,
                "role": role,
                "token": secret,
                "line": made.line,
                "file": str(file) if file else None,
            }
        )
        return
    out().print(secret, markup=False, highlight=False, soft_wrap=True)
    if file is None:
        err().print("  [soft]→[/] add this line to WARRENER_CONSOLE_TOKENS_FILE:")
        err().print(f"    {made.line}", markup=False, highlight=False, soft_wrap=True)
    else:
        err().print(f"  → its hash is in {file}; the token is not shown again", markup=False, highlight=False)


def _check_packages() -> None:
    if find_spec("uvicorn") is None or find_spec("fastapi") is None:
        raise CommandError(
            "expected the packages of the console, got an installation without them",
            do="install warrener with its extra `console`",
        )
