"""What both databases are asked in the same words."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from warrener_store.job_list_query import JobPosition, job_list_query, position_of
from warrener_store.parked import ParkedMessage, parked_from_row
from warrener_store.records.agents import agent_from_row
from warrener_store.records.breakers import breaker_from_row
from warrener_store.records.codec import ColumnCodec
from warrener_store.records.jobs import job_from_row
from warrener_store.records.outcomes import attempt_from_row, count_from_row, dead_letter_from_row
from warrener_store.rows import (
    AgentRow,
    AttemptRow,
    BreakerRow,
    DeadLetter,
    JobFilter,
    JobRow,
    StateCount,
)

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class StateReads(ABC):
    """The questions of the port; a database adds how a statement is run and in what form it gives values."""

    codec: ColumnCodec

    @abstractmethod
    async def _query(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        """Run the statement of this name, which changes nothing."""

    @abstractmethod
    async def _query_text(self, text: str, parameters: Sequence[Any]) -> Sequence[Sequence[Any]]:
        """Run this statement, which changes nothing; its parameters are `$1`, `$2` …"""

    async def agents(self, since: datetime | None = None) -> list[AgentRow]:
        """Agents that were seen at `since` or later, the last seen first."""
        moment = self.codec.encode_moment(since or _LONG_AGO)
        return [agent_from_row(values, self.codec) for values in await self._query("agents", moment)]

    async def breakers(self) -> list[BreakerRow]:
        """Every breaker that has ever been open, by name."""
        return [breaker_from_row(values, self.codec) for values in await self._query("breakers")]

    async def parked(self, limit: int = 50) -> list[ParkedMessage]:
        """The newest first."""
        return [parked_from_row(values, self.codec) for values in await self._query("parked", limit)]

    async def list_jobs(self, which: JobFilter) -> list[JobRow]:
        """Jobs, the last accepted first. Raises UnknownJob where `before` is no job's id."""
        text, parameters = job_list_query(which, await self._place(which.before), self.codec)
        return [job_from_row(values, self.codec) for values in await self._query_text(text, parameters)]

    async def _place(self, job_id: UUID | None) -> JobPosition | None:
        """Where this job stands. It never moves, so it may be asked for before the list."""
        if job_id is None:
            return None
        found = await self._query("accepted_at", self.codec.encode_id(job_id))
        return position_of(job_id, self.codec.decode_moment(found[0][0]) if found else None)

    async def attempts_of(self, job_id: UUID) -> list[AttemptRow]:
        """The attempts of one job that are over, in order."""
        found = await self._query("attempts_of", self.codec.encode_id(job_id))
        return [attempt_from_row(values, self.codec) for values in found]

    async def dead_letters(self, limit: int = 50) -> list[DeadLetter]:
        """The newest first."""
        return [
            dead_letter_from_row(values, self.codec) for values in await self._query("dead_letters", limit)
        ]

    async def count_jobs(self) -> list[StateCount]:
        """How many jobs of each type are in each state."""
        return [count_from_row(values) for values in await self._query("count_jobs")]
