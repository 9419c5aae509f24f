"""Render alerts and digests, ready for any sink.

A digest is an incident too, and its lines are the entries of that incident: so it is claimed, repeated and
closed like every other incident, and no two supervisors send it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from warrener_contracts.events import JsonObject
from warrener_contracts.templates import render, to_text
from warrener_store.incidents.rows import IncidentOccurrence, IncidentRow, RaisedIncident
from warrener_supervisor.escalation.facts import alert_values, error_of, facts_of_incident
from warrener_supervisor.escalation.policy import WEEK, AlertStep, DigestPlan

KIND = "digest"
MAX_LINES = 10_000
# uuid5(NAMESPACE_DNS, "warrener.alerts"); never changes, so that a repeated alert keeps its id.
_ALERTS = UUID("0317090c-e5aa-55d3-890e-ae64b898928e")
_TITLE = "{{ kind }}: {{ about }}, {{ times }} times"
_TEXT = """{{ summary }}
first {{ first_seen }}, last {{ last_seen }}
warrener escalation ack {{ fingerprint }}"""
_SHOWN = 50


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """One message to people. A repeat, after a crash before its delivery was saved, has the same id."""

    alert_id: str
    title: str
    text: str
    urgent: bool
    facts: JsonObject


def render_alert(incident: IncidentRow, step: AlertStep) -> AlertMessage:
    """Render the alert of this step about this incident."""
    values = alert_values(incident)

    def fill(template: str) -> str:
        return to_text(render(template, values, missing=lambda absent: f"(no {absent.name})"))

    return AlertMessage(
        alert_id=alert_id(incident.fingerprint, incident.round, incident.step),
        title=fill(step.title or _TITLE),
        text=fill(step.text or _TEXT),
        urgent=step.urgent,
        facts=facts_of_incident(incident),
    )


def alert_id(fingerprint: str, turn: int, what: int | str) -> str:
    """Return the same id for the same alert, from each supervisor."""
    return str(uuid5(_ALERTS, f"{fingerprint}\n{turn}\n{what}"))


def add_entry(incident: IncidentRow, name: str, plan: DigestPlan, now: datetime) -> RaisedIncident:
    """Make the entry of an incident in the next digest; one entry, however often it is added."""
    day = next_report(plan, now).date().isoformat()
    return RaisedIncident(
        kind=KIND,
        fingerprint=f"{KIND}:{name}",
        occurrence=f"{incident.fingerprint}:{incident.round}:{day}",
        subject=name,
        sample={},
        raised_at=now,
    )


def fingerprint_of_entry(entry: IncidentOccurrence) -> str:
    """Return the fingerprint of the incident in this entry."""
    return entry.occurrence.rsplit(":", 2)[0]


def next_report(plan: DigestPlan, after: datetime) -> datetime:
    """Return the first time of the plan that is later than `after`."""
    day = after.astimezone(plan.zone).date()
    while True:
        if WEEK[day.weekday()] in plan.days:
            moment = datetime.combine(day, plan.at, plan.zone).astimezone(UTC)
            if moment > after:
                return moment
        day += timedelta(days=1)


def report(
    digest: IncidentRow,
    entries: Sequence[IncidentOccurrence],
    incidents: Iterable[IncidentRow],
    due: datetime,
) -> AlertMessage:
    """Render one message about the incidents of these entries, the most frequent first."""
    found = sorted(incidents, key=lambda incident: (-incident.times, incident.fingerprint))
    lines = [_line(incident) for incident in found[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"… and {len(found) - _SHOWN} more: warrener escalation list")
    total = sum(incident.times for incident in found)
    return AlertMessage(
        alert_id=alert_id(digest.fingerprint, digest.round, f"{due.isoformat()} {entries[0].occurrence}"),
        title=f"Digest {digest.subject}: {len(found)} incidents, {total} times",
        text="\n".join(lines),
        urgent=False,
        facts={"digest": digest.subject, "incidents": list(map(facts_of_incident, found[:_SHOWN]))},
    )


def _line(incident: IncidentRow) -> str:
    what = f" {error_of(incident).get('type', '')}".rstrip()
    state = "closed" if incident.closed_at else f"last {incident.last_seen_at.isoformat(timespec='minutes')}"
    about = incident.job_type or incident.subject
    return f"{incident.times} times {incident.kind} {about}{what} ({state}, {incident.fingerprint})"
