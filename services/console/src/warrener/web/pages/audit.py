"""The audit log: who did what, when and why, and how it ended. For admins."""

from typing import Any

from warrener.operations.audit import AUDIT, OUTCOME_TONES, AuditEntry, AuditQuery, list_records
from warrener.web.page import Page, PageRequest, View
from warrener.web.queries import read_query
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


async def _audit_view(request: PageRequest) -> View:
    query = read_query(AuditQuery, {name: text.strip() for name, text in request.query.items()})
    page = await list_records(request.console, query)
    context: dict[str, Any] = {
        "audit": page,
        "query": query,
        "given": request.query,
        "is_filtered": bool(query.actor or query.action or query.subject),
        "suggestions": {
            name: sorted({getattr(one, name) for one in page.records}) for name in ("actor", "action")
        },
        "badge": _badge,
        "address_of": _address_of_subject,
    }
    return View(template="pages/audit.html", title="Audit log", context=context)


PAGES = (Page(name="audit", path="/audit", view=_audit_view, role=AUDIT.role),)
