"""`warrener schedule backfill`: the jobs of ticks that are past."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from warrener.command.schedule import Name, Reason
from warrener.command_runner import connect_store, run
from warrener.endpoints import resolve_endpoints
from warrener.errors import CommandError
from warrener.options import Broker, Json, Store
from warrener.render.schedules import span_table
from warrener.render.screen import err, out, print_json
from warrener.scheduling.backfill import find_span, follow_backfill, request_backfill
from warrener.scheduling.backfill_span import BackfillSpan, BackfillTickStatus, parse_rate, parse_time
from warrener_store import Store as OpenStore
from warrener_store.schedules.rows import ScheduleRow

EXAMPLES = """
warrener schedule backfill flights.hourly --from 2026-03-01 --to 2026-03-31T23:59 --dry-run
warrener schedule backfill flights.hourly --from 2026-03-01 --rate 2/s --reason "March was mended"
"""


def backfill(
    name: Name,
    *,
    begin: Annotated[
        str, typer.Option("--from", metavar="TIME", help="The first nominal time (UTC if no offset).")
    ],
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="The last one; else now.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the ticks, ask for nothing.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="At most so many jobs, the oldest.")
    ] = None,
    rate: Annotated[str, typer.Option(metavar="N/s", help="So many jobs a second: 10/s, 30/m.")] = "10/s",
    reason: Reason = "asked for",
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not look on; it goes on by itself.")] = False,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Ask for the jobs of ticks that are past and have none.

    Ticks of before the schedule was put, and those that were skipped, missed or coalesced. A tick that has
    its job is passed over, so the same may be said again. Schedulers carry it out: this command may be
    interrupted.
    """
    first = parse_time(begin, "--from")
    last = datetime.now(UTC) if end is None else parse_time(end, "--to")
    speed = parse_rate(rate)
    endpoints = resolve_endpoints(broker, store)

    async def body() -> BackfillSpan:
        async with connect_store(endpoints) as open_store:
            row = await _row(open_store, name)
            span = await find_span(open_store, row, first, last, limit)
            if span.requested and not dry_run:
                await request_backfill(endpoints, span, speed, reason)
            if span.awaited and not dry_run and not no_wait:
                await follow_backfill(open_store, span)
            return span

    span = run(body())
    if as_json:
        print_json({"schedule": name, "dry_run": dry_run, "ticks": [asdict(tick) for tick in span.ticks]})
    else:
        _show(span, dry_run=dry_run, waited=not no_wait)


def _show(span: BackfillSpan, *, dry_run: bool, waited: bool) -> None:
    if dry_run:
        out().print(span_table(span))
    jobs = len(span.requested)
    passed = [
        f"{count:,} {words}" for standing, words in _PASSED_OVER.items() if (count := span.count(standing))
    ]
    rest = f"; passed over: {', '.join(passed)}" if passed else ""
    if not span.ticks:
        err().print(f"[odd]![/] {span.schedule} has no past tick in this span")
    elif dry_run:
        err().print(f"{jobs:,} jobs would be asked for{rest}")
    else:
        done = "asked for" if waited else "will be asked for"
        err().print(f"[good]✓[/] {jobs:,} jobs {done}{rest}")


_PASSED_OVER = {
    BackfillTickStatus.ON_ITS_WAY: "that were asked for before",
    BackfillTickStatus.HAS_ITS_JOB: "that have their job",
    BackfillTickStatus.WAITS: "that wait for the end of an earlier job",
    BackfillTickStatus.BEYOND_LIMIT: "beyond the limit",
}


async def _row(store: OpenStore, name: str) -> ScheduleRow:
    row = (await store.schedules([name])).get(name)
    if row is None:
        raise CommandError(
            f"expected the name of a schedule that the store knows, got {name!r}",
            do="look at `warrener schedule list`",
        )
    return row
