"""`warrener job`."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import typer

from warrener.command_runner import connect_store, run
from warrener.endpoints import resolve_endpoints
from warrener.errors import ExitCode
from warrener.job_lookup import find_job
from warrener.options import Json, Store
from warrener.render.job_page import job_page
from warrener.render.next_step import next_step
from warrener.render.screen import err, jsonable, out, print_json
from warrener.render.states import state_text
from warrener_contracts.states import JobState
from warrener_store import StateStore
from warrener_store import Store as OpenStore
from warrener_store.breakers.gate import NO_OPEN_BREAKERS, OpenBreakers
from warrener_store.incidents.rows import refusing_fingerprint
from warrener_store.jobs.rows import JobFilter, JobRow
from warrener_store.jobs.views import REFUSAL_REPORTED

EXAMPLES = """
warrener job 01936f2e-8a3b-7c4d-9e5f-0123456789ab
warrener job 456789ab
warrener job 456789ab --wait --json | jq .result
"""

_EVERY = 0.5  # seconds between two looks of --wait
_FOLLOW_UPS = 100


def job(
    job_id: Annotated[
        str, typer.Argument(metavar="ID", help="The job, or the end of its id.", show_default=False)
    ],
    *,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until it is over; exit code 4 if without a result.")
    ] = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show everything about one job.

    Its state, its attempts with errors and stacks, its follow-ups, and what happens next.
    """
    state = run(_job(job_id, store, wait=wait, as_json=as_json))
    if wait and state is not JobState.SUCCEEDED:
        raise typer.Exit(ExitCode.NOT_SUCCESSFUL)


async def _job(text: str, store: str | None, *, wait: bool, as_json: bool) -> JobState:
    async with connect_store(resolve_endpoints(store=store)) as open_store:
        row = await find_job(open_store, text)
        if wait:
            row = await _until_over(open_store, row)
        await _show(open_store, row, as_json=as_json)
        return row.state


async def _until_over(store: StateStore, row: JobRow) -> JobRow:
    with err().status("") as status:
        while not row.state.terminal:
            status.update(
                state_text(row.state).append(f"  {next_step(row, datetime.now(UTC))}", style="soft")
            )
            await asyncio.sleep(_EVERY)
            row = (await store.jobs_by_id([row.job_id]))[row.job_id]
    return row


async def _show(store: OpenStore, row: JobRow, *, as_json: bool) -> None:
    attempts = await store.attempts_of(row.job_id)
    follow_ups = await store.list_jobs(JobFilter(parent_id=row.job_id, limit=_FOLLOW_UPS))
    open_breakers = NO_OPEN_BREAKERS if row.state.terminal else OpenBreakers(await store.breakers())
    checkpoint = (await store.checkpoints_of([row.job_id])).get(row.job_id)
    seen, refusing_since = await _seen(store, row), await _refusing_since(store, row)
    now = datetime.now(UTC)
    if as_json:
        children = [
            {"job_id": each.job_id, "job_type": each.job_type, "state": each.state} for each in follow_ups
        ]
        beside = {"attempts": attempts, "follow_ups": children, "checkpoint": checkpoint}
        what_next = next_step(row, now, open_breakers, seen=seen, refusing_since=refusing_since)
        beside |= {"queue_refuses_since": refusing_since}
        print_json(jsonable(row) | beside | {"next": what_next})
    else:
        page = job_page(
            row,
            attempts,
            follow_ups,
            now,
            open_breakers=open_breakers,
            checkpoint=checkpoint,
            seen=seen,
            refusing_since=refusing_since,
        )
        out().print(page)


async def _seen(store: StateStore, row: JobRow) -> datetime | None:
    """The last heartbeat of the agent that runs the job."""
    if row.state is not JobState.RUNNING:
        return None
    return {agent.agent_id: agent.last_seen_at for agent in await store.agents()}.get(row.owner or "")


async def _refusing_since(store: OpenStore, row: JobRow) -> datetime | None:
    """When the queue of a job began to take no messages, if its requesters were notified."""
    if row.state is not JobState.QUEUED or row.dispatched_at is not None or row.wake_at != REFUSAL_REPORTED:
        return None
    fingerprint = refusing_fingerprint(row.queue)
    incident = (await store.escalations.cases_by_fingerprint([fingerprint])).get(fingerprint)
    since = incident and incident.sample.get("since")
    return datetime.fromisoformat(since) if isinstance(since, str) else None
