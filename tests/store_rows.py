"""Rows for tests: complete and valid, so that a test names only the fields that it is about."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from warrener_contracts.circuit_breaker import BreakerPolicy, BreakerState
from warrener_contracts.events import ErrorInfo, LogEntry, SchedulePutData, TickStatus
from warrener_contracts.policy import Guarantee, JobPolicy
from warrener_contracts.schedule_rules import Rule
from warrener_contracts.state_machine import JobState
from warrener_store.agents.rows import AgentRow, JobTypeRow
from warrener_store.audit.rows import AuditRecord
from warrener_store.breakers.gate import BreakerRow
from warrener_store.dead_letters.rows import DeadLetter, RedriveKind, RedriveRow, RedriveState
from warrener_store.incidents.rows import RaisedIncident
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobRow, Save
from warrener_store.logs.rows import LogChunk
from warrener_store.parked.rows import ParkedMessage
from warrener_store.schedules.rows import ScheduleRow, TickRow

NOON = datetime(2026, 11, 20, 12, 0, 0, 123456, tzinfo=UTC)
"""A moment with microseconds."""


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def waiting_job(**fields: Any) -> JobRow:
    """A waiting job that is due at noon."""
    plain: dict[str, Any] = {
        "job_id": uuid4(),
        "job_type": "flights.load",
        "queue": "default",
        "arguments": {"path": "2013-01-01.csv"},
        "guarantee": Guarantee.IDEMPOTENT,
        "policy": JobPolicy(),
        "source": "test",
        "requested_at": NOON,
        "accepted_at": NOON,
        "state": JobState.WAITING,
        "wake_at": NOON,
        "updated_at": NOON,
    }
    return JobRow(**(plain | fields))


def queued_job(**fields: Any) -> JobRow:
    """A job whose first attempt was dispatched at noon."""
    return waiting_job(**({"state": JobState.QUEUED, "attempt": 1, "dispatched_at": NOON} | fields))


def running_job(**fields: Any) -> JobRow:
    """A job whose first attempt runs under agent "a1", with a lease of 30 seconds."""
    running = {"state": JobState.RUNNING, "agent_id": "a1", "started_at": NOON, "lease_until": after(30)}
    return queued_job(**(running | fields))


def changed(row: JobRow, **changes: Any) -> Save:
    return Save(replace(row, version=row.version + 1, **changes))


def succeeded(row: JobRow, result: Any = None) -> Save:
    """The save that ends this job with a success."""
    over = changed(row, state=JobState.SUCCEEDED, result=result, wake_at=None, finished_at=after(60))
    return replace(over, attempt=attempt_of(row, AttemptOutcome.SUCCEEDED))


def died(row: JobRow, error: ErrorInfo | None = None) -> Save:
    """The save that ends this job with a dead letter."""
    over = changed(row, state=JobState.DEAD, error=error, wake_at=None, finished_at=after(60))
    dead_letter = DeadLetter(
        job_id=row.job_id,
        job_type=row.job_type,
        attempts=row.attempt,
        reason="attempts used up",
        error=error,
        died_at=after(60),
    )
    return replace(over, attempt=attempt_of(row, AttemptOutcome.FAILED, error=error), dead_letter=dead_letter)


def attempt_of(row: JobRow, end: AttemptOutcome, *, error: ErrorInfo | None = None) -> AttemptRow:
    return AttemptRow(
        job_id=row.job_id,
        attempt=row.attempt,
        outcome=end,
        agent_id=row.agent_id,
        dispatched_at=row.dispatched_at,
        started_at=row.started_at,
        finished_at=after(60),
        error=error,
        verdict="done" if end is AttemptOutcome.SUCCEEDED else "dead: attempts used up",
    )


def log_chunk(job_id: UUID, first: int, *texts: str, **fields: Any) -> LogChunk:
    """Log lines of the first attempt, from number `first` on; each was written so many seconds after noon."""
    lines = tuple(
        LogEntry(number=number, at=after(number), level="info", logger="shop.jobs", text=text)
        for number, text in enumerate(texts or ("a line",), first)
    )
    plain: dict[str, Any] = {
        "attempt": 1,
        "started_at": NOON,
        "last_line": lines[-1].number,
        "line_count": len(lines),
        "agent_id": "a1",
        "final": False,
        "size": sum(len(line.text) for line in lines),
        "lines": lines,
    }
    return LogChunk(job_id=job_id, first_line=first, **(plain | fields))


def redrive_row(**fields: Any) -> RedriveRow:
    """A redrive that ann requested at noon, and whose canary runs."""
    plain: dict[str, Any] = {
        "redrive_id": uuid4(),
        "kind": RedriveKind.REDRIVE,
        "request": {"selection": {"fingerprint": "0123456789ab"}, "by": "ann"},
        "requested_by": "ann",
        "reason": "mended",
        "requested_at": NOON,
        "state": RedriveState.CANARY,
        "started_at": NOON,
        "wake_at": NOON,
        "updated_at": NOON,
    }
    return RedriveRow(**(plain | fields))


def breaker_row(name: str = "job:flights.load", **fields: Any) -> BreakerRow:
    """A breaker that opened at noon."""
    plain: dict[str, Any] = {
        "state": BreakerState.OPEN,
        "since": NOON,
        "reason": "8 of 10 attempts have failed",
        "policy": BreakerPolicy(),
    }
    return BreakerRow(name=name, **(plain | fields))


def raised_incident(fingerprint: str = "f1", occurrence: str = "", **fields: Any) -> RaisedIncident:
    """An occurrence raised at noon; without an `occurrence` each call makes a new one."""
    plain: dict[str, Any] = {
        "kind": "job.dead",
        "fingerprint": fingerprint,
        "occurrence": occurrence or str(uuid4()),
        "subject": "the job",
        "job_type": "flights.load",
        "sample": {"error": {"type": "Boom"}, "nul": "a\x00b"},
        "raised_at": NOON,
    }
    return RaisedIncident(**(plain | fields))


def recorded_action(subject: str = "a job", **fields: Any) -> AuditRecord:
    """The record of an action that was called at noon and has no end yet."""
    plain: dict[str, Any] = {
        "record_id": uuid4(),
        "recorded_at": NOON,
        "actor": "ada",
        "role": "operator",
        "method": "token",
        "address": "192.0.2.7",
        "action": "job.cancel",
        "subject": subject,
        "reason": "it is the wrong file",
    }
    return AuditRecord(**(plain | fields))


def schedule_row(name: str, rule: Rule, *, put_at: datetime = NOON, **fields: Any) -> ScheduleRow:
    """A schedule of flights.load; further fields are those of its definition or of the row."""
    of_row = {each: fields.pop(each) for each in ("next_at", "wake_at") if each in fields}
    definition = SchedulePutData.model_validate(
        {"name": name, "rule": rule, "job_type": "flights.load"} | fields
    )
    return ScheduleRow(definition=definition, put_at=put_at, zone_version="x", **of_row)


def tick_row(schedule: str, nominal_at: datetime, status: TickStatus, **fields: Any) -> TickRow:
    """A tick that was due and decided at its time."""
    plain: dict[str, Any] = {"due_at": nominal_at, "decided_at": nominal_at}
    return TickRow(schedule=schedule, nominal_at=nominal_at, status=status, **(plain | fields))


def agent_row(agent_id: str = "a1", **fields: Any) -> AgentRow:
    """An agent of queue default with ten free slots, seen at noon."""
    plain: dict[str, Any] = {
        "host": "worker.example",
        "pid": 4242,
        "queues": ("default",),
        "slots": 10,
        "running": 0,
        "draining": False,
        "started_at": NOON,
        "last_seen_at": NOON,
    }
    return AgentRow(agent_id=agent_id, **(plain | fields))


def job_type_row(name: str = "flights.load", **fields: Any) -> JobTypeRow:
    """A job type of queue default, as an agent announced it at noon."""
    plain: dict[str, Any] = {
        "queue": "default",
        "arguments_schema": {},
        "result_schema": None,
        "guarantee": Guarantee.IDEMPOTENT,
        "policy": JobPolicy(),
        "description": "",
        "announced_by": "a1",
        "announced_at": NOON,
    }
    return JobTypeRow(name=name, **(plain | fields))


def parked_message(parked_id: str | None = None, **fields: Any) -> ParkedMessage:
    """A message of the queue of requests, parked at noon."""
    plain: dict[str, Any] = {
        "queue": "warrener.requests",
        "reason": "not_json",
        "detail": "expected JSON",
        "content_type": "application/cloudevents+json",
        "body": b"{ nonsense",
        "parked_at": NOON,
    }
    return ParkedMessage(parked_id=parked_id or str(uuid4()), **(plain | fields))
