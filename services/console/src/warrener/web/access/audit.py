"""Writes each action into the audit log: before it is tried, and again when its end is known."""

from typing import NamedTuple
from uuid import UUID, uuid4

import structlog

from warrener.operations.roles import Principal
from warrener.web.console import Console
from warrener_store import StoreError
from warrener_store.audit.rows import AuditOutcome, AuditRecord

_log = structlog.stdlib.get_logger(__name__)

MAX_REASON = 500
_MAX_SUBJECT = 500  # characters
_MAX_SENTENCE = 1000


class CalledAction(NamedTuple):
    """An action that somebody has called: `address` is that of the caller, `subject` what the action is
    about."""

    principal: Principal
    address: str
    action: str
    subject: str
    reason: str


class AuditTrail:
    """The audit log of one console. An action that cannot be recorded is not tried."""

    def __init__(self, console: Console) -> None:
        self._console = console

    async def begin(self, called: CalledAction) -> UUID:
        """Record an action before it is tried. Raises StoreError."""
        record = AuditRecord(
            record_id=uuid4(),
            recorded_at=await self._console.now(),
            actor=called.principal.name,
            role=called.principal.role.value,
            method=called.principal.method,
            address=called.address,
            action=called.action,
            subject=called.subject[:_MAX_SUBJECT],
            reason=called.reason[:MAX_REASON],
        )
        await self._console.store.record_action(record)
        return record.record_id

    async def complete(self, record_id: UUID, outcome: AuditOutcome, sentence: str) -> None:
        """Record the end of an action. If the store is away meanwhile, the record stays `requested`, and
        a log line has the end: the action itself is over, so its answer is not replaced by an error."""
        try:
            now = await self._console.now()
            await self._console.store.complete_action(record_id, outcome, sentence[:_MAX_SENTENCE], now)
        except StoreError as error:
            _log.error(
                "The end of an action was not recorded.",
                action="console.audit_incomplete",
                record_id=str(record_id),
                outcome=outcome.value,
                sentence=sentence,
                reason=str(error),
            )
