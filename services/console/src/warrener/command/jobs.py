"""Jobs as the store holds them: `warrener jobs` lists them, `warrener job` shows one."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from warrener.context import query_store
from warrener.errors import ExitCode
from warrener.options import Json, Limit, Store
from warrener.render.job_page import job_page, next_step
from warrener.render.jobs import counts_line, jobs_table, state_text
from warrener.render.screen import err, jsonable, out, print_json, print_json_line
from warrener.selection import find_job
from warrener_contracts.state_machine import JobState
from warrener_store import StateStore
from warrener_store import Store as OpenStore
from warrener_store.breakers.gate import NO_OPEN_BREAKERS, OpenBreakers
from warrener_store.incidents.rows import IncidentFilter, refusing_fingerprint
from warrener_store.jobs.rows import JobFilter, JobRow
from warrener_store.jobs.views import REFUSAL_REPORTED

_WATCH_INTERVAL = 1.0  # seconds
_WAIT_INTERVAL = 0.5  # seconds
_MAX_CHILD_JOBS = 100


def jobs(
    *,
    state: Annotated[list[JobState] | None, typer.Option(help="State of the jobs; repeatable.")] = None,
    job_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Job type of the jobs.")
    ] = None,
    limit: Limit = 20,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", "-w", help="Refresh every second until Ctrl-C; with --json, one line per change."
        ),
    ] = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List jobs, the newest first.

    $ warrener jobs
    $ warrener jobs --state dead --state retrying --type flights.load
    $ warrener jobs --watch
    $ warrener jobs --json | jq -r '.[] | select(.state=="dead") | .job_id'
    """
    which = JobFilter(states=tuple(state or ()), job_type=job_type, limit=limit)

    async def body(open_store: StateStore) -> None:
        if watch:
            await (_stream(open_store, which) if as_json else _watch(open_store, which))
        elif as_json:
            print_json(await open_store.list_jobs(which))
        else:
            _print_jobs(await open_store.list_jobs(which), which)

    query_store(store, body)


def _print_jobs(rows: list[JobRow], which: JobFilter) -> None:
    if rows:
        out().print(jobs_table(rows, datetime.now(UTC), width=out().width))
    elif which.states or which.job_type:
        err().print("[soft]No job matches; `warrener jobs` lists all.[/]")
    else:
        err().print("[soft]No job yet; request one with `warrener request TYPE`.[/]")


async def _watch(store: StateStore, which: JobFilter) -> None:
    with Live(console=out(), auto_refresh=False, screen=False) as live:
        while True:
            rows, counts = await store.list_jobs(which), await store.count_jobs()
            table = jobs_table(rows, datetime.now(UTC), width=out().width)
            live.update(Group(counts_line(counts), Text(), table), refresh=True)
            await asyncio.sleep(_WATCH_INTERVAL)


async def _stream(store: StateStore, which: JobFilter) -> None:
    versions: dict[UUID, int] = {}
    while True:
        for row in reversed(await store.list_jobs(which)):
            if versions.get(row.job_id) != row.version:
                versions[row.job_id] = row.version
                print_json_line(row)
        await asyncio.sleep(_WATCH_INTERVAL)


def job(
    job_id: Annotated[
        str, typer.Argument(metavar="ID", help="The job, or the end of its id.", show_default=False)
    ],
    *,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the job ends; exit code 4 without a result.")
    ] = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show one job: its state, its attempts with errors and stacks, its child jobs, and what happens next.

    $ warrener job 01936f2e-8a3b-7c4d-9e5f-0123456789ab
    $ warrener job 456789ab
    $ warrener job 456789ab --wait --json | jq .result
    """

    async def body(open_store: OpenStore) -> JobState:
        row = await find_job(open_store, job_id)
        if wait:
            row = await _wait_for_end(open_store, row)
        await _print_job(open_store, row, as_json=as_json)
        return row.state

    state = query_store(store, body)
    if wait and state is not JobState.SUCCEEDED:
        raise typer.Exit(ExitCode.NOT_SUCCESSFUL)


async def _wait_for_end(store: StateStore, row: JobRow) -> JobRow:
    with err().status("") as status:
        while not row.state.terminal:
            status.update(
                state_text(row.state).append(f"  {next_step(row, datetime.now(UTC))}", style="soft")
            )
            await asyncio.sleep(_WAIT_INTERVAL)
            row = (await store.jobs_by_id([row.job_id]))[row.job_id]
    return row


async def _print_job(store: OpenStore, row: JobRow, *, as_json: bool) -> None:
    attempts = await store.attempts_of([row.job_id])
    child_jobs = await store.list_jobs(JobFilter(parent_id=row.job_id, limit=_MAX_CHILD_JOBS))
    open_breakers = NO_OPEN_BREAKERS if row.state.terminal else OpenBreakers(await store.breakers())
    checkpoint = (await store.checkpoints_of([row.job_id])).get(row.job_id)
    seen, refusing_since = await _last_heartbeat(store, row), await _refusing_since(store, row)
    now = datetime.now(UTC)
    if as_json:
        print_json(
            jsonable(row)
            | {
                "attempts": attempts,
                "child_jobs": [
                    {"job_id": each.job_id, "job_type": each.job_type, "state": each.state}
                    for each in child_jobs
                ],
                "checkpoint": checkpoint,
                "queue_refuses_since": refusing_since,
                "next": next_step(row, now, open_breakers, seen=seen, refusing_since=refusing_since),
            }
        )
    else:
        page = job_page(
            row,
            attempts,
            child_jobs,
            now,
            open_breakers=open_breakers,
            checkpoint=checkpoint,
            seen=seen,
            refusing_since=refusing_since,
        )
        out().print(page)


async def _last_heartbeat(store: StateStore, row: JobRow) -> datetime | None:
    """Time of the last heartbeat of the agent that runs the job."""
    if row.state is not JobState.RUNNING:
        return None
    return {agent.agent_id: agent.last_seen_at for agent in await store.agents()}.get(row.agent_id or "")


async def _refusing_since(store: OpenStore, row: JobRow) -> datetime | None:
    """Time since when the job's queue refuses messages, if its requesters were notified."""
    if row.state is not JobState.QUEUED or row.dispatched_at is not None or row.wake_at != REFUSAL_REPORTED:
        return None
    named = IncidentFilter(fingerprints=[refusing_fingerprint(row.queue)], closed=True)
    for incident in await store.escalations.incidents(named):
        if isinstance(since := incident.sample.get("since"), str):
            return datetime.fromisoformat(since)
    return None
