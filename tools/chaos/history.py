"""What happened in a chaos run, as facts that the checker judges. All times are raw monotonic seconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tools.chaos.effects import Record

Expected = Literal["succeeded", "dead", "any"]
WORKFLOWS = frozenset({"chaos.order", "chaos.import"})
TERMINAL = frozenset({"succeeded", "dead", "cancelled", "expired"})


@dataclass(frozen=True, slots=True)
class Request:
    """A request that the broker has confirmed."""

    job: str
    job_type: str
    at: float
    expected: Expected
    children: int = 0
    not_before: float | None = None
    watched: bool = False
    plain: bool = True
    """True if only faults delay it: no retry, no delay, no long run. Recovery is measured by these."""
    signals: int = 0
    """How many a workflow is sent, with the data 0, 1 and so on."""


@dataclass(frozen=True, slots=True)
class JobFact:
    """A row of the state store at the end."""

    job: str
    job_type: str
    state: str
    attempt: int
    result: str | None
    parent: str | None = None
    schedule: str | None = None
    losses: int = 0
    arguments: str = ""
    """Of a child job, as JSON."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A change of a job's row that entered, left or rewrote a terminal state; noted by a trigger."""

    job: str
    old: str | None
    new: str
    at: float


@dataclass(frozen=True, slots=True)
class TransactionalEffect:
    """A row that a transactional job wrote through the ledger's transaction."""

    job: str
    run: str
    note: str = ""
    """What it is, such as `charge` and the number of the order."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A row of the tick history."""

    schedule: str
    nominal: float
    status: str
    job: str | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule with one tick each `every` seconds, and the span in which each must be accounted for."""

    name: str
    every: float
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class Freeze:
    """Processes that could execute nothing for a while."""

    pids: frozenset[int]
    begun: float
    ended: float


@dataclass(frozen=True, slots=True)
class Unmended:
    """Pieces of the topology that the product did not bring back in time."""

    what: str
    at: float


@dataclass(frozen=True, slots=True)
class Destroyed:
    """A span in which an operator destroyed confirmed requests."""

    begun: float
    ended: float


@dataclass(frozen=True, slots=True)
class FaultFact:
    """A fault that was brought about."""

    number: int
    kind: str
    detail: str
    begun: float
    ended: float
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """All of it."""

    requests: Sequence[Request] = ()
    jobs: Mapping[str, JobFact] = field(default_factory=dict[str, JobFact])
    endings: Sequence[Ending] = ()
    records: Sequence[Record] = ()
    effects: Sequence[TransactionalEffect] = ()
    ticks: Sequence[Tick] = ()
    schedules: Sequence[Schedule] = ()
    freezes: Sequence[Freeze] = ()
    answers: Mapping[str, str] = field(default_factory=dict[str, str])
    """For each watched job the state that its requester received."""
    left_in_queues: Mapping[str, int] = field(default_factory=dict[str, int])
    """Messages that still lay in queues of the product when all was quiet."""
    unmended: Sequence[Unmended] = ()
    destroyed: Sequence[Destroyed] = ()
    settled: bool = True
    """False if the run was interrupted: what is not over then is not judged."""
