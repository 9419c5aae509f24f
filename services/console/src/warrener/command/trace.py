"""`warrener trace`: the waterfall of a job, made from the store."""

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from warrener.context import resolve_endpoints
from warrener.options import JobId, Json, Store
from warrener.render.screen import out, print_json, print_json_line
from warrener.selection import find_job

if TYPE_CHECKING:
    from warrener.operations.noun import Backend
    from warrener_store.jobs.rows import JobRow

_WATCH_INTERVAL = 1.0  # seconds


def trace(
    job_id: JobId,
    *,
    all_attempts: Annotated[
        bool, typer.Option("--all-attempts", help="Rows for every attempt, however many there are.")
    ] = False,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", "-w", help="Refresh every second until the job ends; with --json, one line per change."
        ),
    ] = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show where the time of one job went: its waits with their causes, its attempts, its child jobs.

    Needs no tracing: everything comes from the store. A wait longer than five times the work is folded.

    $ warrener trace 01936f2e-8a3b-7c4d-9e5f-0123456789ab
    $ warrener trace 456789ab --watch
    $ warrener trace 456789ab --json | jq '.rows[].bars[] | select(.look == "hatched") | {cause, seconds}'
    """

    from warrener.command.verbs import with_backend
    from warrener.operations.timelines import read_timeline
    from warrener.render.trace import trace_data, trace_page
    from warrener.render.waterfall import lay_out

    async def body(backend: "Backend") -> None:
        row = await find_job(backend.store, job_id)
        if watch:
            await _watch(backend, row, all_attempts=all_attempts, as_json=as_json)
            return
        facts = await read_timeline(backend, row, None)
        waterfall = lay_out(facts, all_attempts=all_attempts)
        if as_json:
            print_json(trace_data(facts, waterfall))
        else:
            out().print(trace_page(facts, waterfall, out().width))

    with_backend(resolve_endpoints(store=store), body)


async def _watch(backend: "Backend", row: "JobRow", *, all_attempts: bool, as_json: bool) -> None:
    """Show the job once a second, or print it once for each change of its row, until it is over."""
    from rich.live import Live

    from warrener.operations.timelines import read_timeline
    from warrener.render.trace import trace_data, trace_page
    from warrener.render.waterfall import lay_out

    version = 0
    with nullcontext() if as_json else Live(console=out(), auto_refresh=False, screen=False) as live:
        while True:
            if live is not None or row.version != version:
                version = row.version
                facts = await read_timeline(backend, row, None)
                waterfall = lay_out(facts, all_attempts=all_attempts)
                if live is None:
                    print_json_line(trace_data(facts, waterfall))
                else:
                    live.update(trace_page(facts, waterfall, out().width), refresh=True)
            if row.state.terminal:
                return
            await asyncio.sleep(_WATCH_INTERVAL)
            row = (await backend.store.jobs_by_id([row.job_id]))[row.job_id]
