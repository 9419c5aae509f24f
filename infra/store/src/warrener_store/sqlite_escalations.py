"""Cases in a SQLite file: a batch is one transaction, as everywhere there."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime
from typing import Any

from warrener_store.encoding import encode, escape
from warrener_store.escalations import CaseChange, CaseEntry, CaseRow, Escalations, Raised
from warrener_store.raising import Opening, once, openings
from warrener_store.records.cases import case_in, entry_in, progress_out
from warrener_store.records.form import TEXTUAL, text_out
from warrener_store.sqlite_transaction import Transaction


class SqliteEscalations(Escalations):
    """Reads and writes as the state store does."""

    def __init__(
        self,
        ask: Callable[..., Awaitable[Sequence[Sequence[Any]]]],
        writing: Callable[[], AbstractAsyncContextManager[Transaction]],
    ) -> None:
        self._ask = ask
        self._writing = writing

    async def raise_cases(self, raised: Sequence[Raised]) -> None:
        if not raised:
            return
        told = once(raised)
        names = encode([(escape(each.fingerprint), escape(each.occurrence)) for each in told])
        async with self._writing() as transaction:
            known = {int(row[0]) for row in await transaction.ask("known_occurrences", names)}
            new = [each for place, each in enumerate(told) if place not in known]
            await transaction.run("insert_case_entry", map(_entry_out, new))
            await transaction.run("open_case", map(_opening_out, openings(new)))

    async def claim_cases(self, now: datetime, until: datetime, claim: str, limit: int) -> list[CaseRow]:
        question = ("due_cases", TEXTUAL.moment_out(now), limit)
        if not await self._ask(*question):
            return []  # most looks find nothing, and need not wait for the writer
        async with self._writing() as transaction:
            found = [case_in(values, TEXTUAL) for values in await transaction.ask(*question)]
            names = encode([escape(row.fingerprint) for row in found])
            await transaction.run("claim_cases", [(names, TEXTUAL.moment_out(until), claim)])
        return [replace(row, claimed_until=until, claimed_by=claim) for row in found]

    async def save_case(self, row: CaseRow) -> bool:
        return await self._change("save_case", progress_out(row, TEXTUAL))

    async def change_cases(self, changes: Sequence[CaseChange]) -> set[str]:
        return {each.fingerprint for each in changes if await self._change("change_case", _change_out(each))}

    async def _change(self, name: str, parameters: tuple[Any, ...]) -> bool:
        async with self._writing() as transaction:
            changed = await transaction.ask(name, *parameters)
            await transaction.run("end_case_entries", [(parameters[0],)])
        return bool(changed)

    async def pending(self, fingerprint: str, below: int, limit: int) -> list[CaseEntry]:
        found = await self._ask("pending_entries", escape(fingerprint), below, limit)
        return [entry_in(values, TEXTUAL) for values in found]

    async def settle(self, fingerprint: str, occurrences: Collection[str], done: int) -> None:
        names = encode([escape(each) for each in occurrences])
        async with self._writing() as transaction:
            await transaction.run("settle_entries", [(escape(fingerprint), names, done)])

    async def cases(self, *, closed: bool = False, limit: int = 50) -> list[CaseRow]:
        found = await self._ask("cases" if closed else "open_cases", limit)
        return [case_in(values, TEXTUAL) for values in found]

    async def cases_by_fingerprint(self, fingerprints: Collection[str]) -> dict[str, CaseRow]:
        asked = encode([escape(each) for each in fingerprints])
        rows = [case_in(values, TEXTUAL) for values in await self._ask("cases_by_fingerprint", asked)]
        return {row.fingerprint: row for row in rows}


def _entry_out(raised: Raised) -> tuple[Any, ...]:
    return (
        escape(raised.fingerprint),
        escape(raised.occurrence),
        escape(raised.subject),
        TEXTUAL.moment_out(raised.raised_at),
    )


def _opening_out(opening: Opening) -> tuple[Any, ...]:
    last = opening.last
    raised_at = TEXTUAL.moment_out(last.raised_at)
    return (
        escape(last.fingerprint),
        escape(last.kind),
        escape(last.subject),
        text_out(last.job_type),
        encode(last.sample),
        opening.times,
        TEXTUAL.moment_out(opening.since),
        raised_at,
        raised_at,
    )


def _change_out(change: CaseChange) -> tuple[Any, ...]:
    return (
        escape(change.fingerprint),
        TEXTUAL.moment_out(change.at),
        text_out(change.acknowledged_by),
        TEXTUAL.moment_out(change.snoozed_until),
        text_out(change.closed_why),
    )
