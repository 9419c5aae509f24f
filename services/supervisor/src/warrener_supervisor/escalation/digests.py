"""The daily report of what is less important. Pure.

A digest is a case too, and what stands in it are its entries: so it is claimed, repeated and closed like
every other case, and no two supervisors send it.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from warrener_store.escalations import CaseEntry, CaseRow, RaisedIncident
from warrener_supervisor.escalation.alerts import AlertMessage, alert_id
from warrener_supervisor.escalation.facts import error_of, facts_of_case
from warrener_supervisor.escalation.model import WEEK, DigestPlan

KIND = "digest"
MAX_LINES = 10_000
_SHOWN = 50


def add_entry(case: CaseRow, name: str, plan: DigestPlan, now: datetime) -> RaisedIncident:
    """The case stands in the next report, once, however often it is put down."""
    day = next_report(plan, now).date().isoformat()
    return RaisedIncident(
        kind=KIND,
        fingerprint=f"{KIND}:{name}",
        occurrence=f"{case.fingerprint}:{case.round}:{day}",
        subject=name,
        job_type=None,
        sample={},
        raised_at=now,
    )


def fingerprint_of_entry(entry: CaseEntry) -> str:
    """The fingerprint of the case that this entry has put down."""
    return entry.occurrence.rsplit(":", 2)[0]


def next_report(plan: DigestPlan, after: datetime) -> datetime:
    """The first moment of the plan that is later than `after`."""
    day = after.astimezone(plan.zone).date()
    while True:
        if WEEK[day.weekday()] in plan.days:
            moment = datetime.combine(day, plan.at, plan.zone).astimezone(UTC)
            if moment > after:
                return moment
        day += timedelta(days=1)


def report(
    digest: CaseRow, entries: Sequence[CaseEntry], cases: Mapping[str, CaseRow], due: datetime
) -> AlertMessage:
    """One message about all of them, the most frequent first."""
    named = {fingerprint for entry in entries if (fingerprint := fingerprint_of_entry(entry)) in cases}
    found = sorted((cases[each] for each in named), key=lambda case: (-case.times, case.fingerprint))
    lines = [_line(case) for case in found[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"… and {len(found) - _SHOWN} more: warrener escalation list")
    total = sum(case.times for case in found)
    return AlertMessage(
        alert_id=alert_id(digest.fingerprint, digest.round, f"{due.isoformat()} {_first(entries)}"),
        title=f"Digest {digest.subject}: {len(found)} cases, {total} times",
        text="\n".join(lines),
        urgent=False,
        facts={"digest": digest.subject, "cases": [facts_of_case(case) for case in found[:_SHOWN]]},
    )


def _line(case: CaseRow) -> str:
    what = f" {error_of(case).get('type', '')}".rstrip()
    state = "closed" if case.closed_at else f"last {case.last_seen_at.isoformat(timespec='minutes')}"
    about = case.job_type or case.subject
    return f"{case.times} times {case.kind} {about}{what} ({state}, {case.fingerprint})"


def _first(entries: Sequence[CaseEntry]) -> str:
    return entries[0].occurrence if entries else ""
