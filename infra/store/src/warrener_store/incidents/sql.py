"""Incidents in both databases: the operations that have the same statement in each."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from warrener_store.databases.session import SqlSession
from warrener_store.encoding import escape
from warrener_store.incidents.columns import INCIDENT_OCCURRENCES, INCIDENTS, POLICY_VERSIONS
from warrener_store.incidents.port import Escalations
from warrener_store.incidents.rows import (
    OPEN_INCIDENTS,
    IncidentFilter,
    IncidentOccurrence,
    IncidentPosition,
    IncidentRow,
    PolicyVersionRow,
)

_FIRST = IncidentPosition(datetime.max.replace(tzinfo=UTC), "")


class SqlEscalations(SqlSession, Escalations):
    """A database adds how incidents are raised, claimed, saved and changed."""

    async def pending(self, fingerprint: str, below: int, limit: int) -> list[IncidentOccurrence]:
        found = await self._query("pending_entries", escape(fingerprint), below, limit)
        return [INCIDENT_OCCURRENCES.from_row(values, self.codec) for values in found]

    async def settle(self, fingerprint: str, occurrences: Collection[str], done: int) -> None:
        await self._change("settle_entries", escape(fingerprint), self._names(occurrences), done)

    async def put_policies(self, versions: Sequence[PolicyVersionRow]) -> None:
        unique = {row.version: row for row in versions}
        rows = [POLICY_VERSIONS.to_row(row, self.codec) for row in unique.values()]
        await self._put_rows("put_policies", rows)

    async def policies(self) -> list[PolicyVersionRow]:
        found = await self._query("policies")
        return [POLICY_VERSIONS.from_row(values, self.codec) for values in found]

    async def incidents(self, which: IncidentFilter = OPEN_INCIDENTS) -> list[IncidentRow]:
        if which.fingerprints is not None:
            names = self._names(which.fingerprints)
            found = await self._query("incidents_by_fingerprint", names, which.closed)
        else:
            after = which.after or _FIRST
            position = self.codec.encode_moment(after.last_seen_at), escape(after.fingerprint)
            found = await self._query(
                "incidents" if which.closed else "open_incidents", which.limit, *position
            )
        return [INCIDENTS.from_row(values, self.codec) for values in found]
