"""What both databases are asked in the same words."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from warrener_store.listing import Place, listing, place_of
from warrener_store.parked import ParkedMessage, parked_in
from warrener_store.records.agents import agent_in
from warrener_store.records.breakers import breaker_in
from warrener_store.records.ends import attempt_in, count_in, dead_letter_in
from warrener_store.records.form import Form
from warrener_store.records.jobs import job_in
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


class Questions(ABC):
    """The questions of the port; a database adds how a statement is run and in what form it gives values."""

    form: Form

    @abstractmethod
    async def _ask(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        """Run the statement of this name, which changes nothing."""

    @abstractmethod
    async def _ask_text(self, text: str, parameters: Sequence[Any]) -> Sequence[Sequence[Any]]:
        """Run this statement, which changes nothing; its parameters are `$1`, `$2` …"""

    async def agents(self, since: datetime | None = None) -> list[AgentRow]:
        """Agents that were seen at `since` or later, the last seen first."""
        moment = self.form.moment_out(since or _LONG_AGO)
        return [agent_in(values, self.form) for values in await self._ask("agents", moment)]

    async def breakers(self) -> list[BreakerRow]:
        """Every breaker that has ever been open, by name."""
        return [breaker_in(values, self.form) for values in await self._ask("breakers")]

    async def parked(self, limit: int = 50) -> list[ParkedMessage]:
        """The newest first."""
        return [parked_in(values, self.form) for values in await self._ask("parked", limit)]

    async def list_jobs(self, which: JobFilter) -> list[JobRow]:
        """Jobs, the last accepted first. Raises UnknownJob where `before` is no job's id."""
        text, parameters = listing(which, await self._place(which.before), self.form)
        return [job_in(values, self.form) for values in await self._ask_text(text, parameters)]

    async def _place(self, job_id: UUID | None) -> Place | None:
        """Where this job stands. It never moves, so it may be asked for before the list."""
        if job_id is None:
            return None
        found = await self._ask("accepted_at", self.form.id_out(job_id))
        return place_of(job_id, self.form.moment_in(found[0][0]) if found else None)

    async def attempts_of(self, job_id: UUID) -> list[AttemptRow]:
        """The attempts of one job that are over, in order."""
        found = await self._ask("attempts_of", self.form.id_out(job_id))
        return [attempt_in(values, self.form) for values in found]

    async def dead_letters(self, limit: int = 50) -> list[DeadLetter]:
        """The newest first."""
        return [dead_letter_in(values, self.form) for values in await self._ask("dead_letters", limit)]

    async def count_jobs(self) -> list[StateCount]:
        """How many jobs of each type are in each state."""
        return [count_in(values) for values in await self._ask("count_jobs")]
