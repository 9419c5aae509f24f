"""The audit log: who has called which action of the console, and its end. For admins."""

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, Field

from warrener.operations.noun import Backend, ListQuery, Noun, cut_page, fields_from, read_position
from warrener.operations.roles import Role
from warrener.render.tones import Tone
from warrener_store.audit.rows import AuditFilter, AuditOutcome, AuditPosition

OUTCOME_TONES = {
    AuditOutcome.REQUESTED: Tone.LIVE,
    AuditOutcome.ACCEPTED: Tone.GOOD,
    AuditOutcome.REFUSED: Tone.WARNING,
    AuditOutcome.FORBIDDEN: Tone.ERROR,
    AuditOutcome.FAILED: Tone.ERROR,
}


class AuditQuery(ListQuery):
    """The records to list. An empty text selects any."""

    actor: str = Field(default="", max_length=500, description="Name of the person or program.")
    action: str = Field(default="", max_length=500, description="Action, such as job.cancel.")
    subject: str = Field(default="", max_length=500, description="Subject of the action, by its id or name.")


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


class AuditPage(BaseModel):
    """Records, the newest first. `next`: pass it as `after`."""

    records: list[AuditEntry]
    next: str | None = None


async def list_records(backend: Backend, query: AuditQuery) -> AuditPage:
    """List who has called which action of the console, why, and how it ended. The newest come first.

    $ warrener audit
    $ warrener audit --actor ann --action job.cancel --json
    """
    which = AuditFilter(actor=query.actor or None, action=query.action or None, subject=query.subject or None)
    after = read_position(query.after, lambda moment, key: AuditPosition(moment, UUID(key)))
    found = await backend.store.audit_records(which, query.limit + 1, after)
    shown, following = cut_page(found, query.limit, lambda one: (one.recorded_at, one.record_id))
    hide = (await backend.learn()).every.text
    records = [
        fields_from(AuditEntry, one) | {"reason": hide(one.reason), "sentence": hide(one.sentence)}
        for one in shown
    ]
    return AuditPage(records=[AuditEntry.model_validate(one) for one in records], next=following)


AUDIT = Noun(
    word="audit",
    plural="audit",
    rows="records",
    key="record_id",
    query=AuditQuery,
    list=list_records,
    columns={
        "when": "recorded_at",
        "who": "actor",
        "action": "action",
        "subject": "subject",
        "outcome": "outcome",
        "said": "sentence",
        "why": "reason",
    },
    empty="No record: nobody has called such an action of the console.",
    role=Role.ADMIN,
)
