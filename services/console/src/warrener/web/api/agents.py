"""Agents: what they serve, how busy and how well they are, what they run and what was lost with them."""

from datetime import datetime, timedelta
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from warrener.explanations.facts import free_slots
from warrener.web.access.masking import Masker
from warrener.web.api import ConsoleOfApp
from warrener.web.console import Console
from warrener.web.masked_rows import mask_attempt, mask_job
from warrener.web.page import PageNotFound
from warrener_contracts.state_machine import JobState
from warrener_store.agents.rows import SILENT_AFTER, AgentRow
from warrener_store.jobs.rows import AttemptRow, JobRow

router = APIRouter(tags=["agents"])

_SHOWN = timedelta(hours=1)  # since their last heartbeat
_MAX_AGENTS = 500
_MAX_RUNNING = 100
_MAX_LOST = 20

AgentState = Literal["alive", "draining", "in trouble", "silent"]


class AgentsQuery(BaseModel):
    """The agents to list; `all` has those that have been silent for an hour too."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    q: Annotated[str, Field(max_length=200)] = ""
    queue: Annotated[str, Field(max_length=200)] = ""
    state: AgentState | Literal[""] = ""
    all: bool = False


class AgentSummary(BaseModel):
    """An agent as of its last heartbeat. `job_types` is None if it does not say."""

    agent_id: str
    host: str
    pid: int
    state: AgentState
    trouble: str | None
    queues: list[str]
    job_types: list[str] | None
    code_version: str | None
    slots: int  # of each of its queues
    running: int
    free_slots: dict[str, int]  # by queue
    started_at: datetime
    last_seen_at: datetime

    @property
    def all_slots(self) -> int:
        """Its slots on all its queues, as far as it says how many are free."""
        return max(self.running + sum(self.free_slots.values()), self.slots)


class AgentsPage(BaseModel):
    """Agents, the last seen first. `is_complete`: False if there are more than are shown."""

    agents: list[AgentSummary]
    is_complete: bool


class RunningJob(BaseModel):
    """A job that an agent runs."""

    job_id: UUID
    job_type: str
    queue: str
    attempt: int
    started_at: datetime | None
    progress: float | None
    progress_note: str | None
    is_cancelled: bool


class LostAttempt(BaseModel):
    """An attempt that was lost with its agent. `state`: of its job now."""

    job_id: UUID
    job_type: str
    attempt: int
    started_at: datetime | None
    lost_at: datetime
    verdict: str
    state: JobState | None


class AgentDetails(BaseModel):
    """One agent, what it runs now, and what was lost with it, the newest first."""

    summary: AgentSummary
    running: list[RunningJob]
    runs_more: bool
    lost: list[LostAttempt]


async def list_agents(console: Console, query: AgentsQuery) -> AgentsPage:
    """List agents, the last seen first."""
    now = await console.now()
    rows = await console.store.agents(None if query.all else now - _SHOWN)
    found = [
        summary
        for summary in (agent_summary(row, now, console.masker) for row in rows)
        if query.q.lower() in summary.agent_id.lower()
        and (not query.queue or query.queue in summary.queues)
        and query.state in ("", summary.state)
    ]
    return AgentsPage(agents=found[:_MAX_AGENTS], is_complete=len(found) <= _MAX_AGENTS)


def agent_summary(row: AgentRow, now: datetime, masker: Masker) -> AgentSummary:
    """Make the summary of an agent, without secrets."""
    return AgentSummary(
        agent_id=row.agent_id,
        host=row.host,
        pid=row.pid,
        state=_state(row, now),
        trouble=None if row.trouble is None else masker.text(row.trouble),
        queues=list(row.queues),
        job_types=None if row.job_types is None else sorted(row.job_types),
        code_version=row.code_version,
        slots=row.slots,
        running=row.running,
        free_slots={queue: free_slots(row, queue) for queue in row.queues},
        started_at=row.started_at,
        last_seen_at=row.last_seen_at,
    )


def _state(row: AgentRow, now: datetime) -> AgentState:
    if now - row.last_seen_at > SILENT_AFTER:
        return "silent"
    if row.trouble:
        return "in trouble"
    return "draining" if row.draining else "alive"


async def read_agent(console: Console, agent_id: str) -> AgentDetails:
    """Read one agent. Raises PageNotFound."""
    store = console.store
    row = (await store.agents_by_id([agent_id])).get(agent_id)
    if row is None:
        raise PageNotFound(
            f"expected an agent, got none with the id {agent_id!r:.140}; agents that are gone are forgotten"
        )
    owned = await store.running_attempts(owners=[agent_id])
    lost = await store.lost_attempts(agent_id, _MAX_LOST)
    shown = list(owned)[:_MAX_RUNNING]
    jobs = await store.jobs_by_id({*shown, *(attempt.job_id for attempt in lost)})
    running = [_running(mask_job(console.masker, jobs[job_id])) for job_id in shown if job_id in jobs]
    return AgentDetails(
        summary=agent_summary(row, await console.now(), console.masker),
        running=sorted(running, key=lambda one: (one.started_at is None, one.started_at)),
        runs_more=len(owned) > _MAX_RUNNING,
        lost=[_lost(mask_attempt(console.masker, attempt), jobs.get(attempt.job_id)) for attempt in lost],
    )


def _running(row: JobRow) -> RunningJob:
    return RunningJob(
        job_id=row.job_id,
        job_type=row.job_type,
        queue=row.queue,
        attempt=row.attempt,
        started_at=row.started_at,
        progress=row.progress,
        progress_note=row.progress_note,
        is_cancelled=row.cancel_reason is not None,
    )


def _lost(attempt: AttemptRow, job: JobRow | None) -> LostAttempt:
    return LostAttempt(
        job_id=attempt.job_id,
        job_type="" if job is None else job.job_type,
        attempt=attempt.attempt,
        started_at=attempt.started_at,
        lost_at=attempt.finished_at,
        verdict=attempt.verdict,
        state=None if job is None else job.state,
    )


@router.get("/agents")
async def get_agents(console: ConsoleOfApp, query: Annotated[AgentsQuery, Query()]) -> AgentsPage:
    """List agents, the last seen first."""
    return await list_agents(console, query)


@router.get("/agents/{agent_id:path}")
async def get_agent(console: ConsoleOfApp, agent_id: str) -> AgentDetails:
    """One agent: what it runs, and what was lost with it."""
    return await read_agent(console, agent_id)
