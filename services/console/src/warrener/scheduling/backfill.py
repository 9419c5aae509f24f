"""Asking for a backfill, and looking on while schedulers carry it out."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from warrener.calendar import times_between
from warrener.command_runner import connect_client
from warrener.endpoints import ResolvedEndpoints
from warrener.errors import CommandError, ExitCode
from warrener.render.screen import err
from warrener.scheduling.backfill_span import BackfillSpan, count_remaining, make_span
from warrener_contracts.events import (
    MAX_BACKFILL_TICKS,
    ScheduleBackfillRequested,
    ScheduleBackfillRequestedData,
)
from warrener_contracts.triggers import TriggerRule
from warrener_runtime.clock import SystemEntropy
from warrener_store import Store
from warrener_store.schedules.rows import ScheduleRow

_SOURCE = "warrener.command"
_PICKUP_TIMEOUT = 5.0


async def find_span(
    store: Store, row: ScheduleRow, begin: datetime, end: datetime, limit: int | None
) -> BackfillSpan:
    """What there is to ask for. Raises CommandError for too many ticks, and for a rule without times."""
    if isinstance(row.asked.rule, TriggerRule):
        raise CommandError(
            f"expected a schedule with times, got {row.name!r}, which waits for events",
            do="ask for one job: warrener schedule trigger",
            code=ExitCode.USAGE,
        )
    last = min(end, row.next_at or end, datetime.now(UTC))
    if last < begin:
        return BackfillSpan(row.name, ())
    times = times_between(row.asked, row.put_at, begin, last, MAX_BACKFILL_TICKS + 1)
    if len(times) > MAX_BACKFILL_TICKS:
        raise CommandError(
            f"expected a span with at most {MAX_BACKFILL_TICKS:,} ticks, got more",
            do=f"ask for it in several: the first ends at {times[-2].isoformat()}",
            code=ExitCode.USAGE,
        )
    times = [moment for moment in times if moment != row.next_at]  # the clock has yet to decide it
    held = await store.ticks_between(row.name, begin, last)
    return make_span(row.name, times, held, limit)


async def request_backfill(
    endpoints: ResolvedEndpoints, span: BackfillSpan, rate: float, reason: str
) -> None:
    """Ask for the jobs of the span; returns when the broker keeps the request."""
    requested = span.requested
    event = ScheduleBackfillRequested(
        id=str(SystemEntropy().new_id()),
        source=_SOURCE,
        time=datetime.now(UTC),
        subject=span.schedule,
        data=ScheduleBackfillRequestedData(
            name=span.schedule, begin=requested[0], end=requested[-1], rate=rate, reason=reason
        ),
    )
    async with connect_client(endpoints) as client:
        await client.send(event)


async def follow_backfill(store: Store, span: BackfillSpan) -> None:
    """Until each tick's job is asked for. Interrupted, it says that the backfill goes on."""
    requested = span.awaited
    pause = max(0.3, len(requested) / 20_000)  # the ledger of a long span is not read all the time
    waited = 0.0
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=err(), transient=True) as progress:
        bar = progress.add_task("[soft]the broker keeps it[/]", total=len(requested))
        try:
            while left := await _remaining(store, span.schedule, requested):
                not_picked_up, unpublished = left
                progress.update(bar, completed=len(requested) - not_picked_up - unpublished)
                if not_picked_up < len(requested):
                    progress.update(bar, description="[soft]jobs asked for[/]")
                elif span.schedule not in await store.schedules([span.schedule]):
                    raise CommandError(f"{span.schedule} was removed before a scheduler took this up")
                elif waited > _PICKUP_TIMEOUT:
                    progress.update(bar, description="[odd]no scheduler has taken it up yet; it is kept[/]")
                await asyncio.sleep(pause)
                waited += pause
        except asyncio.CancelledError:
            err().print(
                "[odd]![/] not looked at any more; it goes on: "
                f"warrener schedule show {span.schedule}, or the same command again"
            )
            raise


async def _remaining(store: Store, schedule: str, requested: Sequence[datetime]) -> tuple[int, int] | None:
    left = count_remaining(requested, await store.ticks_between(schedule, requested[0], requested[-1]))
    return left if any(left) else None
