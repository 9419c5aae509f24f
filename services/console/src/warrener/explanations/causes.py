"""The causes that an explanation names: one code for each, and whether somebody has to act. Pure."""

from enum import StrEnum
from typing import Self

BY_ITSELF = False
"""Nobody has to act: time or a service resolves the cause."""


class Cause(StrEnum):
    """The one thing that a job, a request, a schedule, a queue, an agent or a job type waits for.

    The codes are stable: scripts compare them.
    """

    _value_: str
    needs_action: bool  # True if nothing changes until somebody or something outside of the system acts

    def __new__(cls, code: str, needs_action: bool = True) -> Self:  # noqa: FBT001, FBT002 - of the lines below
        made = str.__new__(cls, code)
        made._value_, made.needs_action = code, needs_action
        return made

    # The system itself.
    STORE_UNREACHABLE = "store_unreachable"
    STORE_NOT_WRITABLE = "store_not_writable"
    BROKER_UNREACHABLE = "broker_unreachable"
    BROKER_BLOCKED = "broker_blocked"
    PERMISSION_REFUSED = "permission_refused"
    SCHEDULER_DOWN = "scheduler_down"
    SCHEDULER_LATE = "scheduler_late"
    SUPERVISOR_DOWN = "supervisor_down"
    SUPERVISOR_STALLED = "supervisor_stalled"

    # A request that is no job.
    JOB_TYPE_UNKNOWN = "job_type_unknown"
    ARGUMENTS_REFUSED = "arguments_refused"
    SCHEMA_UNKNOWN = "schema_unknown"
    REQUEST_REJECTED = "request_rejected"
    MESSAGE_PARKED = "message_parked"
    PRUNED = "pruned", BY_ITSELF
    NEVER_SEEN = "never_seen"

    # A job that waits for its time.
    DELAYED = "delayed", BY_ITSELF
    CLOCK_SKEW = "clock_skew"
    BREAKER_OPEN = "breaker_open"
    DEADLINE_BEFORE_START = "deadline_before_start"
    RETRY_WAIT = "retry_wait", BY_ITSELF
    SNOOZED = "snoozed", BY_ITSELF
    DEADLINE_BEFORE_RETRY = "deadline_before_retry"

    # A job on its way to an agent.
    DISPATCHING = "dispatching", BY_ITSELF
    QUEUE_MISSING = "queue_missing"
    BINDING_MISSING = "binding_missing"
    QUEUE_REFUSES = "queue_refuses"
    DISPATCH_MISSING = "dispatch_missing", BY_ITSELF
    WRONG_QUEUE = "wrong_queue"
    NO_AGENT = "no_agent"
    AGENT_GONE = "agent_gone"
    AGENT_STALLED = "agent_stalled"
    AGENTS_DRAINING = "agents_draining"
    TYPE_NOT_KNOWN = "type_not_known"
    SLOTS_FULL = "slots_full", BY_ITSELF
    LEDGER_UNREACHABLE = "ledger_unreachable"
    IN_QUEUE = "in_queue", BY_ITSELF

    # A job that runs.
    RUNNING = "running", BY_ITSELF
    CANCEL_REQUESTED = "cancel_requested", BY_ITSELF
    TIMED_OUT = "timed_out", BY_ITSELF
    AGENT_LOST = "agent_lost", BY_ITSELF

    # A job that is over.
    SUCCEEDED = "succeeded", BY_ITSELF
    CANCELLED = "cancelled", BY_ITSELF
    EXPIRED = "expired", BY_ITSELF
    DEAD_LETTER = "dead_letter"
    REDRIVEN = "redriven", BY_ITSELF
    DROPPED = "dropped", BY_ITSELF

    # A schedule.
    SCHEDULE_PAUSED = "schedule_paused"
    SCHEDULE_OVER = "schedule_over", BY_ITSELF
    SCHEDULE_REFUSED = "schedule_refused"
    TICK_SKIPPED = "tick_skipped", BY_ITSELF
    TICK_WAITS = "tick_waits", BY_ITSELF
    TICK_REJECTED = "tick_rejected"
    EVENT_AWAITED = "event_awaited", BY_ITSELF
    NEXT_TICK = "next_tick", BY_ITSELF

    # A queue, an agent or a job type with which nothing is wrong.
    QUEUE_WORKS = "queue_works", BY_ITSELF
    AGENT_WORKS = "agent_works", BY_ITSELF
    AGENT_ENDED = "agent_ended", BY_ITSELF
    TYPE_SERVED = "type_served", BY_ITSELF
