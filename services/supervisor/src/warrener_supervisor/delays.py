"""When another attempt may begin, and whether one may at all. Pure."""

from datetime import datetime, timedelta

from warrener_contracts.topology import DELAY_LEVELS
from warrener_store.rows import JobRow
from warrener_supervisor.moment import Moment

_UNTIL_KNOWN = tuple(rung.delay for rung in DELAY_LEVELS if rung.delay <= timedelta(minutes=5))
_LONGEST_WISH = timedelta(days=366)  # a handler may ask for a delay, but not for the end of time


def wished(seconds: float) -> timedelta:
    """The delay that a handler asks for."""
    return timedelta(seconds=min(seconds, _LONGEST_WISH.total_seconds()))


def too_old(row: JobRow, due_at: datetime) -> str | None:
    """Why no attempt may begin at `due_at`; None where one may."""
    age = row.policy.max_age
    if age is None or due_at <= row.accepted_at + age:
        return None
    return f"its next attempt would begin past its greatest age, at {due_at.isoformat()}"


def until_known(row: JobRow) -> timedelta:
    """How long an agent that knows the job type is waited for: longer each time, five minutes at most."""
    return _UNTIL_KNOWN[min(uncharged(row), len(_UNTIL_KNOWN) - 1)]


def snoozes(row: JobRow, at: Moment) -> int:
    """How many of the attempts before this one have snoozed, or more of them than may have."""
    return at.snoozes.get(row.job_id, uncharged(row))


def uncharged(row: JobRow) -> int:
    """How many of the attempts before this one were charged to nobody: snoozed, released, held
    back, not started."""
    return max(row.attempt - 1 - row.failures - row.losses, 0)
