"""Dispatch queues: their depth at the broker, their jobs in the store, and the agents that serve them."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from warrener.explanations.facts import SystemFacts, free_slots
from warrener.web.api import ConsoleOfApp
from warrener.web.api.agents import AgentSummary, agent_summary
from warrener.web.console import Console
from warrener.web.page import PageNotFound
from warrener.web.system import DelayDepth, read_delays, read_system
from warrener_contracts.fields import is_queue_name
from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_store.jobs.rows import StateCount
from warrener_store.jobs.views import QueueHead

router = APIRouter(tags=["queues"])

_MAX_QUEUES = 200
_MAX_OLDEST = 10
_MAX_AGENTS = 200


class QueuesQuery(BaseModel):
    """The queues to list."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    q: Annotated[str, Field(max_length=200)] = ""


class QueueSummary(BaseModel):
    """A dispatch queue. Counts that the broker did not give are None."""

    name: str
    waiting: int | None  # messages at the broker
    consumers: int | None
    exists: bool | None
    oldest: datetime | None  # when the first of its queued jobs was dispatched
    unpublished: bool  # it has queued jobs that the broker did not take
    jobs: dict[JobState, int]  # by state, those that are over too
    agents: int  # alive ones that serve it
    free_slots: int

    @property
    def live(self) -> int:
        """Jobs that are not over."""
        return sum(count for state, count in self.jobs.items() if state not in TERMINAL)


class QueuesPage(BaseModel):
    """Queues by name, and what is delayed at the broker."""

    queues: list[QueueSummary]
    is_complete: bool
    delays: list[DelayDepth]
    broker_trouble: str | None


class TypeCount(BaseModel):
    """The jobs of one type in a queue, by state."""

    job_type: str
    jobs: dict[JobState, int]


class QueueDetails(BaseModel):
    """One queue: its jobs by type, its agents, and the jobs that wait the longest."""

    summary: QueueSummary
    broker_trouble: str | None
    job_types: list[TypeCount]
    agents: list[AgentSummary]
    oldest: list["WaitingJob"]
    delays: list[DelayDepth]


class WaitingJob(BaseModel):
    """A job that waits in a queue."""

    job_id: str
    dispatched_at: datetime


async def list_queues(console: Console, query: QueuesQuery) -> QueuesPage:
    """List the queues that have jobs, agents or job types, by name."""
    counts = await console.store.count_jobs()
    heads = {head.queue: head for head in await console.store.queue_heads()}
    names = {count.queue for count in counts} | heads.keys() | await _named_queues(console)
    chosen = sorted(name for name in names if query.q.lower() in name.lower())
    system = await read_system(console, chosen[:_MAX_QUEUES])
    return QueuesPage(
        queues=[_summary(name, counts, heads.get(name), system) for name in chosen[:_MAX_QUEUES]],
        is_complete=len(chosen) <= _MAX_QUEUES,
        delays=await read_delays(console),
        broker_trouble=system.broker_trouble,
    )


async def _named_queues(console: Console) -> set[str]:
    types = await console.store.job_types()
    agents = await console.store.agents()
    return {row.queue for row in types.values()} | {queue for agent in agents for queue in agent.queues}


def _summary(
    name: str, counts: Iterable[StateCount], head: QueueHead | None, system: SystemFacts
) -> QueueSummary:
    jobs: Counter[JobState] = Counter()
    for count in counts:
        if count.queue == name:
            jobs[count.state] += count.jobs
    at_broker = system.queues.get(name)
    agents = system.alive_of(name)
    return QueueSummary(
        name=name,
        waiting=None if at_broker is None else at_broker.waiting,
        consumers=None if at_broker is None else at_broker.consumers,
        exists=None if at_broker is None else at_broker.exists,
        oldest=None if head is None else head.oldest,
        unpublished=head is not None and head.unpublished,
        jobs={state: number for state, number in jobs.items() if number},
        agents=len(agents),
        free_slots=sum(free_slots(agent, name) for agent in agents),
    )


async def read_queue(console: Console, name: str) -> QueueDetails:
    """Read one queue. Raises PageNotFound, for a text that is no name before anything is looked up."""
    if not is_queue_name(name):
        raise PageNotFound(f"expected the name of a queue, got {name!r:.140}; look in the list of queues")
    counts = [count for count in await console.store.count_jobs() if count.queue == name]
    heads = {head.queue: head for head in await console.store.queue_heads()}
    system = await read_system(console, [name])
    at_broker = system.queues.get(name)
    is_known = counts or name in heads or name in await _named_queues(console)
    if not is_known and (at_broker is None or not at_broker.exists):
        raise PageNotFound(
            f"expected a queue, got none with the name {name!r:.140}; look in the list of queues"
        )
    now = system.now
    waiting = await console.store.oldest_queued(name, now, _MAX_OLDEST)
    by_type: dict[str, Counter[JobState]] = {}
    for count in counts:
        by_type.setdefault(count.job_type, Counter())[count.state] += count.jobs
    return QueueDetails(
        summary=_summary(name, counts, heads.get(name), system),
        broker_trouble=system.broker_trouble,
        job_types=[
            TypeCount(job_type=job_type, jobs={state: number for state, number in jobs.items() if number})
            for job_type, jobs in sorted(by_type.items())
        ],
        agents=[agent_summary(agent, now, console.masker) for agent in system.agents_of(name)[:_MAX_QUEUES]],
        oldest=[WaitingJob(job_id=str(one.job_id), dispatched_at=one.dispatched_at) for one in waiting],
        delays=await read_delays(console),
    )


@router.get("/queues")
async def get_queues(console: ConsoleOfApp, query: Annotated[QueuesQuery, Query()]) -> QueuesPage:
    """List queues by name."""
    return await list_queues(console, query)


@router.get("/queues/{name:path}")
async def get_queue(console: ConsoleOfApp, name: str) -> QueueDetails:
    """One queue: jobs, agents, depth."""
    return await read_queue(console, name)
