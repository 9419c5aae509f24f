"""Find schedules that do not tick or do not succeed, and explain why as far as store and broker know."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from warrener_contracts.events import JsonObject
from warrener_contracts.state_machine import JobState
from warrener_store.agents.rows import AgentRow
from warrener_store.breakers.gate import OpenBreakers
from warrener_store.incidents.rows import SCHEDULE_PAUSED, RaisedIncident
from warrener_store.jobs.rows import JobRow
from warrener_store.schedules.rows import RunRow, ScheduleRow, TickRow, WatchedSchedule, WatchRow
from warrener_store.schedules.rules import overdue_since

STOPPED = "scheduler.stopped"
OVERDUE = "schedule.overdue"
UNSUCCESSFUL = "schedule.unsuccessful"
FAILING = SCHEDULE_PAUSED
MANY = 20
"""More overdue schedules than this have one cause, and make one incident."""
_NAMES_SHOWN = 5  # names in the alert for many
_FAILED = frozenset({JobState.DEAD, JobState.EXPIRED})
_REJECTED_AFTER = timedelta(minutes=1)
"""A request that the broker has confirmed and that has no job after this time was rejected."""
_MANY_REQUESTS = 1000
_MESSAGE = 300  # characters of an error


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleIssue:
    """One problem; it has the same `occurrence` as long as it lasts."""

    kind: str
    schedule: str = ""  # empty: all of them
    job_type: str | None = None
    occurrence: str
    text: str
    why: str = ""  # for the tick history, if the schedule is paused

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.kind, self.schedule)

    def raised(self, now: datetime) -> RaisedIncident:
        """Return the problem as an incident."""
        sample: JsonObject = {"text": self.text, "schedule": self.schedule}
        return RaisedIncident(
            kind=self.kind,
            fingerprint=self.fingerprint,
            occurrence=self.occurrence,
            subject=self.schedule or "all schedules",
            job_type=self.job_type,
            sample=sample,
            raised_at=now,
        )


def fingerprint_of(kind: str, schedule: str = "") -> str:
    """Return the fingerprint of the incident for this kind of problem with this schedule."""
    return f"{kind}:{schedule}" if schedule else kind


@dataclass(frozen=True, slots=True)
class RunHistory:
    """The successes of a watched schedule, and its failures since."""

    row: WatchRow
    paused: bool
    failures: int
    last_failed: datetime | None  # nominal time
    succeeded_last: bool = False  # by the newest of its jobs


def scheduler_stopped_issue(since: datetime) -> ScheduleIssue:
    """Make the problem that no scheduler consumes requests, though there are schedules."""
    return ScheduleIssue(
        kind=STOPPED,
        occurrence=f"{STOPPED}@{since.isoformat()}",
        text=f"no scheduler has been there since {since.isoformat(timespec='seconds')}: no schedule ticks, "
        "and no job is accepted; start one, or look why it ends",
    )


def overdue_issues(rows: Sequence[ScheduleRow], now: datetime) -> list[ScheduleIssue]:
    """Return one problem for each schedule that should have ticked by now, the longest overdue first."""
    since = sorted((moment, row.name, row) for row in rows if (moment := overdue_since(row, now)) is not None)
    return [_overdue(row) for _, _, row in since]


def _overdue(row: ScheduleRow) -> ScheduleIssue:
    due = row.next_at or row.wake_at
    assert due is not None, "what is overdue was due"
    return ScheduleIssue(
        kind=OVERDUE,
        schedule=row.name,
        job_type=row.definition.job_type,
        occurrence=f"{row.name}@{due.isoformat()}",
        text=f"schedule {row.name} has not ticked: its tick of {due.isoformat(timespec='seconds')} "
        "was handled by no scheduler",
    )


def with_cause(issue: ScheduleIssue, cause: str | None) -> ScheduleIssue:
    """Append the known cause to the text."""
    return issue if cause is None else replace(issue, text=f"{issue.text}; {cause}")


def merge_if_many(issues: Sequence[ScheduleIssue]) -> list[ScheduleIssue]:
    """Return one problem in place of many."""
    if len(issues) <= MANY:
        return list(issues)
    first = issues[0]
    names = ", ".join(issue.schedule for issue in issues[:_NAMES_SHOWN])
    return [
        ScheduleIssue(
            kind=OVERDUE,
            occurrence=f"all, {first.occurrence}",
            text=f"{len(issues)} schedules have not ticked, {names} among them: look at the schedulers",
        )
    ]


def history_of(watched: WatchedSchedule, now: datetime) -> RunHistory:
    """Count the failed runs back to the newest success."""
    done = next((run for run in watched.runs if run.state is JobState.SUCCEEDED), None)
    row = watched.row
    if done is not None:
        row = replace(row, last_success_tick=done.nominal_at, last_success_at=done.finished_at or now)
    newer = [run for run in watched.runs if done is None or run.nominal_at > done.nominal_at]
    failed = [run for run in newer if run.decided_at >= row.since and _has_failed(run, now)]
    last_failed = failed[0].nominal_at if failed else None
    succeeded_last = row.last_success_tick is not None and not newer
    return RunHistory(row, watched.paused, len(failed), last_failed, succeeded_last)


def _has_failed(run: RunRow, now: datetime) -> bool:
    if run.state is None:
        return run.fired_at is not None and now - run.fired_at > _REJECTED_AFTER
    return run.state in _FAILED


def failing_issue(history: RunHistory) -> ScheduleIssue | None:
    """Return the problem of a schedule that failed so often in a row that it must be paused."""
    row, last = history.row, history.last_failed
    if history.paused or row.pause_after is None or last is None or history.failures < row.pause_after:
        return None
    jobs = "job has" if row.pause_after == 1 else f"{history.failures} jobs have"
    why = f"its last {jobs} failed"
    return ScheduleIssue(
        kind=FAILING,
        schedule=row.name,
        occurrence=f"{row.name}@{last.isoformat()}",
        text=f"schedule {row.name} is paused, because {why}; resume it when that is mended",
        why=why,
    )


def unsuccessful_issue(history: RunHistory, now: datetime) -> ScheduleIssue | None:
    """Return the problem of a schedule, not paused, without a success for longer than expected."""
    row = history.row
    if history.paused or row.success_within is None:
        return None
    since = max(row.since, row.last_success_at or row.since)
    if now - since <= row.success_within:
        return None
    return ScheduleIssue(
        kind=UNSUCCESSFUL,
        schedule=row.name,
        occurrence=f"{row.name}@{since.isoformat()}",
        text=f"no job of schedule {row.name} has succeeded since {since.isoformat(timespec='seconds')}; "
        f"one was expected within {row.success_within}",
    )


def explain_missing_tick(requests: tuple[int, int] | None) -> str:
    """Explain why no scheduler decides a tick.

    `requests`: messages that wait in their queue and consumers of it; None while the broker does not
    answer.
    """
    if requests is None:
        return "the broker does not answer"
    waiting, consumers = requests
    if not consumers:
        return "no scheduler consumes requests"
    if waiting > _MANY_REQUESTS:
        return f"{waiting} requests wait for {consumers} schedulers"
    return f"schedulers are there ({consumers}): their logs say why it is not decided"


def served_queues(agents: Collection[AgentRow], now: datetime, silent_after: timedelta) -> set[str]:
    """Return the queues of the living agents."""
    return {queue for agent in agents if now - agent.last_seen_at < silent_after for queue in agent.queues}


def explain_missing_success(
    tick: TickRow | None, job: JobRow | None, served: Collection[str], holding: OpenBreakers, now: datetime
) -> str | None:
    """Explain why the newest tick that requested a job has not succeeded; None if nothing is known."""
    if tick is None:
        return "none of its newest ticks has requested a job"
    if tick.fired_at is None:
        return "the broker has not confirmed the request of its last tick"
    if job is None:
        late = now - tick.fired_at > _REJECTED_AFTER
        return "the request of its last tick was rejected: see `warrener parked`" if late else None
    return _of_job(job, served, holding)


def _of_job(job: JobRow, served: Collection[str], holding: OpenBreakers) -> str | None:
    why = f": {job.error.message[:_MESSAGE]}" if job.error else ""
    if job.state.terminal:
        return None if job.state is JobState.SUCCEEDED else f"its last job is {job.state}{why}"
    if job.state in (JobState.RUNNING, JobState.SUSPENDED):
        return f"its last job is {job.state}"
    if breaker := holding.find_blocking(job.job_type, job.policy, job.queue):
        return f"its last job is held back: {breaker.name} is {breaker.state}"
    if job.queue not in served:
        return f"no agent serves queue {job.queue}, where its last job waits"
    if job.state is JobState.RETRYING:
        return f"its last job is tried again{why}"
    return (
        f"its last job waits in queue {job.queue}" if job.state is JobState.QUEUED else "its last job waits"
    )
