"""What one look at a schedule comes to: its ticks, and what is kept of them for the next look. Pure."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from warrener_contracts.events import TickFate
from warrener_contracts.events.fields import JsonObject
from warrener_contracts.identity import tick_job_id
from warrener_contracts.rules import Overlap
from warrener_scheduler.calendar.ticks import due_at
from warrener_scheduler.clock.requests import request_text
from warrener_store.schedules.rows import DueSchedule, ScheduleRow, TickRow

PUBLISHED_WITHIN = timedelta(seconds=3)
"""A request that is not confirmed by then is published again, by whichever scheduler sees it first."""
_UNSEEN = timedelta(seconds=60)
"""So long the request of a job may be on its way; a job that is still not there then was rejected."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What has made a tick of a schedule that waits for events, in place of its rule."""

    job_id: UUID
    due_at: datetime
    event: JsonObject


class Outcome:
    """Grows tick by tick, in the order of nominal times."""

    def __init__(self, due: DueSchedule, now: datetime) -> None:
        self._row = due.row
        self._oldest_waiting = due.oldest_waiting
        self.now = now
        self.asked = due.row.asked
        self.choices = due.row.asked.choices
        self.paused = due.row.paused
        self.ticks: list[TickRow] = []
        self.causes: dict[datetime, Cause] = {}  # by nominal time
        self._busy = self._is_busy(due)
        self._runs, self._waiting = due.row.runs, due.row.waiting
        self._last_job: UUID | None = due.row.last_job_id
        self._last_fired_at = due.row.last_fired_at

    @property
    def used_up(self) -> bool:
        """Whether it has asked for as many jobs as it may."""
        most = self.choices.max_runs
        return most is not None and self._runs >= most

    def row(self) -> ScheduleRow:
        """The schedule with what is kept of this look."""
        return replace(
            self._row,
            runs=self._runs,
            waiting=self._waiting,
            last_job_id=self._last_job,
            last_fired_at=self._last_fired_at,
        )

    def release_waiting(self) -> None:
        """The oldest tick that waits for the end of a job is fired where that has come."""
        if self._waiting and not self._busy and self._oldest_waiting is not None:
            self._waiting -= 1
            self._fire(self._oldest_waiting, TickFate.FIRED, "it waited for the end of an earlier job")

    def run(self, nominal_at: datetime, fate: TickFate, reason: str = "") -> None:
        """Ask for its job, unless that of an earlier tick stands in the way."""
        blocked = self._busy or self._waiting > 0
        match self.choices.overlap:
            case Overlap.SKIP if blocked:
                self.skip(nominal_at, "the job of an earlier tick is not over")
            case Overlap.QUEUE_ONE if self._waiting:
                self.skip(nominal_at, "the job of an earlier tick is not over, and another waits")
            case Overlap.QUEUE_ONE | Overlap.QUEUE_ALL if blocked:
                self._runs += 1
                self._waiting += 1
                self.leave(nominal_at, TickFate.WAITING, "the job of an earlier tick is not over")
            case _:
                self._runs += 1
                self._fire(nominal_at, fate, reason)

    def skip(self, nominal_at: datetime, reason: str) -> None:
        """No job, and why."""
        self.leave(nominal_at, TickFate.SKIPPED, reason)

    def leave(self, nominal_at: datetime, fate: TickFate, reason: str) -> None:
        """A row of the ledger without a request."""
        cause = self.causes.get(nominal_at)
        self.ticks.append(
            TickRow(
                schedule=self._row.name,
                nominal_at=nominal_at,
                fate=fate,
                due_at=cause.due_at if cause else due_at(self.asked, nominal_at),
                decided_at=self.now,
                reason=reason,
            )
        )

    def _fire(self, nominal_at: datetime, fate: TickFate, reason: str) -> None:
        cause = self.causes.get(nominal_at)
        job_id = cause.job_id if cause else tick_job_id(self._row.name, nominal_at)
        event = cause.event if cause else None
        cancelled = self._last_job if self.choices.overlap is Overlap.CANCEL and self._busy else None
        self.leave(nominal_at, fate, reason)
        self.ticks[-1] = replace(
            self.ticks[-1],
            job_id=job_id,
            wake_at=self.now + PUBLISHED_WITHIN,
            request=request_text(self.asked, job_id, self.now, cancelled, event=event),
        )
        self._last_fired_at = self.now
        if self.choices.overlap is not Overlap.ALLOW:
            self._busy, self._last_job = True, job_id

    def _is_busy(self, due: DueSchedule) -> bool:
        if self.choices.overlap is Overlap.ALLOW or due.row.last_job_id is None:
            return False
        if due.last_job is not None:
            return not due.last_job.terminal
        fired_at = due.row.last_fired_at
        return fired_at is not None and self.now - fired_at < _UNSEEN
