"""Agents and the job types that they announce, in both databases. Suite:
`tests/conformance/test_store_announcements.py`."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from warrener_store.agents.rows import AgentRow, JobTypeRow
from warrener_store.batches import latest_by_key
from warrener_store.databases.session import SqlSession
from warrener_store.mapping import RowMapper

JOB_TYPES = RowMapper(JobTypeRow)
AGENTS = RowMapper(AgentRow)
WORDS = {"agent": ", ".join(AGENTS.columns), "job_type": ", ".join(JOB_TYPES.columns)}
"""The meanings of words in braces of statements."""
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def _newest_job_types(rows: Sequence[JobTypeRow]) -> dict[str, JobTypeRow]:
    return latest_by_key(rows, lambda row: row.name, lambda row: row.announced_at)


def _newest_agents(rows: Sequence[AgentRow]) -> dict[str, AgentRow]:
    return latest_by_key(rows, lambda row: row.agent_id, lambda row: row.last_seen_at)


class AgentStore(SqlSession):
    """Agents and job types. An older announcement never replaces a newer one."""

    async def put_job_types(self, job_types: Sequence[JobTypeRow]) -> None:
        """Insert or replace by name."""
        rows = _newest_job_types(job_types).values()
        await self._put_rows("put_job_types", [JOB_TYPES.to_row(row, self.codec) for row in rows])

    async def job_types(self, names: Collection[str] | None = None) -> dict[str, JobTypeRow]:
        """The job types of these names, or all."""
        requested = None if names is None else self._names(names)
        found = await self._query("job_types", requested)
        rows = (JOB_TYPES.from_row(values, self.codec) for values in found)
        return {row.name: row for row in rows}

    async def put_agents(self, agents: Sequence[AgentRow]) -> None:
        """Insert or update by agent id."""
        rows = _newest_agents(agents).values()
        await self._put_rows("put_agents", [AGENTS.to_row(row, self.codec) for row in rows])

    async def agents(self, since: datetime | None = None) -> list[AgentRow]:
        """Agents that were seen at `since` or later (None: all that are stored), the last seen first."""
        found = await self._query("agents", self.codec.encode_moment(since or _LONG_AGO))
        return [AGENTS.from_row(values, self.codec) for values in found]

    async def agents_by_id(self, agent_ids: Collection[str]) -> dict[str, AgentRow]:
        """The agents of these ids that are stored."""
        found = await self._query("agents_by_id", self._names(agent_ids))
        rows = (AGENTS.from_row(values, self.codec) for values in found)
        return {row.agent_id: row for row in rows}
