"""The audit log in both databases. Suite: `tests/conformance/test_store_console.py`."""

from datetime import datetime
from typing import Any
from uuid import UUID

from warrener_store.audit.rows import ALL_RECORDS, AuditFilter, AuditOutcome, AuditPosition, AuditRecord
from warrener_store.databases.session import SqlSession
from warrener_store.encoding import escape
from warrener_store.mapping import ColumnCodec, RowMapper
from warrener_store.statements import Parameters

AUDIT_RECORDS = RowMapper(AuditRecord)
WORDS = {"audit_record": ", ".join(AUDIT_RECORDS.columns)}

_LIST = f"SELECT {', '.join(AUDIT_RECORDS.columns)} FROM warrener_audit"  # noqa: S608 - our own names alone


def audit_list_query(
    which: AuditFilter, limit: int, after: AuditPosition | None, codec: ColumnCodec
) -> tuple[str, list[Any]]:
    """The statement of a page and its parameters. Each filter has an index in the order of the list."""
    parameters = Parameters()
    bind = parameters.bind
    chosen = {column: getattr(which, column) for column in ("actor", "action", "subject")}
    conditions = [
        f"{column} = {bind(escape(value))}" for column, value in chosen.items() if value is not None
    ]
    if after is not None:
        place = f"{bind(codec.encode_moment(after.recorded_at))}, {bind(codec.encode_id(after.record_id))}"
        conditions.append(f"(recorded_at, record_id) < ({place})")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"{_LIST}{where} ORDER BY recorded_at DESC, record_id DESC LIMIT {int(limit)}", parameters.values


class AuditLog(SqlSession):
    """Who has called which action, and its end. A record is written before its action begins, completed once,
    and never changed after that; only retention deletes it."""

    async def record_action(self, record: AuditRecord) -> None:
        """Store this record. A repeat changes nothing."""
        await self._change("record_action", *AUDIT_RECORDS.to_row(record, self.codec))

    async def complete_action(
        self, record_id: UUID, outcome: AuditOutcome, sentence: str, completed_at: datetime
    ) -> bool:
        """Store the end of an action; False if the record has one already, or does not exist."""
        end = outcome.value, escape(sentence), self.codec.encode_moment(completed_at)
        return bool(await self._change("complete_action", self.codec.encode_id(record_id), *end))

    async def audit_records(
        self, which: AuditFilter = ALL_RECORDS, limit: int = 50, after: AuditPosition | None = None
    ) -> list[AuditRecord]:
        """These records, the newest first, from behind `after` on."""
        text, parameters = audit_list_query(which, limit, after, self.codec)
        found = await self._query_text(text, parameters)
        return [AUDIT_RECORDS.from_row(values, self.codec) for values in found]
