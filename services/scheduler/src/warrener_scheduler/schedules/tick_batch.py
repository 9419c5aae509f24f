"""What one look at a schedule comes to: its ticks, and what is kept of them for the next look. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from warrener_contracts.events import TickStatus
from warrener_contracts.fields import JsonObject
from warrener_contracts.identity import tick_job_id
from warrener_contracts.schedule_rules import OverlapPolicy
from warrener_scheduler.calendar.ticks import due_at, previous_nominal
from warrener_scheduler.schedules.template_variables import Tick, tick_variables
from warrener_scheduler.schedules.templating import has_placeholders
from warrener_scheduler.schedules.tick_messages import request_text
from warrener_store.schedules.rows import DueSchedule, ScheduleRow, TickRow

PUBLISHED_WITHIN = timedelta(seconds=2)
"""A request that is not confirmed so long after it is due is published again, by whichever scheduler sees it
first. A portion of ticks takes a fraction of that; to publish twice is harmless, and work for nothing."""
_LOST_AFTER = timedelta(hours=1)
"""Age at which a request whose job is not in the store counts as lost. Until then the job counts as running:
its request may wait behind others for minutes. One that was rejected is released at once (`RequestConsumer`);
what is left is a queue that was purged or deleted."""


@dataclass(frozen=True, slots=True)
class TickCause:
    """What has made a tick of a schedule that waits for events, in place of its rule."""

    job_id: UUID
    due_at: datetime
    event: JsonObject


class TickBatch:
    """Grows tick by tick, in the order of nominal times."""

    def __init__(self, due: DueSchedule, now: datetime) -> None:
        self._row = due.row
        self._oldest_waiting = due.oldest_waiting
        self.now = now
        self.spec = due.row.asked
        self.choices = due.row.asked.choices
        self.paused, self.paused_why = due.row.paused, due.row.paused_why
        self.ticks: list[TickRow] = []
        self.causes: dict[datetime, TickCause] = {}  # by nominal time
        self._busy = self._is_busy(due)
        self._runs, self.waiting = due.row.runs, due.row.waiting
        self._last_job: UUID | None = due.row.last_job_id
        self._last_fired_at = due.row.last_fired_at
        self._last_at, self._last_success = due.row.last_at, due.last_success
        self._has_template = has_placeholders(self.spec.arguments)

    @property
    def is_exhausted(self) -> bool:
        """Whether it has asked for as many jobs as it may."""
        most = self.choices.max_runs
        return most is not None and self._runs >= most

    def updated_row(
        self, zone_version: str, last_at: datetime | None, next_at: datetime | None, wake_at: datetime | None
    ) -> ScheduleRow:
        """The schedule with what is kept of this look."""
        return replace(
            self._row,
            zone_version=zone_version,
            last_at=last_at,
            next_at=next_at,
            wake_at=wake_at,
            runs=self._runs,
            waiting=self.waiting,
            last_job_id=self._last_job,
            last_fired_at=self._last_fired_at,
        )

    def release_waiting(self) -> None:
        """The oldest tick that waits for the end of a job is fired where that has come."""
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
        """Ask for its job, unless that of an earlier tick stands in the way."""
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
        """No job, and why."""
        self.record(nominal_at, TickStatus.SKIPPED, reason)

    def skip_paused(self, nominal_at: datetime) -> None:
        """No job, because the schedule is paused."""
        why = f": {self.paused_why}" if self.paused_why else ""
        self.skip(nominal_at, f"the schedule is paused{why}")

    def record(self, nominal_at: datetime, status: TickStatus, reason: str) -> None:
        """A row of the ledger without a request."""
        self._last_at = max(self._last_at or nominal_at, nominal_at)
        cause = self.causes.get(nominal_at)
        self.ticks.append(
            TickRow(
                schedule=self._row.name,
                nominal_at=nominal_at,
                fate=status,
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
        """`previous`, the tick before, is asked for only where the arguments may name it."""
        cause = self.causes.get(nominal_at)
        job_id = cause.job_id if cause else tick_job_id(self._row.name, nominal_at)
        event = cause.event if cause else None
        cancelled = self._last_job if self.choices.overlap is OverlapPolicy.CANCEL and self._busy else None
        names = None
        if self._has_template:
            names = tick_variables(self.spec, Tick(nominal_at, run, previous(), self._last_success))
        requested_at = max(self.now, due_at(self.spec, nominal_at))  # it is decided a little earlier
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
