"""Decide what to do about a case: its ladder, its next step, its state after the step."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from warrener_store.incidents.rows import CaseRow
from warrener_supervisor.escalation.policy import (
    DEAD,
    DEFAULT_LADDER,
    PER_JOB,
    WEEK,
    AlertStep,
    CloseStep,
    DigestStep,
    Escalation,
    EscalationStep,
    Ladder,
    QuietPeriod,
)
from warrener_supervisor.escalation.templates import error_of

MAX_TRIES = 12  # of one step: about half an hour; then the ladder goes on without it
_FIRST_PAUSE = timedelta(seconds=5)
_MAX_PAUSE = timedelta(minutes=5)
_DAY = timedelta(days=1)
_LONGEST = 32  # consecutive periods; quiet hours that never end would hold alerts back without end


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Do nothing until then; None: nothing until the case is raised again or a command arrives."""

    until: datetime | None
    why: str


@dataclass(frozen=True, slots=True)
class RunStep:
    step: EscalationStep


@dataclass(frozen=True, slots=True)
class SkipStep:
    """Pass over this step."""

    why: str


def ladder_of(case: CaseRow, escalation: Escalation) -> Ladder:
    """Return the first ladder that matches, else the default one, so that no case passes unseen."""
    return next((ladder for ladder in escalation.ladders if matches(ladder, case)), DEFAULT_LADDER)


def matches(ladder: Ladder, case: CaseRow) -> bool:
    """True if the ladder names the case's kind, job type and error.

    An error matches by its own name and by those of its base classes.
    """
    return (
        _any(ladder.kinds, [case.kind])
        and _any(ladder.job_types, [case.job_type or ""])
        and _any(ladder.errors, _names_of_error(case))
    )


def _names_of_error(case: CaseRow) -> list[str]:
    error = error_of(case)
    return [str(error.get("type", "")), *map(str, error.get("bases", ()))]


def _any(patterns: Iterable[str], names: Iterable[str]) -> bool:
    return any(_pattern(pattern).fullmatch(name) for name in names for pattern in patterns)


@lru_cache(maxsize=1024)
def _pattern(written: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in written.split("*")), re.DOTALL)


def decide(
    case: CaseRow, ladder: Ladder, quiet: Sequence[QuietPeriod], now: datetime
) -> WaitUntil | RunStep | SkipStep:
    """Return the next action for an open case."""
    if is_snoozed(case, now):
        return WaitUntil(case.snoozed_until, "snoozed")
    if case.step >= len(ladder.steps):
        return WaitUntil(None, "its ladder is at its end")
    step = ladder.steps[case.step]
    due = case.due_at or case.first_seen_at + step.after
    if due > now:
        return WaitUntil(due, f"{step_name(step)} is due then")
    if isinstance(step, AlertStep):
        return _about_alert(step, case, quiet, now)
    if isinstance(step, PER_JOB) and case.kind != DEAD:
        return SkipStep(f"nothing to {step_name(step)} about {case.kind}")
    return RunStep(step)


def is_snoozed(case: CaseRow, now: datetime) -> bool:
    """True if nothing may happen now."""
    return case.snoozed_until is not None and case.snoozed_until > now


def _about_alert(
    step: AlertStep, case: CaseRow, quiet: Sequence[QuietPeriod], now: datetime
) -> WaitUntil | RunStep | SkipStep:
    if case.acknowledged_by is not None:
        return SkipStep(f"acknowledged by {case.acknowledged_by}")
    if not step.urgent and (until := quiet_hours_end(quiet, now)):
        return WaitUntil(until, "quiet hours")
    return RunStep(step)


def quiet_hours_end(periods: Iterable[QuietPeriod], now: datetime) -> datetime | None:
    """Return when the quiet hours that hold at `now` end; None if none hold, or if they would never end."""
    hours = list(periods)
    until = now
    for _ in range(_LONGEST):
        end = max((end for period in hours if (end := _end(period, until))), default=None)
        if end is None:
            return None if until == now else until
        until = end
    return None


def _end(period: QuietPeriod, now: datetime) -> datetime | None:
    """Return when `period` ends, if it holds at `now`: it may have begun today or yesterday."""
    today = now.astimezone(period.zone).date()
    for day in (today, today - _DAY):
        if WEEK[day.weekday()] not in period.days:
            continue
        begin = datetime.combine(day, period.begin, period.zone).astimezone(UTC)
        past_midnight = period.end <= period.begin
        last = day + _DAY if past_midnight else day
        end = datetime.combine(last, period.end, period.zone).astimezone(UTC)
        if begin <= now < end:
            return end
    return None


def step_name(step: Any) -> str:
    """Return the name of the step in the file."""
    return str(step.do)


def late_step(case: CaseRow, ladder: Ladder) -> int | None:
    """Return the step that is run at once for later entries of the case: the last passed one that runs per
    job."""
    passed = [place for place, step in enumerate(ladder.steps[: case.step]) if isinstance(step, PER_JOB)]
    return passed[-1] if passed else None


def digest_of(case: CaseRow, ladder: Ladder) -> str | None:
    """Return the digest in which the case is listed, whenever it is raised again."""
    passed = [step for step in ladder.steps[: case.step] if isinstance(step, DigestStep)]
    return passed[-1].into if passed else None


def advance(case: CaseRow, ladder: Ladder, now: datetime, trouble: str | None = None) -> CaseRow:
    """Go on to the next step, after the current one is done or given up for `trouble`."""
    step = ladder.steps[case.step]
    if isinstance(step, CloseStep):
        return closed(case, now, f"by ladder {ladder.name}")
    following = case.step + 1
    due = now + ladder.steps[following].after if following < len(ladder.steps) else None
    # A given-up step leaves its trouble; a successful try clears it.
    remaining_trouble = None if case.tries else case.trouble
    return replace(
        case,
        step=following,
        due_at=due,
        wake_at=due,
        tries=0,
        delivered=(),
        trouble=trouble or remaining_trouble,
    )


def fail_step(case: CaseRow, ladder: Ladder, now: datetime, trouble: str) -> CaseRow:
    """Repeat the failed step after a growing pause, and go on without it after MAX_TRIES."""
    tries = case.tries + 1
    if tries >= MAX_TRIES:
        given_up = f"{step_name(ladder.steps[case.step])} given up after {tries} tries: {trouble}"
        return advance(case, ladder, now, given_up)
    again = now + pause_after(tries)
    return replace(case, tries=tries, due_at=again, wake_at=again, trouble=trouble)


def is_last_try(case: CaseRow) -> bool:
    """True if one more failure gives the step up."""
    return case.tries + 1 >= MAX_TRIES


def internal_error(case: CaseRow, now: datetime, trouble: str) -> CaseRow:
    """Repeat the step after an error of ours, with pauses, for as long as it takes."""
    tries = min(case.tries + 1, MAX_TRIES - 1)
    return replace(case, tries=tries, trouble=trouble, wake_at=now + pause_after(tries))


def pause_after(tries: int) -> timedelta:
    """Return the pause after this number of failures in a row."""
    return min(_FIRST_PAUSE * (1 << min(tries - 1, 10)), _MAX_PAUSE)


def waiting(case: CaseRow, wait: WaitUntil) -> CaseRow:
    """Wake the case when the wait is over."""
    return replace(case, wake_at=wait.until)


def closed(case: CaseRow, now: datetime, why: str) -> CaseRow:
    return replace(case, wake_at=None, closed_at=now, closed_why=why)


def mark_delivered(case: CaseRow, taken: tuple[str, ...]) -> CaseRow:
    """Record the sinks that have taken the alert, so that a repeat leaves them out."""
    return replace(case, delivered=taken)


def postpone(case: CaseRow, due: datetime) -> CaseRow:
    """Wake a digest at `due`."""
    return replace(case, due_at=due, wake_at=due)


def fail_report(
    case: CaseRow, now: datetime, failures: Mapping[str, str], names: Sequence[str], following: datetime
) -> CaseRow:
    """Repeat a digest that some sinks did not take, and after MAX_TRIES wait for the next one."""
    trouble = "; ".join(f"{name}: {why}" for name, why in failures.items())
    tries = case.tries + 1
    if tries >= MAX_TRIES:
        return replace(postpone(case, following), tries=0, delivered=(), trouble=trouble)
    again = now + pause_after(tries)
    taken = tuple(name for name in names if name not in failures)
    return replace(case, tries=tries, delivered=taken, trouble=trouble, wake_at=again)
