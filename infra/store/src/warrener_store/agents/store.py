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
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class AgentStore(SqlSession):
    """Agents and job types."""

    async def put_job_types(self, job_types: Sequence[JobTypeRow], *, takes_over: bool = False) -> None:
        """Insert or replace the job types of one announcement by name. One that another broker user has
        announced stays as it is, unless this user `takes_over`. Of one user, the agent that started last
        counts."""
        rows = {row.name: row for row in job_types}
        encoded = [(*JOB_TYPES.to_row(row, self.codec), takes_over) for row in rows.values()]
        await self._put_rows("put_job_types", encoded)

    async def job_types(self, names: Collection[str] | None = None) -> dict[str, JobTypeRow]:
        """The job types of these names, or all."""
        requested = None if names is None else self._names(names)
        rows = await self._rows(JOB_TYPES, "job_types", requested)
        return {row.name: row for row in rows}

    async def put_agents(self, agents: Sequence[AgentRow], alive_since: datetime = _LONG_AGO) -> None:
        """Insert or update by agent id. An older heartbeat never replaces a newer one, nor one of another
        broker user that of an agent that was seen at `alive_since` or later and has not ended."""
        newest = latest_by_key(agents, lambda row: row.agent_id, lambda row: row.last_seen_at)
        alive = self.codec.encode_moment(alive_since)
        rows = [(*AGENTS.to_row(row, self.codec), alive) for row in newest.values()]
        await self._put_rows("put_agents", rows)

    async def agents(self, since: datetime | None = None) -> list[AgentRow]:
        """Agents that were seen at `since` or later (None: all that are stored), the last seen first."""
        return await self._rows(AGENTS, "agents", self.codec.encode_moment(since or _LONG_AGO))

    async def agents_by_id(self, agent_ids: Collection[str]) -> dict[str, AgentRow]:
        """The agents of these ids that are stored."""
        rows = await self._rows(AGENTS, "agents_by_id", self._names(agent_ids))
        return {row.agent_id: row for row in rows}
