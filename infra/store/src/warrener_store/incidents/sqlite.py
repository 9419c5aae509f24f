"""Incidents in a SQLite file: a batch is one transaction."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from warrener_store.databases.sqlite import SqliteSession, WriteTransaction
from warrener_store.encoding import encode, escape
from warrener_store.incidents.columns import INCIDENT_CHANGES, INCIDENT_PROGRESS, INCIDENTS, NEW_ENTRIES
from warrener_store.incidents.lifecycle import IncidentUpdate, aggregate_raised, unique_raised
from warrener_store.incidents.rows import IncidentChange, IncidentRow, RaisedIncident
from warrener_store.incidents.sql import SqlEscalations
from warrener_store.mapping import SQLITE_CODEC, encode_text


class SqliteEscalations(SqlEscalations, SqliteSession):
    """Incidents and their occurrences."""

    codec = SQLITE_CODEC

    async def raise_incidents(self, raised: Sequence[RaisedIncident]) -> None:
        if not raised:
            return
        unique = unique_raised(raised)
        names = encode([(escape(each.fingerprint), escape(each.occurrence)) for each in unique])
        async with self._writing() as transaction:
            known = {int(row[0]) for row in await transaction.query("known_occurrences", names)}
            new = [each for place, each in enumerate(unique) if place not in known]
            entries = (NEW_ENTRIES.to_row(each, SQLITE_CODEC) for each in new)
            await transaction.run("insert_incident_entry", entries)
            await transaction.run("open_incident", map(_update_to_row, aggregate_raised(new)))

    async def claim_incidents(
        self, now: datetime, until: datetime, claim: str, limit: int
    ) -> list[IncidentRow]:
        question = ("due_incidents", SQLITE_CODEC.encode_moment(now), limit)
        if not await self._query(*question):
            return []  # most calls find nothing, and need not wait for the writer
        async with self._writing() as transaction:
            due = await transaction.query(*question)
            found = [INCIDENTS.from_row(values, SQLITE_CODEC) for values in due]
            names = self._names([row.fingerprint for row in found])
            await transaction.run("claim_incidents", [(names, SQLITE_CODEC.encode_moment(until), claim)])
        return [replace(row, claimed_until=until, claimed_by=claim) for row in found]

    async def save_incident(self, row: IncidentRow) -> bool:
        parameters = INCIDENT_PROGRESS.to_row(row, SQLITE_CODEC)
        fingerprint, claim = parameters[:2]
        async with self._writing() as transaction:
            await transaction.run("restart_incident_occurrences", [(fingerprint, claim, row.round)])
            return await _change_incident(transaction, "save_incident", parameters)

    async def change_incidents(self, changes: Sequence[IncidentChange]) -> set[str]:
        found: set[str] = set()
        for each in changes:
            async with self._writing() as transaction:
                parameters = INCIDENT_CHANGES.to_row(each, SQLITE_CODEC)
                if await _change_incident(transaction, "change_incident", parameters):
                    found.add(each.fingerprint)
        return found


async def _change_incident(transaction: WriteTransaction, name: str, parameters: tuple[Any, ...]) -> bool:
    changed = await transaction.query(name, *parameters)
    await transaction.run("end_incident_occurrences", [(parameters[0],)])
    return bool(changed)


def _update_to_row(incident_update: IncidentUpdate) -> tuple[Any, ...]:
    last = incident_update.last
    raised_at = SQLITE_CODEC.encode_moment(last.raised_at)
    return (
        escape(last.fingerprint),
        escape(last.kind),
        escape(last.subject),
        encode_text(last.job_type),
        encode(last.sample),
        incident_update.times,
        SQLITE_CODEC.encode_moment(incident_update.since),
        raised_at,
        raised_at,
    )
