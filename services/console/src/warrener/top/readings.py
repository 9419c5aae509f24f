"""Readings of the store, over a connection that stays open between readings.

A reading counts nothing over a table: the store keeps the numbers of jobs as jobs change, and lists come from
indexes with a limit.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from time import monotonic

from warrener.context import ResolvedEndpoints
from warrener.errors import store_error
from warrener.operations.agents import AgentsQuery, AgentSummary, find_agents
from warrener.operations.breakers import Breaker, list_breakers
from warrener.operations.dead_letters import DeadLettersQuery, list_dead_letters
from warrener.operations.incidents import Incident, IncidentsQuery, list_incidents
from warrener.operations.masking import Masker
from warrener.operations.noun import Backend
from warrener.operations.parked import ListedMessage, ParkedQuery, list_parked
from warrener.operations.schedules import ListedSchedule, list_next
from warrener_contracts.circuit_breaker import BreakerState
from warrener_store import StoreError
from warrener_store.dead_letters.rows import DeadLetter
from warrener_store.jobs.rows import StateCount
from warrener_store.jobs.views import QueueHead

MAX_ROWS = 100
"""Maximum number of rows of a list."""
_TIMEOUT = 5.0  # seconds; a healthy store answers within a fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """The lists of nouns that readings and views have."""

    agents: Sequence[AgentSummary] = ()
    breakers: Sequence[Breaker] = ()  # those that are not closed
    incidents: Sequence[Incident] = ()
    schedules: Sequence[ListedSchedule] = ()  # those that are looked at next
    dead_letters: Sequence[DeadLetter] = ()
    parked: Sequence[ListedMessage] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReading(Lists):
    """The store at one moment."""

    at: float  # seconds, by this machine's monotonic clock
    now: datetime  # by the store's clock
    counts: Sequence[StateCount] = ()
    heads: Sequence[QueueHead] = ()
    duties: Mapping[str, str]

    @property
    def queues(self) -> set[str]:
        """The queues that have jobs or agents."""
        return {count.queue for count in self.counts} | {
            queue for agent in self.agents for queue in agent.queues
        }


class StoreSource:
    """Reads the store."""

    def __init__(self, endpoints: ResolvedEndpoints) -> None:
        self._endpoints = endpoints
        self._backend: Backend | None = None

    async def read(self) -> StoreReading | str:
        """Read everything again, or say why that failed; connect first if no connection is open."""
        try:
            async with asyncio.timeout(_TIMEOUT):
                if self._backend is None:
                    self._backend = Backend(None, self._endpoints, Masker(None))
                    await self._backend.open_store()
                return await _read(self._backend)
        except TimeoutError:
            why = f"no answer within {_TIMEOUT:g} s"
        except StoreError as error:
            why = store_error(error).sentence
        await self.close()
        return why

    async def close(self) -> None:
        """Close the connection, if one is open; the next reading opens another."""
        backend, self._backend = self._backend, None
        if backend is not None:
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(_TIMEOUT):
                    await backend.close()


async def _read(backend: Backend) -> StoreReading:
    now, counts, at = await backend.now(), await backend.store.count_jobs(), monotonic()
    breakers = (await list_breakers(backend)).breakers
    return StoreReading(
        at=at,
        now=now,
        counts=counts,
        heads=await backend.store.queue_heads(),
        duties=await backend.store.duties(now),
        agents=await find_agents(backend, AgentsQuery()),
        breakers=[one for one in breakers if one.state is not BreakerState.CLOSED],
        incidents=(await list_incidents(backend, IncidentsQuery(limit=MAX_ROWS))).incidents,
        schedules=await list_next(backend, MAX_ROWS),
        dead_letters=(await list_dead_letters(backend, DeadLettersQuery(limit=MAX_ROWS))).dead_letters,
        parked=(await list_parked(backend, ParkedQuery(limit=MAX_ROWS))).messages,
    )
