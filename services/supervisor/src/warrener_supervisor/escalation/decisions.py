"""What is to be done about a case at a moment. Pure: everything that happens to cases follows from this."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from warrener_store.escalations import CaseRow
from warrener_supervisor.escalation.model import (
    DEAD,
    PER_JOB,
    AlertStep,
    CloseStep,
    DigestStep,
    EscalationStep,
    Ladder,
    QuietPeriod,
)
from warrener_supervisor.escalation.quiet_hours import quiet_hours_end

MAX_TRIES = 12  # of one step: about half an hour; then the ladder goes on without it
_FIRST_PAUSE = timedelta(seconds=5)
_MAX_PAUSE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Nothing until then; None: nothing until it is raised again or somebody says something."""

    until: datetime | None
    why: str


@dataclass(frozen=True, slots=True)
class RunStep:
    """This step is due."""

    step: EscalationStep


@dataclass(frozen=True, slots=True)
class SkipStep:
    """This step is due, and not wanted."""

    why: str


def decide(
    case: CaseRow, ladder: Ladder, quiet: Sequence[QuietPeriod], now: datetime
) -> WaitUntil | RunStep | SkipStep:
    """The next thing to do about an open case."""
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
    """Whether nothing at all is to happen now."""
    return case.snoozed_until is not None and case.snoozed_until > now


def _about_alert(
    step: AlertStep, case: CaseRow, quiet: Sequence[QuietPeriod], now: datetime
) -> WaitUntil | RunStep | SkipStep:
    if case.acknowledged_by is not None:
        return SkipStep(f"acknowledged by {case.acknowledged_by}")
    if not step.urgent and (until := quiet_hours_end(quiet, now)):
        return WaitUntil(until, "quiet hours")
    return RunStep(step)


def step_name(step: Any) -> str:
    """The word by which the file calls it."""
    return str(step.do)


def late_step(case: CaseRow, ladder: Ladder) -> int | None:
    """The step that whatever is raised from now on gets at once: the last one for each job that is passed."""
    passed = [place for place, step in enumerate(ladder.steps[: case.step]) if isinstance(step, PER_JOB)]
    return passed[-1] if passed else None


def digest_of(case: CaseRow, ladder: Ladder) -> str | None:
    """The digest in which the case stands by now, whenever it is raised again."""
    passed = [step for step in ladder.steps[: case.step] if isinstance(step, DigestStep)]
    return passed[-1].into if passed else None


# -- what becomes of the case -----------------------------------------------------------------------------


def advance(case: CaseRow, ladder: Ladder, now: datetime, trouble: str | None = None) -> CaseRow:
    """Its step is done, or given up for `trouble`; the next one is due in its time."""
    step = ladder.steps[case.step]
    if isinstance(step, CloseStep):
        return closed(case, now, f"by ladder {ladder.name}")
    following = case.step + 1
    due = now + ladder.steps[following].after if following < len(ladder.steps) else None
    remaining_trouble = (
        None if case.tries else case.trouble
    )  # of a step that was given up; what a further try has mended is over
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
    """Its step has failed: again after a pause that grows, and at last without it."""
    tries = case.tries + 1
    if tries >= MAX_TRIES:
        given_up = f"{step_name(ladder.steps[case.step])} given up after {tries} tries: {trouble}"
        return advance(case, ladder, now, given_up)
    again = now + pause_after(tries)
    return replace(case, tries=tries, due_at=again, wake_at=again, trouble=trouble)


def is_last_try(case: CaseRow) -> bool:
    """Whether the ladder goes on without its step if that fails once more."""
    return case.tries + 1 >= MAX_TRIES


def internal_error(case: CaseRow, now: datetime, trouble: str) -> CaseRow:
    """We ourselves have failed at it: again after a pause, for as long as it takes."""
    tries = min(case.tries + 1, MAX_TRIES - 1)
    return replace(case, tries=tries, trouble=trouble, wake_at=now + pause_after(tries))


def pause_after(tries: int) -> timedelta:
    """How long to leave a sink alone that has failed so many times in a row."""
    return min(_FIRST_PAUSE * (1 << min(tries - 1, 10)), _MAX_PAUSE)


def waiting(case: CaseRow, wait: WaitUntil) -> CaseRow:
    """Looked at again when the wait is over."""
    return replace(case, wake_at=wait.until)


def closed(case: CaseRow, now: datetime, why: str) -> CaseRow:
    """Nothing more is done about it."""
    return replace(case, wake_at=None, closed_at=now, closed_why=why)


def mark_delivered(case: CaseRow, taken: tuple[str, ...]) -> CaseRow:
    """These sinks have taken the alert, and are not told again."""
    return replace(case, delivered=taken)


def postpone(case: CaseRow, due: datetime) -> CaseRow:
    """A digest waits for its time."""
    return replace(case, due_at=due, wake_at=due)


def fail_report(
    case: CaseRow, now: datetime, failures: Mapping[str, str], names: Sequence[str], following: datetime
) -> CaseRow:
    """A digest that some did not take: again soon, and after too many tries with the next one."""
    trouble = "; ".join(f"{name}: {why}" for name, why in failures.items())
    tries = case.tries + 1
    if tries >= MAX_TRIES:
        return replace(postpone(case, following), tries=0, delivered=(), trouble=trouble)
    again = now + pause_after(tries)
    taken = tuple(name for name in names if name not in failures)
    return replace(case, tries=tries, delivered=taken, trouble=trouble, wake_at=again)
