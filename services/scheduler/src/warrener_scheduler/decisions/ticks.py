"""Decide how a schedule goes on: which ticks are due, and what each results in. Pure.

`decide_ticks` serves schedules by time; `TickBatch` applies the choices of the schedule and collects rows,
for schedules by events too (`event_ticks`).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple
from uuid import UUID

from warrener_calendar.template_variables import Tick, tick_variables
from warrener_calendar.ticks import due_at, nominal_times, previous_nominal
from warrener_contracts.events import JsonObject, SchedulePutData, TickStatus
from warrener_contracts.identity import tick_job_id
from warrener_contracts.schedule_rules import OnceRule
from warrener_contracts.schedule_words import MisfirePolicy, OverlapPolicy
from warrener_contracts.templates import has_placeholders
from warrener_contracts.triggers import TriggerRule
from warrener_scheduler.tick_messages import request_text
from warrener_store.schedules.rows import Advance, DueSchedule, ScheduleRow, TickRow

BATCH_SIZE = 1000
"""Maximal number of nominal times in one decision: a schedule that was not looked at for a year catches up in
several transactions, so that the others get their turn in between."""
DECISION_LEAD = timedelta(milliseconds=50)
"""A tick is decided and stored this long before it is due, so that only the publishing of its request is left
then."""
MAX_PUT_BACKLOG = timedelta(days=1)
"""Age limit of ticks that were due between the time of a schedule.put and its arrival: that time may be years
old, and each tick since then would be a row."""
PUBLISHED_WITHIN = timedelta(seconds=2)
"""A request that is not confirmed this long after it is due is published again, by the first scheduler that
finds it. A batch of ticks takes a fraction of that; publishing twice is harmless, but useless work."""
PAUSED = "the schedule is paused"
"""How the reason of a tick begins that was skipped because its schedule was paused."""
_LOST_AFTER = timedelta(hours=1)
"""Age at which a request whose job is not in the store counts as lost. Until then the job counts as running,
because its request may wait behind others for minutes. A rejected request is released at once (`accept`); the
other cause is a queue that was purged or deleted."""
_RECHECK_INTERVAL = timedelta(seconds=1)
_NOTHING = timedelta(0)


def decide_ticks(due: DueSchedule, now: datetime, zone_version: str, secret: str) -> Advance:
    """Decide the ticks that are due by `now`, or the next one within its lead; and when to look next.

    `secret`: that of the installation, from which the ids of jobs derive.
    """
    row = due.row
    most = BATCH_SIZE + row.definition.choices.max_catch_up
    ready, following = _ready(row, _nominal_times(row, zone_version, now), _until(row, now), most + 1)
    batch = TickBatch(due, now, secret)
    batch.release_waiting()
    decided = ready[:BATCH_SIZE]
    on_time = (
        0 < len(ready) <= most and now - due_at(row.definition, ready[-1]) <= row.definition.choices.grace
    )
    for place, nominal_at in enumerate(decided):
        if batch.is_exhausted:
            break
        backlog = len(ready) - 1 - place
        _decide(batch, nominal_at, _Backlog(backlog, backlog - on_time))
    last_nominal_at = decided[-1] if decided else row.last_nominal_at
    next_at = None if batch.is_exhausted else next(iter(ready[BATCH_SIZE:]), following)
    wake_at = _wake_at(row.definition, next_at, now, waiting=batch.waiting > 0)
    return Advance(batch.updated_row(zone_version, last_nominal_at, next_at, wake_at), tuple(batch.ticks))


def plan_first_tick(row: ScheduleRow, now: datetime) -> ScheduleRow:
    """Plan a schedule as it is put: its first tick is the first one since then, at most a day ago."""
    if isinstance(row.definition.rule, TriggerRule):
        return replace(row, wake_at=row.put_at)  # for arrivals that the previous rule has left
    next_at = next(nominal_times(row.definition, row.put_at, _start_before_first(row, now)), None)
    return replace(row, next_at=next_at, wake_at=_wake_at(row.definition, next_at, row.put_at, waiting=False))


@dataclass(frozen=True, slots=True)
class TickCause:
    """The event that made a tick, in place of the times of a rule."""

    job_id: UUID
    due_at: datetime
    event: JsonObject


class TickBatch:
    """Collects the ticks of one look at a schedule, in the order of nominal times."""

    def __init__(self, due: DueSchedule, now: datetime, secret: str) -> None:
        self._row, self._secret = due.row, secret
        self._oldest_waiting = due.oldest_waiting
        self.now = now
        self.spec = due.row.definition
        self.choices = due.row.definition.choices
        self.paused, self.pause_reason = due.row.paused, due.row.pause_reason
        self.ticks: list[TickRow] = []
        self.causes: dict[datetime, TickCause] = {}  # by nominal time
        self._busy = self._is_busy(due)
        self._runs, self.waiting = due.row.runs, due.row.waiting
        self._last_job: UUID | None = due.row.last_job_id
        self._last_fired_at = due.row.last_fired_at
        self._last_at, self._last_success = due.row.last_nominal_at, due.last_success
        self._has_template = has_placeholders(self.spec.arguments)

    @property
    def is_exhausted(self) -> bool:
        """True if max_runs is reached."""
        limit = self.choices.max_runs
        return limit is not None and self._runs >= limit

    def updated_row(
        self,
        zone_version: str,
        last_nominal_at: datetime | None,
        next_at: datetime | None,
        wake_at: datetime | None,
    ) -> ScheduleRow:
        """Return the schedule with the state that this look leaves."""
        return replace(
            self._row,
            zone_version=zone_version,
            last_nominal_at=last_nominal_at,
            next_at=next_at,
            wake_at=wake_at,
            runs=self._runs,
            waiting=self.waiting,
            last_job_id=self._last_job,
            last_fired_at=self._last_fired_at,
        )

    def release_waiting(self) -> None:
        """Fire the oldest tick that waits for the end of a job, if that job has ended."""
        if self.waiting and not self._busy and self._oldest_waiting is not None:
            nominal_at, run = self._oldest_waiting, self._runs - self.waiting + 1
            self.waiting -= 1
            self._fire(
                nominal_at,
                TickStatus.FIRED,
                "it waited for the end of an earlier job",
                run=run,
                previous=lambda: previous_nominal(self.spec, self._row.put_at, nominal_at),
            )

    def run(self, nominal_at: datetime, status: TickStatus, reason: str = "") -> None:
        """Request the job of a tick, unless the job of an earlier tick stands in the way."""
        blocked = self._busy or self.waiting > 0
        match self.choices.overlap:
            case OverlapPolicy.SKIP if blocked:
                self.skip(nominal_at, "the job of an earlier tick is not over")
            case OverlapPolicy.QUEUE_ONE if self.waiting:
                self.skip(nominal_at, "the job of an earlier tick is not over, and another waits")
            case OverlapPolicy.QUEUE_ONE | OverlapPolicy.QUEUE_ALL if blocked:
                self._runs += 1
                self.waiting += 1
                self.record(nominal_at, TickStatus.WAITING, "the job of an earlier tick is not over")
            case _:
                self._runs += 1
                self._fire(nominal_at, status, reason, run=self._runs, previous=lambda: self._last_at)

    def skip(self, nominal_at: datetime, reason: str) -> None:
        """Record a tick without a job, and why."""
        self.record(nominal_at, TickStatus.SKIPPED, reason)

    def skip_paused(self, nominal_at: datetime) -> None:
        """Record a tick without a job, because the schedule is paused."""
        why = f": {self.pause_reason}" if self.pause_reason else ""
        self.skip(nominal_at, f"{PAUSED}{why}")

    def record(self, nominal_at: datetime, status: TickStatus, reason: str) -> None:
        """Record a tick without a request."""
        self._last_at = max(self._last_at or nominal_at, nominal_at)
        cause = self.causes.get(nominal_at)
        self.ticks.append(
            TickRow(
                schedule=self._row.name,
                nominal_at=nominal_at,
                status=status,
                due_at=cause.due_at if cause else due_at(self.spec, nominal_at),
                decided_at=self.now,
                reason=reason,
            )
        )

    def _fire(
        self,
        nominal_at: datetime,
        status: TickStatus,
        reason: str,
        *,
        run: int,
        previous: Callable[[], datetime | None],
    ) -> None:
        """Record a tick with its request. `previous` is called only if the arguments name a tick before."""
        cause = self.causes.get(nominal_at)
        job_id = cause.job_id if cause else tick_job_id(self._row.name, nominal_at, self._secret)
        event = cause.event if cause else None
        cancelled = self._last_job if self.choices.overlap is OverlapPolicy.CANCEL and self._busy else None
        names = None
        if self._has_template:
            names = tick_variables(self.spec, Tick(nominal_at, run, previous(), self._last_success))
        requested_at = max(self.now, due_at(self.spec, nominal_at))  # the decision is a little earlier
        self.record(nominal_at, status, reason)
        self.ticks[-1] = replace(
            self.ticks[-1],
            job_id=job_id,
            wake_at=requested_at + PUBLISHED_WITHIN,
            request=request_text(self.spec, job_id, requested_at, cancelled, names=names, event=event),
        )
        self._last_fired_at = self.now
        if self.choices.overlap is not OverlapPolicy.ALLOW:
            self._busy, self._last_job = True, job_id

    def _is_busy(self, due: DueSchedule) -> bool:
        if self.choices.overlap is OverlapPolicy.ALLOW or due.row.last_job_id is None:
            return False
        if due.last_job is not None:
            return not due.last_job.terminal
        fired_at = due.row.last_fired_at
        return fired_at is not None and self.now - fired_at < _LOST_AFTER


def _lead(spec: SchedulePutData) -> timedelta:
    """Return no lead if the decision depends on whether the last job is over when the tick is due."""
    return DECISION_LEAD if spec.choices.overlap is OverlapPolicy.ALLOW else _NOTHING


def _until(row: ScheduleRow, now: datetime) -> datetime:
    """Return the time up to which ticks are decided.

    While a tick is due already, none is decided ahead: a tick is missed only when the next one is really due.
    """
    if row.next_at is None:
        return now
    return max(now, min(due_at(row.definition, row.next_at), now + _lead(row.definition)))


def _start_before_first(row: ScheduleRow, now: datetime) -> datetime:
    """Return the last moment at which the schedule cannot tick yet.

    The past of a single tick counts completely, because it is one row. A planned tick is not postponed: it
    may have been due while no scheduler ran.
    """
    if isinstance(row.definition.rule, OnceRule):
        return row.put_at - timedelta.resolution
    return max(row.put_at, min(now, row.next_at or now) - MAX_PUT_BACKLOG) - timedelta.resolution


def _nominal_times(row: ScheduleRow, zone_version: str, now: datetime) -> Iterator[datetime]:
    """Yield the nominal times from the next one on, planned again if the time zone database has changed."""
    if row.next_at is None:
        return iter(())
    if row.zone_version == zone_version:
        return chain((row.next_at,), nominal_times(row.definition, row.put_at, row.next_at))
    since = _start_before_first(row, now)
    if row.last_nominal_at is not None:
        # Ticks before the latest put were decided by another rule: none of them was missed.
        since = max(row.last_nominal_at, row.put_at - timedelta.resolution)
    return iter(nominal_times(row.definition, row.put_at, since))


def _ready(
    row: ScheduleRow, times: Iterable[datetime], until: datetime, most: int
) -> tuple[list[datetime], datetime | None]:
    """Return the first `most` times that are due by `until`, and the time that follows."""
    ready = list[datetime]()
    for nominal_at in times:
        if len(ready) == most or due_at(row.definition, nominal_at) > until:
            return ready, nominal_at
        ready.append(nominal_at)
    return ready, None


def _wake_at(
    spec: SchedulePutData, next_at: datetime | None, now: datetime, *, waiting: bool
) -> datetime | None:
    """Return when to look next: soon while a tick waits, because the end of a job is not notified."""
    ahead = None if next_at is None else due_at(spec, next_at) - _lead(spec)
    if not waiting:
        return ahead
    return min(ahead or now + _RECHECK_INTERVAL, now + _RECHECK_INTERVAL)


class _Backlog(NamedTuple):
    """The number of later ticks that are due already, and of those among them that were missed."""

    due: int
    missed: int


def _decide(batch: TickBatch, nominal_at: datetime, backlog: _Backlog) -> None:
    choices = batch.choices
    late = batch.now - due_at(batch.spec, nominal_at)
    if batch.paused:
        batch.skip_paused(nominal_at)
    elif not backlog.due and late <= choices.grace:
        batch.run(nominal_at, TickStatus.FIRED)
    elif reason := _skip_reason(batch, nominal_at, backlog):
        status = TickStatus.COALESCED if choices.misfire is MisfirePolicy.ONCE else TickStatus.SKIPPED
        batch.record(nominal_at, status, reason)
    else:
        batch.run(nominal_at, TickStatus.CAUGHT_UP, f"missed: {_seconds(late)} late")


def _skip_reason(batch: TickBatch, nominal_at: datetime, backlog: _Backlog) -> str:
    """Return why a missed tick requests no job; empty if it requests one."""
    choices, age = batch.choices, batch.now - nominal_at
    match choices.misfire:
        case MisfirePolicy.SKIP:
            return f"missed: {_seconds(age)} late"
        case MisfirePolicy.ONCE:
            return "missed: a later tick stands for it" if backlog.due else ""
        case MisfirePolicy.ALL:
            too_many = backlog.missed >= choices.max_catch_up
            return f"missed: more than {choices.max_catch_up} were" if too_many else ""
        case MisfirePolicy.WINDOW:
            window = choices.catch_up_window
            too_old = window is not None and age > window
            return f"missed: {_seconds(age)} late, more than the window" if too_old else ""


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.1f} s"
