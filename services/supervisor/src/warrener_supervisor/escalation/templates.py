"""Templates with places such as `{job_type}` or `{error.message}`, and the facts that they may name.

`{{` and `}}` stand for braces.
"""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, cast

from pydantic_core import to_jsonable_python

from warrener_contracts.events import JsonObject
from warrener_contracts.json_safety import is_array, is_object
from warrener_store.incidents.rows import IncidentRow
from warrener_store.jobs.rows import JobRow

_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*", re.ASCII)
_NOTHING = object()
_SHORT = 1_000  # characters of a message in an alert; the job has the whole


class NothingThere(LookupError):
    """A template names a field that the facts do not have."""


def mistakes_in(template: Any) -> Iterator[str]:
    """Yield the mistakes in the places of a text, or of the texts in a JSON value."""
    if isinstance(template, str):
        for found in _PLACE.finditer(template):
            if found[0] not in ("{{", "}}") and not (found[1] and _NAME.fullmatch(found[1])):
                yield (
                    "expected places such as {job_type} or {error.message} (a brace is written twice), "
                    f"got {found[0]!r} in {template[:60]!r}"
                )
    for part in _parts(template):
        yield from mistakes_in(part)


def filled_text(template: str, facts: Mapping[str, Any]) -> str:
    """Fill a text for people: a missing field is shown as its name with a question mark."""

    def fill(found: re.Match[str]) -> str:
        if found[0] in ("{{", "}}"):
            return found[0][0]
        value = _look_up(found[1], facts)
        return f"{{{found[1]}?}}" if value is _NOTHING else _as_text(value)

    return _PLACE.sub(fill, template)


def filled(template: Any, facts: Mapping[str, Any]) -> Any:
    """Fill a JSON value for machines: a text that is one place alone becomes its value. Raises
    NothingThere."""
    if isinstance(template, str):
        return _filled_one(template, facts)
    if isinstance(template, Mapping):
        named = cast("Mapping[str, Any]", template)
        return {key: filled(value, facts) for key, value in named.items()}
    if is_array(template):
        return [filled(value, facts) for value in template]
    return template


def _filled_one(template: str, facts: Mapping[str, Any]) -> Any:
    alone = _PLACE.fullmatch(template)
    if alone and alone[1]:
        return _needed(alone[1], facts)
    return _PLACE.sub(
        lambda found: found[0][0] if found[0] in ("{{", "}}") else _as_text(_needed(found[1], facts)),
        template,
    )


def _needed(name: str, facts: Mapping[str, Any]) -> Any:
    value = _look_up(name, facts)
    if value is _NOTHING:
        raise NothingThere(f"expected {{{name}}} in the dead job, got nothing by that name")
    return value


def _look_up(name: str, facts: Mapping[str, Any]) -> Any:
    value: Any = facts
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _NOTHING
        value = cast("Mapping[str, Any]", value)[part]
    return value


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _parts(template: Any) -> list[Any]:
    if isinstance(template, Mapping):
        return list(cast("Mapping[str, Any]", template).values())
    return list(template) if is_array(template) else []


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
            "bases": list(error.bases) if error else [],
        },
    }


def error_of(incident: IncidentRow) -> JsonObject:
    """Return the last error of an incident; empty if nothing died."""
    error: object = incident.sample.get("error")
    return error if is_object(error) else {}


def facts_of_incident(incident: IncidentRow) -> JsonObject:
    """Return the fields that an alert may name: those of the incident, and those of its last occurrence."""
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


def facts_of_job(row: JobRow, incident: IncidentRow) -> JsonObject:
    """Return the fields that a compensation may take over from the dead job."""
    own: dict[str, Any] = {
        **sample_of(row),
        "job_type": row.job_type,
        "arguments": row.arguments,
        "source": row.source,
        "idempotency_key": row.idempotency_key,
        "requested_at": row.requested_at.isoformat(),
        "fingerprint": incident.fingerprint,
    }
    facts: JsonObject = to_jsonable_python(own, fallback=dict)
    return facts
