"""Triggers and arrivals as frozen values."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from warrener_store.schedules.rows import ScheduleRow


@dataclass(frozen=True, slots=True)
class TriggerRow:
    """A schedule that waits for events, and what may be bound for it at the broker: (exchange, key).

    Written before anything is bound and forgotten after it was unbound, so that no binding is left behind.
    """

    schedule: str
    bindings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger with its schedule; None: that is not there, or no more."""

    row: TriggerRow
    schedule: ScheduleRow | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalRow:
    """Something that a schedule waits for has happened. It is open until it has become ticks; then it stays
    for a while without its event, so that a repeat of it changes nothing."""

    schedule: str
    event_id: UUID
    told_at: datetime
    heard_at: datetime
    upstream: str = ""  # which upstream of the rule has ended; empty: an event has come
    nominal_at: datetime | None = None  # of the tick that it has become and that waits for the end of a job
    event: str | None = None  # JSON, as the job gets it; None: no longer open


@dataclass(frozen=True, slots=True)
class Settled:
    """What has become of an arrival. With a nominal time its tick waits, and it stays open until then."""

    schedule: str
    event_id: UUID
    nominal_at: datetime | None = None
