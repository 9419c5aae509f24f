"""The audit log: its port, for both databases and in memory. Suite:
`tests/conformance/test_store_audit.py`."""

from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from warrener_store.audit.rows import ALL_RECORDS, AuditFilter, AuditOutcome, AuditPosition, AuditRecord
from warrener_store.databases.session import SqlSession
from warrener_store.encoding import escape
from warrener_store.mapping import ColumnCodec, RowMapper

AUDIT_RECORDS = RowMapper(AuditRecord)
WORDS = {"audit_record": ", ".join(AUDIT_RECORDS.columns)}
"""The meanings of words in braces of statements."""

_LIST = f"SELECT {', '.join(AUDIT_RECORDS.columns)} FROM warrener_audit"  # noqa: S608 - our own names alone


class AuditLog(Protocol):
    """Who has called which action, and its end. A record is written before its action begins, completed once,
    and never changed after that; only retention deletes it."""

    async def record_action(self, record: AuditRecord) -> None:
        """Store this record. A repeat changes nothing."""
        ...

    async def complete_action(
        self, record_id: UUID, outcome: AuditOutcome, sentence: str, completed_at: datetime
    ) -> bool:
        """Store the end of an action; False if the record has one already, or does not exist."""
        ...

    async def audit_records(
        self, which: AuditFilter = ALL_RECORDS, limit: int = 50, after: AuditPosition | None = None
    ) -> list[AuditRecord]:
        """These records, the newest first, from behind `after` on."""
        ...


def audit_list_query(
    which: AuditFilter, limit: int, after: AuditPosition | None, codec: ColumnCodec
) -> tuple[str, list[Any]]:
    """The statement of a page and its parameters. Each filter has an index in the order of the list."""
    conditions: list[str] = []
    parameters: list[Any] = []
    for column in ("actor", "action", "subject"):
        value: str | None = getattr(which, column)
        if value is not None:
            parameters.append(escape(value))
            conditions.append(f"{column} = ${len(parameters)}")
    if after is not None:
        parameters += [codec.encode_moment(after.recorded_at), codec.encode_id(after.record_id)]
        conditions.append(f"(recorded_at, record_id) < (${len(parameters) - 1}, ${len(parameters)})")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"{_LIST}{where} ORDER BY recorded_at DESC, record_id DESC LIMIT {int(limit)}", parameters


class SqlAuditLog(SqlSession, AuditLog):
    """The audit log in both databases."""

    async def record_action(self, record: AuditRecord) -> None:
        await self._change("record_action", *AUDIT_RECORDS.to_row(record, self.codec))

    async def complete_action(
        self, record_id: UUID, outcome: AuditOutcome, sentence: str, completed_at: datetime
    ) -> bool:
        end = outcome.value, escape(sentence), self.codec.encode_moment(completed_at)
        return bool(await self._change("complete_action", self.codec.encode_id(record_id), *end))

    async def audit_records(
        self, which: AuditFilter = ALL_RECORDS, limit: int = 50, after: AuditPosition | None = None
    ) -> list[AuditRecord]:
        text, parameters = audit_list_query(which, limit, after, self.codec)
        found = await self._query_text(text, parameters)
        return [AUDIT_RECORDS.from_row(values, self.codec) for values in found]


class MemoryAuditLog(AuditLog):
    """The audit log in a dictionary."""

    def __init__(self) -> None:
        self._audit: dict[UUID, AuditRecord] = {}

    async def record_action(self, record: AuditRecord) -> None:
        self._audit.setdefault(record.record_id, record)

    async def complete_action(
        self, record_id: UUID, outcome: AuditOutcome, sentence: str, completed_at: datetime
    ) -> bool:
        record = self._audit.get(record_id)
        if record is None or record.completed_at is not None:
            return False
        self._audit[record_id] = replace(
            record, outcome=outcome, sentence=sentence, completed_at=completed_at
        )
        return True

    async def audit_records(
        self, which: AuditFilter = ALL_RECORDS, limit: int = 50, after: AuditPosition | None = None
    ) -> list[AuditRecord]:
        found = sorted(
            (record for record in self._audit.values() if which.has(record)),
            key=lambda record: record.position,
            reverse=True,
        )
        return [record for record in found if after is None or record.position < after][:limit]
