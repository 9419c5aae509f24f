"""Cases in PostgreSQL: each operation is one statement."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import Any

from warrener_store.encoding import escape
from warrener_store.escalations import CaseChange, CaseEntry, CaseRow, Escalations, Raised
from warrener_store.records.cases import RAISED_COLUMNS, case_in, entry_in, progress_out, raised_out
from warrener_store.records.form import NATIVE, text_out

Run = Callable[..., Awaitable[Sequence[Sequence[Any]]]]


class PostgresEscalations(Escalations):
    """Runs its statements as the state store does: `ask` for questions, `change` for all else."""

    def __init__(self, ask: Run, change: Run) -> None:
        self._ask = ask
        self._change = change

    async def raise_cases(self, raised: Sequence[Raised]) -> None:
        if not raised:
            return
        rows = zip(*(raised_out(each, NATIVE) for each in raised), strict=True)
        columns = [list(column) for column in rows]
        assert len(columns) == len(RAISED_COLUMNS)
        await self._change("raise_cases", *columns)

    async def claim_cases(self, now: datetime, until: datetime, claim: str, limit: int) -> list[CaseRow]:
        found = await self._change("claim_cases", now, until, claim, limit)
        rows = (case_in(values, NATIVE) for values in found)
        return sorted(rows, key=lambda row: (row.wake_at or now, row.fingerprint))

    async def save_case(self, row: CaseRow) -> bool:
        return bool(await self._change("save_case", *progress_out(row, NATIVE)))

    async def change_cases(self, changes: Sequence[CaseChange]) -> set[str]:
        return {each.fingerprint for each in changes if await self._change("change_case", *_change_out(each))}

    async def pending(self, fingerprint: str, below: int, limit: int) -> list[CaseEntry]:
        found = await self._ask("pending_entries", escape(fingerprint), below, limit)
        return [entry_in(values, NATIVE) for values in found]

    async def settle(self, fingerprint: str, occurrences: Collection[str], done: int) -> None:
        names = [escape(each) for each in occurrences]
        await self._change("settle_entries", escape(fingerprint), names, done)

    async def cases(self, *, closed: bool = False, limit: int = 50) -> list[CaseRow]:
        found = await self._ask("cases" if closed else "open_cases", limit)
        return [case_in(values, NATIVE) for values in found]

    async def cases_by_fingerprint(self, fingerprints: Collection[str]) -> dict[str, CaseRow]:
        asked = [escape(each) for each in fingerprints]
        rows = [case_in(values, NATIVE) for values in await self._ask("cases_by_fingerprint", asked)]
        return {row.fingerprint: row for row in rows}


def _change_out(change: CaseChange) -> tuple[Any, ...]:
    return (
        escape(change.fingerprint),
        change.at,
        text_out(change.acknowledged_by),
        change.snoozed_until,
        text_out(change.closed_why),
    )
