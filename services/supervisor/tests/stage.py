"""A supervisor's surroundings in memory: events that it receives, jobs, and all that it publishes."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeGuard, TypeVar
from uuid import UUID

import pytest
from tests import store_rows
from tests.captured_service import CapturedService

from warrener_contracts import events, topology
from warrener_contracts.identity import child_job_id
from warrener_contracts.messages import Message
from warrener_contracts.policy import Backoff, JobPolicy
from warrener_contracts.state_machine import JobState, Signal
from warrener_contracts.topology import Binding, Queue
from warrener_runtime.virtual_clock import SeededEntropy, VirtualClock
from warrener_store.agents.rows import AgentRow
from warrener_store.dead_letters.rows import DeadLetter
from warrener_store.errors import StoreUnavailable
from warrener_store.jobs.rows import AttemptRow, JobRow
from warrener_store.memory import MemoryStore
from warrener_supervisor.decisions.context import JobTransition, JudgeContext, NoChange, Timings
from warrener_supervisor.decisions.judge import judge
from warrener_supervisor.settings import SupervisorSettings
from warrener_supervisor.wiring import assemble

E = TypeVar("E", bound=events.Event[Any])
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
JOB = UUID("01890000-0000-7000-8000-000000000001")
STARTED = NOW - timedelta(seconds=30)
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FRESH = NOW + timedelta(seconds=30)
BOOM = events.ErrorInfo(kind=events.ErrorKind.ERROR, type="Boom", message="boom")
AT = JudgeContext(NOW, Timings())  # its chance is the middle of the jitter


def event(kind: type[E], event_id: str = "1", /, **data: Any) -> E:
    """An event of this kind with these data."""
    return kind.model_validate({"id": event_id, "source": "test", "data": data})


def _report(kind: type[E], attempt: int, agent: str = "agent-1", job_id: UUID = JOB, **fields: Any) -> E:
    of: dict[str, Any] = {"job_id": job_id, "attempt": attempt, "job_type": "flights.load", "agent_id": agent}
    return event(kind, f"{kind.__name__}-{attempt}", **of, **fields)


def started(attempt: int = 1, agent: str = "agent-1", at: datetime = STARTED) -> events.AttemptStarted:
    return _report(events.AttemptStarted, attempt, agent, started_at=at)


def progressed(attempt: int = 1) -> events.AttemptProgressed:
    return _report(events.AttemptProgressed, attempt, fraction=0.5, note="half")


def succeeded(attempt: int = 1, result: Any = None, job_id: UUID = JOB) -> events.AttemptSucceeded:
    fields: dict[str, Any] = {"started_at": STARTED, "finished_at": NOW, "recorded_attempt": attempt}
    fields["result"] = result
    return _report(events.AttemptSucceeded, attempt, job_id=job_id, **fields)


def suspended(attempt: int = 1, *calls: events.Call, **fields: Any) -> events.AttemptSuspended:
    """A turn that has called these, with further fields of its suspension."""
    suspension = events.Suspension(calls=calls, **fields)
    times: dict[str, Any] = {"started_at": STARTED, "finished_at": NOW}
    return _report(events.AttemptSuspended, attempt, **times, suspension=suspension)


def failed(
    attempt: int = 1,
    error: events.ErrorInfo = BOOM,
    agent: str = "agent-1",
    at: datetime = STARTED,
    **more: Any,
) -> events.AttemptFailed:
    fields: dict[str, Any] = {"started_at": at, "finished_at": NOW, "error": error, **more}
    return _report(events.AttemptFailed, attempt, agent, **fields)


def snoozed(attempt: int = 1, seconds: float = 90) -> events.AttemptFailed:
    snooze_error = events.ErrorInfo(
        kind=events.ErrorKind.ERROR, type="warrener_agent.failures.Snooze", message="not there yet"
    )
    return failed(attempt, snooze_error, retry_after_seconds=seconds, snoozed=True)


def stopped(attempt: int = 1, **more: Any) -> events.AttemptCancelled:
    fields: dict[str, Any] = {"started_at": STARTED, "finished_at": NOW, "reason": "asked", **more}
    return _report(events.AttemptCancelled, attempt, **fields)


def withdrawn(attempt: int = 1) -> events.AttemptCancelled:
    return stopped(attempt, reason="sold out", by_handler=True)


def released(attempt: int = 1) -> events.AttemptReleased:
    return _report(events.AttemptReleased, attempt, reason="drain")


def timed_out(attempt: int = 1) -> events.AttemptTimedOut:
    return _report(events.AttemptTimedOut, attempt, timeout_seconds=60)


def lost(attempt: int = 1) -> events.AttemptLost:
    return _report(events.AttemptLost, attempt, last_seen_at=STARTED)


def overdue(attempt: int = 1) -> events.AttemptStartTimedOut:
    return _report(events.AttemptStartTimedOut, attempt)


def cancel(reply_to: str | None = None, job_id: UUID = JOB) -> events.JobCancelRequested:
    return event(events.JobCancelRequested, "cancel-1", job_id=job_id, reply_to=reply_to)


def deadline() -> events.JobDeadlinePassed:
    return event(events.JobDeadlinePassed, "deadline-1", job_id=JOB, deadline=NOW)


OF_SIGNAL: Mapping[Signal, Callable[[int], events.Event[Any]]] = {
    Signal.ALIVE: started,
    Signal.SUCCEEDED: succeeded,
    Signal.SUSPENDED: suspended,
    Signal.FAILED: failed,
    Signal.SNOOZED: snoozed,
    Signal.STOPPED: stopped,
    Signal.WITHDRAWN: withdrawn,
    Signal.RELEASED: released,
    Signal.TIMED_OUT: timed_out,
    Signal.LOST: lost,
    Signal.START_TIMED_OUT: overdue,
    Signal.CANCEL_REQUESTED: lambda _: cancel(),
    Signal.DEADLINE_PASSED: lambda _: deadline(),
}
"""One event for each signal that the supervisor hears; REQUESTED and DUE are the scheduler's."""


def make(state: JobState = JobState.QUEUED, **changes: Any) -> JobRow:
    """A row that the store would take, in this state."""
    fields: dict[str, Any] = {
        "job_id": JOB,
        "arguments": {"path": "a.csv"},
        "policy": JobPolicy(max_attempts=3, max_lost_attempts=2, backoff=Backoff(jitter=0.0)),
        "requested_at": NOW - timedelta(minutes=2),
        "accepted_at": NOW - timedelta(minutes=2),
        "state": state,
        "attempt": 0 if state is JobState.WAITING else 1,
        "updated_at": NOW - timedelta(minutes=1),
        "wake_at": None if state.terminal else NOW,
        "finished_at": NOW if state.terminal else None,
    }
    if state in (JobState.QUEUED, JobState.RUNNING, JobState.RETRYING):
        fields["dispatched_at"] = NOW - timedelta(minutes=1)
    if state is JobState.RETRYING:
        fields["due_at"] = NOW
    if state is JobState.RUNNING:
        fields |= {
            "agent_id": "agent-1",
            "started_at": NOW - timedelta(seconds=40),
            "lease_until": NOW - timedelta(seconds=1),
        }
    return store_rows.waiting_job(**(fields | changes))


def judged(row: JobRow, event: events.Event[Any], context: JudgeContext = AT) -> JobTransition:
    decision = judge(row, event, context)
    assert isinstance(decision, JobTransition), decision
    return decision


def attempt_of(decision: JobTransition) -> AttemptRow:
    """The attempt that a decision has ended."""
    assert decision.attempt is not None
    return decision.attempt


def dead_letter_of(decision: JobTransition) -> DeadLetter:
    assert decision.dead_letter is not None
    return decision.dead_letter


def error_of(decision: JobTransition) -> events.ErrorInfo:
    assert decision.row.error is not None
    return decision.row.error


def ignored(row: JobRow, event: events.Event[Any], context: JudgeContext = AT) -> NoChange:
    """What is decided about an event that changes nothing."""
    decision = judge(row, event, context)
    assert isinstance(decision, NoChange), decision
    return decision


def agent_row(agent_id: str = "agent-1", **changes: Any) -> AgentRow:
    """An agent that serves the default queue and was seen just now."""
    return store_rows.agent_row(agent_id, **({"started_at": NOW, "last_seen_at": NOW} | changes))


def running_row(**changes: Any) -> JobRow:
    """A job that agent-1 runs, and that somebody watches."""
    return make(JobState.RUNNING, lease_until=FRESH, wake_at=FRESH, watchers=("me",), **changes)


def heartbeat(*running: tuple[Any, int], agent: str = "agent-1", number: int = 1) -> events.AgentHeartbeat:
    """A heartbeat of an agent that runs these attempts."""
    data = events.AgentHeartbeatData(
        agent_id=agent,
        host="here",
        pid=1,
        queues=("default",),
        slots=4,
        running=tuple(events.HeartbeatAttempt(job_id=job_id, attempt=attempt) for job_id, attempt in running),
        started_at=NOW,
    )
    return events.AgentHeartbeat(id=f"beat-{agent}-{number}", source=agent, data=data)


# -- workflows ---------------------------------------------------------------------------------------------


def call(call_id: str, **fields: Any) -> events.Call:
    """A call of a job of this name; what undoes it has the name with `undo.` before it."""
    undo = fields.pop("undo", False)
    plain: dict[str, Any] = {
        "kind": events.CallKind.JOB,
        "name": f"shop.{call_id}",
        "job_id": child_job_id(JOB, call_id),
        "undo": {"job_type": f"undo.{call_id}", "arguments": {"of": call_id}} if undo else None,
    }
    return events.Call.model_validate({"call_id": call_id, **plain, **fields})


def signal_call(call_id: str, name: str = "packed") -> events.Call:
    return events.Call(call_id=call_id, kind=events.CallKind.SIGNAL, name=name)


def child(call_id: str, state: JobState = JobState.RUNNING, **changes: Any) -> JobRow:
    """The job of a call."""
    of: dict[str, Any] = {"job_id": child_job_id(JOB, call_id), "job_type": f"shop.{call_id}"}
    if state is JobState.RUNNING:
        of |= {"lease_until": FRESH, "wake_at": FRESH}
    return make(state, **({**of, "parent_id": JOB} | changes))


_RECORDING_QUEUES = (
    Queue("ear.events", (Binding(topology.EVENTS, "#"),)),
    Queue("ear.control", (Binding(topology.CONTROL, "#"),)),
    Queue("ear.requests", (Binding(topology.REQUESTS, "#"),)),
    Queue("ear.status", (Binding(topology.STATUS, "#"),)),
    Queue("ear.attempts", (Binding(topology.DISPATCH, "default.#"), Binding(topology.RETURN, "*.default.#"))),
)


@asynccontextmanager
async def opened(
    *rows: JobRow, store: MemoryStore | None = None, settings: SupervisorSettings | None = None
) -> AsyncGenerator["SupervisorHarness"]:
    """A supervisor with these jobs in its store; it is closed at the end."""
    harness = SupervisorHarness(store, settings)
    await harness.open(*rows)
    yield harness
    await harness.close()


def _is_report(sent: events.Event[Any] | Message) -> TypeGuard[events.Event[events.AttemptData]]:
    return isinstance(sent, events.Event) and isinstance(sent.data, events.AttemptData)


class SupervisorHarness(CapturedService):
    """A supervisor on a memory broker and a memory store, at the time `NOW`."""

    def __init__(self, store: MemoryStore | None = None, settings: SupervisorSettings | None = None) -> None:
        super().__init__("warrener-supervisor", _RECORDING_QUEUES, VirtualClock(NOW), store)
        settings = settings or SupervisorSettings()
        self.component = assemble(
            self.bus, self.store, self.clock, SeededEntropy(1), self.telemetry, settings
        )

    async def open(self, *rows: JobRow) -> None:
        await self.store.insert_jobs(rows)
        await self.start()

    async def publish(self, *sent: events.Event[Any] | Message, then: float = 0.0) -> None:
        """Publish, and let `then` seconds pass. Reports name the type of the job that they are about."""
        job_ids = {one.data.job_id for one in sent if _is_report(one)}
        rows = await self.store.jobs_by_id(job_ids) if job_ids else {}
        named = [
            one.model_copy(update={"data": one.data.model_copy(update={"job_type": row.job_type})})
            if _is_report(one) and (row := rows.get(one.data.job_id)) is not None
            else one
            for one in sent
        ]
        await super().publish(*named, then=then)

    async def row(self, job_id: UUID = JOB) -> JobRow:
        return (await self.store.jobs_by_id([job_id]))[job_id]

    def all_of(self, kind: type[E]) -> list[E]:
        """The events of this kind that were published to subscribers, to agents or to the judge."""
        published = self.published(topology.EVENTS, topology.CONTROL, topology.STATUS)
        return [event for event in published if isinstance(event, kind)]

    def addresses(self, exchange: str) -> list[str]:
        """The routing keys of what was published there."""
        return [delivery.routing_key for delivery in self.received.get(exchange, [])]

    def requested(self) -> list[events.JobRequested]:
        """The jobs that were requested, each once."""
        found = [one for one in self.published(topology.REQUESTS) if isinstance(one, events.JobRequested)]
        return list({one.id: one for one in found}.values())

    def dispatched(self) -> list[events.AttemptDispatched]:
        """What reached the agents' queue, straight or by a delay queue."""
        published = self.published(topology.DISPATCH, topology.RETURN)
        return [event for event in published if isinstance(event, events.AttemptDispatched)]


def fail_store(monkeypatch: pytest.MonkeyPatch, store: MemoryStore, step: str, nth: int, where: str) -> None:
    """Fail the `nth` call of this kind, "before" or "after" the store has carried it out."""
    calls, original = [0], getattr(store, step)

    async def fail(*given: Any) -> Any:
        calls[0] += 1
        if calls[0] == nth and where == "before":
            raise StoreUnavailable("ordered by the test")
        found = await original(*given)
        if calls[0] == nth:
            raise StoreUnavailable("ordered by the test")
        return found

    monkeypatch.setattr(store, step, fail)
