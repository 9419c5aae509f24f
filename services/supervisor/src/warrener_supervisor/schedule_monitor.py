"""Watch that schedules tick and succeed and that a scheduler lives; raise and close incidents about them.

The monitor reads the store and needs no scheduler, so it works when all of them are dead.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import NAMESPACE_OID, uuid5

from warrener_contracts.events import ScheduleCommandData, SchedulePauseRequested
from warrener_contracts.messages import Message, build_message
from warrener_contracts.topology import REQUESTS_QUEUE
from warrener_runtime.bus.port import BusUnreachable
from warrener_runtime.bus.types import QueueStats
from warrener_runtime.logs import get_logger
from warrener_store import Store
from warrener_store.breakers.gate import OpenBreakers
from warrener_store.incidents.rows import IncidentChange, IncidentFilter, IncidentRow
from warrener_store.schedules.rows import ScheduleRow
from warrener_store.schedules.rules import is_over
from warrener_store.schedules.store import Watches
from warrener_supervisor.decisions import schedule_health
from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.decisions.signals import supervisor_event
from warrener_supervisor.effects import SupervisorPorts
from warrener_supervisor.escalation.incident_reporter import IncidentReporter

_log = get_logger("schedules")

_BATCH_SIZE = 500
_AGAIN = timedelta(seconds=4.5)
"""A watched schedule is claimed for this long, so one of all supervisors looks at it about every time."""
_SWEEP = timedelta(minutes=5)  # interval of looks for incidents that an ended supervisor has left open
_PATIENCE = timedelta(seconds=10)
"""Time this supervisor must have seen an overdue schedule: after a night without any service, schedulers that
start together with it get time to begin."""
_PUT_OFF = timedelta(seconds=61)
"""Time by which a scheduler postpones a schedule that it cannot decide, and a second."""
_MAX_OVERDUE = 1000
_OPEN = 1000  # incidents read at once
_EXPLAINED = 50  # new incidents per look whose cause is looked up
_NEWEST_TICKS = 20
_WHY = {
    schedule_health.STOPPED: "a scheduler is there again",
    schedule_health.OVERDUE: "it ticks again",
    schedule_health.UNSUCCESSFUL: "a job has succeeded, or none is expected any more",
    schedule_health.FAILING: "it is resumed, or no longer paused after failures",
}


class ScheduleMonitor:
    """Raises incidents about schedules. Supervisors that see the same problem raise one incident."""

    def __init__(self, ports: SupervisorPorts, reporter: IncidentReporter) -> None:
        self._ports = ports
        self._bus, self._store, self._clock, self._timings = ports
        self._incidents = ScheduleIncidents(ports.store, reporter, ports.timings)
        self._overdue = OverdueDetector(ports.store)
        self._none_since: datetime | None = None  # since when no scheduler consumes
        self._requests: QueueStats | None = None  # at the last look
        self._open: set[str] = set()  # open incidents about all schedules or overdue ones
        self._swept_at: datetime | None = None

    async def run_once(self) -> None:
        """Look at all schedules."""
        now = self._clock.now()
        if self._swept_at is None or now - self._swept_at >= _SWEEP:
            self._open |= {
                each.fingerprint
                for each in await self._incidents.open_of(schedule_health.STOPPED, schedule_health.OVERDUE)
            }
            await self._incidents.close_orphans(now)
            self._swept_at = now
        await self._judge_ticking(now)
        while await self._judge_success(now):
            pass  # there are more

    async def _judge_ticking(self, now: datetime) -> None:
        try:
            since = await self._without_scheduler(now)
            unknown = set[str]()
        except BusUnreachable:
            since, unknown = None, {schedule_health.STOPPED}  # the incident about schedulers stays as it is
        late = await self._overdue.find_overdue(now, explained=since is not None)
        issues = [
            schedule_health.with_cause(issue, schedule_health.explain_missing_tick(self._requests))
            for issue in late.issues
        ]
        found = issues if since is None else [schedule_health.scheduler_stopped_issue(since)]
        await self._incidents.raise_new(found, now)
        wrong = {issue.fingerprint for issue in found} | late.fingerprints
        await self._incidents.close(self._open - wrong - unknown, now)
        self._open = (self._open & (wrong | unknown)) | {issue.fingerprint for issue in found}

    async def _without_scheduler(self, now: datetime) -> datetime | None:
        """Return since when no scheduler consumes requests, if that is long and a schedule needs one."""
        self._requests = None
        backlog = self._requests = await self._bus.backlog(REQUESTS_QUEUE.name)
        if backlog.consumers or not await self._is_needed():
            self._none_since = None
            return None
        self._none_since = self._none_since or now
        return self._none_since if now - self._none_since >= self._timings.no_consumer_timeout else None

    async def _is_needed(self) -> bool:
        """True if a schedule may tick; one that waits for events has no time."""
        if await self._store.next_schedule_wake() is not None:
            return True
        return bool(await self._store.schedules(triggered=True))

    async def _judge_success(self, now: datetime) -> bool:
        """Judge a batch of watched schedules by their runs; True if there may be more."""
        watched = await self._store.claim_watches(now, now + _AGAIN, _BATCH_SIZE)
        if not watched:
            return False
        histories = [schedule_health.history_of(each, now) for each in watched]
        await self._store.note_successes([each.row for each in histories])
        found = await self._unsuccessful(histories, now)
        to_pause = [issue for each in histories if (issue := schedule_health.failing_issue(each))]
        await self._incidents.raise_new([*found, *to_pause], now)
        # Raise before pausing: after a crash in between, the schedule is not paused and is looked at again.
        await self._ports.publish([_pause_message(each, now) for each in to_pause])
        wrong = {issue.fingerprint for issue in (*found, *to_pause)}
        # The incidents of a paused one stay open until it is resumed.
        kinds, names = (
            (schedule_health.UNSUCCESSFUL, schedule_health.FAILING),
            [each.row.name for each in histories if not each.paused],
        )
        possible = {schedule_health.fingerprint_of(kind, name) for name in names for kind in kinds}
        await self._incidents.close(possible - wrong, now)
        return len(watched) >= _BATCH_SIZE

    async def _unsuccessful(
        self, histories: Sequence[schedule_health.RunHistory], now: datetime
    ) -> list[schedule_health.ScheduleIssue]:
        """Find schedules without a recent success, unless they are over and their last job succeeded."""
        found = [
            (each, issue) for each in histories if (issue := schedule_health.unsuccessful_issue(each, now))
        ]
        done = {each.row.name for each, _ in found if each.succeeded_last}
        rows = await self._store.schedules(done) if done else {}
        over = {name for name, row in rows.items() if is_over(row, now)}
        return [issue for each, issue in found if each.row.name not in over]


def _pause_message(issue: schedule_health.ScheduleIssue, now: datetime) -> Message:
    """Render the command to pause the schedule; it is the same from each supervisor."""
    name = str(uuid5(NAMESPACE_OID, f"{issue.kind}\n{issue.occurrence}"))
    data = ScheduleCommandData(name=issue.schedule, reason=issue.why)
    return build_message(supervisor_event(SchedulePauseRequested, name, issue.schedule, now, data))


class OverdueReport(NamedTuple):
    """The problems to raise, and the fingerprints of all overdue schedules."""

    issues: list[schedule_health.ScheduleIssue]
    fingerprints: set[str]


class OverdueDetector:
    """Finds overdue schedules, and remembers since when each is overdue."""

    def __init__(self, watches: Watches) -> None:
        self._watches = watches
        self._seen: dict[str, datetime] = {}  # by occurrence
        self._were_many = False

    async def find_overdue(self, now: datetime, *, explained: bool) -> OverdueReport:
        """Return the schedules that have been overdue for long enough, or one problem in place of many.

        Schedules `explained` by another problem are left out. When that is over, or most of many have
        ticked, the others get the full time again, because schedulers are catching up with them.
        """
        rows = await self._watches.late_schedules(now, now + _PUT_OFF, _MAX_OVERDUE)
        found = schedule_health.overdue_issues(rows, now)
        many = len(found) > schedule_health.MANY
        if explained or (self._were_many and not many):
            self._seen = {}
        self._were_many = many
        self._seen = {each.occurrence: self._seen.get(each.occurrence, now) for each in found}
        proven = [each for each in found if now - self._seen[each.occurrence] >= _PATIENCE]
        issues = schedule_health.merge_if_many(proven)
        return OverdueReport(issues, {each.fingerprint for each in (*found, *issues)})


class ScheduleIncidents:
    """Raises and closes incidents about schedules, unless another supervisor has done so."""

    def __init__(self, store: Store, reporter: IncidentReporter, timings: Timings) -> None:
        self._store, self._reporter, self._timings = store, reporter, timings
        self._raised: dict[str, str] = {}  # occurrence by fingerprint

    async def raise_new(self, issues: Iterable[schedule_health.ScheduleIssue], now: datetime) -> None:
        """Raise incidents for the problems that are new."""
        fresh = [each for each in issues if self._raised.get(each.fingerprint) != each.occurrence]
        if not fresh:
            return
        open_ones = await self._open_among([each.fingerprint for each in fresh])
        known = {incident.fingerprint for incident in open_ones}
        named = await self._with_types([each for each in fresh if each.fingerprint not in known])
        named = await self._with_causes(named, now)
        await self._reporter.raise_incidents([each.raised(now) for each in named])
        for each in fresh:
            self._raised[each.fingerprint] = each.occurrence
        for each in named:
            _log.error(each.text, action="schedules.issue", kind=each.kind, schedule=each.schedule)

    async def close(self, fingerprints: Collection[str], now: datetime) -> None:
        """Close those of these incidents that are open."""
        if not fingerprints:
            return
        over = await self._open_among(fingerprints)
        whys = {incident.fingerprint: _WHY[incident.kind] for incident in over}
        changes = [IncidentChange(fingerprint=name, at=now, close_reason=why) for name, why in whys.items()]
        if changes:
            await self._store.escalations.change_incidents(changes)
        for incident in over:
            self._raised.pop(incident.fingerprint, None)
            _log.info(
                "An incident about a schedule was closed.",
                action="schedules.incident_closed",
                kind=incident.kind,
                of=incident.subject,
            )

    async def close_orphans(self, now: datetime) -> None:
        """Close the incidents of schedules that nobody watches any longer."""
        incidents = await self.open_of(schedule_health.FAILING, schedule_health.UNSUCCESSFUL)
        rows = await self._store.schedules({incident.subject for incident in incidents}) if incidents else {}
        orphans = [each.fingerprint for each in incidents if _is_over(each, rows.get(each.subject))]
        await self.close(orphans, now)

    async def _open_among(self, fingerprints: Collection[str]) -> list[IncidentRow]:
        return await self._store.escalations.incidents(IncidentFilter(fingerprints=fingerprints))

    async def open_of(self, *kinds: str) -> list[IncidentRow]:
        incidents = await self._store.escalations.incidents(IncidentFilter(limit=_OPEN))
        return [incident for incident in incidents if incident.kind in kinds]

    async def _with_causes(
        self, issues: Sequence[schedule_health.ScheduleIssue], now: datetime
    ) -> list[schedule_health.ScheduleIssue]:
        """Explain missing successes; the causes are looked up only when an incident is raised."""
        if not any(each.kind == schedule_health.UNSUCCESSFUL for each in issues):
            return list(issues)
        served = schedule_health.served_queues(await self._store.agents(), now, self._timings.lease)
        holding = OpenBreakers(await self._store.breakers())
        explained: list[schedule_health.ScheduleIssue] = []
        for place, each in enumerate(issues):
            if each.kind != schedule_health.UNSUCCESSFUL or place >= _EXPLAINED:
                explained.append(each)
                continue
            ticks = await self._store.ticks_of(each.schedule, _NEWEST_TICKS)
            tick = next((tick for tick in ticks if tick.job_id is not None), None)
            jobs = await self._store.jobs_by_id([tick.job_id]) if tick and tick.job_id else {}
            job = next(iter(jobs.values()), None)
            cause = schedule_health.explain_missing_success(tick, job, served, holding, now)
            explained.append(schedule_health.with_cause(each, cause))
        return explained

    async def _with_types(
        self, issues: Sequence[schedule_health.ScheduleIssue]
    ) -> list[schedule_health.ScheduleIssue]:
        """Add the job types, by which escalation policies may be chosen."""
        names = {each.schedule for each in issues if each.schedule and each.job_type is None}
        rows = await self._store.schedules(names) if names else {}
        return [
            replace(each, job_type=rows[each.schedule].definition.job_type) if each.schedule in rows else each
            for each in issues
        ]


def _is_over(incident: IncidentRow, row: ScheduleRow | None) -> bool:
    if row is None:
        return True
    if incident.kind == schedule_health.FAILING:
        return not row.paused and row.definition.choices.pause_after_failures is None
    return row.definition.choices.expect_success_within is None
