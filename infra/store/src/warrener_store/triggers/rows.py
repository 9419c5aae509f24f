"""Arrivals as frozen values."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

Address = tuple[str, str]
"""An exchange and a routing key: what a binding is made of."""


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
class ArrivalOutcome:
    """What has become of an arrival. With a nominal time its tick waits, and it stays open until then."""

    schedule: str
    event_id: UUID
    nominal_at: datetime | None = None
