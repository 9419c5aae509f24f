"""`warrener schedule backfill`: requests the jobs of past ticks, and waits until they are published."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from warrener.command.schedule import Name, Reason
from warrener.context import (
    ResolvedEndpoints,
    connect_client,
    connect_store,
    new_envelope,
    resolve_endpoints,
    run,
)
from warrener.errors import CommandError
from warrener.options import (
    DEFAULT_REASON,
    DEFAULT_REPLY_TIMEOUT,
    Broker,
    Json,
    NoWait,
    ReplyTimeout,
    Store,
)
from warrener.render.screen import err, out, print_json
from warrener.selection import find_schedule

if TYPE_CHECKING:
    from warrener.schedules.backfill import BackfillSpan
    from warrener_store import Store as OpenStore
    from warrener_store.schedules.rows import ScheduleRow

_PICKUP_TIMEOUT = 5.0  # seconds


def backfill(
    name: Name,
    *,
    begin: Annotated[
        str, typer.Option("--from", metavar="TIME", help="First nominal time (UTC if without an offset).")
    ],
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", help="Last nominal time (default now).", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the ticks, request nothing.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Maximum number of jobs, the oldest first.")
    ] = None,
    rate: Annotated[str, typer.Option(metavar="N/s", help="Rate of the jobs: 10/s, 30/m or 5/h.")] = "10/s",
    reason: Reason = DEFAULT_REASON,
    no_wait: NoWait = False,
    timeout: ReplyTimeout = DEFAULT_REPLY_TIMEOUT,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Request the jobs of past ticks that have none.

    These are ticks before the schedule was put, and ticks that were skipped, missed or coalesced. A tick with
    a job is passed over, so the command may be repeated. A scheduler accepts the command or refuses it, then
    schedulers carry it out: the command may be interrupted.

    $ warrener schedule backfill flights.hourly --from 2026-03-01 --to 2026-03-31T23:59 --dry-run
    $ warrener schedule backfill flights.hourly --from 2026-03-01 --rate 2/s --reason "March was mended"
    """
    from warrener.schedules.backfill import parse_rate, parse_time

    first = parse_time(begin, "--from")
    last = datetime.now(UTC) if end is None else parse_time(end, "--to")
    speed = parse_rate(rate)
    endpoints = resolve_endpoints(broker, store)

    async def body() -> "BackfillSpan":
        async with connect_store(endpoints) as open_store:
            span = await _find_span(open_store, await find_schedule(open_store, name), first, last, limit)
            if span.requested and not dry_run:
                await _request(endpoints, span, speed, reason, None if no_wait else timeout)
            if span.awaited and not dry_run and not no_wait:
                await follow_backfill(open_store, span)
            return span

    span = run(body())
    if as_json:
        print_json({"schedule": name, "dry_run": dry_run, "ticks": [asdict(tick) for tick in span.ticks]})
    else:
        _print_span(span, dry_run=dry_run, waited=not no_wait)


async def _find_span(
    store: "OpenStore", row: "ScheduleRow", begin: datetime, end: datetime, limit: int | None
) -> "BackfillSpan":
    from warrener.schedules.backfill import find_span
    from warrener.schedules.calendar import times_between

    async def times(first: datetime, last: datetime, most: int) -> list[datetime]:
        return times_between(row.definition, row.put_at, first, last, most)

    return await find_span(store, row, (begin, end), times, now=datetime.now(UTC), limit=limit)


async def _request(
    endpoints: ResolvedEndpoints, span: "BackfillSpan", rate: float, reason: str, reply_timeout: float | None
) -> None:
    """Publish the request for the jobs of the span; returns when a scheduler has accepted it, or without a
    timeout when the broker has confirmed it."""
    from warrener.schedules.backfill import backfill_data
    from warrener_contracts.events import ScheduleBackfillRequested

    data = backfill_data(span, rate, reason)
    async with connect_client(endpoints) as client:
        event = ScheduleBackfillRequested(**new_envelope(span.schedule), data=data)
        await client.send(event, reply_timeout=reply_timeout)


async def follow_backfill(store: "OpenStore", span: "BackfillSpan") -> None:
    """Wait until each tick's job is requested. An interruption ends the waiting, not the backfill."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    requested = span.awaited
    pause = max(0.3, len(requested) / 20_000)  # reading the ticks of a long span is expensive
    waited = 0.0
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=err(), transient=True) as progress:
        bar = progress.add_task("[soft]confirmed by the broker[/]", total=len(requested))
        try:
            while left := await _remaining(store, span.schedule, requested):
                not_picked_up, unpublished = left
                progress.update(bar, completed=len(requested) - not_picked_up - unpublished)
                if not_picked_up < len(requested):
                    progress.update(bar, description="[soft]jobs requested[/]")
                elif span.schedule not in await store.schedules([span.schedule]):
                    raise CommandError(f"{span.schedule} was removed before a scheduler picked this up")
                elif waited > _PICKUP_TIMEOUT:
                    progress.update(bar, description="[warning]no scheduler has picked it up yet[/]")
                await asyncio.sleep(pause)
                waited += pause
        except asyncio.CancelledError:
            err().print(
                "[warning]![/] waiting ended; the backfill goes on: "
                f"warrener schedule show {span.schedule}, or the same command again"
            )
            raise


async def _remaining(
    store: "OpenStore", schedule: str, requested: Sequence[datetime]
) -> tuple[int, int] | None:
    from warrener.schedules.backfill import count_remaining

    ticks = await store.ticks_of(schedule, None, begin=requested[0], end=requested[-1])
    left = count_remaining(requested, ticks)
    return left if any(left) else None


def _print_span(span: "BackfillSpan", *, dry_run: bool, waited: bool) -> None:
    from warrener.render.schedule_plans import span_table
    from warrener.schedules.backfill import BackfillTickStatus

    if dry_run:
        out().print(span_table(span))
    passed_over = {
        BackfillTickStatus.PENDING: "requested before",
        BackfillTickStatus.HAS_JOB: "with a job",
        BackfillTickStatus.WAITING: "waiting for the end of an earlier job",
        BackfillTickStatus.OVER_LIMIT: "beyond the limit",
    }
    jobs = len(span.requested)
    passed = [f"{count:,} {words}" for status, words in passed_over.items() if (count := span.count(status))]
    rest = f"; passed over: {', '.join(passed)}" if passed else ""
    if not span.ticks:
        err().print(f"[warning]![/] {span.schedule} has no past tick in this span")
    elif dry_run:
        err().print(f"{jobs:,} jobs would be requested{rest}")
    else:
        done = "requested" if waited else "will be requested"
        err().print(f"[good]✓[/] {jobs:,} jobs {done}{rest}")
