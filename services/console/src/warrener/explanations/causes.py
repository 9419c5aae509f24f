"""The causes that an explanation names: the code of each, its step, and whether somebody has to act. Pure."""

from enum import StrEnum
from typing import Self


class StepStatus(StrEnum):
    """The finding of one step of the walk."""

    PASSED = "passed"  # of a cause: nothing is waited for
    BLOCKED = "blocked"  # the cause: nothing changes until somebody acts
    WAITING = "waiting"  # the cause: time or a service resolves it
    UNKNOWN = "unknown"  # a fact is missing: the walk goes on without it


BLOCKED, WAITING, OVER = StepStatus.BLOCKED, StepStatus.WAITING, StepStatus.PASSED


class Cause(StrEnum):
    """The one thing that a job, a request, a schedule, a queue, an agent or a job type waits for.

    The codes are stable: scripts compare them. An explanation may name another step and another next one.
    """

    _value_: str
    step: str  # of the walk, where this cause ends it
    status: StepStatus
    next: str  # what follows

    def __new__(cls, code: str, step: str, status: StepStatus = BLOCKED, next: str = "") -> Self:  # noqa: A002
        made = str.__new__(cls, code)
        made._value_, made.step, made.status, made.next = code, step, status, next
        return made

    # The system itself.
    STORE_UNREACHABLE = "store_unreachable", "store"
    STORE_NOT_WRITABLE = "store_not_writable", "store"
    BROKER_UNREACHABLE = "broker_unreachable", "broker"
    BROKER_BLOCKED = "broker_blocked", "broker"
    PERMISSION_REFUSED = "permission_refused", "permissions"
    SCHEDULER_DOWN = "scheduler_down", "scheduler"
    SCHEDULER_LATE = "scheduler_late", "requests"
    SUPERVISOR_DOWN = "supervisor_down", "supervisor"
    SUPERVISOR_STALLED = "supervisor_stalled", "supervisor"

    # A request that is no job.
    JOB_TYPE_UNKNOWN = "job_type_unknown", "parked messages"
    ARGUMENTS_REFUSED = "arguments_refused", "parked messages"
    SCHEMA_UNKNOWN = "schema_unknown", "parked messages"
    REQUEST_REJECTED = "request_rejected", "parked messages"
    MESSAGE_PARKED = "message_parked", "parked messages"
    PRUNED = "pruned", "retention", OVER
    NEVER_SEEN = "never_seen", "origin"

    # A job that waits for its time.
    DELAYED = "delayed", "time", WAITING, "A scheduler dispatches it"
    CLOCK_SKEW = "clock_skew", "time", BLOCKED, "Let NTP set that clock; a scheduler dispatches the job"
    BREAKER_OPEN = "breaker_open", "breakers"
    LIMIT = "limit", "limit", WAITING
    STOOD_FOR = "stood_for", "unique key", WAITING, "It ends as that one does"
    DEADLINE_BEFORE_START = "deadline_before_start", "deadline"
    RETRY_WAIT = "retry_wait", "retry", WAITING
    SNOOZED = "snoozed", "retry", WAITING
    DEADLINE_BEFORE_RETRY = "deadline_before_retry", "deadline"

    # A job on its way to an agent.
    DISPATCHING = "dispatching", "dispatch", WAITING
    QUEUE_MISSING = "queue_missing", "queue"
    BINDING_MISSING = "binding_missing", "binding"
    QUEUE_REFUSES = "queue_refuses", "queue"
    DISPATCH_MISSING = "dispatch_missing", "queue", WAITING
    WRONG_QUEUE = "wrong_queue", "agents"
    NO_AGENT = "no_agent", "agents", BLOCKED, "The first agent of the queue takes its jobs"
    AGENT_GONE = "agent_gone", "agents", BLOCKED, "The next agent of the queue takes its jobs"
    AGENT_STALLED = "agent_stalled", "agents"
    AGENTS_DRAINING = "agents_draining", "agents", BLOCKED, "The next agent of the queue takes its jobs"
    TYPE_NOT_KNOWN = "type_not_known", "job type"
    SLOTS_FULL = "slots_full", "slots", WAITING
    LEDGER_UNREACHABLE = "ledger_unreachable", "ledger"
    IN_QUEUE = "in_queue", "queue", WAITING, "The next free agent of the queue takes it"

    # A job that runs.
    RUNNING = "running", "attempt", WAITING
    CANCEL_REQUESTED = "cancel_requested", "cancel", WAITING
    TIMED_OUT = "timed_out", "timeout", WAITING
    AGENT_LOST = "agent_lost", "heartbeats", WAITING

    # A workflow that is suspended or held, or whose code has changed.
    CALL_AWAITED = "call_awaited", "call"
    SIGNAL_AWAITED = "signal_awaited", "signal", WAITING
    TIMER_AWAITED = "timer_awaited", "timer", WAITING
    UNDOING = "undoing", "undo"
    CODE_CHANGED = "code_changed", "code"
    HELD = "held", "hold", BLOCKED, "Resumed, it tries the failed turn again; else its calls are undone"

    # A job that is over.
    SUCCEEDED = "succeeded", "end", OVER
    CANCELLED = "cancelled", "end", OVER
    EXPIRED = "expired", "end", OVER, "Request it again under a new id"
    DEAD_LETTER = "dead_letter", "dead letter"
    REDRIVEN = "redriven", "dead letter", OVER
    DROPPED = "dropped", "dead letter", OVER
    UNDO_FAILED = "undo_failed", "undo", BLOCKED, "Redrive the undo, or undo by hand what it is about"

    # A schedule.
    SCHEDULE_PAUSED = "schedule_paused", "pause"
    SCHEDULE_OVER = "schedule_over", "rule", OVER, "Put it again with other limits to go on"
    SCHEDULE_REFUSED = "schedule_refused", "schedule", BLOCKED, "Put it again, corrected"
    TICK_SKIPPED = "tick_skipped", "last tick", WAITING
    TICK_WAITS = "tick_waits", "last tick", WAITING
    TICK_REJECTED = "tick_rejected", "last tick"
    EVENT_AWAITED = "event_awaited", "rule", WAITING
    NEXT_TICK = "next_tick", "rule", WAITING

    # A queue, an agent or a job type with which nothing is wrong.
    QUEUE_WORKS = "queue_works", "queue", OVER, "They take what waits, in order"
    AGENT_WORKS = "agent_works", "slots", OVER, "It takes the next job there"
    AGENT_ENDED = "agent_ended", "heartbeats", OVER
    TYPE_SERVED = "type_served", "agents", OVER, "They take its jobs"
