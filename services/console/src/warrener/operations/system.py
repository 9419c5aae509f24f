"""The system around every subject, with the broker's counts, queried over one connection for all pages.

A page may be rendered every second for each of its readers. So answers are shared for two seconds, and a
broker that is away costs a page one sentence and no wait.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from time import monotonic
from typing import TypeVar

from pydantic import BaseModel

from warrener.context import ResolvedEndpoints
from warrener.doctor.inspector import BrokerInspector, open_inspector
from warrener.errors import CommandError
from warrener.explanations import explain
from warrener.explanations.explanation import Explanation
from warrener.explanations.facts import AgentSubject, SystemFacts
from warrener.gathering import BrokerFacts, gather_schedule, gather_system, inspect_queues, queue_subject
from warrener.operations.masking import mask_explanation
from warrener.operations.noun import Backend
from warrener_amqp.errors import AmqpError, ChannelRefused
from warrener_contracts.topology import DELAY_LEVELS
from warrener_store.agents.rows import AgentRow
from warrener_store.jobs.views import QueueHead
from warrener_store.schedules.rows import ScheduleRow

T = TypeVar("T")

_SHARED_FOR = 2.0  # seconds
_RECONNECT_PAUSE = 5.0  # seconds


class SharedInspector:
    """One connection to the broker, opened by the first query and used by all."""

    def __init__(self, endpoints: ResolvedEndpoints, answer_timeout: float = 1.0) -> None:
        """`answer_timeout`: seconds; a page waits no longer."""
        self._endpoints, self._timeout = endpoints, answer_timeout
        self._lock = asyncio.Lock()
        self._connection = AsyncExitStack()
        self._inspector: BrokerInspector | None = None
        self._facts = BrokerFacts()
        self._delays: Mapping[str, int] = {}
        self._delays_fresh_until = float("-inf")
        self._read_at: dict[str, float] = {}  # queues, when they were queried
        self._fresh_until = self._trouble_until = float("-inf")

    async def query(self, queues: Collection[str]) -> BrokerFacts:
        """Return the counts of the services' queues and of these dispatch queues; never raises."""
        async with self._lock:
            now = monotonic()
            stale = [name for name in queues if now - self._read_at.get(name, float("-inf")) > _SHARED_FOR]
            if (stale or now >= self._fresh_until) and now >= self._trouble_until:
                found = await self._inspect(lambda inspector: inspect_queues(inspector, stale))
                if found is not None:
                    self._read_at = {
                        name: at for name, at in self._read_at.items() if now - at <= _SHARED_FOR
                    }
                    known = {name: info for name, info in self._facts.queues.items() if name in self._read_at}
                    self._read_at.update(dict.fromkeys(stale, now))
                    self._facts = found._replace(queues=known | dict(found.queues))
                    self._fresh_until = monotonic() + _SHARED_FOR
            return self._facts

    async def count_delayed(self) -> Mapping[str, int]:
        """Return the messages by delay level; none while the broker is away. Never raises."""
        async with self._lock:
            now = monotonic()
            if now >= max(self._delays_fresh_until, self._trouble_until):
                self._delays = await self._inspect(_count_delays) or {}
                self._delays_fresh_until = monotonic() + _SHARED_FOR
            return self._delays

    async def _inspect(self, use: Callable[[BrokerInspector], Awaitable[T]]) -> T | None:
        """Use the connection. None: the broker is away, and is tried again after a pause."""
        try:
            async with asyncio.timeout(self._timeout):
                if self._inspector is None:
                    opened = open_inspector(self._endpoints.broker_url, self._endpoints.namespace)
                    self._inspector = await self._connection.enter_async_context(opened)
                return await use(self._inspector)
        except TimeoutError:
            why = f"no answer within {self._timeout:g} s"
        except CommandError as error:
            why = error.sentence
        except (AmqpError, OSError) as error:
            why = str(error)
        self._facts, self._fresh_until, self._read_at = BrokerFacts(why), float("-inf"), {}
        self._trouble_until = monotonic() + _RECONNECT_PAUSE
        await self.close()
        return None

    async def close(self) -> None:
        """Close the connection; the next query opens another."""
        self._inspector = None
        connection, self._connection = self._connection, AsyncExitStack()
        await connection.aclose()


async def _count_delays(inspector: BrokerInspector) -> dict[str, int]:
    found: dict[str, int] = {}
    for level in DELAY_LEVELS:
        with suppress(ChannelRefused):  # this user may not look at it
            if (info := await inspector.queue(level.queue)) is not None:
                found[level.name] = info.messages
    return found


class DelayDepth(BaseModel):
    """A delay level with the messages that wait on it; None: the broker did not say."""

    name: str
    delay: timedelta
    messages: int | None


async def read_system(backend: Backend, queues: Collection[str] = ()) -> SystemFacts:
    """Read the system with these dispatch queues."""
    return await gather_system(
        backend.store, backend.endpoints, queues, query_broker=backend.shared(SharedInspector).query
    )


async def read_delays(backend: Backend) -> list[DelayDepth]:
    """Read the delay levels, the shortest first."""
    depths = await backend.shared(SharedInspector).count_delayed()
    return [
        DelayDepth(name=level.name, delay=level.delay, messages=depths.get(level.name))
        for level in DELAY_LEVELS
    ]


async def explain_schedule_row(backend: Backend, row: ScheduleRow) -> Explanation:
    """Explain why a schedule starts no job now, or when it does."""
    facts = await gather_schedule(backend.store, await read_system(backend), row)
    return mask_explanation((await backend.learn()).every, explain(facts))


async def explain_queue_head(
    backend: Backend, system: SystemFacts, name: str, head: QueueHead | None
) -> Explanation:
    """Explain what keeps agents from the jobs of a queue, or that nothing does."""
    return mask_explanation(
        (await backend.learn()).every, explain(await queue_subject(backend.store, system, name, head))
    )


async def explain_agent_row(backend: Backend, row: AgentRow) -> Explanation:
    """Explain what keeps an agent from work, or that nothing does."""
    facts = AgentSubject(system=await read_system(backend, row.queues), row=row)
    return mask_explanation((await backend.learn()).every, explain(facts))
