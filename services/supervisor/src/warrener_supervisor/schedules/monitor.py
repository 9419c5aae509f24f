"""The dead-man alarm: looks whether schedules tick and succeed and whether a scheduler lives, makes a case of
what does not, and closes it when that is over. It asks nothing of any scheduler, so it works when all are
dead."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from uuid import NAMESPACE_OID, uuid5

from warrener_contracts.events import ScheduleCommandData, SchedulePauseRequested
from warrener_contracts.messages import Message, build_message
from warrener_contracts.topology import REQUESTS_QUEUE
from warrener_runtime.bus.port import Bus, BusUnreachable, QueueStats
from warrener_runtime.clock import Clock
from warrener_store import Store
from warrener_store.schedules.overdue import is_over
from warrener_supervisor import effects
from warrener_supervisor.escalation.incident_reporter import IncidentReporter
from warrener_supervisor.schedules.causes import explain_missing_tick
from warrener_supervisor.schedules.health import (
    FAILING,
    STOPPED,
    UNSUCCESSFUL,
    RunHistory,
    ScheduleIssue,
    failing_issue,
    fingerprint_of,
    history_of,
    scheduler_stopped_issue,
    unsuccessful_issue,
    with_cause,
)
from warrener_supervisor.schedules.incidents import ScheduleIncidents
from warrener_supervisor.schedules.overdue import OverdueDetector
from warrener_supervisor.source import SOURCE
from warrener_supervisor.timings import Timings

_BATCH_SIZE = 500
_AGAIN = timedelta(seconds=4.5)
"""A watched schedule is looked at by one of all supervisors at about every look."""
_SWEEP = timedelta(minutes=5)
"""Between looks for cases that a supervisor has left open that is no more."""


class ScheduleMonitor:
    """The verb of the dead-man alarm. Any number of supervisors may run it; what two see is one case."""

    def __init__(
        self, bus: Bus, store: Store, clock: Clock, *, timings: Timings, incidents: IncidentReporter
    ) -> None:
        self._bus, self._store, self._clock = bus, store, clock
        self._timings = timings
        self._cases = ScheduleIncidents(store, incidents, timings)
        self._overdue = OverdueDetector(store)
        self._none_since: datetime | None = None  # no scheduler consumes
        self._requests: QueueStats | None = None  # as of the last look
        self._open: set[str] = set()  # what was wrong with all, or did not tick
        self._swept_at: datetime | None = None

    async def run_once(self) -> None:
        """One look at all of them."""
        now = self._clock.now()
        if self._swept_at is None or now - self._swept_at >= _SWEEP:
            self._open |= await self._cases.open_for_all()
            await self._cases.close_orphans(now)
            self._swept_at = now
        await self._judge_ticking(now)
        while await self._judge_success(now):
            pass  # there are more

    async def _judge_ticking(self, now: datetime) -> None:
        try:
            since = await self._without_scheduler(now)
            unknown = set[str]()
        except BusUnreachable:
            since, unknown = None, {STOPPED}  # what was known of the schedulers stays
        late = await self._overdue.find_overdue(now, explained=since is not None)
        issues = [with_cause(issue, explain_missing_tick(self._requests)) for issue in late.issues]
        found = issues if since is None else [scheduler_stopped_issue(since)]
        await self._cases.raise_new(found, now)
        wrong = {issue.fingerprint for issue in found} | late.fingerprints
        await self._cases.close(self._open - wrong - unknown, now)
        self._open = (self._open & (wrong | unknown)) | {issue.fingerprint for issue in found}

    async def _without_scheduler(self, now: datetime) -> datetime | None:
        """Since when none consumes requests, where that is long enough and there are schedules."""
        self._requests = None
        backlog = self._requests = await self._bus.backlog(REQUESTS_QUEUE.name)
        if backlog.consumers or not await self._is_needed():
            self._none_since = None
            return None
        self._none_since = self._none_since or now
        return self._none_since if now - self._none_since >= self._timings.no_consumer_timeout else None

    async def _is_needed(self) -> bool:
        """Whether there is a schedule that may tick; one that waits for events has no time."""
        if await self._store.next_schedule_wake() is not None:
            return True
        return bool(await self._store.triggers.waiting_schedules())

    async def _judge_success(self, now: datetime) -> bool:
        """Whether there may be more."""
        watched = await self._store.claim_watches(now, now + _AGAIN, _BATCH_SIZE)
        if not watched:
            return False
        histories = [history_of(each, now) for each in watched]
        await self._store.note_successes([each.row for each in histories])
        found = await self._unsuccessful(histories, now)
        to_pause = [issue for each in histories if (issue := failing_issue(each))]
        await self._cases.raise_new([*found, *to_pause], now)
        # Told first: who dies here leaves schedules that are not paused, and are looked at again.
        await effects.publish(self._bus, [_pause_message(each, now) for each in to_pause], self._clock)
        wrong = {issue.fingerprint for issue in (*found, *to_pause)}
        await self._cases.close(_possible(histories) - wrong, now)
        return len(watched) >= _BATCH_SIZE

    async def _unsuccessful(self, histories: Sequence[RunHistory], now: datetime) -> list[ScheduleIssue]:
        """Of a schedule that is over, and whose last job has succeeded, no more successes are expected."""
        found = [(each, issue) for each in histories if (issue := unsuccessful_issue(each, now))]
        done = {each.row.name for each, _ in found if each.succeeded_last}
        rows = await self._store.schedules(done) if done else {}
        over = {name for name, row in rows.items() if is_over(row, now)}
        return [issue for each, issue in found if each.row.name not in over]


def _possible(histories: Iterable[RunHistory]) -> set[str]:
    """The cases that these schedules may have had. Those of a paused one stay until it is resumed."""
    return {
        fingerprint_of(kind, each.row.name)
        for each in histories
        if not each.paused
        for kind in (UNSUCCESSFUL, FAILING)
    }


def _pause_message(issue: ScheduleIssue, now: datetime) -> Message:
    """The same from each supervisor that sees it."""
    event = SchedulePauseRequested(
        id=str(uuid5(NAMESPACE_OID, f"{issue.kind}\n{issue.occurrence}")),
        source=SOURCE,
        time=now,
        subject=issue.schedule,
        data=ScheduleCommandData(name=issue.schedule, reason=issue.why),
    )
    return build_message(event)
