"""The facts that explanations are made of, as they were gathered at one moment. Pure.

A fact that could not be read is None, or says why; no decision takes it for a healthy one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from warrener_contracts.journals import SentSignal
from warrener_contracts.state_machine import JobState
from warrener_store.agents.rows import SILENT_AFTER
from warrener_store.breakers.gate import NO_OPEN_BREAKERS, OpenBreakers

if TYPE_CHECKING:  # the facts of one subject need no rows of another
    from warrener_contracts.events import Call
    from warrener_store.agents.rows import AgentRow, JobTypeRow
    from warrener_store.dead_letters.rows import DeadLetter
    from warrener_store.gates.rows import GateRoom, Slot
    from warrener_store.jobs.rows import AttemptRow, JobRow
    from warrener_store.jobs.unique import UniqueKeyRow
    from warrener_store.parked.rows import ParkedMessage
    from warrener_store.schedules.rows import ScheduleRow, TickRow
    from warrener_store.workflows.rows import TurnRow

_NOT_BEGUN = (JobState.QUEUED, JobState.RETRYING)
_CHARGED = (JobState.QUEUED, JobState.RETRYING, JobState.DEAD)
"""States in which each attempt that was made is over, and has failed unless it was not charged."""
MAX_COUNTED_BATCHES = 10  # of a map, whose jobs are looked up; of further ones all are taken as left
MAX_SKEW = timedelta(seconds=2)  # clocks that differ by less are taken for equal


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """A dispatch queue as the broker has it.

    `waiting` and `consumers` count nothing of a queue that does not exist. `unbound` names the exchanges from
    which no message reaches the queue; None: the bindings are unknown.
    """

    exists: bool = True
    waiting: int = 0
    consumers: int = 0
    unbound: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFacts:
    """The services, the broker and the agents around every subject."""

    now: datetime  # by the store's clock
    machine_ahead: timedelta = timedelta(0)  # this machine's clock, compared with the store's
    store_trouble: str | None = None  # why the store takes no writes
    broker_alarm: str | None = None  # why it takes no messages, in its words
    refused: Mapping[str, str] = field(default_factory=dict[str, str])  # pieces of the topology: why
    broker_trouble: str | None = None  # why the broker does not answer: nothing else is known of it
    bindings_unknown: str | None = None  # why
    schedulers: int | None = None  # consumers of the requests queue
    supervisors: int | None = None  # consumers of the status queue
    requests_waiting: int = 0
    statuses_waiting: int = 0
    queues: Mapping[str, QueueFacts] = field(default_factory=dict[str, QueueFacts])  # by the names of jobs
    agents: "tuple[AgentRow, ...]" = ()  # as of their last heartbeats
    job_types: "Mapping[str, JobTypeRow]" = field(default_factory=dict[str, "JobTypeRow"])
    breakers: OpenBreakers = NO_OPEN_BREAKERS
    ending_jobs: "Mapping[str, JobRow]" = field(default_factory=dict[str, "JobRow"])
    """By queue, the job that has ended most of its agents, and has not ended; of queues that miss one."""

    @property
    def no_supervisor(self) -> bool:
        """True if the broker says that no supervisor consumes."""
        return self.supervisors == 0

    def is_silent(self, agent: "AgentRow") -> bool:
        """True if the agent has missed several heartbeats."""
        return self.now - agent.last_seen_at > SILENT_AFTER

    def agents_of(self, queue: str) -> "list[AgentRow]":
        """The agents that serve or have served this queue, the last seen first."""
        found = [agent for agent in self.agents if queue in agent.queues]
        return sorted(found, key=lambda agent: agent.last_seen_at, reverse=True)

    def alive_of(self, queue: str) -> "list[AgentRow]":
        """The agents of this queue that send heartbeats."""
        return [agent for agent in self.agents_of(queue) if not self.is_silent(agent)]

    def serving(self, job_type: str) -> "list[AgentRow]":
        """The agents that send heartbeats and know this job type."""
        return [agent for agent in self.agents if not self.is_silent(agent) and knows(agent, job_type)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFacts:
    """The gate before which a job waits for a slot. `before`: the jobs that come first, counted up to a
    bound. `above`: workflows that wait for the job, among the holders."""

    room: "GateRoom"
    holders: "tuple[Slot, ...]"  # the first of them
    above: "tuple[UUID, ...]" = ()
    since: datetime
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """A job and what the store has beside it."""

    system: SystemFacts
    row: "JobRow"
    attempts: "tuple[AttemptRow, ...]" = ()  # those that are over
    dead_letter: "DeadLetter | None" = None
    redriven_as: "JobRow | None" = None  # the job that a redrive has made of it
    refusing_since: datetime | None = None  # when its queue began to refuse messages
    schedule: str | None = None  # the schedule that requested it
    turns: "tuple[TurnRow, ...]" = ()  # of a workflow
    jobs: "Mapping[UUID, JobRow]" = field(default_factory=dict[UUID, "JobRow"])
    """Of a workflow, the jobs that it may wait for: its child jobs, and those that undo its calls."""
    awaited: "JobFacts | None" = None  # the first of these that has not ended
    parked_child: "UnseenFacts | None" = None  # a child job whose request is parked
    members_left: int = 0  # of the map that a workflow waits for: jobs that have not ended
    settled: frozenset[UUID] = frozenset()  # the dead ones of these whose dead letters need nobody any longer
    signals: tuple[SentSignal, ...] = ()  # that were sent to it
    limit: LimitFacts | None = None  # None: it waits before no gate
    unique_key: "UniqueKeyRow | None" = None  # that it holds, or was the last to hold
    parent: "JobRow | None" = None
    parent_call: "Call | None" = None  # the call by which its parent, a workflow, waits for it


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenFacts:
    """An id, or a name, for which the store has no row. `searched`: how many parked messages were read."""

    system: SystemFacts
    text: str
    parked: "ParkedMessage | None" = None  # the newest message that has this id
    searched: int = 0
    made_at: datetime | None = None  # the time in the id itself (UUIDv7)
    oldest_job_at: datetime | None = None  # when the oldest job of the store was accepted
    known_from: str | None = None  # the place that still names a job that is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFacts:
    """A schedule with its newest ticks. `row` is None if it does not exist; `refused` is its parked put."""

    system: SystemFacts
    name: str
    row: "ScheduleRow | None" = None
    ticks: "tuple[TickRow, ...]" = ()  # the newest nominal time first
    last_job: "JobRow | None" = None  # of the newest tick that requested one
    rejected: "ParkedMessage | None" = None  # the parked request of that tick
    refused: "ParkedMessage | None" = None  # a parked schedule.put of this name


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSubject:
    """A dispatch queue to explain. `waiting_types`: the job types of queued jobs in the store."""

    system: SystemFacts
    name: str
    oldest: datetime | None = None  # when its first queued job was dispatched
    unpublished: bool = False  # jobs in the store that the queue did not take
    refusing_since: datetime | None = None
    waiting_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSubject:
    """An agent to explain."""

    system: SystemFacts
    row: "AgentRow"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSubject:
    """A job type to explain, as the latest agent announced it."""

    system: SystemFacts
    row: "JobTypeRow"


Subject = JobFacts | UnseenFacts | ScheduleFacts | QueueSubject | AgentSubject | TypeSubject


def deaths(row: "JobRow") -> int:
    """Attempts that ended with their process."""
    return len(row.error.crashes) + row.error.crashes_omitted if row.error is not None else 0


def ended_agents(row: "JobRow") -> int:
    """Attempts that ended with their agent: charged as a loss, or by a start on the next one."""
    return max(row.losses, deaths(row))


def knows(agent: "AgentRow", job_type: str) -> bool:
    """True if the agent has the job type, or does not say which it has (an agent of an earlier version)."""
    return agent.job_types is None or job_type in agent.job_types


def consumes_nothing(system: SystemFacts, agent: "AgentRow") -> bool:
    """True if the broker says that no queue of this agent has a consumer, though it neither drains nor has
    returned its messages: its process has ended, or its connection is cut."""
    if agent.draining or agent.trouble is not None:
        return False
    known = [system.queues.get(queue) for queue in agent.queues]
    return any(known) and all(one is None or (one.exists and not one.consumers) for one in known)


def free_slots(agent: "AgentRow", queue: str) -> int:
    """The free slots of a queue. Agents of earlier versions count all attempts against one number."""
    if agent.free_slots is not None and queue in agent.free_slots:
        return agent.free_slots[queue]
    return max(0, agent.slots - agent.running)


def counted(number: int, noun: str) -> str:
    """`1 agent`, `2 agents`."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def names(agents: "Iterable[AgentRow]") -> str:
    """The ids of a few agents, and how many more."""
    ids = [agent.agent_id for agent in agents]
    return ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")


def first_line(text: str) -> str:
    """The first line of an error's message."""
    return next(iter(text.strip().splitlines()), "")


def class_name(error_type: str) -> str:
    """The name of an error's class without its module."""
    return error_type.rpartition(".")[2]


def attempts_text(
    state: JobState, made: int, failures: int, losses: int, limit: int, *, noun: str = "", turns: bool = False
) -> str:
    """`2 of 5`; with the failures where that would mislead: `8, of which 4 of at most 5 failed and 3 were
    lost`. `made`: the number of the current attempt; `noun`: for one attempt. The attempts of a workflow are
    `turns`, of which none has failed as a rule."""
    made -= state in _NOT_BEGUN
    noun = "turn" if turns else noun
    if not turns and made - failures <= (state not in _CHARGED):
        return f"{made} of {counted(limit, noun) if noun else limit}"
    failed = [f"{failures} of at most {limit} failed"] if failures or not losses else []
    lost = [f"{losses} {'was' if losses == 1 else 'were'} lost"] if losses else []
    return f"{counted(made, noun) if noun else made}, of which {' and '.join(failed + lost)}"
