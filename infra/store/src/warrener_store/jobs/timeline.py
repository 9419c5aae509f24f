"""The intervals of a job's life, from its rows: waits with their causes, attempts, verdicts. Pure.

Each moment from the request to the end of a job, or to now, belongs to one interval: nothing waits without a
cause. `job_timeline` goes by all that the store has of a job; `current_waits` by a row that is about to
change, so that services trace each wait as it ends.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobRow
from warrener_store.jobs.rules import MAX_HELD

if TYPE_CHECKING:
    from warrener_store.workflows.rows import TurnRow  # events, which it imports, are large


class IntervalCause(StrEnum):
    """The cause of an interval: what a job waits for, or that an attempt runs."""

    REQUEST = "request"  # its request reaches a scheduler
    DELAY = "delay"  # the time that its request names
    BREAKER = "breaker"  # an open circuit breaker
    DISPATCH = "dispatch"  # a service dispatches what is due
    SLOT = "slot"  # a slot of a limit of its job type
    LIMIT = "limit"  # its queue takes no messages
    QUEUE = "queue"  # an agent with a free slot
    ATTEMPT = "attempt"  # nothing: an attempt runs
    VERDICT = "verdict"  # the report of its attempt, and the decision of a supervisor
    RETRY = "retry"  # the time of its next attempt, after a failure or a snooze
    TURN = "turn"  # a turn of a workflow, from its dispatch until it is suspended
    CALLS = "calls"  # what a suspended workflow waits for
    HOLD = "hold"  # an operator, who resumes or undoes a held workflow


class JobInterval(NamedTuple):
    """One interval. `end` is None if it lasts. `attempt`: the one that runs or that the job waits for.

    `agent_id`, `outcome` and `note`, the supervisor's verdict, are those of an attempt.
    """

    cause: IntervalCause
    start: datetime
    end: datetime | None
    attempt: int
    agent_id: str | None = None
    outcome: AttemptOutcome | None = None
    note: str = ""


_DUE_IN_VERDICT = re.compile(r"\b(?:retry at|snoozed until) (\S+\d\d:\d\d)(?::|$)")
_HELD_BACK = "held back"


def job_timeline(
    row: JobRow, attempts: Iterable[AttemptRow], now: datetime, turns: "Iterable[TurnRow]" = ()
) -> list[JobInterval]:
    """Return the intervals of a job, in order and without gaps; the last one of a job that is not over lasts.

    `attempts` and `turns`: those of the job that are over, by number. The store does not say until when a job
    waited for its first dispatch and why: the whole wait is a delay, or for a slot if it needs one.
    """
    request = JobInterval(IntervalCause.REQUEST, row.requested_at, row.accepted_at, 1)
    line = _Line([request], row.accepted_at, row)
    before, last_turn = _add_past(line, attempts, turns)
    if before is None and row.suspensions and row.state is not JobState.SUSPENDED:
        until = row.finished_at if last_turn == row.attempt else row.dispatched_at
        line.add(IntervalCause.CALLS, until or now, row.attempt)
    if row.state.terminal:
        assert row.finished_at is not None
        if before is not None and before.attempt == row.attempt:
            line.add(IntervalCause.VERDICT, row.finished_at, row.attempt)
        else:
            line.wait_for_attempt(max(row.attempt, 1), before, row.dispatched_at, row.finished_at)
    elif row.state is JobState.SUSPENDED:
        if last_turn != row.attempt:
            line.add(IntervalCause.TURN, row.updated_at, row.attempt)
        cause = IntervalCause.HOLD if row.is_held else IntervalCause.CALLS
        line.intervals.append(JobInterval(cause, line.at, None, row.attempt))
    elif row.state is JobState.RUNNING:
        line.wait_for_attempt(row.attempt, before, row.dispatched_at, row.started_at or row.updated_at)
        line.intervals.append(JobInterval(IntervalCause.ATTEMPT, line.at, None, row.attempt, row.agent_id))
    else:
        line.wait_until_now(row, before, max(now, line.at))
    return line.intervals


def _add_past(
    line: "_Line", attempts: Iterable[AttemptRow], turns: "Iterable[TurnRow]"
) -> tuple[AttemptRow | None, int]:
    """Add attempts and turns that are over, with the waits for them.

    Returns the attempt that ended last, unless a turn did, and the number of the last turn, or 0.
    """
    before: AttemptRow | None = None
    last_turn = 0
    ended: list[AttemptRow | TurnRow] = [*attempts, *(one for one in turns if one.suspended_at is not None)]
    for one in sorted(ended, key=attrgetter("attempt")):
        if not isinstance(one, AttemptRow):
            line.add_turn(one, before, is_first=last_turn == 0)
            before, last_turn = None, one.attempt
            continue
        if last_turn and before is None:
            line.add(IntervalCause.CALLS, one.dispatched_at or one.finished_at, one.attempt)
        line.wait_for_attempt(one.attempt, before, one.dispatched_at, one.started_at or one.finished_at)
        if one.started_at is not None:
            line.add_attempt(one)
        before = one
    return before, last_turn


def current_waits(row: JobRow, until: datetime) -> list[JobInterval]:
    """Return what a job that does not run has waited for since its row last changed.

    Of a job without an attempt: since it was accepted. Empty for a job that runs, or is over.
    """
    if row.state is JobState.WAITING:
        return _waits(row, row.accepted_at, until)
    if row.state in (JobState.QUEUED, JobState.RETRYING):
        return _waits(row, row.updated_at, until)
    if row.state is JobState.SUSPENDED:
        return [JobInterval(IntervalCause.CALLS, row.updated_at, until, row.attempt)]
    return []


def waits_in_queue(
    since: datetime, due_at: datetime | None, until: datetime, attempt: int
) -> list[JobInterval]:
    """Return what a dispatched attempt has waited for: its time, if it had one, and then an agent."""
    line = _Line([], since)
    if due_at is not None:
        line.add(IntervalCause.RETRY, min(due_at, until), attempt)
    line.add(IntervalCause.QUEUE, until, attempt)
    return line.intervals


class _Line:
    """Intervals that follow each other, up to `at`. One that would have no length is left out."""

    def __init__(self, intervals: list[JobInterval], at: datetime, row: JobRow | None = None) -> None:
        self.intervals, self.at = intervals, at
        self._is_limited = row is not None and row.gates is not None
        self._is_continued = row is not None and row.generation > 0  # turns before these are deleted

    @property
    def _delay(self) -> IntervalCause:
        return IntervalCause.SLOT if self._is_limited else IntervalCause.DELAY

    def add(self, cause: IntervalCause, end: datetime, attempt: int) -> None:
        """Add the interval from the end of the last one until `end`."""
        if end > self.at:
            self.intervals.append(JobInterval(cause, self.at, end, attempt))
            self.at = end

    def add_attempt(self, one: AttemptRow) -> None:
        """Add the interval in which an attempt ran, however short."""
        end = max(one.finished_at, self.at)  # clocks of agents may be behind
        self.intervals.append(
            JobInterval(
                IntervalCause.ATTEMPT, self.at, end, one.attempt, one.agent_id, one.outcome, one.verdict
            )
        )
        self.at = end

    def add_turn(self, one: "TurnRow", before: AttemptRow | None, *, is_first: bool) -> None:
        """Add a turn that was suspended, and the wait for it."""
        assert one.suspended_at is not None
        if one.began_at is not None:
            is_first = is_first and not self._is_continued
            without_failure = self._delay if is_first else IntervalCause.CALLS
            cause = without_failure if before is None else IntervalCause.RETRY
            self.add(cause, min(one.began_at, one.suspended_at), one.attempt)
        self.add(IntervalCause.TURN, one.suspended_at, one.attempt)

    def wait_until_now(self, row: JobRow, before: AttemptRow | None, now: datetime) -> None:
        """Add what a job has waited for that neither runs nor is over. The last interval lasts."""
        passed, attempt = len(self.intervals), max(row.attempt, 1)
        if row.dispatched_at is not None:
            self.wait_for_attempt(attempt, before, row.dispatched_at, now, row.due_at)
        elif before is None:
            for wait in _waits(row, self.at, now):
                self.add(wait.cause, wait.end or now, attempt)
        else:
            due_at = _due_in_verdict(before.verdict)
            if due_at is None and not _is_held_back(before):
                due_at = row.due_at
            if due_at is not None:
                self.add(IntervalCause.RETRY, min(due_at, now), attempt)
            self.add(_cause_when_due(row), now, attempt)
        if len(self.intervals) == passed:
            self.intervals.append(JobInterval(_cause_when_due(row), self.at, None, attempt))
        else:
            self.intervals[-1] = self.intervals[-1]._replace(end=None)

    def wait_for_attempt(
        self,
        attempt: int,
        before: AttemptRow | None,
        dispatched_at: datetime | None,
        until: datetime,
        due_at: datetime | None = None,
    ) -> None:
        """Add what an attempt has waited for until it began; `due_at` if the row still says so."""
        if before is None:
            self.add(self._delay, min(dispatched_at or until, until), attempt)
        else:
            due_at, held = _due_in_verdict(before.verdict) or due_at, _is_held_back(before)
            if dispatched_at is not None and (due_at is None or dispatched_at < due_at) and not held:
                # Dispatched by a delay queue as soon as the supervisor had decided.
                self.add(IntervalCause.VERDICT, min(dispatched_at, until), attempt)
            if due_at is not None:
                self.add(IntervalCause.RETRY, min(due_at, until), attempt)
            if dispatched_at is not None:
                due = IntervalCause.SLOT if self._is_limited else IntervalCause.DISPATCH
                cause = IntervalCause.BREAKER if held else due
                self.add(cause, min(dispatched_at, until), attempt)
        self.add(IntervalCause.QUEUE, until, attempt)


def _waits(row: JobRow, since: datetime, until: datetime) -> list[JobInterval]:
    """The waits of a job in a state in which it waits, in order."""
    line, attempt = _Line([], since), max(row.attempt, 1)
    if row.due_at is not None:
        cause = IntervalCause.DELAY if row.state is JobState.WAITING else IntervalCause.RETRY
        line.add(cause, min(row.due_at, until), attempt)
    line.add(_cause_when_due(row), until, attempt)
    if not line.intervals:
        line.intervals.append(JobInterval(_cause_when_due(row), since, until, attempt))
    return line.intervals


def _cause_when_due(row: JobRow) -> IntervalCause:
    if row.dispatched_at is not None:
        return IntervalCause.QUEUE
    if row.state is JobState.QUEUED:
        return IntervalCause.LIMIT
    if waits_for_slot(row):
        return IntervalCause.SLOT
    # A breaker holds a job back when it is accepted, or each time it is looked at.
    held_at_once = row.state is JobState.WAITING and row.due_at == row.accepted_at
    held_later = row.due_at is not None and row.updated_at >= row.due_at
    return IntervalCause.BREAKER if held_at_once or held_later else IntervalCause.DISPATCH


def waits_for_slot(row: JobRow) -> bool:
    """True if a limit of its job type has put the job off: nothing else does so for longer than MAX_HELD."""
    if row.gates is None or row.wake_at is None or row.state not in {JobState.WAITING, JobState.RETRYING}:
        return False
    return row.wake_at - max(row.due_at or row.updated_at, row.updated_at) > MAX_HELD


def _is_held_back(attempt: AttemptRow) -> bool:
    """True if a breaker was open when the attempt was judged, so that the next one waits for the breaker.

    For a time first only if the verdict names one, because the handler requested it.
    """
    return _HELD_BACK in attempt.verdict


def _due_in_verdict(verdict: str) -> datetime | None:
    """The time of the next attempt, as the verdict about the one before names it."""
    found = _DUE_IN_VERDICT.search(verdict)
    return None if found is None else datetime.fromisoformat(found[1])
