"""Incidents in a SQLite file: a batch is one transaction."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from warrener_store.databases.sqlite import SqliteSession
from warrener_store.encoding import encode, escape
from warrener_store.incidents.columns import CASE_CHANGES, CASE_PROGRESS, CASES, NEW_ENTRIES
from warrener_store.incidents.lifecycle import CaseUpdate, aggregate_raised, unique_raised
from warrener_store.incidents.rows import CaseChange, CaseRow, RaisedIncident
from warrener_store.incidents.sql import SqlEscalations
from warrener_store.mapping import SQLITE_CODEC, encode_text


class SqliteEscalations(SqlEscalations, SqliteSession):
    """Incidents and their occurrences."""

    codec = SQLITE_CODEC

    async def raise_cases(self, raised: Sequence[RaisedIncident]) -> None:
        if not raised:
            return
        unique = unique_raised(raised)
        names = encode([(escape(each.fingerprint), escape(each.occurrence)) for each in unique])
        async with self._writing() as transaction:
            known = {int(row[0]) for row in await transaction.query("known_occurrences", names)}
            new = [each for place, each in enumerate(unique) if place not in known]
            entries = (NEW_ENTRIES.to_row(each, SQLITE_CODEC) for each in new)
            await transaction.run("insert_case_entry", entries)
            await transaction.run("open_case", map(_update_to_row, aggregate_raised(new)))

    async def claim_cases(self, now: datetime, until: datetime, claim: str, limit: int) -> list[CaseRow]:
        question = ("due_cases", SQLITE_CODEC.encode_moment(now), limit)
        if not await self._query(*question):
            return []  # most calls find nothing, and need not wait for the writer
        async with self._writing() as transaction:
            due = await transaction.query(*question)
            found = [CASES.from_row(values, SQLITE_CODEC) for values in due]
            names = self._names([row.fingerprint for row in found])
            await transaction.run("claim_cases", [(names, SQLITE_CODEC.encode_moment(until), claim)])
        return [replace(row, claimed_until=until, claimed_by=claim) for row in found]

    async def save_case(self, row: CaseRow) -> bool:
        return await self._change_case("save_case", CASE_PROGRESS.to_row(row, SQLITE_CODEC))

    async def change_cases(self, changes: Sequence[CaseChange]) -> set[str]:
        return {
            each.fingerprint
            for each in changes
            if await self._change_case("change_case", CASE_CHANGES.to_row(each, SQLITE_CODEC))
        }

    async def _change_case(self, name: str, parameters: tuple[Any, ...]) -> bool:
        async with self._writing() as transaction:
            changed = await transaction.query(name, *parameters)
            await transaction.run("end_case_entries", [(parameters[0],)])
        return bool(changed)


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
