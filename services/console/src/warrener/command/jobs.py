"""Jobs as the store holds them: `warrener jobs` lists them, `warrener job` shows one."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from warrener.context import ResolvedEndpoints, query_store, resolve_endpoints, show_list
from warrener.errors import CommandError, ExitCode
from warrener.options import Json, Limit, Store, parse_ago, parse_arguments
from warrener.render.screen import err, jsonable, out, print_json, print_json_line
from warrener.selection import find_job
from warrener_contracts.state_machine import JobState

if TYPE_CHECKING:
    from warrener.explanations.explanation import Explanation
    from warrener.explanations.facts import JobFacts
    from warrener.job_search import JobSearch
    from warrener_store import StateStore
    from warrener_store import Store as OpenStore
    from warrener_store.jobs.rows import JobRow

_WATCH_INTERVAL = 1.0  # seconds
_WAIT_INTERVAL = 0.5  # seconds
_MAX_CHILD_JOBS = 100


class ListedState(StrEnum):
    """A state of a job, or that of a request that made none."""

    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    REJECTED = "rejected"


def jobs(
    *,
    state: Annotated[
        list[ListedState] | None,
        typer.Option(help="State of the jobs; repeatable. `rejected`: requests that made no job."),
    ] = None,
    job_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Job type of the jobs.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Maximum time since their request was accepted: 2h.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Minimum time since their request was accepted: 30m.")
    ] = None,
    parent: Annotated[str | None, typer.Option(metavar="ID", help="The job that requested them.")] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Queue of their attempts.")] = None,
    source: Annotated[str | None, typer.Option(metavar="SOURCE", help="Sender of their requests.")] = None,
    argument: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Value of an argument (dots lead into objects); repeatable."),
    ] = None,
    trace: Annotated[str | None, typer.Option(metavar="ID", help="Their trace, or its beginning.")] = None,
    error: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Part of the type or the message of the last error.")
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
    $ warrener jobs --since 2h --queue mails --argument order=17 --error Timeout
    $ warrener jobs --state rejected
    $ warrener jobs --watch
    $ warrener jobs --json | jq -r '.[] | select(.state=="dead") | .job_id'
    """
    states = set(state or ())
    if ListedState.REJECTED in states:
        _require_rejected_alone(
            states, [job_type, until, parent, queue, source, argument, trace, error, watch]
        )
        _list_rejected(since, limit, store, as_json=as_json)
        return
    from warrener.job_search import MAX_EXAMINED, JobSearch, find_jobs
    from warrener_store.jobs.rows import JobFilter

    which = JobFilter(
        states=tuple(JobState(each) for each in states),
        job_type=job_type,
        accepted_from=parse_ago(since),
        accepted_until=parse_ago(until),
        limit=limit,
    )
    search = JobSearch(which, queue, source, trace, error, parse_arguments(argument or ()))

    async def body(open_store: "StateStore") -> None:
        narrowed = search
        if parent is not None:
            parent_id = (await find_job(open_store, parent)).job_id
            narrowed = replace(search, which=replace(which, parent_id=parent_id))
        if watch:
            await (_stream(open_store, narrowed) if as_json else _watch(open_store, narrowed))
            return
        found = await find_jobs(open_store, narrowed)
        if as_json:
            print_json(found.rows)
        else:
            _print_jobs(found.rows, narrowed)
        if not found.is_complete:
            err().print(
                f"[warning]![/] the newest {MAX_EXAMINED:,} jobs were examined, and no older ones: narrow "
                "the list by --state, --type, --parent, --since or --until"
            )

    query_store(store, body)


def _list_rejected(since: str | None, limit: int, store: str | None, *, as_json: bool) -> None:
    """List the requests that made no job: the scheduler parks them."""
    from warrener.command.parked import parked_json
    from warrener.render.jobs import parked_table
    from warrener_contracts.topology import REQUESTS_QUEUE
    from warrener_store.parked.rows import ParkedFilter

    which = ParkedFilter(queue=REQUESTS_QUEUE.name, since=parse_ago(since))
    show_list(
        store,
        lambda open_store: open_store.parked(which, limit=limit),
        parked_table,
        as_json=as_json,
        none="No request was rejected.",
        to_json=parked_json,
    )


def _require_rejected_alone(states: set[ListedState], others: Sequence[object]) -> None:
    if len(states) > 1 or any(others):
        raise CommandError(
            "expected --state rejected with --since and --limit, got more: a rejected request is no job",
            do="look at `warrener parked` for all messages that no service could use",
            code=ExitCode.USAGE,
        )


def _print_jobs(rows: "list[JobRow]", search: "JobSearch") -> None:
    from warrener.render.jobs import jobs_table
    from warrener_store.jobs.rows import JobFilter

    if rows:
        out().print(jobs_table(rows, datetime.now(UTC), width=out().width))
    elif search.compares_rows or search.which != JobFilter(limit=search.which.limit):
        err().print("[soft]No job matches; `warrener jobs` lists all.[/]")
    else:
        err().print("[soft]No job yet; request one with `warrener request TYPE`.[/]")


async def _watch(store: "StateStore", search: "JobSearch") -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from warrener.job_search import find_jobs
    from warrener.render.jobs import counts_line, jobs_table

    with Live(console=out(), auto_refresh=False, screen=False) as live:
        while True:
            rows, counts = (await find_jobs(store, search)).rows, await store.count_jobs()
            table = jobs_table(rows, datetime.now(UTC), width=out().width)
            live.update(Group(counts_line(counts), Text(), table), refresh=True)
            await asyncio.sleep(_WATCH_INTERVAL)


async def _stream(store: "StateStore", search: "JobSearch") -> None:
    from warrener.job_search import find_jobs

    versions: dict[UUID, int] = {}
    while True:
        for row in reversed((await find_jobs(store, search)).rows):
            if versions.get(row.job_id) != row.version:
                versions[row.job_id] = row.version
                print_json_line(row)
        await asyncio.sleep(_WATCH_INTERVAL)


def job(
    job_id: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="Id of the job, a part of it, or id of its request.", show_default=False
        ),
    ],
    *,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the job ends; exit code 4 without a result.")
    ] = False,
    logs: Annotated[bool, typer.Option("--logs", help="Show the log lines of the last attempt.")] = False,
    attempt: Annotated[
        int | None,
        typer.Option("--attempt", metavar="N", min=1, help="Number of another attempt, for its log lines."),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            "-f",
            help="Show log lines as they arrive, until the job ends; exit code 4 without a result. With"
            " --json, one line each.",
        ),
    ] = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show one job: its state, its attempts with errors and stacks, its child jobs, and what happens next.

    $ warrener job 01936f2e-8a3b-7c4d-9e5f-0123456789ab
    $ warrener job 456789ab
    $ warrener job 456789ab --wait --json | jq .result
    $ warrener job 456789ab --logs
    $ warrener job 456789ab --follow
    """

    endpoints = resolve_endpoints(store=store)

    async def body(open_store: "OpenStore") -> JobState:
        row = await find_job(open_store, job_id)
        if follow:
            from warrener.command.job_logs import follow_logs

            return await follow_logs(open_store, row, attempt, as_json=as_json)
        if wait:
            row = await _wait_for_end(open_store, endpoints, row)
        if logs or attempt is not None:
            from warrener.command.job_logs import show_logs

            await show_logs(open_store, row, attempt, as_json=as_json)
        else:
            await _print_job(open_store, endpoints, row, as_json=as_json)
        return row.state

    state = query_store(store, body)
    if (wait or follow) and state is not JobState.SUCCEEDED:
        raise typer.Exit(ExitCode.NOT_SUCCESSFUL)


async def _explain(
    store: "OpenStore", endpoints: ResolvedEndpoints, row: "JobRow", *, with_broker: bool = True
) -> "tuple[JobFacts, Explanation]":
    # Not imported with the command: a list of jobs needs no explanation.
    from warrener.explanations import explain
    from warrener.gathering import gather_job

    facts = await gather_job(store, endpoints, row, with_broker=with_broker)
    return facts, explain(facts)


async def _wait_for_end(store: "OpenStore", endpoints: ResolvedEndpoints, row: "JobRow") -> "JobRow":
    from warrener.render.jobs import state_text

    with err().status("") as status:
        while not row.state.terminal:
            # From the store alone: the broker is not queried twice a second.
            _, explanation = await _explain(store, endpoints, row, with_broker=False)
            status.update(state_text(row.state).append(f"  {explanation.summary}", style="soft"))
            await asyncio.sleep(_WAIT_INTERVAL)
            row = (await store.jobs_by_id([row.job_id]))[row.job_id]
    return row


async def _print_job(
    store: "OpenStore", endpoints: ResolvedEndpoints, row: "JobRow", *, as_json: bool
) -> None:
    from warrener.render.job_page import job_page
    from warrener_store.jobs.rows import JobFilter

    child_jobs = await store.list_jobs(JobFilter(parent_id=row.job_id, limit=_MAX_CHILD_JOBS))
    checkpoint = (await store.checkpoints_of([row.job_id])).get(row.job_id)
    facts, explanation = await _explain(store, endpoints, row)
    now = facts.system.now
    if as_json:
        print_json(
            jsonable(row)
            | {
                "attempts": facts.attempts,
                "child_jobs": [
                    {"job_id": each.job_id, "job_type": each.job_type, "state": each.state}
                    for each in child_jobs
                ],
                "checkpoint": checkpoint,
                "queue_refuses_since": facts.refusing_since,
                "next": explanation.next,
                "explanation": explanation,
            }
        )
    else:
        page = job_page(row, facts.attempts, child_jobs, now, explanation=explanation, checkpoint=checkpoint)
        out().print(page)
