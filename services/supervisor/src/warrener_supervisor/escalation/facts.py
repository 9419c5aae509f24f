"""What templates may name: of a case, and of a dead job. Pure."""

from datetime import timedelta
from typing import Any

from pydantic_core import to_jsonable_python

from warrener_contracts.events import JsonObject
from warrener_contracts.json_safety import is_object
from warrener_store.escalations import CaseRow
from warrener_store.rows import JobRow

_SHORT = 1_000  # characters of a message that an alert may show; the whole stands with the job


def sample_of(row: JobRow) -> JsonObject:
    """What a case keeps of a dead job. Not its arguments: they may hold what no chat should show."""
    error = row.error
    return {
        "job_id": str(row.job_id),
        "attempts": row.attempt,
        "queue": row.queue,
        "error": {
            "kind": error.kind.value if error else "",
            "type": error.type if error else "",
            "message": error.message[:_SHORT] if error else "",
            "bases": list(error.bases) if error else [],
        },
    }


def error_of(case: CaseRow) -> JsonObject:
    """What it died of the last time; empty where nothing died."""
    error: object = case.sample.get("error")
    return error if is_object(error) else {}


def facts_of_case(case: CaseRow) -> JsonObject:
    """What an alert may say of a case: its own words, and those of the last time that it was raised."""
    lasted = case.last_seen_at - case.first_seen_at
    return {
        **case.sample,
        "fingerprint": case.fingerprint,
        "kind": case.kind,
        "subject": case.subject,
        "job_type": case.job_type or "",
        "times": case.times,
        "first_seen": case.first_seen_at.isoformat(timespec="seconds"),
        "last_seen": case.last_seen_at.isoformat(timespec="seconds"),
        "lasted": str(timedelta(seconds=round(lasted.total_seconds()))),
    }


def facts_of_job(row: JobRow, case: CaseRow) -> JsonObject:
    """What a compensation may take over from the dead job."""
    own: dict[str, Any] = {
        **sample_of(row),
        "job_type": row.job_type,
        "arguments": row.arguments,
        "source": row.source,
        "idempotency_key": row.idempotency_key,
        "requested_at": row.requested_at.isoformat(),
        "fingerprint": case.fingerprint,
    }
    facts: JsonObject = to_jsonable_python(own, fallback=dict)
    return facts
