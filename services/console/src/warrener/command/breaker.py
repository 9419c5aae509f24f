"""`warrener breaker`: lists, shows, opens and closes circuit breakers."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from warrener.context import (
    ResolvedEndpoints,
    connect_client,
    connect_store,
    query_store,
    resolve_endpoints,
    run,
    show_list,
)
from warrener.errors import CommandError, ExitCode
from warrener.options import (
    DEFAULT_REASON,
    DEFAULT_REPLY_TIMEOUT,
    Broker,
    Json,
    NoWait,
    ReplyTimeout,
    Store,
    parse_span,
)
from warrener.render.screen import err, out, print_json

if TYPE_CHECKING:
    from warrener_store import StateStore
    from warrener_store.breakers.gate import BreakerRow

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="`job:<job type>` or `dependency:<name>`; the prefix is optional if only one fits.",
        show_default=False,
    ),
]
Reason = Annotated[str, typer.Option(help="Reason, shown with the jobs that wait.")]


def list_(*, store: Store = None, as_json: Json = False) -> None:
    """List the circuit breakers that have ever been open; all others are closed.

    $ warrener breaker list
    $ warrener breaker list --json | jq -r '.[] | select(.state == "open").name'
    """
    from warrener.render.incidents import breakers_table

    show_list(
        store,
        lambda open_store: open_store.breakers(),
        breakers_table,
        as_json=as_json,
        none="No breaker has ever been open.",
    )


def show(name: Name, *, store: Store = None, as_json: Json = False) -> None:
    """Show one circuit breaker: its state, the reason, and the job types that it holds back.

    $ warrener breaker show dependency:billing-api
    """

    from warrener.render.incidents import breaker_page

    async def query(open_store: "StateStore") -> "tuple[str, list[str], BreakerRow | None]":
        found, job_types = await _find(open_store, name)
        rows = await open_store.breakers()
        return found, job_types, next((row for row in rows if row.name == found), None)

    found, job_types, row = query_store(store, query)
    if as_json:
        print_json({"name": found, "state": "closed", "job_types": job_types} if row is None else row)
    else:
        out().print(breaker_page(found, row, job_types, datetime.now(UTC)))


def open_(
    name: Name,
    *,
    for_: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="TIME",
            help="Time until a first job probes, such as 10m (default: until it is closed).",
            show_default=False,
        ),
    ] = None,
    reason: Reason = DEFAULT_REASON,
    no_wait: NoWait = False,
    timeout: ReplyTimeout = DEFAULT_REPLY_TIMEOUT,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Open a circuit breaker: hold its jobs back without charging them.

    New jobs are accepted and wait; running ones go on.

    $ warrener breaker open dependency:billing-api --for 30m --reason "being upgraded"
    $ warrener breaker open job:flights.load
    """
    span = None if for_ is None else parse_span(for_, "--for")
    endpoints, reply_timeout = resolve_endpoints(broker, store), None if no_wait else timeout
    run(_set(name, endpoints, reason, span, reply_timeout, opens=True, as_json=as_json))


def close(
    name: Name,
    *,
    reason: Reason = DEFAULT_REASON,
    no_wait: NoWait = False,
    timeout: ReplyTimeout = DEFAULT_REPLY_TIMEOUT,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Close a circuit breaker: let its jobs through. It counts on, and opens again after too many failures.

    $ warrener breaker close dependency:billing-api --reason "works again"
    """
    endpoints, reply_timeout = resolve_endpoints(broker, store), None if no_wait else timeout
    run(_set(name, endpoints, reason, None, reply_timeout, opens=False, as_json=as_json))


async def _set(
    text: str,
    endpoints: ResolvedEndpoints,
    reason: str,
    for_: timedelta | None,
    reply_timeout: float | None,
    *,
    opens: bool,
    as_json: bool,
) -> None:
    async with connect_store(endpoints) as open_store:
        name, job_types = await _find(open_store, text)
    async with connect_client(endpoints) as client:
        if opens:
            await client.open_breaker(name, for_=for_, reason=reason, reply_timeout=reply_timeout)
        else:
            await client.close_breaker(name, reason=reason, reply_timeout=reply_timeout)
    target_state = "open" if opens else "closed"
    if as_json:
        document = {"name": name, "requested": target_state, "job_types": job_types, "reason": reason}
        print_json(document | {"accepted": None if reply_timeout is None else True})
    else:
        done = (
            f"requested that {name} be {target_state}"
            if reply_timeout is None
            else f"{name} is {target_state}"
        )
        err().print(
            f"[good]✓[/] {done}: {', '.join(job_types)}; [soft]its state: warrener breaker show {name}[/]",
            soft_wrap=True,
        )


async def _find(store: "StateStore", text: str) -> tuple[str, list[str]]:
    """Find the breaker of this name and the job types that it holds back. Raises CommandError."""
    from warrener_contracts.circuit_breaker import breakers_for

    job_types: dict[str, list[str]] = {}
    for job_type, row in sorted((await store.job_types()).items()):
        for name in breakers_for(job_type, row.policy.depends_on):
            job_types.setdefault(name, []).append(job_type)
    found = [name for name in (text, f"job:{text}", f"dependency:{text}") if name in job_types]
    if len(found) == 1:
        return found[0], job_types[found[0]]
    if found:
        raise CommandError(
            f"expected one breaker, {text!r} may mean {' or '.join(found)}",
            do="write one of them",
            code=ExitCode.USAGE,
        )
    known = ", ".join(sorted(job_types)) or "none: no agent has announced a job type"
    raise CommandError(
        f"expected the name of a breaker, got {text!r}; there are {known}",
        do="write one of them, or start an agent whose job type depends on it",
        code=ExitCode.USAGE,
    )
