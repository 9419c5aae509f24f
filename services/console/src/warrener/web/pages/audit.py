"""The audit log: who did what, when and why, and how it ended. For admins."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from pydantic import ValidationError

from warrener.render.tones import Tone
from warrener.web.access.roles import Role
from warrener.web.api.audit import AuditEntry, AuditQuery, list_actions
from warrener.web.page import BadQuery, Page, PageRequest, View
from warrener_store.audit.rows import AuditOutcome

_TONES = {
    AuditOutcome.REQUESTED: Tone.LIVE,
    AuditOutcome.ACCEPTED: Tone.GOOD,
    AuditOutcome.REFUSED: Tone.WARNING,
    AuditOutcome.FORBIDDEN: Tone.ERROR,
    AuditOutcome.FAILED: Tone.ERROR,
}
_SECTIONS = {"job": "/jobs/{}", "schedule": "/schedules/{}", "redrive": "/redrives/{}"}
"""The page of an action's subject, by the first word of the action."""


def _badge(outcome: AuditOutcome) -> tuple[str, str]:
    return outcome.value, _TONES[outcome].value


def _address_of_subject(entry: AuditEntry) -> str | None:
    """The page of what the action was about, if it has one of its own."""
    pattern = _SECTIONS.get(entry.action.partition(".")[0])
    return pattern.format(entry.subject) if pattern and _is_plain(entry.subject) else None


def _is_plain(subject: str) -> bool:
    return bool(subject) and all(one.isalnum() or one in "-_." for one in subject)


def _link(query: AuditQuery, **changes: str) -> str:
    fields = {**query.model_dump(exclude={"before"}), **changes}
    return f"/audit?{urlencode({name: value for name, value in fields.items() if value})}"


def _values(entries: Sequence[AuditEntry], name: str) -> list[str]:
    return sorted({getattr(entry, name) for entry in entries})


async def _audit_view(request: PageRequest) -> View:
    names = AuditQuery.model_fields
    try:
        query = AuditQuery.model_validate(
            {name: text.strip() for name, text in request.query.items() if name in names}
        )
    except ValidationError:
        raise BadQuery("expected filters of at most 500 characters, got longer ones; shorten them") from None
    page = await list_actions(request.console, query)
    context: dict[str, Any] = {
        "records": page.records,
        "query": query,
        "is_filtered": bool(query.actor or query.action or query.subject),
        "next_url": _link(query, before=page.before) if page.before else None,
        "newest_url": _link(query) if query.before else None,
        "suggestions": {name: _values(page.records, name) for name in ("actor", "action")},
        "badge": _badge,
        "address_of": _address_of_subject,
    }
    return View(template="pages/audit.html", title="Audit log", context=context)


PAGES = (Page(name="audit", path="/audit", section="audit", view=_audit_view, role=Role.ADMIN, refresh=15.0),)
