"""`warrener breaker`."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from warrener.command.listing import show_list
from warrener.command_runner import connect_client, connect_store, run
from warrener.endpoints import ResolvedEndpoints, resolve_endpoints
from warrener.errors import CommandError, ExitCode
from warrener.options import Broker, Json, Store
from warrener.render.breakers import breaker_page, breakers_table
from warrener.render.screen import err, out, print_json
from warrener_contracts.circuit_breaker import breakers_for
from warrener_contracts.fields import parse_duration
from warrener_store import StateStore

LIST_EXAMPLES = """
warrener breaker list
warrener breaker list --json | jq -r '.[] | select(.state == "open").name'
"""
EXAMPLES = """
warrener breaker list
warrener breaker open dependency:billing-api --for 30m
"""
SHOW_EXAMPLES = """
warrener breaker show dependency:billing-api
"""
OPEN_EXAMPLES = """
warrener breaker open dependency:billing-api --for 30m --reason "being upgraded"
warrener breaker open job:flights.load
"""
CLOSE_EXAMPLES = """
warrener breaker close dependency:billing-api --reason "works again"
"""

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="`job:<job type>` or `dependency:<name>`; the prefix may be left out where only one fits.",
        show_default=False,
    ),
]
Reason = Annotated[str, typer.Option(help="Why; it is shown to whoever asks why jobs wait.")]


def list_(*, store: Store = None, as_json: Json = False) -> None:
    """List the circuit breakers that have ever been open.

    One that is not here is closed.
    """
    show_list(
        store,
        lambda open_store: open_store.breakers(),
        breakers_table,
        as_json=as_json,
        none="No breaker has ever been open.",
    )


def show(name: Name, *, store: Store = None, as_json: Json = False) -> None:
    """Show one circuit breaker: how it stands, why, and which job types it is before."""
    run(_show(name, store, as_json=as_json))


async def _show(text: str, store: str | None, *, as_json: bool) -> None:
    async with connect_store(resolve_endpoints(store=store)) as open_store:
        name, behind = await _find(open_store, text)
        row = next((row for row in await open_store.breakers() if row.name == name), None)
    if as_json:
        print_json({"name": name, "state": "closed", "job_types": behind} if row is None else row)
    else:
        out().print(breaker_page(name, row, behind, datetime.now(UTC)))


def open_(
    name: Name,
    *,
    for_: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="TIME",
            help="Then a first job is let through as a probe, such as 10m. Else until it is closed.",
            show_default=False,
        ),
    ] = None,
    reason: Reason = "asked for",
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Hold back the jobs behind a circuit breaker, without charging them.

    New ones are accepted and wait; what runs goes on.
    """
    run(_set(name, resolve_endpoints(broker, store), reason, _time(for_), opens=True, as_json=as_json))


def close(
    name: Name,
    *,
    reason: Reason = "asked for",
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Let the jobs behind a circuit breaker through again.

    It goes on counting, and opens again if too much fails.
    """
    run(_set(name, resolve_endpoints(broker, store), reason, None, opens=False, as_json=as_json))


async def _set(
    text: str,
    endpoints: ResolvedEndpoints,
    reason: str,
    for_: timedelta | None,
    *,
    opens: bool,
    as_json: bool,
) -> None:
    async with connect_store(endpoints) as open_store:
        name, behind = await _find(open_store, text)
    async with connect_client(endpoints) as client:
        if opens:
            await client.open_breaker(name, for_=for_, reason=reason)
        else:
            await client.close_breaker(name, reason=reason)
    target_state = "open" if opens else "closed"
    if as_json:
        print_json({"name": name, "asked": target_state, "job_types": behind, "reason": reason})
    else:
        err().print(
            f"[good]✓[/] asked that {name} be {target_state}: {', '.join(behind)}; "
            f"[soft]how it stands: warrener breaker show {name}[/]"
        )


async def _find(store: StateStore, text: str) -> tuple[str, list[str]]:
    """The breaker that is meant, and the job types behind it."""
    behind: dict[str, list[str]] = {}
    for job_type, row in sorted((await store.job_types()).items()):
        for name in breakers_for(job_type, row.policy.depends_on):
            behind.setdefault(name, []).append(job_type)
    found = [name for name in (text, f"job:{text}", f"dependency:{text}") if name in behind]
    if len(found) == 1:
        return found[0], behind[found[0]]
    if found:
        raise CommandError(
            f"expected one breaker, {text!r} may mean {' or '.join(found)}",
            do="write one of them",
            code=ExitCode.USAGE,
        )
    known = ", ".join(sorted(behind)) or "none: no agent has announced a job type"
    raise CommandError(
        f"expected the name of a breaker, got {text!r}; there are {known}",
        do="write one of them, or start an agent whose job type depends on it",
        code=ExitCode.USAGE,
    )


def _time(text: str | None) -> timedelta | None:
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        raise CommandError(f"--for: {error}", code=ExitCode.USAGE) from error
