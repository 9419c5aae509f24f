"""The audit log: who has called which action of the console, and its end. For admins."""

from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from warrener.web.access.masking import Masker
from warrener.web.access.roles import Role
from warrener.web.api import ConsoleOfApp, allowed_for
from warrener.web.console import Console
from warrener.web.page import BadQuery
from warrener_store.audit.rows import AuditFilter, AuditOutcome, AuditPosition, AuditRecord

_PAGE_SIZE = 50
_MAX_TEXT = 500


class AuditQuery(BaseModel):
    """The records of a page. An empty text selects any; `before` is that of the page before."""

    actor: Annotated[str, Field(max_length=_MAX_TEXT)] = ""
    action: Annotated[str, Field(max_length=_MAX_TEXT)] = ""
    subject: Annotated[str, Field(max_length=_MAX_TEXT)] = ""
    before: Annotated[str, Field(max_length=100)] = ""


class AuditEntry(BaseModel):
    """One action that somebody has called.

    `outcome` is `requested` while its end is not known: it runs, or its console has died meanwhile.
    """

    record_id: UUID
    recorded_at: datetime
    actor: str
    role: str
    method: str
    address: str
    action: str
    subject: str
    reason: str
    outcome: AuditOutcome
    sentence: str
    completed_at: datetime | None

    @classmethod
    def of(cls, record: AuditRecord, masker: Masker) -> "AuditEntry":
        """The record without secrets that people have written."""
        return cls(
            record_id=record.record_id,
            recorded_at=record.recorded_at,
            actor=record.actor,
            role=record.role,
            method=record.method,
            address=record.address,
            action=record.action,
            subject=record.subject,
            reason=masker.text(record.reason),
            outcome=record.outcome,
            sentence=masker.text(record.sentence),
            completed_at=record.completed_at,
        )


class AuditPage(BaseModel):
    """Records, the newest first. `before` continues the list: None at its end."""

    records: list[AuditEntry]
    before: str | None = None


async def list_actions(console: Console, query: AuditQuery) -> AuditPage:
    """List records of actions. Raises BadQuery."""
    which = AuditFilter(actor=query.actor or None, action=query.action or None, subject=query.subject or None)
    after = parse_position(query.before) if query.before else None
    found = await console.store.audit_records(which, _PAGE_SIZE + 1, after)
    shown = found[:_PAGE_SIZE]
    return AuditPage(
        records=[AuditEntry.of(record, console.masker) for record in shown],
        before=_cursor(shown[-1]) if len(found) > _PAGE_SIZE else None,
    )


def _cursor(record: AuditRecord) -> str:
    moment = record.recorded_at.astimezone(UTC).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='microseconds')}~{record.record_id}"


def parse_position(cursor: str) -> AuditPosition:
    """Reverse `before` of a page. Raises BadQuery."""
    moment, _, record_id = cursor.partition("~")
    try:
        return AuditPosition(datetime.fromisoformat(moment).replace(tzinfo=UTC), UUID(record_id))
    except ValueError:
        raise BadQuery(
            f"before: expected the `before` of a page, got {cursor!r:.60}; begin at the newest"
        ) from None


router = APIRouter(tags=["audit"], dependencies=[allowed_for(Role.ADMIN, "the audit log")])


@router.get("/audit", summary="Records of actions, the newest first")
async def read_audit_log(console: ConsoleOfApp, query: Annotated[AuditQuery, Query()]) -> AuditPage:
    """Role: admin."""
    return await list_actions(console, query)
