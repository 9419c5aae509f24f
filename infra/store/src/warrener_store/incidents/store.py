"""Incidents: in both databases, then what each does in its own way. Suite:
`tests/conformance/test_escalations.py`.

Every change is one conditional statement, so that any number of supervisors may raise and escalate."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import Any

from warrener_store.databases.session import SqlSession
from warrener_store.databases.transaction import TransactionalSession, WriteTransaction
from warrener_store.encoding import encode, escape
from warrener_store.incidents import columns
from warrener_store.incidents.rows import (
    OPEN_INCIDENTS,
    IncidentChange,
    IncidentFilter,
    IncidentOccurrence,
    IncidentPosition,
    IncidentRow,
    PolicyVersionRow,
    RaisedIncident,
)
from warrener_store.mapping import POSTGRES_CODEC, SQLITE_CODEC

_FIRST = IncidentPosition(datetime.max.replace(tzinfo=UTC), "")


class Escalations(SqlSession):
    """Incidents and their occurrences. Errors are those of the state store."""

    @abstractmethod
    async def raise_incidents(self, raised: Sequence[RaisedIncident]) -> None:
        """Count these, each occurrence once; open or reopen their incidents and wake them."""

    @abstractmethod
    async def claim_incidents(
        self, now: datetime, until: datetime, claim: str, limit: int
    ) -> list[IncidentRow]:
        """Claim unclaimed incidents with `wake_at <= now`, the longest due first, for `claim` until then.

        No two callers get the same; the claim of a caller that dies ends at `until`.
        """

    @abstractmethod
    async def save_incident(self, row: IncidentRow) -> bool:
        """Write the progress of a claimed incident and release the claim; True if the write applied.

        It applies while `row.claimed_by` has the claim and the incident is open. An incident that was raised
        in the meantime stays awake, and open. Closing settles all its occurrences; a greater `round` sets
        `steps_done` of those that are not settled back to 0.
        """

    @abstractmethod
    async def change_incidents(self, changes: Sequence[IncidentChange]) -> set[str]:
        """Apply operators' changes to open incidents and wake those; returns their fingerprints."""

    async def pending(self, fingerprint: str, below: int, limit: int) -> list[IncidentOccurrence]:
        """Occurrences of an incident with `steps_done < below`, the first raised first."""
        return await self._rows(
            columns.INCIDENT_OCCURRENCES, "pending_entries", escape(fingerprint), below, limit
        )

    async def settle(self, fingerprint: str, occurrences: Collection[str], done: int) -> None:
        """Set `steps_done` of these occurrences; one with a greater value keeps it."""
        await self._change("settle_entries", escape(fingerprint), self._names(occurrences), done)

    async def put_policies(self, versions: Sequence[PolicyVersionRow]) -> None:
        """Store these versions; one that is stored has been seen at both times, too."""
        unique = {row.version: row for row in versions}
        await self._put(columns.POLICY_VERSIONS, "put_policies", unique.values())

    async def policies(self) -> list[PolicyVersionRow]:
        """All stored versions of policies, the first seen first."""
        return await self._rows(columns.POLICY_VERSIONS, "policies")

    async def incidents(self, which: IncidentFilter = OPEN_INCIDENTS) -> list[IncidentRow]:
        """These incidents, the last raised first."""
        if which.fingerprints is not None:
            names = self._names(which.fingerprints)
            return await self._rows(columns.INCIDENTS, "incidents_by_fingerprint", names, which.closed)
        after = which.after or _FIRST
        position = self.codec.encode_moment(after.last_seen_at), escape(after.fingerprint)
        name = "incidents" if which.closed else "open_incidents"
        return await self._rows(columns.INCIDENTS, name, which.limit, *position)


class PostgresEscalations(Escalations):
    """In PostgreSQL each operation is one statement."""

    async def raise_incidents(self, raised: Sequence[RaisedIncident]) -> None:
        if raised:
            await self._change("raise_incidents", *columns.RAISED.to_arrays(raised))

    async def claim_incidents(
        self, now: datetime, until: datetime, claim: str, limit: int
    ) -> list[IncidentRow]:
        found = await self._change("claim_incidents", now, until, claim, limit)
        rows = (columns.INCIDENTS.from_row(values, POSTGRES_CODEC) for values in found)
        return sorted(rows, key=lambda row: (row.wake_at or now, row.fingerprint))

    async def save_incident(self, row: IncidentRow) -> bool:
        return bool(
            await self._change("save_incident", *columns.INCIDENT_PROGRESS.to_row(row, POSTGRES_CODEC))
        )

    async def change_incidents(self, changes: Sequence[IncidentChange]) -> set[str]:
        return {
            each.fingerprint
            for each in changes
            if await self._change("change_incident", *columns.INCIDENT_CHANGES.to_row(each, POSTGRES_CODEC))
        }


class SqliteEscalations(Escalations, TransactionalSession):
    """In a SQLite file a batch is one transaction."""

    async def raise_incidents(self, raised: Sequence[RaisedIncident]) -> None:
        if not raised:
            return
        unique = list({(each.fingerprint, each.occurrence): each for each in reversed(raised)}.values())
        names = encode([(escape(each.fingerprint), escape(each.occurrence)) for each in unique])
        async with self._writing() as transaction:
            known = {int(row[0]) for row in await transaction.query("known_occurrences", names)}
            new = [each for place, each in enumerate(unique) if place not in known]
            entries = (columns.NEW_ENTRIES.to_row(each, SQLITE_CODEC) for each in new)
            await transaction.run("insert_incident_entry", entries)
            await transaction.run("open_incident", _incidents_to_rows(new))

    async def claim_incidents(
        self, now: datetime, until: datetime, claim: str, limit: int
    ) -> list[IncidentRow]:
        moment = SQLITE_CODEC.encode_moment
        due = await self._claim(
            ("due_incidents", moment(now), limit), "claim_incidents", moment(until), claim
        )
        rows = (columns.INCIDENTS.from_row(values, SQLITE_CODEC) for values in due)
        return [replace(row, claimed_until=until, claimed_by=claim) for row in rows]

    async def save_incident(self, row: IncidentRow) -> bool:
        parameters = columns.INCIDENT_PROGRESS.to_row(row, SQLITE_CODEC)
        fingerprint, claim = parameters[:2]
        async with self._writing() as transaction:
            await transaction.run("restart_incident_occurrences", [(fingerprint, claim, row.round)])
            return await _change_incident(transaction, "save_incident", parameters)

    async def change_incidents(self, changes: Sequence[IncidentChange]) -> set[str]:
        found: set[str] = set()
        for each in changes:
            async with self._writing() as transaction:
                parameters = columns.INCIDENT_CHANGES.to_row(each, SQLITE_CODEC)
                if await _change_incident(transaction, "change_incident", parameters):
                    found.add(each.fingerprint)
        return found


async def _change_incident(transaction: WriteTransaction, name: str, parameters: tuple[Any, ...]) -> bool:
    changed = await transaction.query(name, *parameters)
    await transaction.run("end_incident_occurrences", [(parameters[0],)])
    return bool(changed)


def _incidents_to_rows(raised: Iterable[RaisedIncident]) -> Iterator[tuple[Any, ...]]:
    """The last occurrence of each fingerprint, their number, and the first and the last moment."""
    in_order = sorted(raised, key=attrgetter("fingerprint", "raised_at", "occurrence"))
    for _, group in groupby(in_order, key=attrgetter("fingerprint")):
        occurrences = [*group]
        first_at = SQLITE_CODEC.encode_moment(occurrences[0].raised_at)
        fingerprint, _, *known, last_at = columns.RAISED.to_row(occurrences[-1], SQLITE_CODEC)
        yield fingerprint, *known, len(occurrences), first_at, last_at, last_at
