"""Readings of the store and of the broker, each over a connection that stays open between readings.

A reading counts nothing over a table: the store keeps the numbers of jobs as jobs change, and lists come from
indexes with a limit.
"""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING

from warrener.context import ResolvedEndpoints, connect_store
from warrener.doctor.inspector import BrokerInspector, QueueInfo, open_inspector
from warrener.errors import CommandError, store_error
from warrener_amqp import AmqpError
from warrener_contracts.topology import DELAY_LEVELS, REQUESTS_QUEUE, STATUS_QUEUE, dispatch_queue
from warrener_store import StoreError
from warrener_store.agents.rows import AgentRow
from warrener_store.breakers.gate import BreakerRow
from warrener_store.dead_letters.rows import DeadLetter, DeadLetterFilter
from warrener_store.incidents.rows import IncidentFilter, IncidentRow
from warrener_store.jobs.rows import StateCount
from warrener_store.jobs.views import QueueHead
from warrener_store.parked.rows import ParkedFilter, ParkedMessage
from warrener_store.schedules.port import LAST_TIME
from warrener_store.schedules.rows import ScheduleRow

if TYPE_CHECKING:  # it imports the ports of all aggregates
    from warrener_store import Store

MAX_ROWS = 100
"""Maximum number of rows of a list."""
_MAX_QUEUES = 200  # whose depth the broker is queried for
_AGENTS_SHOWN = timedelta(hours=1)  # since their last heartbeat
_TIMEOUT = 5.0  # seconds; a healthy store or broker answers within a fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReading:
    """The rows of the store at one moment."""

    at: float  # seconds, by this machine's monotonic clock
    now: datetime  # by the store's clock
    counts: tuple[StateCount, ...] = ()
    heads: tuple[QueueHead, ...] = ()
    agents: tuple[AgentRow, ...] = ()
    duties: Mapping[str, str]
    breakers: tuple[BreakerRow, ...] = ()
    incidents: tuple[IncidentRow, ...] = ()
    schedules: tuple[ScheduleRow, ...] = ()  # those that are looked at next
    dead_letters: tuple[DeadLetter, ...] = ()  # unresolved ones, the newest first
    parked: tuple[ParkedMessage, ...] = ()  # the newest first

    @property
    def queues(self) -> set[str]:
        """The queues that have jobs or agents."""
        return {count.queue for count in self.counts} | {
            queue for agent in self.agents for queue in agent.queues
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReading:
    """The queues of the broker at one moment; None: the queue does not exist."""

    broker: str
    requests: QueueInfo | None = None
    statuses: QueueInfo | None = None
    delayed: int = 0
    queues: Mapping[str, QueueInfo | None]  # by the names of jobs


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The store or the broker gave no reading. `why` is empty before the first one was tried."""

    why: str


class StoreSource:
    """Reads the store."""

    def __init__(self, endpoints: ResolvedEndpoints) -> None:
        self._endpoints = endpoints
        self._open = AsyncExitStack()
        self._store: Store | None = None

    async def read(self) -> StoreReading | Unavailable:
        """Read everything again; connect first if no connection is open."""
        try:
            async with asyncio.timeout(_TIMEOUT):
                if self._store is None:
                    self._store = await self._open.enter_async_context(connect_store(self._endpoints))
                return await self._query(self._store)
        except TimeoutError:
            why = f"no answer within {_TIMEOUT:g} s"
        except StoreError as error:
            why = store_error(error).sentence
        await self.close()
        return Unavailable(why)

    async def _query(self, store: "Store") -> StoreReading:
        now = await store.time()
        counts = await store.count_jobs()
        at = monotonic()
        dead_letters = await store.dead_letter_store.list_dead_letters(DeadLetterFilter(limit=MAX_ROWS))
        return StoreReading(
            at=at,
            now=now,
            counts=tuple(counts),
            heads=tuple(await store.queue_heads()),
            agents=tuple(await store.agents(now - _AGENTS_SHOWN)),
            duties=await store.duties(now),
            breakers=tuple(await store.breakers()),
            incidents=tuple(await store.escalations.incidents(IncidentFilter(limit=MAX_ROWS))),
            schedules=tuple(await store.late_schedules(LAST_TIME, LAST_TIME, MAX_ROWS)),
            dead_letters=tuple(dead_letters),
            parked=tuple(await store.parked(ParkedFilter(), MAX_ROWS)),
        )

    async def close(self) -> None:
        """Close the connection, if one is open; the next reading opens another."""
        self._store = None
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_TIMEOUT):
                await self._open.aclose()


class BrokerSource:
    """Reads queues of the broker: those that the last reading of the store names."""

    def __init__(self, endpoints: ResolvedEndpoints) -> None:
        self._endpoints = endpoints
        self._open = AsyncExitStack()
        self._inspector: BrokerInspector | None = None
        self.queues: Collection[str] = ()

    async def read(self) -> BrokerReading | Unavailable:
        """Read the queues again; connect first if no connection is open."""
        try:
            async with asyncio.timeout(_TIMEOUT):
                if self._inspector is None:
                    self._inspector = await self._open.enter_async_context(
                        open_inspector(self._endpoints.broker_url, self._endpoints.namespace)
                    )
                return await self._query(self._inspector)
        except TimeoutError:
            why = f"no answer within {_TIMEOUT:g} s"
        except CommandError as error:
            why = error.sentence
        except AmqpError as error:
            why = str(error)
        await self.close()
        return Unavailable(why)

    async def _query(self, inspector: BrokerInspector) -> BrokerReading:
        names = sorted(self.queues)[:_MAX_QUEUES]
        delayed = [await inspector.queue(level.queue) for level in DELAY_LEVELS]
        return BrokerReading(
            broker=inspector.broker,
            requests=await inspector.queue(REQUESTS_QUEUE.name),
            statuses=await inspector.queue(STATUS_QUEUE.name),
            delayed=sum(found.messages for found in delayed if found is not None),
            queues={name: await inspector.queue(dispatch_queue(name).name) for name in names},
        )

    async def close(self) -> None:
        """Close the connection, if one is open; the next reading opens another."""
        self._inspector = None
        with suppress(CommandError, AmqpError, TimeoutError):
            async with asyncio.timeout(_TIMEOUT):
                await self._open.aclose()
