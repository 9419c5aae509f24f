"""The cases of what is wrong with schedules: raised once while it goes on, closed when it is over."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from warrener_runtime.logs import get_logger
from warrener_store import Store
from warrener_store.breaker_gate import OpenBreakers
from warrener_store.escalations import CaseChange, CaseRow
from warrener_store.schedules.rows import ScheduleRow
from warrener_supervisor.escalation.incident_reporter import IncidentReporter
from warrener_supervisor.schedules import causes
from warrener_supervisor.schedules.health import (
    FAILING,
    OVERDUE,
    STOPPED,
    UNSUCCESSFUL,
    ScheduleIssue,
    with_cause,
)
from warrener_supervisor.timings import Timings

_log = get_logger("schedules")

_OPEN = 1000  # cases that are read at once
_EXPLAINED = 50  # new cases of one look whose cause is asked for
_NEWEST_TICKS = 20
_WHY = {
    STOPPED: "a scheduler is there again",
    OVERDUE: "it ticks again",
    UNSUCCESSFUL: "a job has succeeded, or none is expected any more",
    FAILING: "it is resumed, or no more",
}


class ScheduleIncidents:
    """Raises and closes. What another supervisor has raised is open already, and is not raised again."""

    def __init__(self, store: Store, incidents: IncidentReporter, timings: Timings) -> None:
        self._store, self._incidents, self._timings = store, incidents, timings
        self._raised: dict[str, str] = {}  # the occurrence by fingerprint

    async def raise_new(self, issues: Iterable[ScheduleIssue], now: datetime) -> None:
        """Those that are new."""
        fresh = [each for each in issues if self._raised.get(each.fingerprint) != each.occurrence]
        if not fresh:
            return
        cases = await self._store.escalations.cases_by_fingerprint([each.fingerprint for each in fresh])
        known = {name for name, case in cases.items() if case.closed_at is None}
        named = await self._with_types([each for each in fresh if each.fingerprint not in known])
        named = await self._with_causes(named, now)
        await self._incidents.raise_cases([each.raised(now) for each in named])
        for each in fresh:
            self._raised[each.fingerprint] = each.occurrence
        for each in named:
            _log.error(each.text, action="schedules.trouble", kind=each.kind, schedule=each.schedule)

    async def close(self, fingerprints: Collection[str], now: datetime) -> None:
        """Those of these that are open."""
        if not fingerprints:
            return
        cases = await self._store.escalations.cases_by_fingerprint(fingerprints)
        over = [case for case in cases.values() if case.closed_at is None]
        changes = [
            CaseChange(fingerprint=case.fingerprint, at=now, closed_why=_WHY[case.kind]) for case in over
        ]
        if changes:
            await self._store.escalations.change_cases(changes)
        for case in over:
            self._raised.pop(case.fingerprint, None)
            _log.info("A trouble is over.", action="schedules.mended", kind=case.kind, of=case.subject)

    async def open_for_all(self) -> set[str]:
        """The open ones that every supervisor sees the truth of at every look."""
        return {case.fingerprint for case in await self._open(STOPPED, OVERDUE)}

    async def close_orphans(self, now: datetime) -> None:
        """Those of schedules that are not watched any more, so that nobody looks at them."""
        cases = await self._open(FAILING, UNSUCCESSFUL)
        rows = await self._store.schedules({case.subject for case in cases}) if cases else {}
        orphans = [case.fingerprint for case in cases if _is_over(case, rows.get(case.subject))]
        await self.close(orphans, now)

    async def _open(self, *kinds: str) -> list[CaseRow]:
        return [case for case in await self._store.escalations.cases(limit=_OPEN) if case.kind in kinds]

    async def _with_causes(self, issues: Sequence[ScheduleIssue], now: datetime) -> list[ScheduleIssue]:
        """Why no job succeeds is asked when the case is raised, and only then."""
        if not any(each.kind == UNSUCCESSFUL for each in issues):
            return list(issues)
        served = causes.served_queues(await self._store.agents(), now, self._timings.lease)
        holding = OpenBreakers(await self._store.breakers())
        explained: list[ScheduleIssue] = []
        for place, each in enumerate(issues):
            if each.kind != UNSUCCESSFUL or place >= _EXPLAINED:
                explained.append(each)
                continue
            ticks = await self._store.ticks_of(each.schedule, _NEWEST_TICKS)
            tick = next((tick for tick in ticks if tick.job_id is not None), None)
            jobs = await self._store.jobs_by_id([tick.job_id]) if tick and tick.job_id else {}
            job = next(iter(jobs.values()), None)
            explained.append(
                with_cause(each, causes.explain_missing_success(tick, job, served, holding, now))
            )
        return explained

    async def _with_types(self, issues: Sequence[ScheduleIssue]) -> list[ScheduleIssue]:
        """Ladders may be chosen by job type."""
        names = {each.schedule for each in issues if each.schedule and each.job_type is None}
        rows = await self._store.schedules(names) if names else {}
        return [
            replace(each, job_type=rows[each.schedule].asked.job_type) if each.schedule in rows else each
            for each in issues
        ]


def _is_over(case: CaseRow, row: ScheduleRow | None) -> bool:
    if row is None:
        return True
    if case.kind == FAILING:
        return not row.paused and row.asked.choices.pause_after_failures is None
    return row.asked.choices.expect_success_within is None
