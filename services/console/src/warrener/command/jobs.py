"""`warrener jobs`."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from warrener.command_runner import connect_store, run
from warrener.endpoints import resolve_endpoints
from warrener.options import Json, Limit, Store
from warrener.render.screen import err, out, print_json, print_json_line
from warrener.render.tables import counts_line, jobs_table
from warrener_contracts.states import JobState
from warrener_store import StateStore
from warrener_store.jobs.rows import JobFilter

EXAMPLES = """
warrener jobs
warrener jobs --state dead --state retrying --type flights.load
warrener jobs --watch
warrener jobs --json | jq -r '.[] | select(.state=="dead") | .job_id'
"""

_EVERY = 1.0  # seconds between two looks of --watch


def jobs(
    *,
    state: Annotated[
        list[JobState] | None, typer.Option(help="Only these; may be given several times.")
    ] = None,
    job_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Only this job type.")
    ] = None,
    limit: Limit = 20,
    watch: Annotated[
        bool,
        typer.Option("--watch", "-w", help="Look again every second, until Ctrl-C; JSON tells what changed."),
    ] = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List jobs, the newest first."""
    which = JobFilter(states=tuple(state or ()), job_type=job_type, limit=limit)
    run(_jobs(which, store, watch=watch, as_json=as_json))


async def _jobs(which: JobFilter, store: str | None, *, watch: bool, as_json: bool) -> None:
    async with connect_store(resolve_endpoints(store=store)) as open_store:
        if watch:
            await (_stream(open_store, which) if as_json else _watch(open_store, which))
        elif as_json:
            print_json(await open_store.list_jobs(which))
        else:
            await _show(open_store, which)


async def _show(store: StateStore, which: JobFilter) -> None:
    rows = await store.list_jobs(which)
    if rows:
        out().print(jobs_table(rows, datetime.now(UTC), width=out().width))
        return
    narrowed = which.states or which.job_type
    err().print(
        "[soft]No job is like that; `warrener jobs` lists all.[/]"
        if narrowed
        else "[soft]No job yet; ask for one with `warrener request TYPE`.[/]"
    )


async def _watch(store: StateStore, which: JobFilter) -> None:
    with Live(console=out(), auto_refresh=False, screen=False) as live:
        while True:
            rows, counts = await store.list_jobs(which), await store.count_jobs()
            live.update(
                Group(counts_line(counts), Text(), jobs_table(rows, datetime.now(UTC), width=out().width)),
                refresh=True,
            )
            await asyncio.sleep(_EVERY)


async def _stream(store: StateStore, which: JobFilter) -> None:
    versions: dict[UUID, int] = {}
    while True:
        for row in reversed(await store.list_jobs(which)):
            if versions.get(row.job_id) != row.version:
                versions[row.job_id] = row.version
                print_json_line(row)
        await asyncio.sleep(_EVERY)
