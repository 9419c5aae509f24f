"""What is to be done about a case at a moment. Pure: everything that happens to cases follows from this."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from warrener_store.escalations import CaseRow
from warrener_supervisor.escalation.model import DEAD, PER_JOB, Alert, Close, Digest, Ladder, Period, Step
from warrener_supervisor.escalation.quiet import quiet_until

MOST_TRIES = 12  # of one step: about half an hour; then the ladder goes on without it
_FIRST_PAUSE = timedelta(seconds=5)
_LONGEST_PAUSE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing until then; None: nothing until it is raised again or somebody says something."""

    until: datetime | None
    why: str


@dataclass(frozen=True, slots=True)
class Carry:
    """This step is due."""

    step: Step


@dataclass(frozen=True, slots=True)
class Skip:
    """This step is due, and not wanted."""

    why: str


def decide(case: CaseRow, ladder: Ladder, quiet: Sequence[Period], now: datetime) -> Wait | Carry | Skip:
    """The next thing to do about an open case."""
    if is_snoozed(case, now):
        return Wait(case.snoozed_until, "snoozed")
    if case.step >= len(ladder.steps):
        return Wait(None, "its ladder is at its end")
    step = ladder.steps[case.step]
    due = case.due_at or case.first_seen_at + step.after
    if due > now:
        return Wait(due, f"{name_of(step)} is due then")
    if isinstance(step, Alert):
        return _about_alert(step, case, quiet, now)
    if isinstance(step, PER_JOB) and case.kind != DEAD:
        return Skip(f"nothing to {name_of(step)} about {case.kind}")
    return Carry(step)


def is_snoozed(case: CaseRow, now: datetime) -> bool:
    """Whether nothing at all is to happen now."""
    return case.snoozed_until is not None and case.snoozed_until > now


def _about_alert(step: Alert, case: CaseRow, quiet: Sequence[Period], now: datetime) -> Wait | Carry | Skip:
    if case.acknowledged_by is not None:
        return Skip(f"acknowledged by {case.acknowledged_by}")
    if not step.urgent and (until := quiet_until(quiet, now)):
        return Wait(until, "quiet hours")
    return Carry(step)


def name_of(step: Any) -> str:
    """The word by which the file calls it."""
    return str(step.do)


def late_step(case: CaseRow, ladder: Ladder) -> int | None:
    """The step that whatever is raised from now on gets at once: the last one for each job that is passed."""
    passed = [place for place, step in enumerate(ladder.steps[: case.step]) if isinstance(step, PER_JOB)]
    return passed[-1] if passed else None


def reported_in(case: CaseRow, ladder: Ladder) -> str | None:
    """The digest in which the case stands by now, whenever it is raised again."""
    passed = [step for step in ladder.steps[: case.step] if isinstance(step, Digest)]
    return passed[-1].into if passed else None


# -- what becomes of the case -----------------------------------------------------------------------------


def advanced(case: CaseRow, ladder: Ladder, now: datetime, trouble: str | None = None) -> CaseRow:
    """Its step is done, or given up for `trouble`; the next one is due in its time."""
    step = ladder.steps[case.step]
    if isinstance(step, Close):
        return closed(case, now, f"by ladder {ladder.name}")
    following = case.step + 1
    due = now + ladder.steps[following].after if following < len(ladder.steps) else None
    kept = (
        None if case.tries else case.trouble
    )  # of a step that was given up; what a further try has mended is over
    return replace(
        case, step=following, due_at=due, wake_at=due, tries=0, delivered=(), trouble=trouble or kept
    )


def failed(case: CaseRow, ladder: Ladder, now: datetime, trouble: str) -> CaseRow:
    """Its step has failed: again after a pause that grows, and at last without it."""
    tries = case.tries + 1
    if tries >= MOST_TRIES:
        given_up = f"{name_of(ladder.steps[case.step])} given up after {tries} tries: {trouble}"
        return advanced(case, ladder, now, given_up)
    again = now + pause_after(tries)
    return replace(case, tries=tries, due_at=again, wake_at=again, trouble=trouble)


def is_last_try(case: CaseRow) -> bool:
    """Whether the ladder goes on without its step if that fails once more."""
    return case.tries + 1 >= MOST_TRIES


def stumbled(case: CaseRow, now: datetime, trouble: str) -> CaseRow:
    """We ourselves have failed at it: again after a pause, for as long as it takes."""
    tries = min(case.tries + 1, MOST_TRIES - 1)
    return replace(case, tries=tries, trouble=trouble, wake_at=now + pause_after(tries))


def pause_after(tries: int) -> timedelta:
    """How long to leave a sink alone that has failed so many times in a row."""
    return min(_FIRST_PAUSE * (1 << min(tries - 1, 10)), _LONGEST_PAUSE)


def waiting(case: CaseRow, wait: Wait) -> CaseRow:
    """Looked at again when the wait is over."""
    return replace(case, wake_at=wait.until)


def closed(case: CaseRow, now: datetime, why: str) -> CaseRow:
    """Nothing more is done about it."""
    return replace(case, wake_at=None, closed_at=now, closed_why=why)


def delivered(case: CaseRow, taken: tuple[str, ...]) -> CaseRow:
    """These sinks have taken the alert, and are not told again."""
    return replace(case, delivered=taken)


def put_off(case: CaseRow, due: datetime) -> CaseRow:
    """A digest waits for its time."""
    return replace(case, due_at=due, wake_at=due)


def report_failed(
    case: CaseRow, now: datetime, failures: Mapping[str, str], names: Sequence[str], following: datetime
) -> CaseRow:
    """A digest that some did not take: again soon, and after too many tries with the next one."""
    trouble = "; ".join(f"{name}: {why}" for name, why in failures.items())
    tries = case.tries + 1
    if tries >= MOST_TRIES:
        return replace(put_off(case, following), tries=0, delivered=(), trouble=trouble)
    again = now + pause_after(tries)
    taken = tuple(name for name in names if name not in failures)
    return replace(case, tries=tries, delivered=taken, trouble=trouble, wake_at=again)
