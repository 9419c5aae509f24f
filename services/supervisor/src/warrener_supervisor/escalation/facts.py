"""The facts of an incident and of a dead job, for alerts and compensations, and the names of those facts."""

from datetime import timedelta
from typing import Any, Final

from pydantic_core import to_jsonable_python

from warrener_contracts.events import JsonObject
from warrener_contracts.json_safety import is_object
from warrener_contracts.templates import TemplateNames
from warrener_store.incidents.rows import IncidentRow
from warrener_store.jobs.rows import JobRow

_SHORT = 1_000  # characters of a message in an alert; the job has the whole

_COMMON: Final = (
    "job_type job_id attempts queue error error.kind error.type error.message error.base_classes fingerprint"
)
_OF_INCIDENT: Final = "kind subject about summary times first_seen last_seen lasted text since schedule"
ALERT_NAMES: Final = TemplateNames(
    tuple(f"{_COMMON} {_OF_INCIDENT}".split()), times=("first_seen", "last_seen")
)
"""The names in alerts. Those that the store has of some kinds of incidents alone are among them."""
COMPENSATION_NAMES: Final = TemplateNames(
    tuple(f"{_COMMON} arguments arguments.* source idempotency_key requested_at".split()),
    times=("requested_at",),
)


def sample_of(row: JobRow) -> JsonObject:
    """Return what an incident stores of a dead job. Not its arguments, which may be confidential."""
    error = row.error
    return {
        "job_id": str(row.job_id),
        "attempts": row.attempt,
        "queue": row.queue,
        "error": {
            "kind": error.kind.value if error else "",
            "type": error.type if error else "",
            "message": error.message[:_SHORT] if error else "",
            "base_classes": list(error.base_classes) if error else [],
        },
    }


def error_of(incident: IncidentRow) -> JsonObject:
    """Return the last error of an incident; empty if nothing died."""
    error: object = incident.sample.get("error")
    return error if is_object(error) else {}


def facts_of_incident(incident: IncidentRow) -> JsonObject:
    """Return the fields of an incident, and those of its last occurrence."""
    lasted = incident.last_seen_at - incident.first_seen_at
    return {
        **incident.sample,
        "fingerprint": incident.fingerprint,
        "kind": incident.kind,
        "subject": incident.subject,
        "job_type": incident.job_type or "",
        "times": incident.times,
        "first_seen": incident.first_seen_at.isoformat(timespec="seconds"),
        "last_seen": incident.last_seen_at.isoformat(timespec="seconds"),
        "lasted": str(timedelta(seconds=round(lasted.total_seconds()))),
    }


def alert_values(incident: IncidentRow) -> dict[str, Any]:
    """Return the values of the names in an alert."""
    return facts_of_incident(incident) | {
        "about": incident.job_type or incident.subject,
        "summary": _summary(incident),
        "first_seen": incident.first_seen_at.replace(microsecond=0),
        "last_seen": incident.last_seen_at.replace(microsecond=0),
    }


def _summary(incident: IncidentRow) -> str:
    error = error_of(incident)
    if error.get("type"):
        return f"{error['type']}: {error.get('message', '')}"
    return str(incident.sample.get("text", incident.subject))


def compensation_values(row: JobRow, incident: IncidentRow) -> dict[str, Any]:
    """Return the values of the names in a compensation's arguments."""
    arguments: JsonObject = to_jsonable_python(row.arguments, fallback=dict)
    return sample_of(row) | {
        "job_type": row.job_type,
        "arguments": arguments,
        "source": row.source,
        "idempotency_key": row.idempotency_key,
        "requested_at": row.requested_at,
        "fingerprint": incident.fingerprint,
    }
