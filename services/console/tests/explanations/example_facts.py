"""Facts in which all is well, and rows and facts that differ from them, such as a limit that is full."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from tests import store_rows
from tests.store_rows import NOON, after, parked_message

from warrener.explanations import facts
from warrener_contracts.circuit_breaker import BreakerPolicy, BreakerState
from warrener_contracts.events import (
    Call,
    CallKind,
    ErrorInfo,
    ErrorKind,
    Suspension,
    TickStatus,
    UndoRequest,
)
from warrener_contracts.retryability import UNKNOWN_JOB_TYPE
from warrener_contracts.schedule_rules import IntervalRule
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import REQUESTS_QUEUE
from warrener_store.agents.rows import AgentRow
from warrener_store.breakers.gate import BreakerRow, OpenBreakers
from warrener_store.dead_letters.rows import DeadLetter
from warrener_store.gates.rows import GateRoom, Slot
from warrener_store.jobs.rows import JobRow
from warrener_store.parked.rows import ParkedMessage
from warrener_store.schedules.rows import ScheduleRow
from warrener_store.workflows.rows import TurnRow

JOB = UUID("01936f2e-8a3b-7c4d-9e5f-0123456789ab")
NEW = UUID("01936f30-11d2-7a8b-8c3e-5a7d1b2c4e6f")
ERROR = ErrorInfo(kind=ErrorKind.ERROR, type="requests.Timeout", message="no answer within 30 s")
WRONG_HEADER = ErrorInfo(
    kind=ErrorKind.ERROR, type="flights.days.WrongHeader", message="expected the column 'day', got 'date'"
)
KILLED = ErrorInfo(
    kind=ErrorKind.CRASH,
    type="SIGKILL",
    message="killed by signal 9",
    crashes=tuple(f"attempt {number}: SIGKILL: killed by signal 9" for number in range(1, 5)),
)
UNKNOWN_TYPE = ErrorInfo(
    kind=ErrorKind.ERROR, type=UNKNOWN_JOB_TYPE, message="loader-7c9f does not know flights.load"
)
CHANGED = ErrorInfo(
    kind=ErrorKind.ERROR,
    type="CodeChanged",
    message="expected cards.charge at orders.py:41 as before, got cards.reserve",
)

# -- the system around ---------------------------------------------------------------------------------------

agent = partial(
    store_rows.agent_row,
    agent_id="loader-7c9f",
    host="worker-3",
    slots=4,
    running=1,
    started_at=after(-3600),
    job_types=("flights.load",),
    free_slots={"default": 3},
)
"""An agent of queue default with a free slot, seen now."""

job_type = partial(store_rows.job_type_row, announced_by="loader-7c9f", announced_at=after(-3600))

system = partial(
    facts.SystemFacts,
    now=NOON,
    schedulers=1,
    supervisors=1,
    queues={"default": facts.QueueFacts(waiting=2, consumers=1, unbound=())},
    agents=(agent(),),
    job_types={"flights.load": job_type()},
)
"""A system in which all is well."""


def queue(**fields: Any) -> dict[str, facts.QueueFacts]:
    return {"default": facts.QueueFacts(**fields)}


def silent(seconds: float = 240, **fields: Any) -> AgentRow:
    """An agent that was last seen so long ago."""
    return agent(last_seen_at=after(-seconds), **fields)


def breaker(**fields: Any) -> OpenBreakers:
    """An open breaker of the job type."""
    plain = partial(
        BreakerRow,
        name="job:flights.load",
        state=BreakerState.OPEN,
        since=after(-90),
        until=after(30),
        reason="8 of 10 attempts within 1 min have failed",
        policy=BreakerPolicy(),
    )
    return OpenBreakers([plain(**fields)])


def refusal(what: str, user: str) -> str:
    """A sentence of a service whose user lacks a permission; its command is shortened."""
    command = f"rabbitmqctl set_permissions -p / {user} …"
    return f"expected the permission to {what} for user {user}, got ACCESS_REFUSED; run `{command}`"


# -- jobs ----------------------------------------------------------------------------------------------------


def job_facts(row: JobRow, around: facts.SystemFacts | None = None, **fields: Any) -> facts.JobFacts:
    """The facts of this job, under one id so that the page stays the same."""
    return facts.JobFacts(system=around or system(), row=replace(row, job_id=JOB), **fields)


waiting = partial(
    store_rows.waiting_job, requested_at=after(-300), accepted_at=after(-300), due_at=after(-240)
)
"""A job that became due a few minutes ago."""

queued = partial(
    store_rows.queued_job,
    requested_at=after(-240),
    accepted_at=after(-240),
    dispatched_at=after(-240),
    updated_at=after(-240),
)
"""A job that was dispatched four minutes ago."""

running = partial(
    store_rows.running_job,
    started_at=after(-120),
    agent_id="loader-7c9f",
    accepted_at=after(-180),
    requested_at=after(-180),
)
"""A job that began two minutes ago."""

retrying = partial(queued, state=JobState.RETRYING, attempt=2, failures=1, due_at=after(240), error=ERROR)
"""A job whose second attempt is due in four minutes."""

CHILD = UUID("01936f31-2c44-7d0a-9b1e-3f5a7c9d1e2f")
CALLS = {
    CallKind.JOB: Call(
        call_id="job#1",
        kind=CallKind.JOB,
        name="cards.charge",
        line="orders.py:41",
        job_id=CHILD,
        undo=UndoRequest(job_type="cards.refund"),
    ),
    CallKind.MAP: Call(
        call_id="map/parcels.weigh/0/map#1/0",
        kind=CallKind.MAP,
        name="parcels.weigh",
        line="orders.py:47",
        size=500,
    ),
    CallKind.SIGNAL: Call(call_id="signal#1", kind=CallKind.SIGNAL, name="packed", line="orders.py:44"),
    CallKind.STEP: Call(call_id="step#1", kind=CallKind.STEP, name="read_rates", line="orders.py:46"),
}
"""A call of each kind that a workflow waits for."""


def suspended(*kinds: CallKind, row: dict[str, Any] | None = None, **more: Any) -> facts.JobFacts:
    """A workflow whose only turn has made calls of these kinds. Further fields are of the suspension, but for
    `child`, which is the row of its child job, `limit` that of this, `around`, and `left`, the jobs of its
    map that run."""
    fields = {"state": JobState.SUSPENDED, "suspensions": 1, "wake_at": after(600)} | (row or {})
    workflow = replace(queued(job_type="orders.fulfil", **fields), job_id=JOB)
    child, around = more.pop("child", None), more.pop("around", None) or system()
    left, gate = more.pop("left", 0), more.pop("limit", None)
    alive = None if child is None or child.state.terminal else child
    end = Suspension(calls=tuple(CALLS[kind] for kind in kinds), **more)
    turn = TurnRow(job_id=JOB, attempt=1, suspension=end, suspended_at=after(-240))
    return job_facts(
        workflow,
        around,
        turns=(turn,),
        members_left=left,
        jobs={} if child is None else {child.job_id: child},
        awaited=None if alive is None else facts.JobFacts(system=around, row=alive, limit=gate),
    )


ENDING = retrying(
    job_id=UUID("01936f31-5d0c-7e11-a2b4-6c8e9f0a1b2d"), job_type="billing.charge", attempt=3, losses=2
)
"""A job that has ended two agents of queue default."""


def ended(state: JobState, **fields: Any) -> JobRow:
    """A job that ended a minute ago."""
    return queued(state=state, wake_at=None, finished_at=after(-60), **fields)


def dead(attempts: int, **fields: Any) -> JobRow:
    """A dead job after so many attempts, which have failed."""
    return ended(JobState.DEAD, **{"attempt": attempts, "failures": attempts, "error": ERROR} | fields)


dead_letter = partial(
    DeadLetter,
    job_id=JOB,
    job_type="flights.load",
    attempts=5,
    reason="its 5 attempts are used up",
    error=ERROR,
    died_at=after(-60),
)


def limit(
    *,
    slots: int = 5,
    free: int = 0,
    before: int = 12,
    since: datetime | None = None,
    above: tuple[UUID, ...] = (),
) -> facts.LimitFacts:
    """A limit whose first slots were taken a minute ago."""
    held = min(slots - free, 2)
    return facts.LimitFacts(
        room=GateRoom("job/crm.push/acme", slots, free, has_line=True),
        holders=tuple(
            Slot("job/crm.push/acme", number, (CHILD, NEW)[number - 1], 1, after(-60))
            for number in range(1, held + 1)
        ),
        since=since or after(-240),
        before=before,
        above=above,
    )


def queued_in(**fields: Any) -> facts.JobFacts:
    """A queued job in a system that differs by these fields."""
    return job_facts(queued(), system(**fields))


unserved = partial(queued_in, queues=queue(waiting=1))
"""The same, where no agent consumes the queue."""

# -- what is no job ------------------------------------------------------------------------------------------


def parked(reason: str, detail: str, queue: str = REQUESTS_QUEUE.name) -> ParkedMessage:
    return parked_message(
        parked_id="5f0c",
        queue=queue,
        reason=reason,
        detail=detail,
        body=b"",
        parked_at=after(-60),
        routing_key="flights.lod" if reason == "unknown_job_type" else None,
    )


def unseen(
    around: facts.SystemFacts | None = None, text: str = "order-17", **fields: Any
) -> facts.UnseenFacts:
    return facts.UnseenFacts(system=around or system(), text=text, searched=12, **fields)


def rejected(reason: str, detail: str, queue: str = REQUESTS_QUEUE.name) -> facts.UnseenFacts:
    return unseen(parked=parked(reason, detail, queue))


def schedule_row(**fields: Any) -> ScheduleRow:
    """A schedule whose next tick is due in ten minutes."""
    rule, choices = fields.pop("rule", IntervalRule(every=timedelta(hours=1))), fields.pop("choices", {})
    row = store_rows.schedule_row("flights.hourly", rule, put_at=after(-86400), choices=choices)
    moments = {"next_at": after(600), "wake_at": after(600), "last_nominal_at": after(-3000)}
    return replace(row, **{"zone_version": "2026a"} | moments | fields)


tick = partial(
    store_rows.tick_row,
    "flights.hourly",
    after(-3000),
    status=TickStatus.FIRED,
    job_id=JOB,
    fired_at=after(-3000),
)
"""The last tick of that schedule."""

held_back = partial(tick, reason="the job of an earlier tick is not over", job_id=None)


def schedule(row: ScheduleRow | None = None, **fields: Any) -> facts.ScheduleFacts:
    return facts.ScheduleFacts(system=system(), name="flights.hourly", row=row, **fields)
