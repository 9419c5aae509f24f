"""Facts of `warrener explain` for the tests: a system in which all is well, and what differs from it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests import store_rows
from tests.store_rows import (
    NOON,
    after,
    agent_row,
    job_type_row,
    parked_message,
    queued_job,
    running_job,
    tick_row,
    waiting_job,
)

from warrener.explanations.facts import JobFacts, QueueFacts, ScheduleFacts, SystemFacts, UnseenFacts
from warrener_contracts.circuit_breaker import BreakerPolicy, BreakerState
from warrener_contracts.events import ErrorInfo, ErrorKind, TickStatus
from warrener_contracts.retryability import UNKNOWN_JOB_TYPE
from warrener_contracts.schedule_rules import IntervalRule
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import REQUESTS_QUEUE
from warrener_store.agents.rows import AgentRow, JobTypeRow
from warrener_store.breakers.gate import BreakerRow, OpenBreakers
from warrener_store.dead_letters.rows import DeadLetter
from warrener_store.jobs.rows import JobRow
from warrener_store.parked.rows import ParkedMessage
from warrener_store.schedules.rows import ScheduleRow, TickRow

JOB = UUID("01936f2e-8a3b-7c4d-9e5f-0123456789ab")


def agent(**fields: Any) -> AgentRow:
    """An agent of queue default with a free slot, seen now."""
    plain: dict[str, Any] = {
        "agent_id": "loader-7c9f",
        "host": "worker-3",
        "slots": 4,
        "running": 1,
        "started_at": after(-3600),
        "job_types": ("flights.load",),
        "free_slots": {"default": 3},
    }
    return agent_row(**(plain | fields))


def job_type(**fields: Any) -> JobTypeRow:
    """The job type of the jobs of `tests.store_rows`."""
    plain: dict[str, Any] = {"announced_by": "loader-7c9f", "announced_at": after(-3600)}
    return job_type_row(**(plain | fields))


def system(**fields: Any) -> SystemFacts:
    """A system in which all is well."""
    plain: dict[str, Any] = {
        "now": NOON,
        "schedulers": 1,
        "supervisors": 1,
        "queues": {"default": QueueFacts(waiting=2, consumers=1, unbound=())},
        "agents": (agent(),),
        "job_types": {"flights.load": job_type()},
    }
    return SystemFacts(**(plain | fields))


def job_facts(row: JobRow, around: SystemFacts | None = None, **fields: Any) -> JobFacts:
    """The facts of this job, under one id so that the page stays the same."""
    return JobFacts(system=around or system(), row=replace(row, job_id=JOB), **fields)


def waiting(**fields: Any) -> JobRow:
    """A job that became due a few minutes ago."""
    return waiting_job(
        **{"requested_at": after(-300), "accepted_at": after(-300), "due_at": after(-240)} | fields
    )


def queued(**fields: Any) -> JobRow:
    """A job that was dispatched four minutes ago."""
    moments = {"requested_at": after(-240), "accepted_at": after(-240)}
    return queued_job(**moments | {"dispatched_at": after(-240), "updated_at": after(-240)} | fields)


def running(**fields: Any) -> JobRow:
    """A job that began two minutes ago."""
    began = {"started_at": after(-120), "agent_id": "loader-7c9f", "accepted_at": after(-180)}
    return running_job(**began | {"requested_at": after(-180)} | fields)


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


def retrying(**fields: Any) -> JobRow:
    """A job whose second attempt is due in four minutes."""
    plain: dict[str, Any] = {
        "state": JobState.RETRYING,
        "attempt": 2,
        "failures": 1,
        "due_at": after(240),
        "error": ERROR,
    }
    return queued(**plain | fields)


ENDING = retrying(
    job_id=UUID("01936f31-5d0c-7e11-a2b4-6c8e9f0a1b2d"), job_type="billing.charge", attempt=3, losses=2
)
"""A job that has ended two agents of queue default."""


def ended(state: JobState, **fields: Any) -> JobRow:
    """A job that ended a minute ago."""
    over: dict[str, Any] = {"state": state, "wake_at": None, "finished_at": after(-60)}
    return queued(**over | fields)


def dead(attempts: int, **fields: Any) -> JobRow:
    """A dead job after so many attempts, which have failed."""
    return ended(JobState.DEAD, **{"attempt": attempts, "failures": attempts, "error": ERROR} | fields)


def dead_letter(**fields: Any) -> DeadLetter:
    """The dead letter of that job."""
    plain: dict[str, Any] = {
        "job_id": JOB,
        "job_type": "flights.load",
        "attempts": 5,
        "reason": "its 5 attempts are used up",
        "error": ERROR,
        "died_at": after(-60),
    }
    return DeadLetter(**(plain | fields))


def breaker(**fields: Any) -> OpenBreakers:
    """An open breaker of the job type."""
    plain: dict[str, Any] = {
        "name": "job:flights.load",
        "state": BreakerState.OPEN,
        "since": after(-90),
        "until": after(30),
        "reason": "8 of 10 attempts within 1 min have failed",
        "policy": BreakerPolicy(),
    }
    return OpenBreakers([BreakerRow(**(plain | fields))])


def parked(reason: str, detail: str, queue: str = REQUESTS_QUEUE.name) -> ParkedMessage:
    """A parked message."""
    return parked_message(
        parked_id="5f0c",
        queue=queue,
        reason=reason,
        detail=detail,
        body=b"",
        parked_at=after(-60),
        routing_key="flights.lod" if reason == "unknown_job_type" else None,
    )


def unseen(around: SystemFacts | None = None, **fields: Any) -> UnseenFacts:
    """An id that the store does not have."""
    plain: dict[str, Any] = {"system": around or system(), "text": "order-17", "searched": 12}
    return UnseenFacts(**(plain | fields))


def queued_in(**fields: Any) -> JobFacts:
    """A queued job in a system that differs by these fields."""
    return job_facts(queued(), system(**fields))


def rejected(reason: str, detail: str, queue: str = REQUESTS_QUEUE.name) -> UnseenFacts:
    """An id that a parked message has."""
    return unseen(parked=parked(reason, detail, queue))


def schedule_row(**fields: Any) -> ScheduleRow:
    """A schedule whose next tick is due in ten minutes."""
    rule, choices = fields.pop("rule", IntervalRule(every=timedelta(hours=1))), fields.pop("choices", {})
    row = store_rows.schedule_row("flights.hourly", rule, put_at=after(-86400), choices=choices)
    plain: dict[str, Any] = {
        "zone_version": "2026a",
        "next_at": after(600),
        "wake_at": after(600),
        "last_nominal_at": after(-3000),
    }
    return replace(row, **(plain | fields))


def tick(**fields: Any) -> TickRow:
    """The last tick of that schedule."""
    plain: dict[str, Any] = {"status": TickStatus.FIRED, "job_id": JOB, "fired_at": after(-3000)}
    return tick_row("flights.hourly", after(-3000), **(plain | fields))


def schedule(
    row: ScheduleRow | None = None, around: SystemFacts | None = None, **fields: Any
) -> ScheduleFacts:
    """The facts of that schedule."""
    plain: dict[str, Any] = {"system": around or system(), "name": "flights.hourly", "row": row}
    return ScheduleFacts(**(plain | fields))


def queue(**facts: Any) -> dict[str, QueueFacts]:
    """Queue default, as the broker has it."""
    return {"default": QueueFacts(**facts)}


def silent(seconds: float = 240, **fields: Any) -> AgentRow:
    """An agent that was last seen so long ago."""
    return agent(last_seen_at=after(-seconds), **fields)
