"""Decide which past ticks a backfill requests, batch by batch. Pure.

A backfill requests nominal times without a job. Their requests wait in the tick history until their turn by
the rate, and are published like any other; the job ids are those that the ticks would have had. So a backfill
that is received twice, or begun again after a crash, requests nothing twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, islice, repeat, takewhile

from warrener_calendar.rules import EPOCH
from warrener_calendar.template_variables import Tick, tick_variables
from warrener_calendar.ticks import due_at, nominal_times, previous_nominal
from warrener_contracts.events import MAX_BACKFILL_TICKS, ScheduleBackfillRequestedData, TickStatus
from warrener_contracts.identity import tick_job_id
from warrener_contracts.templates import has_placeholders
from warrener_contracts.triggers import TriggerRule
from warrener_scheduler.tick_messages import request_text
from warrener_store.schedules.rows import ScheduleRow, TickRow

BATCH_SIZE = 1000  # nominal times in one transaction
_MIN_RATE = 1 / 86_400
"""Jobs a second: with a lower rate the turns of 50,000 jobs would exceed the range of dates."""
_BACKFILLED = "backfilled"


@dataclass(frozen=True, slots=True)
class BackfillBatch:
    """Ticks to store, and the request for the rest behind them."""

    ticks: tuple[TickRow, ...]
    passed_over: int
    rest: ScheduleBackfillRequestedData | None


def is_backfilled(tick: TickRow) -> bool:
    """True if the tick was requested after its time."""
    return tick.status is TickStatus.CAUGHT_UP and tick.reason.startswith(_BACKFILLED)


def refusal_reason(row: ScheduleRow, data: ScheduleBackfillRequestedData, now: datetime) -> str:
    """Return why the backfill is refused: no past ticks, too many, or too low a rate; empty if it is not."""
    if isinstance(row.definition.rule, TriggerRule):
        return f"expected a schedule with times, got {row.name!r}, which waits for events: none is past"
    if data.rate < _MIN_RATE:
        return f"expected a rate of at least one job a day, got {data.rate} a second"
    if data.not_before is not None:
        return ""  # the rest of a backfill that was checked before
    if next(islice(_nominal_times(row, data, now), MAX_BACKFILL_TICKS, None), None) is None:
        return ""
    return (
        f"expected a span with at most {MAX_BACKFILL_TICKS} ticks of {row.name}, got more: request "
        "it in several"
    )


def batch_times(row: ScheduleRow, data: ScheduleBackfillRequestedData, now: datetime) -> list[datetime]:
    """Return the nominal times of the next batch, and the first behind it if there is one."""
    return list(islice(_nominal_times(row, data, now), BATCH_SIZE + 1))


def plan_batch(
    row: ScheduleRow,
    data: ScheduleBackfillRequestedData,
    times: list[datetime],
    existing: Mapping[datetime, TickRow],
    now: datetime,
    *,
    secret: str,
    last_success: datetime | None = None,
) -> BackfillBatch:
    """Plan the ticks of these nominal times, `existing` being their rows in the tick history.

    `secret`: that of the installation. `last_success`: the newest tick whose job has succeeded, if the
    arguments name it.
    """
    gap = timedelta(seconds=1 / data.rate)
    # After a crash the stored ticks of this batch keep their turns.
    stored = [tick.wake_at for tick in existing.values() if is_backfilled(tick)]
    turn = max([data.not_before or now, now, *(at + gap for at in stored if at is not None)])
    ticks = list[TickRow]()
    for nominal_at, before in zip(times[:BATCH_SIZE], _previous_times(row, times), strict=False):
        found = existing.get(nominal_at)
        if found is not None and (found.job_id is not None or found.status is TickStatus.WAITING):
            continue
        job_id, names = tick_job_id(row.name, nominal_at, secret), None
        if has_placeholders(row.definition.arguments):  # as for a triggered job, without a later success
            success = last_success if last_success is not None and last_success < nominal_at else None
            names = tick_variables(row.definition, Tick(nominal_at, row.runs, before, success))
        tick = TickRow(
            schedule=row.name,
            nominal_at=nominal_at,
            status=TickStatus.CAUGHT_UP,
            due_at=due_at(row.definition, nominal_at),
            decided_at=now,
            reason=_reason(data, found),
            job_id=job_id,
            wake_at=turn,
            request=request_text(row.definition, job_id, now, names=names),
        )
        ticks.append(tick)
        turn += gap
    rest = None
    if len(times) > BATCH_SIZE:
        rest = data.model_copy(update={"start": times[BATCH_SIZE], "not_before": turn})
    return BackfillBatch(tuple(ticks), min(len(times), BATCH_SIZE) - len(ticks), rest)


def _nominal_times(
    row: ScheduleRow, data: ScheduleBackfillRequestedData, now: datetime
) -> Iterator[datetime]:
    """Yield the times of the span that are past, and that the ticker has decided or never will."""
    before = min(data.end + timedelta.resolution, now, row.next_at or now)
    times = nominal_times(row.definition, row.put_at, data.start - timedelta.resolution)
    return takewhile(lambda moment: moment < before, times)


def _previous_times(row: ScheduleRow, times: Sequence[datetime]) -> Iterator[datetime | None]:
    """Yield the nominal time before each of these consecutive ones, if the arguments may name it.

    That includes times before the schedule was put: the ticks are requested as if it had been there.
    """
    if not has_placeholders(row.definition.arguments):
        return repeat(None)
    first = (previous_nominal(row.definition, row.put_at, moment, since=EPOCH) for moment in times[:1])
    return chain(first, times)


def _reason(data: ScheduleBackfillRequestedData, existing: TickRow | None) -> str:
    before = "" if existing is None else f"; it was {existing.status}"
    because = f" ({existing.reason})" if existing is not None and existing.reason else ""
    return f"{_BACKFILLED}: {data.reason}{before}{because}"
