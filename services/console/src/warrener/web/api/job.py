"""The timeline and the log lines of one job."""

from datetime import UTC
from typing import Any

from fastapi import APIRouter

from warrener.operations.job_logs import MAX_LINES, JobLog, read_log
from warrener.operations.timelines import read_timeline
from warrener.render.trace import trace_data
from warrener.render.waterfall import lay_out
from warrener.selection import find_job
from warrener.web.api import ConsoleOfApp

router = APIRouter(tags=["jobs"])


@router.get("/jobs/{job_id}/timeline")
async def get_timeline(console: ConsoleOfApp, job_id: str) -> dict[str, Any]:
    """The waterfall of a job: each interval of its life with its cause, as `warrener trace --json` has it."""
    facts = await read_timeline(console, await find_job(console.store, job_id), UTC)
    return trace_data(facts, lay_out(facts))


@router.get("/jobs/{job_id}/logs")
async def get_log(console: ConsoleOfApp, job_id: str, attempt: int | None = None) -> JobLog:
    """The newest log lines of an attempt: of the newest one that has any, if none is named."""
    return await read_log(console, await find_job(console.store, job_id), attempt, MAX_LINES)
