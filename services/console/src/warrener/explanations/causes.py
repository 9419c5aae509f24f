"""The causes that an explanation names: one code for each, and whether somebody has to act. Pure."""

from enum import StrEnum


class Cause(StrEnum):
    """The one thing that a job, a request, a schedule, a queue, an agent or a job type waits for.

    The codes are stable: scripts compare them.
    """

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
    PRUNED = "pruned"
    NEVER_SEEN = "never_seen"

    # A job that waits for its time.
    DELAYED = "delayed"
    CLOCK_SKEW = "clock_skew"
    BREAKER_OPEN = "breaker_open"
    DEADLINE_BEFORE_START = "deadline_before_start"
    RETRY_WAIT = "retry_wait"
    SNOOZED = "snoozed"
    DEADLINE_BEFORE_RETRY = "deadline_before_retry"

    # A job on its way to an agent.
    DISPATCHING = "dispatching"
    QUEUE_MISSING = "queue_missing"
    BINDING_MISSING = "binding_missing"
    QUEUE_REFUSES = "queue_refuses"
    DISPATCH_MISSING = "dispatch_missing"
    WRONG_QUEUE = "wrong_queue"
    NO_AGENT = "no_agent"
    AGENT_GONE = "agent_gone"
    AGENT_STALLED = "agent_stalled"
    AGENTS_DRAINING = "agents_draining"
    TYPE_NOT_KNOWN = "type_not_known"
    SLOTS_FULL = "slots_full"
    LEDGER_UNREACHABLE = "ledger_unreachable"
    IN_QUEUE = "in_queue"

    # A job that runs.
    RUNNING = "running"
    CANCEL_REQUESTED = "cancel_requested"
    TIMED_OUT = "timed_out"
    AGENT_LOST = "agent_lost"

    # A job that is over.
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    DEAD_LETTER = "dead_letter"
    REDRIVEN = "redriven"
    DROPPED = "dropped"

    # A schedule.
    SCHEDULE_PAUSED = "schedule_paused"
    SCHEDULE_OVER = "schedule_over"
    SCHEDULE_REFUSED = "schedule_refused"
    TICK_SKIPPED = "tick_skipped"
    TICK_WAITS = "tick_waits"
    TICK_REJECTED = "tick_rejected"
    EVENT_AWAITED = "event_awaited"
    NEXT_TICK = "next_tick"

    # A queue, an agent or a job type with which nothing is wrong.
    QUEUE_WORKS = "queue_works"
    AGENT_WORKS = "agent_works"
    AGENT_ENDED = "agent_ended"
    TYPE_SERVED = "type_served"

    @property
    def needs_action(self) -> bool:
        """True if nothing changes until somebody or something outside of the system acts."""
        return self not in _BY_ITSELF


_BY_ITSELF = frozenset(
    {
        Cause.DELAYED,
        Cause.RETRY_WAIT,
        Cause.SNOOZED,
        Cause.DISPATCHING,
        Cause.DISPATCH_MISSING,
        Cause.IN_QUEUE,
        Cause.SLOTS_FULL,
        Cause.RUNNING,
        Cause.CANCEL_REQUESTED,
        Cause.TIMED_OUT,
        Cause.AGENT_LOST,
        Cause.SUCCEEDED,
        Cause.CANCELLED,
        Cause.EXPIRED,
        Cause.REDRIVEN,
        Cause.DROPPED,
        Cause.PRUNED,
        Cause.SCHEDULE_OVER,
        Cause.TICK_SKIPPED,
        Cause.TICK_WAITS,
        Cause.EVENT_AWAITED,
        Cause.NEXT_TICK,
        Cause.QUEUE_WORKS,
        Cause.AGENT_WORKS,
        Cause.AGENT_ENDED,
        Cause.TYPE_SERVED,
    }
)
