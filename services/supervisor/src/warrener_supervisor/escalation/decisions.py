"""Decide what to do about an incident: its policy, its next step, its state after the step."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from warrener_contracts.policy import matches_pattern
from warrener_store.incidents.rows import IncidentRow
from warrener_supervisor.escalation.facts import error_of
from warrener_supervisor.escalation.policy import (
    DEAD,
    PER_JOB,
    WEEK,
    AlertStep,
    CloseStep,
    DigestStep,
    EscalationPolicy,
    EscalationStep,
    QuietPeriod,
)

MAX_TRIES = 12  # of one step: about half an hour; then the policy goes on without it
_FIRST_PAUSE = timedelta(seconds=5)
_MAX_PAUSE = timedelta(minutes=5)
_DAY = timedelta(days=1)
_LONGEST = 32  # consecutive periods; quiet hours that never end would hold alerts back without end


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Do nothing until then; None: nothing until the incident is raised again or a command arrives."""

    until: datetime | None
    why: str


@dataclass(frozen=True, slots=True)
class RunStep:
    step: EscalationStep


@dataclass(frozen=True, slots=True)
class SkipStep:
    """Pass over this step."""

    why: str


def matches(policy: EscalationPolicy, incident: IncidentRow) -> bool:
    """True if the policy names the incident's kind, job type and error.

    An error matches by its own name and by those of its base classes.
    """
    error = error_of(incident)
    errors = [str(error.get("type", "")), *map(str, error.get("base_classes", ()))]
    return all(
        any(matches_pattern(pattern, name) for name in names for pattern in patterns)
        for patterns, names in (
            (policy.kinds, [incident.kind]),
            (policy.job_types, [incident.job_type or ""]),
            (policy.errors, errors),
        )
    )


def decide(  # noqa: PLR0911 - one for each reason not to run the step
    incident: IncidentRow, policy: EscalationPolicy, quiet: Sequence[QuietPeriod], now: datetime
) -> WaitUntil | RunStep | SkipStep:
    """Return the next action for an open incident."""
    if is_snoozed(incident, now):
        return WaitUntil(incident.snoozed_until, "snoozed")
    if incident.step >= len(policy.steps):
        return WaitUntil(None, "its policy is at its end")
    step = policy.steps[incident.step]
    due = incident.due_at or incident.first_seen_at + step.after
    if due > now:
        return WaitUntil(due, f"{step_name(step)} is due then")
    if isinstance(step, AlertStep) and incident.acknowledged_by is not None:
        return SkipStep(f"acknowledged by {incident.acknowledged_by}")
    is_quiet = isinstance(step, AlertStep) and not step.urgent
    if is_quiet and (until := quiet_hours_end(quiet, now)):
        return WaitUntil(until, "quiet hours")
    if isinstance(step, PER_JOB) and incident.kind != DEAD:
        return SkipStep(f"nothing to {step_name(step)} about {incident.kind}")
    return RunStep(step)


def is_snoozed(incident: IncidentRow, now: datetime) -> bool:
    """True if nothing may happen now."""
    return incident.snoozed_until is not None and incident.snoozed_until > now


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


def late_step(incident: IncidentRow, policy: EscalationPolicy) -> int | None:
    """Return the last passed step that runs per job: later entries of the incident run it at once."""
    passed = [place for place, step in enumerate(policy.steps[: incident.step]) if isinstance(step, PER_JOB)]
    return passed[-1] if passed else None


def digest_of(incident: IncidentRow, policy: EscalationPolicy) -> str | None:
    """Return the digest in which the incident is listed, whenever it is raised again."""
    passed = [step for step in policy.steps[: incident.step] if isinstance(step, DigestStep)]
    return passed[-1].into if passed else None


def advance(
    incident: IncidentRow, policy: EscalationPolicy, now: datetime, trouble: str | None = None
) -> IncidentRow:
    """Go on to the next step, after the current one is done or given up for `trouble`."""
    step = policy.steps[incident.step]
    if isinstance(step, CloseStep):
        return closed(incident, now, f"by policy {policy.name}")
    following = incident.step + 1
    due = now + policy.steps[following].after if following < len(policy.steps) else None
    # A given-up step leaves its trouble; a successful try clears it.
    remaining_trouble = None if incident.failed_tries else incident.last_error
    return replace(
        incident,
        step=following,
        due_at=due,
        wake_at=due,
        failed_tries=0,
        delivered=(),
        last_error=trouble or remaining_trouble,
    )


def fail_step(incident: IncidentRow, policy: EscalationPolicy, now: datetime, trouble: str) -> IncidentRow:
    """Repeat the failed step after a growing pause, and go on without it after MAX_TRIES."""
    tries = incident.failed_tries + 1
    if tries >= MAX_TRIES:
        given_up = f"{step_name(policy.steps[incident.step])} given up after {tries} tries: {trouble}"
        return advance(incident, policy, now, given_up)
    again = now + pause_after(tries)
    return replace(incident, failed_tries=tries, due_at=again, wake_at=again, last_error=trouble)


def internal_error(incident: IncidentRow, now: datetime, trouble: str) -> IncidentRow:
    """Repeat the step after an error of ours, with pauses, for as long as it takes."""
    tries = min(incident.failed_tries + 1, MAX_TRIES - 1)
    return replace(incident, failed_tries=tries, last_error=trouble, wake_at=now + pause_after(tries))


def pause_after(tries: int) -> timedelta:
    """Return the pause after this number of failures in a row."""
    return min(_FIRST_PAUSE * (1 << min(tries - 1, 10)), _MAX_PAUSE)


def closed(incident: IncidentRow, now: datetime, why: str) -> IncidentRow:
    return replace(incident, wake_at=None, closed_at=now, close_reason=why)


def postpone(incident: IncidentRow, due: datetime) -> IncidentRow:
    """Wake a digest at `due`."""
    return replace(incident, due_at=due, wake_at=due)


def fail_report(
    incident: IncidentRow,
    now: datetime,
    failures: Mapping[str, str],
    names: Sequence[str],
    following: datetime,
) -> IncidentRow:
    """Repeat a digest that some sinks did not take, and after MAX_TRIES wait for the next one."""
    trouble = "; ".join(f"{name}: {why}" for name, why in failures.items())
    tries = incident.failed_tries + 1
    if tries >= MAX_TRIES:
        return replace(postpone(incident, following), failed_tries=0, delivered=(), last_error=trouble)
    again = now + pause_after(tries)
    taken = tuple(name for name in names if name not in failures)
    return replace(incident, failed_tries=tries, delivered=taken, last_error=trouble, wake_at=again)
