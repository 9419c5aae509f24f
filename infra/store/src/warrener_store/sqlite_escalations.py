"""Cases in a SQLite file: a batch is one transaction, as everywhere there."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime
from typing import Any

from warrener_store.case_lifecycle import CaseUpdate, aggregate_raised, unique_raised
from warrener_store.encoding import encode, escape
from warrener_store.escalations import CaseChange, CaseEntry, CaseRow, Escalations, RaisedIncident
from warrener_store.records.cases import case_from_row, entry_from_row, progress_to_row
from warrener_store.records.codec import SQLITE_CODEC, encode_text
from warrener_store.sqlite_transaction import WriteTransaction


class SqliteEscalations(Escalations):
    """Reads and writes as the state store does."""

    def __init__(
        self,
        query: Callable[..., Awaitable[Sequence[Sequence[Any]]]],
        writing: Callable[[], AbstractAsyncContextManager[WriteTransaction]],
    ) -> None:
        self._query = query
        self._writing = writing

    async def raise_cases(self, raised: Sequence[RaisedIncident]) -> None:
        if not raised:
            return
        unique = unique_raised(raised)
        names = encode([(escape(each.fingerprint), escape(each.occurrence)) for each in unique])
        async with self._writing() as transaction:
            known = {int(row[0]) for row in await transaction.query("known_occurrences", names)}
            new = [each for place, each in enumerate(unique) if place not in known]
            await transaction.run("insert_case_entry", map(_entry_to_row, new))
            await transaction.run("open_case", map(_update_to_row, aggregate_raised(new)))

    async def claim_cases(self, now: datetime, until: datetime, claim: str, limit: int) -> list[CaseRow]:
        question = ("due_cases", SQLITE_CODEC.encode_moment(now), limit)
        if not await self._query(*question):
            return []  # most looks find nothing, and need not wait for the writer
        async with self._writing() as transaction:
            found = [case_from_row(values, SQLITE_CODEC) for values in await transaction.query(*question)]
            names = encode([escape(row.fingerprint) for row in found])
            await transaction.run("claim_cases", [(names, SQLITE_CODEC.encode_moment(until), claim)])
        return [replace(row, claimed_until=until, claimed_by=claim) for row in found]

    async def save_case(self, row: CaseRow) -> bool:
        return await self._change("save_case", progress_to_row(row, SQLITE_CODEC))

    async def change_cases(self, changes: Sequence[CaseChange]) -> set[str]:
        return {
            each.fingerprint for each in changes if await self._change("change_case", _change_to_row(each))
        }

    async def _change(self, name: str, parameters: tuple[Any, ...]) -> bool:
        async with self._writing() as transaction:
            changed = await transaction.query(name, *parameters)
            await transaction.run("end_case_entries", [(parameters[0],)])
        return bool(changed)

    async def pending(self, fingerprint: str, below: int, limit: int) -> list[CaseEntry]:
        found = await self._query("pending_entries", escape(fingerprint), below, limit)
        return [entry_from_row(values, SQLITE_CODEC) for values in found]

    async def settle(self, fingerprint: str, occurrences: Collection[str], done: int) -> None:
        names = encode([escape(each) for each in occurrences])
        async with self._writing() as transaction:
            await transaction.run("settle_entries", [(escape(fingerprint), names, done)])

    async def cases(self, *, closed: bool = False, limit: int = 50) -> list[CaseRow]:
        found = await self._query("cases" if closed else "open_cases", limit)
        return [case_from_row(values, SQLITE_CODEC) for values in found]

    async def cases_by_fingerprint(self, fingerprints: Collection[str]) -> dict[str, CaseRow]:
        requested = encode([escape(each) for each in fingerprints])
        rows = [
            case_from_row(values, SQLITE_CODEC)
            for values in await self._query("cases_by_fingerprint", requested)
        ]
        return {row.fingerprint: row for row in rows}


def _entry_to_row(raised: RaisedIncident) -> tuple[Any, ...]:
    return (
        escape(raised.fingerprint),
        escape(raised.occurrence),
        escape(raised.subject),
        SQLITE_CODEC.encode_moment(raised.raised_at),
    )


def _update_to_row(case_update: CaseUpdate) -> tuple[Any, ...]:
    last = case_update.last
    raised_at = SQLITE_CODEC.encode_moment(last.raised_at)
    return (
        escape(last.fingerprint),
        escape(last.kind),
        escape(last.subject),
        encode_text(last.job_type),
        encode(last.sample),
        case_update.times,
        SQLITE_CODEC.encode_moment(case_update.since),
        raised_at,
        raised_at,
    )


def _change_to_row(change: CaseChange) -> tuple[Any, ...]:
    return (
        escape(change.fingerprint),
        SQLITE_CODEC.encode_moment(change.at),
        encode_text(change.acknowledged_by),
        SQLITE_CODEC.encode_moment(change.snoozed_until),
        encode_text(change.closed_why),
    )
