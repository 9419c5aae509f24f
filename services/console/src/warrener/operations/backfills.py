"""Backfills: the jobs of past ticks that have none."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

from pydantic import Field
from rich.table import Table
from rich.text import Text

from warrener.errors import CommandError
from warrener.operations.noun import ActionBody, Backend, Flag, Outcome, Verb, VerbCall
from warrener.render.screen import table
from warrener.schedules import backfill
from warrener.selection import find_schedule
from warrener_contracts import events
from warrener_runtime.clock import SystemEntropy

if TYPE_CHECKING:
    from warrener_store import Store

_PICKUP_TIMEOUT = 5.0  # seconds
_PASSED_OVER = {
    backfill.BackfillTickStatus.PENDING: "requested before",
    backfill.BackfillTickStatus.HAS_JOB: "with a job",
    backfill.BackfillTickStatus.WAITING: "waiting for the end of an earlier job",
    backfill.BackfillTickStatus.OVER_LIMIT: "beyond the limit",
}


class Backfill(ActionBody):
    """The span of a backfill, and the rate of its jobs."""

    begin: Annotated[str, Flag("--from")] = Field(description="First nominal time (UTC without an offset).")
    end: Annotated[str, Flag("--to")] = Field("", description="Last nominal time (default now).")
    rate: str = Field("10/s", description="Rate of the jobs: 10/s, 30/m or 5/h.")
    limit: Annotated[int | None, Field(ge=1), Flag("--limit", "-n")] = Field(
        None, description="Maximum number of jobs, the oldest first."
    )
    dry_run: bool = Field(default=False, description="Show the ticks, request nothing.")


async def read_span(
    backend: Backend,
    name: str,
    begin: str,
    end: str = "",
    *,
    limit: int | None = None,
    max_ticks: int | None = None,
) -> backfill.BackfillSpan:
    """Find the ticks of a backfill; None: as many as one may have. Raises CommandError."""
    row, now = await find_schedule(backend.store, name), await backend.now()
    wanted = backfill.parse_time(begin, "--from"), backfill.parse_time(end, "--to") if end else now
    max_ticks = max_ticks or events.MAX_BACKFILL_TICKS
    return await backfill.find_span(backend.store, row, wanted, now=now, limit=limit, max_ticks=max_ticks)


async def backfill_schedule(call: VerbCall[Backfill]) -> Outcome:
    """Request the jobs of past ticks that have none.

    These are ticks before the schedule was put, and ticks that were skipped, missed or coalesced. A tick with
    a job is passed over, so the command may be repeated. A scheduler accepts the command or refuses it, then
    schedulers carry it out: the command may be interrupted.

    $ warrener schedule backfill flights.hourly --from 2026-03-01 --to 2026-03-31T23:59 --dry-run
    $ warrener schedule backfill flights.hourly --from 2026-03-01 --rate 2/s --reason "March was mended"
    """
    body, backend, name = call.body, call.backend, call.key
    rate = backfill.parse_rate(body.rate)
    span = await read_span(backend, name, body.begin, body.end, limit=body.limit)
    requested = span.requested
    if requested and not body.dry_run:
        client = await backend.client()
        event = events.ScheduleBackfillRequested(
            id=str(SystemEntropy().new_id()),
            source=client.source,
            time=await backend.now(),
            subject=name,
            data=events.ScheduleBackfillRequestedData(
                name=name, start=requested[0], end=requested[-1], rate=rate, reason=call.reason
            ),
        )
        await client.send(event, reply_timeout=call.reply_timeout)
    if call.progress is not None and not body.dry_run:
        await follow_backfill(backend.store, span, call.progress)
    end = body.end or (span.ticks[-1].nominal_at.isoformat() if span.ticks else "")
    query = urlencode({"begin": body.begin, "end": end, "rate": body.rate})
    sentence = _sentence(span, body)
    return Outcome(
        sentence=sentence,
        details={"dry_run": body.dry_run, "jobs": len(requested), "ticks": span.ticks},
        location=None if body.dry_run else f"/schedules/{name}/backfill?{query}",
        unconfirmed=sentence,
        shown=_span_table(span.ticks) if body.dry_run else None,
    )


def _span_table(ticks: Sequence[backfill.BackfillTick]) -> Table:
    made = table("nominal time", "status", "job")
    for tick in ticks:
        style = "live" if tick.status is backfill.BackfillTickStatus.REQUESTED else "soft"
        job = "" if tick.job_id is None else str(tick.job_id)
        made.add_row(
            f"{tick.nominal_at:%Y-%m-%d %H:%M:%S}Z",
            Text(tick.status.value.replace("_", " "), style=style),
            job,
        )
    return made


async def follow_backfill(
    store: "Store", span: backfill.BackfillSpan, progress: Callable[[str], object]
) -> None:
    """Wait until each tick's job is requested. An interruption ends the waiting, not the backfill."""
    awaited, waited = span.awaited, 0.0
    pause = max(0.3, len(awaited) / 20_000)  # reading the ticks of a long span is expensive
    while awaited:
        ticks = await store.ticks_of(span.schedule, None, begin=awaited[0], end=awaited[-1])
        not_picked_up, unpublished = backfill.count_remaining(awaited, ticks)
        if not not_picked_up + unpublished:
            return
        if not_picked_up < len(awaited):
            done = len(awaited) - not_picked_up - unpublished
            progress(f"jobs requested: {done:,} of {len(awaited):,}")
        elif span.schedule not in await store.schedules([span.schedule]):
            raise CommandError(f"{span.schedule} was removed before a scheduler picked this up")
        elif waited > _PICKUP_TIMEOUT:
            progress("[warning]no scheduler has picked it up yet[/]")
        await asyncio.sleep(pause)
        waited += pause


def _sentence(span: backfill.BackfillSpan, body: Backfill) -> str:
    if not span.ticks:
        return f"{span.schedule} has no past tick in this span"
    passed = [f"{count:,} {words}" for status, words in _PASSED_OVER.items() if (count := span.count(status))]
    rest = f"; passed over: {', '.join(passed)}" if passed else ""
    done = "would be requested" if body.dry_run else f"requested, {body.rate}"
    return f"{len(span.requested):,} jobs {done}{rest}"


_GOES_ON = "the backfill goes on: warrener schedule show {key}, or the same command again"
BACKFILL: Verb[Any] = Verb("backfill", Backfill, backfill_schedule, goes_on=_GOES_ON)
