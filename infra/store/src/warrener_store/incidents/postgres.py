"""Incidents in PostgreSQL: each operation is one statement."""

from collections.abc import Sequence
from datetime import datetime

from warrener_store.batches import to_columns
from warrener_store.databases.postgres import PostgresSession
from warrener_store.incidents.columns import INCIDENT_CHANGES, INCIDENT_PROGRESS, INCIDENTS, RAISED
from warrener_store.incidents.rows import IncidentChange, IncidentRow, RaisedIncident
from warrener_store.incidents.sql import SqlEscalations
from warrener_store.mapping import POSTGRES_CODEC


class PostgresEscalations(SqlEscalations, PostgresSession):
    """Incidents and their occurrences."""

    codec = POSTGRES_CODEC

    async def raise_incidents(self, raised: Sequence[RaisedIncident]) -> None:
        if raised:
            rows = (RAISED.to_row(each, POSTGRES_CODEC) for each in raised)
            await self._change("raise_incidents", *to_columns(len(RAISED.columns), rows))

    async def claim_incidents(
        self, now: datetime, until: datetime, claim: str, limit: int
    ) -> list[IncidentRow]:
        found = await self._change("claim_incidents", now, until, claim, limit)
        rows = (INCIDENTS.from_row(values, POSTGRES_CODEC) for values in found)
        return sorted(rows, key=lambda row: (row.wake_at or now, row.fingerprint))

    async def save_incident(self, row: IncidentRow) -> bool:
        return bool(await self._change("save_incident", *INCIDENT_PROGRESS.to_row(row, POSTGRES_CODEC)))

    async def change_incidents(self, changes: Sequence[IncidentChange]) -> set[str]:
        return {
            each.fingerprint
            for each in changes
            if await self._change("change_incident", *INCIDENT_CHANGES.to_row(each, POSTGRES_CODEC))
        }
