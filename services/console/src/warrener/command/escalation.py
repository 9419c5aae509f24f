"""`warrener escalation`: lists, acknowledges, snoozes and closes incidents, and plays a policy offline."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from warrener.command.services import exec_service
from warrener.context import (
    ResolvedEndpoints,
    connect_client,
    connect_store,
    resolve_endpoints,
    run,
    show_list,
)
from warrener.errors import CommandError, ExitCode
from warrener.options import (
    DEFAULT_REASON,
    DEFAULT_REPLY_TIMEOUT,
    Broker,
    By,
    Json,
    Limit,
    NoWait,
    ReplyTimeout,
    Store,
    current_user,
    parse_span,
)
from warrener.render.screen import err, print_json

if TYPE_CHECKING:
    from warrener_client import Client
    from warrener_store.incidents.port import Escalations
    from warrener_store.incidents.rows import IncidentRow

_MIN_PREFIX = 3
_MAX_SEARCHED = 10_000

SendCommand = Callable[["Client", "IncidentRow", str], Awaitable[None]]

IncidentId = Annotated[
    str,
    typer.Argument(
        metavar="INCIDENT", help="Fingerprint of the incident, or its beginning.", show_default=False
    ),
]


def list_(
    *,
    closed: Annotated[bool, typer.Option("--all", help="Also closed incidents.")] = False,
    limit: Limit = 50,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List the incidents: kind, subject, count, and the step of the escalation policy.

    $ warrener escalation list
    $ warrener escalation list --all --json | jq -r '.[].fingerprint'
    """
    from warrener.render.incidents import incidents_table
    from warrener_store.incidents.rows import IncidentFilter

    show_list(
        store,
        lambda open_store: open_store.escalations.incidents(IncidentFilter(closed=closed, limit=limit)),
        incidents_table,
        as_json=as_json,
        none="No incident is open.",
    )


def ack(
    incident: IncidentId,
    *,
    by: By = None,
    no_wait: NoWait = False,
    timeout: ReplyTimeout = DEFAULT_REPLY_TIMEOUT,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Acknowledge an incident: no further alerts; all other steps of its policy go on.

    $ warrener escalation ack 3f9a1c77e0b2
    $ warrener escalation ack 3f9a --by ann@example.org
    """

    reply_timeout = None if no_wait else timeout

    async def send(client: "Client", found: "IncidentRow", who: str) -> None:
        await client.acknowledge_incident(found.fingerprint, by=who, reply_timeout=reply_timeout)

    endpoints = resolve_endpoints(broker, store)
    run(_send_command(incident, endpoints, by, "ack", send, is_done=not no_wait, as_json=as_json))


def snooze(
    incident: IncidentId,
    *,
    for_: Annotated[
        str, typer.Option("--for", metavar="SPAN", help="Time without steps: 30m, 8h; 0s ends the snooze.")
    ],
    by: By = None,
    no_wait: NoWait = False,
    timeout: ReplyTimeout = DEFAULT_REPLY_TIMEOUT,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Snooze an incident: no step of its policy is taken for a while.

    $ warrener escalation snooze 3f9a --for 2h
    $ warrener escalation snooze 3f9a --for 0s
    """
    until = datetime.now(UTC) + parse_span(for_, "--for")

    reply_timeout = None if no_wait else timeout

    async def send(client: "Client", found: "IncidentRow", who: str) -> None:
        await client.snooze_incident(found.fingerprint, until, by=who, reply_timeout=reply_timeout)

    endpoints = resolve_endpoints(broker, store)
    run(_send_command(incident, endpoints, by, "snooze", send, is_done=not no_wait, as_json=as_json))


def close(
    incident: IncidentId,
    *,
    reason: Annotated[str, typer.Option(help="Reason, stored with the incident.")] = DEFAULT_REASON,
    by: By = None,
    no_wait: NoWait = False,
    timeout: ReplyTimeout = DEFAULT_REPLY_TIMEOUT,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Close an incident. Raised again, it begins at the first step.

    $ warrener escalation close 3f9a --reason "the disk has been replaced"
    """

    reply_timeout = None if no_wait else timeout

    async def send(client: "Client", found: "IncidentRow", who: str) -> None:
        await client.close_incident(found.fingerprint, by=who, reason=reason, reply_timeout=reply_timeout)

    endpoints = resolve_endpoints(broker, store)
    run(_send_command(incident, endpoints, by, "close", send, is_done=not no_wait, as_json=as_json))


def test(context: typer.Context) -> None:
    """Check an escalation file, and play its policies offline: nothing is sent.

    Lists every mistake of the file with line, key and remedy, and exits with code 2; if there is none, the
    supervisor's own code plays the policy on virtual time. --help shows its options.

    $ warrener escalation test escalation.toml --job-type bank.pay --at 2026-11-21T23:30 --times 100
    """
    exec_service("supervisor", context.args, submodule=".escalation")


_DONE = {"ack": "acknowledged", "snooze": "snoozed", "close": "closed"}


async def _send_command(
    text: str,
    endpoints: ResolvedEndpoints,
    by: str | None,
    what: str,
    send: SendCommand,
    *,
    is_done: bool,
    as_json: bool,
) -> None:
    async with connect_store(endpoints) as open_store:
        found = await _find(open_store.escalations, text)
    who = by or current_user()
    async with connect_client(endpoints) as client:
        await send(client, found, who)
    if as_json:
        document = {"fingerprint": found.fingerprint, "requested": what, "by": who}
        print_json(document | {"accepted": True if is_done else None})
    else:
        done = _DONE[what] if is_done else f"requested to {what}"
        err().print(
            f"[good]✓[/] {done} {found.fingerprint}, {found.kind} of "
            f"{found.job_type or found.subject}; [soft]its state: warrener escalation list[/]",
            soft_wrap=True,
        )


async def _find(incidents: "Escalations", text: str) -> "IncidentRow":
    """Find the open incident by its fingerprint or its beginning. Raises CommandError."""
    from warrener_store.incidents.rows import IncidentFilter

    if exact := await incidents.incidents(IncidentFilter(fingerprints=[text])):
        return exact[0]
    searched = await incidents.incidents(IncidentFilter(limit=_MAX_SEARCHED))
    found = [row for row in searched if row.fingerprint.startswith(text)]
    if len(text) < _MIN_PREFIX or len(found) != 1:
        many = f"{len(found)} of them" if found else "none"
        raise CommandError(
            f"expected one open incident whose fingerprint begins with {text!r}, got {many}",
            do="copy it from `warrener escalation list`",
            code=ExitCode.USAGE if found else ExitCode.FAILED,
        )
    return found[0]
