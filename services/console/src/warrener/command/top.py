"""`warrener top`: a live view of the whole system in the terminal."""

import sys
from typing import Annotated

import typer

from warrener.context import resolve_endpoints, run
from warrener.errors import ExitCode
from warrener.options import Broker, Json, Store, parse_seconds
from warrener.render.screen import out, print_json

_MIN_INTERVAL = 0.1  # seconds


def top(
    *,
    interval: Annotated[
        float,
        typer.Option(
            "--interval",
            "-i",
            parser=parse_seconds,
            metavar="SPAN",
            help="Time between two readings (default 2s).",
            show_default=False,
        ),
    ] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print one picture after two readings; --interval 0: after one.")
    ] = False,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show the whole system: services, queues, job types, agents, breakers, incidents, schedules, failures.

    At a terminal the picture is live. Keys: q quits, ← → or 1 to 8 choose a section, p pauses. Elsewhere,
    with --once or with --json it is printed once, with exit code 3 if store or broker does not answer.

    $ warrener top
    $ warrener top --interval 5s
    $ warrener top --json --interval 1s | jq '.totals'
    """
    from warrener.top.live import LiveView, System, read_once

    system = System(resolve_endpoints(broker, store))
    screen = out()
    if screen.is_terminal and not screen.is_dumb_terminal and sys.stdin.isatty() and not (once or as_json):
        run(LiveView(system, screen, max(interval, _MIN_INTERVAL)).run())
        return
    view = run(read_once(system, interval))
    if as_json:
        print_json(view)
    else:
        from warrener.top.picture import plain_picture

        screen.print(plain_picture(view, screen.width))
    if not system.is_complete:
        raise typer.Exit(ExitCode.UNREACHABLE)
