"""Redrives over dead letters: `warrener dead-letters redrive`, `drop`, `redrives`, `stop` and `resume`."""

import asyncio
import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal
from uuid import UUID

import typer

from warrener.context import (
    ResolvedEndpoints,
    connect_client,
    connect_store,
    new_envelope,
    query_store,
    resolve_endpoints,
    run,
)
from warrener.errors import ExitCode
from warrener.options import (
    DEFAULT_REPLY_TIMEOUT,
    Broker,
    By,
    Json,
    Limit,
    NoWait,
    ReplyTimeout,
    Store,
    Yes,
    confirm,
    current_user,
    parse_arguments,
    parse_policy_options,
    report_invalid_fields,
)
from warrener.render.screen import err, out, print_json
from warrener.selection import (
    Cause,
    Everything,
    Ids,
    JobType,
    Since,
    resolve_redrive,
    select_dead_letters,
    to_filter,
)

if TYPE_CHECKING:
    from warrener_contracts.events import JobDropRequestedData, JobRedriveRequestedData
    from warrener_store import StateStore
    from warrener_store.dead_letters.rows import RedriveRow

_POLL_INTERVAL = 0.3  # seconds
_PICKUP_TIMEOUT = 5.0  # seconds
_FAILED_STATES = ("died_again", "died", "reopened", "rejected")

Reason = Annotated[str, typer.Option(help="Reason, stored with the redrive.")]
RedriveId = Annotated[str, typer.Argument(metavar="REDRIVE", help="The redrive, or the end of its id.")]


def redrive(
    ids: Ids = None,
    *,
    cause: Cause = None,
    job_type: JobType = None,
    since: Since = None,
    everything: Everything = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Maximum number of jobs.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and count everything, request nothing.")
    ] = False,
    edits: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="New value of an argument.")
    ] = None,
    unset: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Argument to leave out.")] = None,
    queue: Annotated[str | None, typer.Option(help="Queue (default: that of the dead job).")] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="JSON", help="Policy fields that replace those of the job type.")
    ] = None,
    canary: Annotated[
        int, typer.Option(min=0, max=1000, help="Number of jobs to finish before all others.")
    ] = 10,
    rate: Annotated[float, typer.Option(min=0.001, max=1000, help="Jobs a second after the canary.")] = 20.0,
    max_failures: Annotated[
        int, typer.Option(min=0, help="Number of jobs that may die again before the redrive stops.")
    ] = 0,
    even_if_succeeded: Annotated[
        bool, typer.Option(help="Also jobs whose request has succeeded since.")
    ] = False,
    reason: Reason = "",
    by: By = None,
    no_wait: NoWait = False,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Redrive dead letters: request their jobs again, safely.

    A canary runs first; if none of it dies, the others follow at a rate. The redrive stops by itself when
    their cause of death comes back. A scheduler carries it out, so this command may be interrupted.

    $ warrener dead-letters redrive --fingerprint 9f86d0 --dry-run
    $ warrener dead-letters redrive --fingerprint 9f86d0 --reason "mended in release 42"
    $ warrener dead-letters redrive 456789ab --set path=2013-01-02.csv --unset carrier
    """

    from warrener_contracts.events import JobRedriveRequestedData

    async def body() -> None:
        endpoints = resolve_endpoints(broker, store)
        async with connect_store(endpoints) as open_store:
            which = await select_dead_letters(
                open_store, ids or (), cause=cause, job_type=job_type, since=since, everything=everything
            )
            with report_invalid_fields():
                data = JobRedriveRequestedData(
                    selection=which,
                    limit=limit,
                    edits={**parse_arguments(edits or ()), **dict.fromkeys(unset or ())},
                    queue=queue,
                    policy=parse_policy_options(policy),
                    canary=canary,
                    rate=rate,
                    max_failures=max_failures,
                    even_if_succeeded=even_if_succeeded,
                    dry_run=dry_run,
                    by=by or current_user(),
                    reason=reason,
                )
            redrive_id = await _start(endpoints, data)
            if no_wait:
                sys.stdout.write(
                    f"{json.dumps({'redrive_id': str(redrive_id)}) if as_json else redrive_id}\n"
                )
                return
            _print_end(await _follow(open_store, redrive_id), as_json=as_json)

    run(body())


def drop(
    ids: Ids = None,
    *,
    reason: Annotated[str, typer.Option(help="Reason, stored with each dead letter.")],
    cause: Cause = None,
    job_type: JobType = None,
    since: Since = None,
    everything: Everything = False,
    by: By = None,
    yes: Yes = False,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Drop dead letters: mark them as never to be redriven.

    They stay readable (`warrener dead-letters list --all`), with the person and the reason.

    $ warrener dead-letters drop --fingerprint 9f86d0 --reason "the files were withdrawn"
    """

    from warrener_contracts.events import JobDropRequestedData

    async def body() -> None:
        endpoints = resolve_endpoints(broker, store)
        async with connect_store(endpoints) as open_store:
            which = await select_dead_letters(
                open_store, ids or (), cause=cause, job_type=job_type, since=since, everything=everything
            )
            count = sum((await open_store.dead_letter_store.count_dead_letters(to_filter(which))).values())
            confirm(
                f"Drop {count:,} dead letters?",
                f"{count:,} dead letters would be dropped",
                "`warrener dead-letters list`",
                yes=yes,
            )
            with report_invalid_fields():
                data = JobDropRequestedData(selection=which, by=by or current_user(), reason=reason)
            _print_end(await _follow(open_store, await _start(endpoints, data)), as_json=as_json)

    run(body())


async def _start(
    endpoints: ResolvedEndpoints, data: "JobRedriveRequestedData | JobDropRequestedData"
) -> UUID:
    """Publish the request of a redrive and return its id when the broker has confirmed."""
    from warrener_contracts.events import JobDropRequested, JobDropRequestedData, JobRedriveRequested
    from warrener_runtime.clock import SystemEntropy

    redrive_id = SystemEntropy().new_id()
    envelope = new_envelope(str(redrive_id), id=str(redrive_id))
    async with connect_client(endpoints) as client:
        if isinstance(data, JobDropRequestedData):
            await client.send(JobDropRequested(**envelope, data=data))
        else:
            await client.send(JobRedriveRequested(**envelope, data=data))
    return redrive_id


async def _follow(store: "StateStore", redrive_id: UUID) -> "RedriveRow":
    """Wait until the redrive has finished or stopped. An interruption ends the waiting, not the redrive."""
    from warrener.render.dead_letters import redrive_line
    from warrener_store.dead_letters.rows import RedriveState

    waited = 0.0
    with err().status("[soft]confirmed by the broker; a scheduler picks it up[/]") as status:
        try:
            while True:
                rows = await store.dead_letter_store.redrives([redrive_id])
                if rows and rows[0].state in {RedriveState.STOPPED, RedriveState.DONE}:
                    return rows[0]
                if rows:
                    status.update(redrive_line(rows[0]))
                elif waited > _PICKUP_TIMEOUT:
                    status.update(
                        "[warning]no scheduler has picked it up yet; the broker holds it until then[/]"
                    )
                await asyncio.sleep(_POLL_INTERVAL)
                waited += _POLL_INTERVAL
        except asyncio.CancelledError:
            end = str(redrive_id)[-8:]
            err().print(
                f"[warning]![/] waiting ended; the redrive goes on: warrener dead-letters redrives {end}"
            )
            raise


def _print_end(row: "RedriveRow", *, as_json: bool) -> None:
    """Print how the redrive ended; exits with code 4 if it stopped or a job failed."""
    from warrener.render.dead_letters import redrive_line
    from warrener_store.dead_letters.rows import RedriveState

    if as_json:
        print_json(row)
    else:
        screen, end = err(), str(row.redrive_id)[-8:]
        screen.print(redrive_line(row))
        if row.stop_reason:
            screen.print(f"  {row.stop_reason}", style="error", markup=False)
        screen.print(f"  [soft]→[/] its journal: warrener dead-letters redrives {end}")
        if row.state is RedriveState.STOPPED:
            screen.print(f"  [soft]→[/] once the cause is mended: warrener dead-letters resume {end}")
    if row.state is RedriveState.STOPPED or any(row.counts.get(state) for state in _FAILED_STATES):
        raise typer.Exit(ExitCode.NOT_SUCCESSFUL)


def redrives(
    redrive: Annotated[
        str | None, typer.Argument(metavar="[REDRIVE]", help="One redrive, or the end of its id.")
    ] = None,
    *,
    limit: Limit = 20,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List the redrives over dead letters, or show one: request, progress, journal, reason of a stop.

    $ warrener dead-letters redrives
    $ warrener dead-letters redrives 27d25a9
    """

    from warrener.render.dead_letters import redrive_page, redrives_table

    async def query(open_store: "StateStore") -> "list[RedriveRow]":
        ids = [await resolve_redrive(open_store, redrive)] if redrive else []
        return await open_store.dead_letter_store.redrives(ids, limit)

    rows = query_store(store, query)
    if as_json:
        print_json(rows[0] if redrive else rows)
    elif redrive:
        out().print(redrive_page(rows[0]))
    elif rows:
        out().print(redrives_table(rows, datetime.now(UTC)))
    else:
        err().print("[soft]No redrive yet; `warrener dead-letters redrive` begins one.[/]")


def stop(
    redrive: RedriveId,
    *,
    reason: Reason = "",
    by: By = None,
    no_wait: NoWait = False,
    timeout: ReplyTimeout = DEFAULT_REPLY_TIMEOUT,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Stop a redrive; the jobs that it has requested go on.

    $ warrener dead-letters stop 27d25a9 --reason "the database is slow today"
    """
    endpoints, reply_timeout = resolve_endpoints(broker, store), None if no_wait else timeout
    run(_change(redrive, "stop", endpoints, reason, by, reply_timeout=reply_timeout, as_json=as_json))


def resume(
    redrive: RedriveId,
    *,
    reason: Reason = "",
    by: By = None,
    no_wait: NoWait = False,
    timeout: ReplyTimeout = DEFAULT_REPLY_TIMEOUT,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Resume a stopped redrive, with a new canary.

    $ warrener dead-letters resume 27d25a9 --reason "mended"
    """
    endpoints, reply_timeout = resolve_endpoints(broker, store), None if no_wait else timeout
    run(_change(redrive, "resume", endpoints, reason, by, reply_timeout=reply_timeout, as_json=as_json))


_DONE = {"stop": "stopped", "resume": "resumed"}


async def _change(
    text: str,
    change: Literal["stop", "resume"],
    endpoints: ResolvedEndpoints,
    reason: str,
    by: str | None,
    *,
    reply_timeout: float | None,
    as_json: bool,
) -> None:
    from warrener_contracts.events import RedriveChangeRequested, RedriveChangeRequestedData

    async with connect_store(endpoints) as open_store:
        redrive_id = await resolve_redrive(open_store, text)
    data = RedriveChangeRequestedData(
        redrive_id=redrive_id, change=change, by=by or current_user(), reason=reason
    )
    async with connect_client(endpoints) as client:
        event = RedriveChangeRequested(**new_envelope(str(redrive_id)), data=data)
        await client.send(event, reply_timeout=reply_timeout)
    is_done = reply_timeout is not None
    if as_json:
        document = {"redrive_id": redrive_id, "requested": change, "reason": reason}
        print_json(document | {"accepted": True if is_done else None})
    else:
        done = _DONE[change] if is_done else f"requested to {change}"
        look = f"warrener dead-letters redrives {str(redrive_id)[-8:]}"
        err().print(f"[good]✓[/] {done} {redrive_id}; [soft]see {look}[/]", soft_wrap=True)
