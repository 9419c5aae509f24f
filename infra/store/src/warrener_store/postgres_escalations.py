"""Cases in PostgreSQL: each operation is one statement."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import Any

from warrener_store.encoding import escape
from warrener_store.escalations import CaseChange, CaseEntry, CaseRow, Escalations, RaisedIncident
from warrener_store.records.cases import (
    RAISED_COLUMNS,
    case_from_row,
    entry_from_row,
    progress_to_row,
    raised_to_row,
)
from warrener_store.records.codec import POSTGRES_CODEC, encode_text

Run = Callable[..., Awaitable[Sequence[Sequence[Any]]]]


class PostgresEscalations(Escalations):
    """Runs its statements as the state store does: `query` for questions, `change` for all else."""

    def __init__(self, query: Run, change: Run) -> None:
        self._query = query
        self._change = change

    async def raise_cases(self, raised: Sequence[RaisedIncident]) -> None:
        if not raised:
            return
        rows = zip(*(raised_to_row(each, POSTGRES_CODEC) for each in raised), strict=True)
        columns = [list(column) for column in rows]
        assert len(columns) == len(RAISED_COLUMNS)
        await self._change("raise_cases", *columns)

    async def claim_cases(self, now: datetime, until: datetime, claim: str, limit: int) -> list[CaseRow]:
        found = await self._change("claim_cases", now, until, claim, limit)
        rows = (case_from_row(values, POSTGRES_CODEC) for values in found)
        return sorted(rows, key=lambda row: (row.wake_at or now, row.fingerprint))

    async def save_case(self, row: CaseRow) -> bool:
        return bool(await self._change("save_case", *progress_to_row(row, POSTGRES_CODEC)))

    async def change_cases(self, changes: Sequence[CaseChange]) -> set[str]:
        return {
            each.fingerprint for each in changes if await self._change("change_case", *_change_to_row(each))
        }

    async def pending(self, fingerprint: str, below: int, limit: int) -> list[CaseEntry]:
        found = await self._query("pending_entries", escape(fingerprint), below, limit)
        return [entry_from_row(values, POSTGRES_CODEC) for values in found]

    async def settle(self, fingerprint: str, occurrences: Collection[str], done: int) -> None:
        names = [escape(each) for each in occurrences]
        await self._change("settle_entries", escape(fingerprint), names, done)

    async def cases(self, *, closed: bool = False, limit: int = 50) -> list[CaseRow]:
        found = await self._query("cases" if closed else "open_cases", limit)
        return [case_from_row(values, POSTGRES_CODEC) for values in found]

    async def cases_by_fingerprint(self, fingerprints: Collection[str]) -> dict[str, CaseRow]:
        requested = [escape(each) for each in fingerprints]
        rows = [
            case_from_row(values, POSTGRES_CODEC)
            for values in await self._query("cases_by_fingerprint", requested)
        ]
        return {row.fingerprint: row for row in rows}


def _change_to_row(change: CaseChange) -> tuple[Any, ...]:
    return (
        escape(change.fingerprint),
        change.at,
        encode_text(change.acknowledged_by),
        change.snoozed_until,
        encode_text(change.closed_why),
    )
