"""When another attempt may begin, and whether one may at all. Pure."""

from datetime import datetime, timedelta

from warrener_contracts.topology import DELAY_LEVELS
from warrener_store.rows import JobRow
from warrener_supervisor.context import JudgeContext

_UNKNOWN_TYPE_DELAYS = tuple(level.delay for level in DELAY_LEVELS if level.delay <= timedelta(minutes=5))
_MAX_REQUESTED_DELAY = timedelta(days=366)  # a handler may ask for a delay, but not for the end of time


def requested_delay(seconds: float) -> timedelta:
    """The delay that a handler asks for."""
    return timedelta(seconds=min(seconds, _MAX_REQUESTED_DELAY.total_seconds()))


def exceeds_max_age(row: JobRow, due_at: datetime) -> str | None:
    """Why no attempt may begin at `due_at`; None where one may."""
    age = row.policy.max_age
    if age is None or due_at <= row.accepted_at + age:
        return None
    return f"its next attempt would begin past its greatest age, at {due_at.isoformat()}"


def unknown_type_delay(row: JobRow) -> timedelta:
    """How long an agent that knows the job type is waited for: longer each time, five minutes at most."""
    return _UNKNOWN_TYPE_DELAYS[min(count_uncharged(row), len(_UNKNOWN_TYPE_DELAYS) - 1)]


def count_snoozes(row: JobRow, context: JudgeContext) -> int:
    """How many of the attempts before this one have snoozed, or more of them than may have."""
    return context.snoozes.get(row.job_id, count_uncharged(row))


def count_uncharged(row: JobRow) -> int:
    """How many of the attempts before this one were charged to nobody: snoozed, released, held
    back, not started."""
    return max(row.attempt - 1 - row.failures - row.losses, 0)
