"""Dispatch queues: their depth at the broker, their jobs in the store, and the agents that serve them."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from warrener.errors import NothingFound
from warrener.explanations.facts import QueueFacts
from warrener.operations.agents import AgentSummary, agent_of, named_queues
from warrener.operations.noun import Backend, Flag, ListQuery, Noun
from warrener.operations.system import DelayDepth, read_delays, read_system
from warrener_contracts.fields import is_queue_name
from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_store.jobs.rows import StateCount
from warrener_store.jobs.views import QueueHead

_MAX_OLDEST = 10
_MAX_AGENTS = 200
_DISPATCHED = (JobState.QUEUED, JobState.RUNNING, JobState.RETRYING)


class QueuesQuery(ListQuery):
    """The queues to list."""

    q: Annotated[str, Flag("--name")] = Field(default="", max_length=200, description="Part of their names.")
    limit: Annotated[int, Flag("--limit", "-n")] = Field(
        default=200, ge=1, le=200, description="Maximum number of queues (default of the command: all)."
    )


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
    paused: bool = Field(default=False, description="True while its breaker, `queue:<name>`, is open.")

    @property
    def live(self) -> int:
        return sum(count for state, count in self.jobs.items() if state not in TERMINAL)

    @property
    def lacks_agents(self) -> bool:
        """True if jobs were dispatched to it, and no agent is alive that serves it."""
        return not self.agents and any(self.jobs.get(state) for state in _DISPATCHED)


class QueuesPage(BaseModel):
    """A page of queues by name, and what is delayed at the broker. `next`: pass it as `after`."""

    queues: list[QueueSummary]
    next: str | None
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
    heads = await backend.store.queue_heads()
    names = {count.queue for count in counts} | {head.queue for head in heads}
    names |= await named_queues(backend)
    chosen = sorted(name for name in names if query.q.lower() in name.lower() and name > query.after)
    shown = chosen[: query.limit]
    system = await read_system(backend, shown)
    masker = (await backend.learn()).every
    agents = [agent_of(row, system.now, masker) for row in system.agents]
    return QueuesPage(
        queues=queues_of(shown, counts, heads, agents, system.queues, paused=system.breakers.paused_queues),
        next=shown[-1] if len(chosen) > len(shown) else None,
        delays=await read_delays(backend),
        broker_trouble=system.broker_trouble,
    )


def queues_of(
    names: Iterable[str],
    counts: Iterable[StateCount],
    heads: Iterable[QueueHead],
    agents: Iterable[AgentSummary],
    at_broker: Mapping[str, QueueFacts],
    *,
    paused: Collection[str],
) -> list[QueueSummary]:
    """Make these queues of all counts, the first jobs, all agents, and the depths at the broker. Pure."""
    jobs: defaultdict[str, Counter[JobState]] = defaultdict(Counter)
    for count in counts:
        jobs[count.queue][count.state] += count.jobs
    serving: defaultdict[str, list[AgentSummary]] = defaultdict(list)
    for agent in agents:
        for queue in agent.queues if agent.state != "silent" else ():
            serving[queue].append(agent)
    first = {head.queue: head for head in heads}
    found: list[QueueSummary] = []
    for name in names:
        head, there = first.get(name), at_broker.get(name)
        one = QueueSummary(
            name=name,
            waiting=None if there is None else there.waiting,
            consumers=None if there is None else there.consumers,
            exists=None if there is None else there.exists,
            oldest=None if head is None else head.oldest,
            unpublished=head is not None and head.unpublished,
            jobs={state: number for state, number in jobs[name].items() if number},
            agents=len(serving[name]),
            free_slots=sum(agent.free_slots[name] for agent in serving[name]),
            paused=name in paused,
        )
        found.append(one)
    return found


async def read_queue(backend: Backend, name: str) -> QueueDetails:
    """Show one queue: its jobs by type, its agents, its depth, and the jobs that wait the longest.

    $ warrener queues default
    """
    if not is_queue_name(name):  # before anything is looked up
        raise NothingFound(f"expected the name of a queue, got {name!r:.140}; look in the list of queues")
    counts = [count for count in await backend.store.count_jobs() if count.queue == name]
    heads = [head for head in await backend.store.queue_heads() if head.queue == name]
    system = await read_system(backend, [name])
    at_broker = system.queues.get(name)
    is_known = counts or heads or name in await named_queues(backend)
    if not is_known and (at_broker is None or not at_broker.exists):
        raise NothingFound(
            f"expected a queue, got none with the name {name!r:.140}; look in the list of queues"
        )
    now, masker = system.now, (await backend.learn()).every
    serving = [agent_of(agent, now, masker) for agent in system.agents_of(name)]
    waiting = await backend.store.oldest_queued(name, now, _MAX_OLDEST)
    by_type: dict[str, Counter[JobState]] = {}
    for count in counts:
        by_type.setdefault(count.job_type, Counter())[count.state] += count.jobs
    return QueueDetails(
        **dict(
            queues_of([name], counts, heads, serving, system.queues, paused=system.breakers.paused_queues)[0]
        ),
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
        "paused": lambda one: "yes" if one.paused else "",
    },
    empty="No queue yet: one appears with its first agent, or with the first job that is sent to it.",
    uses_broker=True,
    lists_all=True,
)
