"""The ticks of a span and what a backfill does about each."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING
from uuid import UUID

from pydantic import TypeAdapter

from warrener.errors import UsageError
from warrener.schedules.calendar import times_between
from warrener_contracts.fields import Timestamp
from warrener_contracts.schedule_words import TickStatus
from warrener_contracts.triggers import TriggerRule
from warrener_store.schedules.rows import ScheduleRow, TickRow

if TYPE_CHECKING:  # the command of a backfill is made without a store
    from warrener_store import Store

_TIMESTAMP: TypeAdapter[datetime] = TypeAdapter(Timestamp)


class BackfillTickStatus(StrEnum):
    """Status of a tick in a backfill."""

    REQUESTED = "requested"  # by this backfill
    PENDING = "pending"  # by an earlier one, and not yet published
    HAS_JOB = "has_job"
    WAITING = "waiting"  # for the end of an earlier job
    OVER_LIMIT = "over_limit"


@dataclass(frozen=True, slots=True)
class BackfillTick:
    """One nominal time of the span, with the id of its job: None if that is yet to be requested."""

    nominal_at: datetime
    status: BackfillTickStatus
    job_id: UUID | None


@dataclass(frozen=True, slots=True)
class BackfillSpan:
    """All nominal times of the span, in order."""

    schedule: str
    ticks: tuple[BackfillTick, ...]

    @property
    def requested(self) -> list[datetime]:
        """Nominal times whose jobs this backfill requests."""
        return [tick.nominal_at for tick in self.ticks if tick.status is BackfillTickStatus.REQUESTED]

    @property
    def awaited(self) -> list[datetime]:
        """The same, and those that an earlier backfill requested and no scheduler has published yet."""
        awaited = (BackfillTickStatus.REQUESTED, BackfillTickStatus.PENDING)
        return [tick.nominal_at for tick in self.ticks if tick.status in awaited]

    def count(self, status: BackfillTickStatus) -> int:
        return sum(tick.status is status for tick in self.ticks)


def make_span(
    schedule: str, times: Sequence[datetime], held: Iterable[TickRow], limit: int | None = None
) -> BackfillSpan:
    """Classify these nominal times by the stored ticks of the span; at most `limit` are requested."""
    known = {tick.nominal_at: tick for tick in held}
    ticks = list[BackfillTick]()
    requested = 0
    for nominal_at in times:
        status = _tick_status(nominal_at, known)
        requested += status is BackfillTickStatus.REQUESTED
        if limit is not None and requested > limit:
            status = BackfillTickStatus.OVER_LIMIT
        tick = known.get(nominal_at)
        ticks.append(BackfillTick(nominal_at, status, None if tick is None else tick.job_id))
    return BackfillSpan(schedule, tuple(ticks))


async def find_span(
    store: "Store",
    row: ScheduleRow,
    wanted: tuple[datetime, datetime],
    *,
    now: datetime,
    limit: int | None = None,
    max_ticks: int,
) -> BackfillSpan:
    """Find the ticks from one moment to another. Raises CommandError for too many, and for a rule without
    times."""
    if isinstance(row.definition.rule, TriggerRule):
        raise UsageError(
            f"expected a schedule with times, got {row.name!r}, which waits for events",
            do=f"request one job: warrener schedule trigger {row.name}",
        )
    begin, end = wanted
    last = min(end, row.next_at or end, now)
    if last < begin:
        return BackfillSpan(row.name, ())
    times = await asyncio.to_thread(times_between, row.definition, row.put_at, begin, last, max_ticks + 1)
    if len(times) > max_ticks:
        raise UsageError(
            f"expected a span with at most {max_ticks:,} ticks, got more",
            do=f"backfill it in several: the first ends at {times[-2].isoformat()}",
        )
    times = [moment for moment in times if moment != row.next_at]  # the scheduler has yet to decide it
    held = await store.ticks_of(row.name, None, begin=begin, end=last)
    return make_span(row.name, times, held, limit)


def _tick_status(nominal_at: datetime, known: Mapping[datetime, TickRow]) -> BackfillTickStatus:
    tick = known.get(nominal_at)
    if tick is None:
        return BackfillTickStatus.REQUESTED
    if tick.status is TickStatus.WAITING:
        return BackfillTickStatus.WAITING
    if tick.job_id is None:
        return BackfillTickStatus.REQUESTED
    return BackfillTickStatus.HAS_JOB if tick.request is None else BackfillTickStatus.PENDING


def count_remaining(requested: Iterable[datetime], held: Iterable[TickRow]) -> tuple[int, int]:
    """Count the ticks that no scheduler has picked up, and those picked up but not published."""
    known = {
        tick.nominal_at: tick for tick in held if tick.job_id is not None or tick.status is TickStatus.WAITING
    }
    rows = [known.get(nominal_at) for nominal_at in requested]
    return rows.count(None), sum(row is not None and row.request is not None for row in rows)


def parse_time(text: str, option: str) -> datetime:
    """Parse ISO 8601; without an offset it is UTC, as for `put`. Raises CommandError."""
    try:
        moment = datetime.fromisoformat(text)
        return _TIMESTAMP.validate_python(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except ValueError:
        raise UsageError(
            f"{option}: expected a time such as 2026-01-31T06:30 or 2026-01-31T06:30+01:00, since 1970, "
            f"got {text!r}"
        ) from None


def parse_rate(text: str) -> float:
    """Parse jobs per second from "10/s", "30/m", "5/h" or a plain number. Raises CommandError."""
    number, _, unit = text.partition("/")
    try:
        rate = float(number) / {"": 1, "s": 1, "m": 60, "h": 3600}[unit.strip()]
    except (KeyError, ValueError):
        rate = 0.0
    if not 1 / 86_400 <= rate <= 1000:
        raise UsageError(
            f"--rate: expected at most 1000 jobs a second, such as 10/s or 5/h, and one a day at least, "
            f"got {text!r}"
        )
    return rate
