"""Dispatch queues: their depth at the broker, their jobs in the store, and the agents that serve them."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from warrener.errors import NothingFound
from warrener.explanations.facts import QueueFacts
from warrener.operations.agents import AgentSummary, agent_of, named_queues
from warrener.operations.noun import Backend, Flag, Noun
from warrener.operations.system import DelayDepth, read_delays, read_system
from warrener_contracts.fields import is_queue_name
from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_store.jobs.rows import StateCount
from warrener_store.jobs.views import QueueHead

_MAX_QUEUES = 200
_MAX_OLDEST = 10
_MAX_AGENTS = 200


class QueuesQuery(BaseModel):
    """The queues to list."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    q: Annotated[str, Flag("--name")] = Field(default="", max_length=200, description="Part of their names.")


class QueueSummary(BaseModel):
    """A dispatch queue. Counts that the broker did not give are None."""

    name: str
    waiting: int | None = Field(description="Messages at the broker.")
    consumers: int | None
    exists: bool | None
    oldest: datetime | None = Field(description="When the first of its queued jobs was dispatched.")
    unpublished: bool = Field(description="True if it has queued jobs that the broker did not take.")
    jobs: dict[JobState, int] = Field(description="By state, those that are over too.")
    agents: int = Field(description="Alive ones that serve it.")
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


class WaitingJob(BaseModel):
    """A job that waits in a queue."""

    job_id: str
    dispatched_at: datetime


class QueueDetails(QueueSummary):
    """One queue: its jobs by type, its agents, and the jobs that wait the longest."""

    broker_trouble: str | None
    job_types: list[TypeCount]
    serving: list[AgentSummary]
    waiting_longest: list[WaitingJob]
    delays: list[DelayDepth]


async def list_queues(backend: Backend, query: QueuesQuery) -> QueuesPage:
    """List the queues that have jobs, agents or job types, with what waits in them.

    $ warrener queues
    $ warrener queues default
    $ warrener queues --json | jq -r '.[] | select(.agents == 0).name'
    """
    counts = await backend.store.count_jobs()
    heads = {head.queue: head for head in await backend.store.queue_heads()}
    names = {count.queue for count in counts} | heads.keys() | await named_queues(backend)
    chosen = sorted(name for name in names if query.q.lower() in name.lower())
    system = await read_system(backend, chosen[:_MAX_QUEUES])
    agents = [agent_of(row, system.now, backend.masker) for row in system.agents]
    return QueuesPage(
        queues=[
            queue_of(name, counts, heads.get(name), agents, system.queues.get(name))
            for name in chosen[:_MAX_QUEUES]
        ],
        is_complete=len(chosen) <= _MAX_QUEUES,
        delays=await read_delays(backend),
        broker_trouble=system.broker_trouble,
    )


def queue_of(
    name: str,
    counts: Iterable[StateCount],
    head: QueueHead | None,
    agents: Iterable[AgentSummary],
    at_broker: QueueFacts | None = None,
) -> QueueSummary:
    """Make a queue of all counts, its first jobs, all agents, and its depth at the broker. Pure."""
    jobs: Counter[JobState] = Counter()
    for count in counts:
        if count.queue == name:
            jobs[count.state] += count.jobs
    serving = [agent for agent in agents if agent.state != "silent" and name in agent.queues]
    return QueueSummary(
        name=name,
        waiting=None if at_broker is None else at_broker.waiting,
        consumers=None if at_broker is None else at_broker.consumers,
        exists=None if at_broker is None else at_broker.exists,
        oldest=None if head is None else head.oldest,
        unpublished=head is not None and head.unpublished,
        jobs={state: number for state, number in jobs.items() if number},
        agents=len(serving),
        free_slots=sum(agent.free_slots[name] for agent in serving),
    )


async def read_queue(backend: Backend, name: str) -> QueueDetails:
    """Show one queue: its jobs by type, its agents, its depth, and the jobs that wait the longest.

    $ warrener queues default
    """
    if not is_queue_name(name):  # before anything is looked up
        raise NothingFound(f"expected the name of a queue, got {name!r:.140}; look in the list of queues")
    counts = [count for count in await backend.store.count_jobs() if count.queue == name]
    heads = {head.queue: head for head in await backend.store.queue_heads()}
    system = await read_system(backend, [name])
    at_broker = system.queues.get(name)
    is_known = counts or name in heads or name in await named_queues(backend)
    if not is_known and (at_broker is None or not at_broker.exists):
        raise NothingFound(
            f"expected a queue, got none with the name {name!r:.140}; look in the list of queues"
        )
    now = system.now
    serving = [agent_of(agent, now, backend.masker) for agent in system.agents_of(name)]
    waiting = await backend.store.oldest_queued(name, now, _MAX_OLDEST)
    by_type: dict[str, Counter[JobState]] = {}
    for count in counts:
        by_type.setdefault(count.job_type, Counter())[count.state] += count.jobs
    return QueueDetails(
        **dict(queue_of(name, counts, heads.get(name), serving, at_broker)),
        broker_trouble=system.broker_trouble,
        job_types=[
            TypeCount(job_type=job_type, jobs={state: number for state, number in jobs.items() if number})
            for job_type, jobs in sorted(by_type.items())
        ],
        serving=serving[:_MAX_AGENTS],
        waiting_longest=[
            WaitingJob(job_id=str(one.job_id), dispatched_at=one.dispatched_at) for one in waiting
        ],
        delays=await read_delays(backend),
    )


QUEUES = Noun(
    word="queue",
    command="queues",
    plural="queues",
    key="name",
    key_help="Shows this queue alone, with its jobs by type and its agents.",
    query=QueuesQuery,
    list=list_queues,
    read=read_queue,
    columns={
        "queue": "name",
        "not over": "live",
        "at broker": "waiting",
        "oldest": "oldest",
        "consumers": "consumers",
        "agents": "agents",
        "free slots": "free_slots",
    },
    empty="No queue yet: one appears with its first agent, or with the first job that is sent to it.",
    uses_broker=True,
)
