"""`warrener schedule backfill`: requests the jobs of past ticks, and waits until they are published."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from warrener.context import resolve_endpoints
from warrener.errors import CommandError
from warrener.options import (
    DEFAULT_REASON,
    DEFAULT_REPLY_TIMEOUT,
    Broker,
    Json,
    NoWait,
    ReplyTimeout,
    Store,
    current_user,
)
from warrener.render.screen import err, out, print_json

if TYPE_CHECKING:
    from warrener.operations.noun import Backend, Outcome
    from warrener.schedules.backfill import BackfillSpan
    from warrener_store import Store as OpenStore

_PICKUP_TIMEOUT = 5.0  # seconds


def backfill(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the schedule.")],
    *,
    begin: Annotated[
        str, typer.Option("--from", metavar="TIME", help="First nominal time (UTC if without an offset).")
    ],
    end: Annotated[
        str, typer.Option("--to", metavar="TIME", help="Last nominal time (default now).", show_default=False)
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the ticks, request nothing.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Maximum number of jobs, the oldest first.")
    ] = None,
    rate: Annotated[str, typer.Option(metavar="N/s", help="Rate of the jobs: 10/s, 30/m or 5/h.")] = "10/s",
    reason: Annotated[str, typer.Option(help="Reason, stored with the command.")] = DEFAULT_REASON,
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
    from warrener.command.verbs import with_backend
    from warrener.operations.backfills import BACKFILL, Backfill
    from warrener.operations.noun import Call, OutcomeBody
    from warrener.render.schedule_plans import span_table
    from warrener.schedules.backfill import BackfillSpan

    body = Backfill(begin=begin, end=end, rate=rate, limit=limit, dry_run=dry_run, reason=reason)

    async def perform(backend: "Backend") -> "Outcome":
        reply_timeout = None if no_wait else timeout
        call = Call(backend=backend, key=name, by=current_user(), body=body, reply_timeout=reply_timeout)
        outcome = await BACKFILL.carry_out(call)
        span = BackfillSpan(name, tuple(outcome.details["ticks"]))
        if span.awaited and not dry_run and not no_wait:
            await follow_backfill(backend.store, span)
        return outcome

    outcome = with_backend(resolve_endpoints(broker, store), perform)
    if as_json:
        details, sentence = dict(outcome.details), outcome.sentence
        print_json(OutcomeBody(accepted=None if no_wait else True, sentence=sentence, details=details))
        return
    if dry_run:
        out().print(span_table(outcome.details["ticks"]))
    err().print(f"[good]✓[/] {outcome.sentence}")


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
