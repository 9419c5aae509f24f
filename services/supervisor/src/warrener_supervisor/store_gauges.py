"""Gauges of the whole system, read from store and broker by one supervisor at a time.

Two supervisors that reported the same jobs would double every sum, so a claim in the store says which one
reports; it ends by itself if its holder dies. Nothing is counted on reading: the numbers of jobs are kept as
jobs change, and the oldest job of a queue is the first entry of an index.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import (
    COMMAND_QUEUES,
    DEAD_QUEUE,
    DELAY_LEVELS,
    LOGS_QUEUE,
    REQUESTS_QUEUE,
    STATUS_QUEUE,
    TRIGGERS_QUEUE,
    dispatch_queue,
)
from warrener_runtime.bus.port import Bus, BusUnreachable
from warrener_runtime.clock import Clock
from warrener_runtime.telemetry.metric_names import (
    AGENTS_ALIVE,
    BREAKERS,
    DELAYED_MESSAGES,
    JOBS,
    MAX_VALUES,
    OLDEST_AGE,
    QUEUE_CONSUMERS,
    QUEUE_MESSAGES,
)
from warrener_runtime.telemetry.metrics import LabelValues, Metrics
from warrener_store.agents.rows import AgentRow
from warrener_store.breakers.gate import BreakerRow
from warrener_store.errors import StoreUnavailable
from warrener_store.jobs.rows import StateCount
from warrener_store.jobs.views import QueueHead
from warrener_store.store import StateStore
from warrener_supervisor.metrics import SupervisorMetrics

INTERVAL = timedelta(seconds=10)
_CLAIM = timedelta(seconds=25)
_DUTY = "metrics"
_ENTRY_QUEUES = tuple(
    queue.name
    for queue in (REQUESTS_QUEUE, STATUS_QUEUE, TRIGGERS_QUEUE, DEAD_QUEUE, LOGS_QUEUE, *COMMAND_QUEUES)
)

Series = dict[LabelValues, float]


class StoreGauges:
    """Reports the gauges while it holds the claim, and none otherwise."""

    def __init__(
        self,
        bus: Bus,
        store: StateStore,
        clock: Clock,
        metrics: Metrics,
        counters: SupervisorMetrics,
        *,
        holder: str,
        lease: timedelta,
    ) -> None:
        self._bus, self._store, self._clock = bus, store, clock
        self._counters, self._holder, self._lease = counters, holder, lease
        self._of_store = {
            spec.name: metrics.gauge(spec) for spec in (JOBS, OLDEST_AGE, AGENTS_ALIVE, BREAKERS)
        }
        self._of_broker = {
            spec.name: metrics.gauge(spec) for spec in (QUEUE_MESSAGES, QUEUE_CONSUMERS, DELAYED_MESSAGES)
        }

    async def run_once(self) -> None:
        """Read everything again. An error of the store ends the series: an old number would be wrong."""
        now = self._clock.now()
        try:
            types = await self._store.job_types()
            queues = {row.queue for row in types.values()}
            self._counters.begin_series(types, queues)
            if not await self._store.claim_duty(_DUTY, self._holder, now, now + _CLAIM):
                self._clear()
                return
            await self._report(queues, now)
        except Exception:
            self._clear()
            raise

    async def release(self) -> None:
        """Let another supervisor report at once; if the store is away, it has to wait for the claim's end."""
        self._clear()
        now = self._clock.now()
        with suppress(StoreUnavailable):
            await self._store.claim_duty(_DUTY, self._holder, now, now)

    async def _report(self, announced: Collection[str], now: datetime) -> None:
        counts, heads = await self._store.count_jobs(), await self._store.queue_heads()
        agents = await self._store.agents(now - self._lease)
        served = {queue for agent in agents for queue in agent.queues}
        queues = sorted({*announced, *served, *(count.queue for count in counts)})
        self._of_store[JOBS.name].replace(jobs_by_state(queues, counts))
        self._of_store[OLDEST_AGE.name].replace(oldest_ages(queues, heads, now))
        self._of_store[AGENTS_ALIVE.name].replace(agents_by_queue(queues, agents))
        self._of_store[BREAKERS.name].replace(breaker_states(await self._store.breakers()))
        try:
            await self._report_broker(queues)
        except BusUnreachable:
            self._clear_broker()  # the other gauges are true all the same

    async def _report_broker(self, queues: Sequence[str]) -> None:
        names = [*_ENTRY_QUEUES, *(dispatch_queue(queue).name for queue in queues[:MAX_VALUES])]
        found = {name: await self._bus.backlog(name) for name in names}
        self._of_broker[QUEUE_MESSAGES.name].replace({(name,): one.waiting for name, one in found.items()})
        self._of_broker[QUEUE_CONSUMERS.name].replace({(name,): one.consumers for name, one in found.items()})
        self._of_broker[DELAYED_MESSAGES.name].replace(
            {(level.name,): (await self._bus.backlog(level.queue)).waiting for level in DELAY_LEVELS}
        )

    def _clear(self) -> None:
        for gauge in self._of_store.values():
            gauge.replace({})
        self._clear_broker()

    def _clear_broker(self) -> None:
        for gauge in self._of_broker.values():
            gauge.replace({})


def jobs_by_state(queues: Iterable[str], counts: Iterable[StateCount]) -> Series:
    """Count jobs by queue and state; 0 where there are none, so that a series never ends in between."""
    series: Series = {(queue, state.value): 0 for queue in queues for state in JobState}
    for count in counts:
        series[count.queue, count.state.value] += count.jobs
    return series


def oldest_ages(queues: Iterable[str], heads: Iterable[QueueHead], now: datetime) -> Series:
    """Return the age of the oldest dispatch of each queue in seconds; 0 where none waits."""
    series: Series = {(queue,): 0.0 for queue in queues}
    for head in heads:
        if head.oldest is not None:
            series[head.queue,] = max(0.0, (now - head.oldest).total_seconds())
    return series


def agents_by_queue(queues: Iterable[str], agents: Iterable[AgentRow]) -> Series:
    """Count the agents that take jobs of each queue: those that drain take none."""
    served = Counter(queue for agent in agents if not agent.draining for queue in agent.queues)
    return {(queue,): served[queue] for queue in queues}


def breaker_states(rows: Iterable[BreakerRow]) -> Series:
    """Return 1 for the state of each breaker, and 0 for the others."""
    return {(row.name, state.value): int(row.state is state) for row in rows for state in BreakerState}
