"""Agents: what they serve, how busy and how well they are, what they run and what was lost with them."""

from datetime import datetime, timedelta
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from warrener.errors import NothingFound
from warrener.explanations.facts import free_slots
from warrener.operations.masking import Masker, mask_attempt, mask_job
from warrener.operations.noun import Backend, Flag, Noun, NounQuery, fields_from
from warrener.render.tones import Tone
from warrener_contracts.state_machine import JobState
from warrener_store.agents.rows import SILENT_AFTER, AgentRow

_SHOWN = timedelta(hours=1)  # since their last heartbeat
_MAX_AGENTS = 500
_MAX_RUNNING = 100
_MAX_LOST = 20

AgentState = Literal["alive", "draining", "in trouble", "silent"]


class AgentsQuery(NounQuery):
    """The agents to list."""

    q: Annotated[str, Flag("--id")] = Field(default="", max_length=200, description="Part of the id.")
    queue: str = Field(default="", max_length=200, description="Queue that they serve.")
    state: AgentState | Literal[""] = Field(default="", description="alive, draining, in trouble or silent.")
    all: bool = Field(default=False, description="Also agents that have been silent for an hour.")


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
    slots: int = Field(description="Of each of its queues.")
    running: int
    draining: bool = Field(description="True if it takes no further jobs: it ends, or has ended.")
    free_slots: dict[str, int] = Field(description="By queue.")
    started_at: datetime
    last_seen_at: datetime

    @property
    def all_slots(self) -> int:
        """Its slots on all its queues, as far as it says how many are free."""
        return max(self.running + sum(self.free_slots.values()), self.slots)

    @property
    def up_for(self) -> timedelta:
        return self.last_seen_at - self.started_at


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


class AgentDetails(AgentSummary):
    """One agent, what it runs now, and what was lost with it, the newest first."""

    runs: list[RunningJob]
    runs_more: bool
    lost: list[LostAttempt]


async def list_agents(backend: Backend, query: AgentsQuery) -> AgentsPage:
    """List the agents: queues, slots, running attempts, ids of their processes.

    $ warrener agents
    $ warrener agents --all --json
    $ warrener agents loader-1
    """
    found = await find_agents(backend, query)
    return AgentsPage(agents=found[:_MAX_AGENTS], is_complete=len(found) <= _MAX_AGENTS)


async def find_agents(backend: Backend, query: AgentsQuery) -> list[AgentSummary]:
    now, masker = await backend.now(), (await backend.learn()).every
    rows = await backend.store.agents(None if query.all else now - _SHOWN)
    return [
        agent
        for agent in (agent_of(row, now, masker) for row in rows)
        if query.q.lower() in agent.agent_id.lower()
        and (not query.queue or query.queue in agent.queues)
        and query.state in ("", agent.state)
    ]


def agent_of(row: AgentRow, now: datetime, masker: Masker) -> AgentSummary:
    """Make an agent of its row, without secrets."""
    fields = fields_from(AgentSummary, row) | {
        "state": _state(row, now),
        "trouble": None if row.trouble is None else masker.text(row.trouble),
        "job_types": None if row.job_types is None else sorted(row.job_types),
        "free_slots": {queue: free_slots(row, queue) for queue in row.queues},
    }
    return AgentSummary.model_validate(fields)


def _state(row: AgentRow, now: datetime) -> AgentState:
    if now - row.last_seen_at > SILENT_AFTER:
        return "silent"
    if row.trouble:
        return "in trouble"
    return "draining" if row.draining else "alive"


async def read_agent(backend: Backend, agent_id: str) -> AgentDetails:
    """Show one agent: what it runs, and what was lost with it.

    $ warrener agents loader-1
    """
    store, masker = backend.store, await backend.learn()
    row = (await store.agents_by_id([agent_id])).get(agent_id)
    if row is None:
        raise NothingFound(
            f"expected an agent, got none with the id {agent_id!r:.140}; agents that are gone are forgotten"
        )
    owned = await store.running_attempts(owners=[agent_id])
    attempts = [mask_attempt(masker.every, one) for one in await store.lost_attempts(agent_id, _MAX_LOST)]
    shown = list(owned)[:_MAX_RUNNING]
    found = await store.jobs_by_id({*shown, *(attempt.job_id for attempt in attempts)})
    jobs = {job_id: mask_job(masker, job) for job_id, job in found.items()}
    runs = [
        RunningJob(**fields_from(RunningJob, job), is_cancelled=job.cancel_reason is not None)
        for job_id in shown
        if (job := jobs.get(job_id)) is not None
    ]
    lost = [
        LostAttempt(
            **fields_from(LostAttempt, attempt),
            lost_at=attempt.finished_at,
            job_type="" if job is None else job.job_type,
            state=None if job is None else job.state,
        )
        for attempt in attempts
        for job in (jobs.get(attempt.job_id),)
    ]
    return AgentDetails(
        **dict(agent_of(row, await backend.now(), masker.every)),
        runs=sorted(runs, key=lambda one: (one.started_at is None, one.started_at)),
        runs_more=len(owned) > _MAX_RUNNING,
        lost=lost,
    )


async def named_queues(backend: Backend) -> set[str]:
    """The queues of job types and agents, with jobs or without."""
    types = await backend.store.job_types()
    agents = await backend.store.agents()
    return {row.queue for row in types.values()} | {queue for agent in agents for queue in agent.queues}


AGENTS = Noun(
    word="agent",
    command="agents",
    plural="agents",
    key="agent_id",
    key_help="Shows this agent alone, with what it runs and what was lost with it.",
    query=AgentsQuery,
    list=list_agents,
    read=read_agent,
    columns={
        "agent": "agent_id",
        "queues": "queues",
        "running": "running",
        "slots": "slots",
        "state": "state",
        "pid": lambda one: "" if one.state == "silent" else str(one.pid),
        "up for": "up_for",
        "last seen": "last_seen_at",
        "why": "trouble",
    },
    tones={"alive": Tone.GOOD, "draining": Tone.WARNING, "in trouble": Tone.ERROR, "silent": Tone.SOFT},
    empty="No agent has reported yet: start one with `warrener up MODULE` or `warrener agent MODULE`.",
)
