"""The console: `warrener console` serves pages and the HTTP API."""

import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from warrener.context import resolve_endpoints
from warrener.errors import CommandError
from warrener.options import Broker, Store


def console(
    *,
    host: Annotated[
        str | None,
        typer.Option(help="Address to serve on (default: WARRENER_CONSOLE_HOST, else 127.0.0.1)."),
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
    ends it. Any number may run; they share nothing but the store.

    $ warrener console
    $ warrener console --port 9000 --store postgresql://db/warrener --broker amqp://broker/
    """
    if find_spec("uvicorn") is None or find_spec("fastapi") is None:
        raise CommandError(
            "expected the packages of the console, got an installation without them",
            do="pip install 'warrener[console]'",
        )
    from warrener.web.server import address_of, bind, load_settings, serve_console

    settings = load_settings(console_host=host, console_port=port)
    endpoints = resolve_endpoints(broker, store)
    listener = bind(settings.console_host, settings.console_port)
    address = address_of(listener)
    sys.stdout.write(f"console at {address}\n")
    sys.stdout.flush()
    if open_browser:
        typer.launch(address)
    raise typer.Exit(serve_console(listener, endpoints, settings))
