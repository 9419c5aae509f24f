"""The audit log: who did what, when and why, and how it ended. For admins."""

from typing import Any

from warrener.operations.audit import AUDIT, OUTCOME_TONES, AuditEntry, AuditQuery, list_records
from warrener.web.page import PageRequest, View, page
from warrener_store.audit.rows import AuditOutcome

_SECTIONS = {"job": "/jobs/{}", "schedule": "/schedules/{}", "redrive": "/redrives/{}"}
"""The page of an action's subject, by the first word of the action."""


def _badge(outcome: AuditOutcome) -> tuple[str, str]:
    return outcome.value, OUTCOME_TONES[outcome].value


def _address_of_subject(entry: AuditEntry) -> str | None:
    """The page of what the action was about, if it has one of its own."""
    pattern, subject = _SECTIONS.get(entry.action.partition(".")[0]), entry.subject
    is_plain = bool(subject) and all(one.isalnum() or one in "-_." for one in subject)
    return pattern.format(subject) if pattern and is_plain else None


@page("/audit", role=AUDIT.role)
async def show_audit(request: PageRequest) -> View:
    """Show the newest records."""
    query = request.read(AuditQuery)
    found = await list_records(request.console, query)
    context: dict[str, Any] = {
        "audit": found,
        "query": query,
        "given": request.query,
        "is_filtered": bool(query.actor or query.action or query.subject),
        "suggestions": {
            name: sorted({getattr(one, name) for one in found.records}) for name in ("actor", "action")
        },
        "badge": _badge,
        "address_of": _address_of_subject,
    }
    return View("Audit log", context)
