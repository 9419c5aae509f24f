"""`warrener escalation`."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated

import typer

from warrener.command.exec_service import exec_service
from warrener.command.listing import show_list
from warrener.command_runner import connect_client, connect_store, run
from warrener.dead_letter_selection import By, current_user
from warrener.endpoints import ResolvedEndpoints, resolve_endpoints
from warrener.errors import CommandError, ExitCode
from warrener.options import Broker, Json, Limit, Store
from warrener.render.incidents import incidents_table
from warrener.render.screen import err, print_json
from warrener_client import Client
from warrener_contracts.durations import parse_duration
from warrener_store.incidents.port import Escalations
from warrener_store.incidents.rows import CaseRow

EXAMPLES = """
warrener escalation test escalation.toml --job-type bank.pay --at 2026-11-21T23:30 --times 100
warrener escalation list
warrener escalation ack 3f9a1c77e0b2
"""
TEST_EXAMPLES = """
warrener escalation test escalation.toml --job-type bank.pay --at 2026-11-21T23:30 --times 100
"""
LIST_EXAMPLES = """
warrener escalation list
warrener escalation list --all --json | jq -r '.[].fingerprint'
"""
ACK_EXAMPLES = """
warrener escalation ack 3f9a1c77e0b2
warrener escalation ack 3f9a --by ann@example.org
"""
SNOOZE_EXAMPLES = """
warrener escalation snooze 3f9a --for 2h
warrener escalation snooze 3f9a --for 0s
"""
CLOSE_EXAMPLES = """
warrener escalation close 3f9a --reason "the disk has been replaced"
"""

_SHORTEST = 3
_SEARCHED = 10_000

SendCommand = Callable[[Client, CaseRow, str], Awaitable[None]]

IncidentId = Annotated[
    str, typer.Argument(metavar="CASE", help="Its fingerprint, or how that begins.", show_default=False)
]


def list_(
    *,
    closed: Annotated[bool, typer.Option("--all", help="The closed ones, too.")] = False,
    limit: Limit = 50,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List the cases: what is wrong, how often, and how far its ladder has come."""
    show_list(
        store,
        lambda open_store: open_store.escalations.cases(closed=closed, limit=limit),
        incidents_table,
        as_json=as_json,
        none="No case is open.",
    )


def ack(
    case: IncidentId, *, by: By = None, broker: Broker = None, store: Store = None, as_json: Json = False
) -> None:
    """Say that somebody is on it: no further alerts of this case.

    All else of its ladder goes on.
    """

    async def send(client: Client, found: CaseRow, who: str) -> None:
        await client.acknowledge_incident(found.fingerprint, by=who)

    run(_send_command(case, resolve_endpoints(broker, store), by, "ack", send, as_json=as_json))


def snooze(
    case: IncidentId,
    *,
    for_: Annotated[str, typer.Option("--for", metavar="SPAN", help="How long: 30m, 8h; 0s wakes it.")],
    by: By = None,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Let nothing of this case's ladder happen for a while."""
    try:
        until = datetime.now(UTC) + parse_duration(for_)
    except ValueError as error:
        raise CommandError(f"--for: {error}", code=ExitCode.USAGE) from error

    async def send(client: Client, found: CaseRow, who: str) -> None:
        await client.snooze_incident(found.fingerprint, until, by=who)

    run(_send_command(case, resolve_endpoints(broker, store), by, "snooze", send, as_json=as_json))


def close(
    case: IncidentId,
    *,
    reason: Annotated[str, typer.Option(help="Why; it is kept with the case.")] = "asked for",
    by: By = None,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Say that a case is over. Raised again, it begins anew."""

    async def send(client: Client, found: CaseRow, who: str) -> None:
        await client.close_incident(found.fingerprint, by=who, reason=reason)

    run(_send_command(case, resolve_endpoints(broker, store), by, "close", send, as_json=as_json))


def test(context: typer.Context) -> None:
    """Play a ladder offline: nothing is sent, nobody is asked for anything.

    The supervisor's own code does it, on virtual time; --help shows its options.
    """
    exec_service("supervisor", context.args, submodule=".escalation")


async def _send_command(
    text: str, endpoints: ResolvedEndpoints, by: str | None, what: str, send: SendCommand, *, as_json: bool
) -> None:
    async with connect_store(endpoints) as open_store:
        found = await _find(open_store.escalations, text)
    who = by or current_user()
    async with connect_client(endpoints) as client:
        await send(client, found, who)
    if as_json:
        print_json({"fingerprint": found.fingerprint, "asked": what, "by": who})
    else:
        err().print(
            f"[good]✓[/] asked to {what} {found.fingerprint}, {found.kind} of "
            f"{found.job_type or found.subject}; [soft]how it stands: warrener escalation list[/]"
        )


async def _find(cases: Escalations, text: str) -> CaseRow:
    """The open case that is meant."""
    exact = (await cases.cases_by_fingerprint([text])).get(text)
    if exact is not None and exact.closed_at is None:
        return exact
    found = [row for row in await cases.cases(limit=_SEARCHED) if row.fingerprint.startswith(text)]
    if len(text) < _SHORTEST or len(found) != 1:
        many = f"{len(found)} of them" if found else "none"
        raise CommandError(
            f"expected one open case whose fingerprint begins with {text!r}, got {many}",
            do="copy it from `warrener escalation list`",
            code=ExitCode.USAGE if found else ExitCode.FAILED,
        )
    return found[0]
