"""The HTTP API: routes of reads beside those of the nouns. Pages call the functions that they answer with."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import PlainTextResponse

from warrener.doctor.management_api import BindingsUnavailable, resolve_management_api
from warrener.doctor.topology import lacks_replicas, read_replicas
from warrener.errors import UsageError
from warrener.operations.job_logs import MAX_LINES, JobLog, read_log
from warrener.operations.job_type import JobTypeDetails, JobTypeQuery, read_job_type
from warrener.operations.job_types import DeploysPage, DeploysQuery, list_deploys
from warrener.operations.overview import Overview, OverviewQuery, read_overview
from warrener.operations.schedules import TicksPage, list_ticks
from warrener.operations.search import SearchPage, SearchQuery, search
from warrener.operations.timelines import read_timeline
from warrener.operations.workflows import JobJournal, JobTree, read_journal, read_tree
from warrener.render.trace import trace_data
from warrener.render.waterfall import lay_out
from warrener.schedules.calendar import UpcomingTick, preview_ticks
from warrener.selection import find_job, find_schedule
from warrener.web.console import Console
from warrener_runtime.bus.namespace import NameMapper

_MAX_TICKS = 500
router = APIRouter()


def _console(request: Request) -> Console:
    console: Console = request.app.state.console
    return console


ConsoleOfApp = Annotated[Console, Depends(_console)]  # parameter of a route: the console


@router.get("/jobs/{job_id}/timeline", tags=["jobs"])
async def get_timeline(console: ConsoleOfApp, job_id: str) -> dict[str, Any]:
    """The waterfall of a job: each interval of its life with its cause, as `warrener trace --json` has it."""
    facts = await read_timeline(console, await find_job(console.store, job_id), UTC)
    return trace_data(facts, lay_out(facts))


@router.get("/jobs/{job_id}/logs", tags=["jobs"])
async def get_log(console: ConsoleOfApp, job_id: str, attempt: int | None = None) -> JobLog:
    """The newest log lines of an attempt: of the newest one that has any, if none is named."""
    return await read_log(console, await find_job(console.store, job_id), attempt, MAX_LINES)


@router.get("/jobs/{job_id}/journal", tags=["jobs"])
async def get_journal(console: ConsoleOfApp, job_id: str) -> JobJournal:
    """The journal of a workflow: the calls and the answers of all its turns."""
    return await read_journal(console, await find_job(console.store, job_id))


@router.get("/jobs/{job_id}/tree", tags=["jobs"])
async def get_tree(console: ConsoleOfApp, job_id: str) -> JobTree:
    """A job, its child jobs, theirs, and so on: 8 levels and 500 jobs, and 50 of each parent."""
    return await read_tree(console, await find_job(console.store, job_id))


@router.get("/schedules/{name}/ticks", tags=["schedules"])
async def get_ticks(
    console: ConsoleOfApp,
    name: str,
    before: datetime | None = None,
    limit: Annotated[int, Query(ge=1, le=_MAX_TICKS)] = 50,
) -> TicksPage:
    """The history of a schedule's ticks, the newest first."""
    if before is not None and before.tzinfo is None:
        problem = f"before: expected a time with its offset, got {before.isoformat()}"
        raise UsageError(problem)
    return await list_ticks(console, name, before=before, limit=limit)


@router.get("/schedules/{name}/preview", tags=["schedules"])
async def get_preview(
    console: ConsoleOfApp, name: str, limit: Annotated[int, Query(ge=1, le=1000)] = 10
) -> list[UpcomingTick]:
    """The next ticks of a schedule, with the clock changes between them."""
    row = await find_schedule(console.store, name)
    return await asyncio.to_thread(preview_ticks, row.definition, limit, row.put_at)


@router.get("/search", tags=["search"])
async def get_search(console: ConsoleOfApp, query: Annotated[SearchQuery, Query()]) -> SearchPage:
    """Find a text among jobs, parked messages, schedules, queues and job types, as `warrener find` does."""
    return await search(console, query)


@router.get("/overview", tags=["statistics"])
async def get_overview(console: ConsoleOfApp, query: Annotated[OverviewQuery, Query()]) -> Overview:
    """The whole system: throughput, success, failures by cause, lag, and what needs somebody."""
    return await read_overview(console, query)


@router.get("/job-types/{name:path}", tags=["statistics"])
async def get_job_type(
    console: ConsoleOfApp, name: str, query: Annotated[JobTypeQuery, Query()]
) -> JobTypeDetails:
    """One job type: trends, versions and causes of death."""
    return await read_job_type(console, name, query.window)


@router.get("/deploys", tags=["statistics"])
async def get_deploys(console: ConsoleOfApp, query: Annotated[DeploysQuery, Query()]) -> DeploysPage:
    """List deploys, the newest first."""
    return await list_deploys(console, query)


@router.get("/metrics", tags=["queues"], response_class=PlainTextResponse)
async def metrics(console: ConsoleOfApp) -> str:
    """Gauges of the cluster and its queues. All other metrics are served by the services."""
    endpoints = console.endpoints
    management = resolve_management_api(endpoints.broker_url, endpoints.management_url)
    gauges = {"warrener_replicas_known": 0}  # the management API does not answer
    try:
        nodes, queues = await read_replicas(management, NameMapper(endpoints.namespace))
    except BindingsUnavailable:
        pass
    else:
        gauges = {
            "warrener_replicas_known": 1,
            "warrener_broker_nodes": len(nodes),
            "warrener_broker_nodes_down": sum(not node.running for node in nodes),
            "warrener_queues_lacking_replicas": sum(lacks_replicas(one, len(nodes)) for one in queues),
        }
    return "".join(f"# TYPE {name} gauge\n{name} {value}\n" for name, value in gauges.items())
