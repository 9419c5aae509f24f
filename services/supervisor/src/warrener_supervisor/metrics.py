"""The supervisor's metrics: counts of its own, and gauges of the whole system.

One supervisor at a time reads the gauges from store and broker: two that reported the same jobs would double
every sum. A claim in the store says which one reports; it ends by itself if its holder dies. Nothing is
counted on reading: the numbers of jobs are kept as jobs change, and the oldest job of a queue is the first
entry of an index.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from warrener_contracts import topology
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.events import Reason
from warrener_contracts.state_machine import JobState
from warrener_runtime.bus.port import BusUnreachable
from warrener_runtime.telemetry.metric_names import (
    AGENTS_ALIVE,
    ATTEMPTS_LOST,
    ATTEMPTS_RETRIED,
    BREAKERS,
    DEAD_LETTERS,
    DELAYED_MESSAGES,
    JOB_DURATION,
    JOBS,
    JOBS_FINISHED,
    MAX_VALUES,
    OLDEST_AGE,
    PARKED,
    QUEUE_CONSUMERS,
    QUEUE_MESSAGES,
    WORKFLOW_TURNS,
    WORKFLOWS_OLDEST_WAIT,
    WORKFLOWS_SUSPENDED,
)
from warrener_runtime.telemetry.metrics import LabelValues, Metrics
from warrener_store.errors import StoreUnavailable
from warrener_store.jobs.rows import AttemptOutcome, JobRow, StateCount
from warrener_store.jobs.views import QueueHead, SucceededJob
from warrener_store.parked.rows import ParkedMessage
from warrener_supervisor.decisions.context import JobTransition
from warrener_supervisor.decisions.judge import JobBatch
from warrener_supervisor.effects import SupervisorPorts

_NOTHING_WRONG = frozenset({AttemptOutcome.RELEASED, AttemptOutcome.SNOOZED})
_SUCCEEDED = JobState.SUCCEEDED.value


class SupervisorMetrics:
    """Records what one supervisor has saved, once for each change however often it is published."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        metrics = metrics or Metrics.disabled()
        self._finished = metrics.counter(JOBS_FINISHED)
        self._duration = metrics.histogram(JOB_DURATION)
        self._retried = metrics.counter(ATTEMPTS_RETRIED)
        self._lost = metrics.counter(ATTEMPTS_LOST)
        self._turns = metrics.counter(WORKFLOW_TURNS)
        self._dead_letters = metrics.counter(DEAD_LETTERS)
        self._parked = metrics.counter(PARKED)
        for reason in Reason:
            self._parked.add(0, reason.value)

    def begin_series(self, job_types: Iterable[str], queues: Iterable[str]) -> None:
        """Begin the counts that alerts watch at 0: Prometheus sees no increase where a series begins."""
        for job_type in job_types:
            self._dead_letters.add(0, job_type)
        for queue in queues:
            self._lost.add(0, queue)

    def record_successes(self, jobs: Collection[SucceededJob]) -> None:
        """Count jobs that their successes have ended."""
        for job_type, count in Counter([job.job_type for job in jobs]).items():
            self._finished.add(count, job_type, _SUCCEEDED)
        record = self._duration.record
        for job in jobs:
            record((job.finished_at - job.requested_at).total_seconds(), job.job_type, _SUCCEEDED)

    def record_saved(self, batch: JobBatch) -> None:
        """Count the changes of a job that were saved."""
        for change in batch.saves:
            self._record_attempt(change)
            row = change.row
            if row.state.terminal:
                self._record_end(row)

    def record_turns(self, rows: Iterable[JobRow]) -> None:
        """Count turns of workflows that were dispatched."""
        for job_type, count in Counter(row.job_type for row in rows).items():
            self._turns.add(count, job_type)

    def record_parked(self, messages: Iterable[ParkedMessage]) -> None:
        """Count messages that were parked."""
        for reason, count in Counter(message.reason for message in messages).items():
            self._parked.add(count, reason)

    def _record_attempt(self, change: JobTransition) -> None:
        attempt, row = change.attempt, change.row
        if attempt is None:
            return
        if attempt.outcome is AttemptOutcome.LOST:
            self._lost.add(1, row.queue)
        if not (row.ending or row.state).terminal and attempt.outcome not in _NOTHING_WRONG:
            error = attempt.error.type if attempt.error is not None else attempt.outcome.value
            self._retried.add(1, row.job_type, error)

    def _record_end(self, row: JobRow) -> None:
        self._finished.add(1, row.job_type, row.state.value)
        duration = ((row.finished_at or row.requested_at) - row.requested_at).total_seconds()
        self._duration.record(duration, row.job_type, row.state.value)
        if row.state is JobState.DEAD:
            self._dead_letters.add(1, row.job_type)


INTERVAL = timedelta(seconds=10)
_CLAIM = timedelta(seconds=25)
_DUTY = "metrics"
_MAX_WAITS = 10_000  # workflows that are counted of each kind of wait
_ENTRY_QUEUES = tuple(
    queue.name
    for queue in (
        topology.REQUESTS_QUEUE,
        topology.STATUS_QUEUE,
        topology.TRIGGERS_QUEUE,
        topology.DEAD_QUEUE,
        topology.LOGS_QUEUE,
        *topology.COMMAND_QUEUES,
    )
)

Series = dict[LabelValues, float]


class StoreGauges:
    """Reports the gauges while it holds the claim, and none otherwise."""

    def __init__(
        self, ports: SupervisorPorts, metrics: Metrics, counters: SupervisorMetrics, *, holder: str
    ) -> None:
        self._bus, self._store, self._clock, timings = ports
        self._counters, self._holder, self._lease = counters, holder, timings.lease
        self._of_store = {
            spec.name: metrics.gauge(spec)
            for spec in (JOBS, OLDEST_AGE, AGENTS_ALIVE, BREAKERS, WORKFLOWS_SUSPENDED, WORKFLOWS_OLDEST_WAIT)
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
        # Agents that drain take no jobs.
        served_by = Counter(queue for agent in agents if not agent.draining for queue in agent.queues)
        self._of_store[AGENTS_ALIVE.name].replace({(queue,): served_by[queue] for queue in queues})
        breakers = await self._store.breakers()
        states: Series = {
            (row.name, each.value): int(row.state is each) for row in breakers for each in BreakerState
        }
        self._of_store[BREAKERS.name].replace(states)
        waits = (await self._store.count_waits(_MAX_WAITS)).items()
        self._of_store[WORKFLOWS_SUSPENDED.name].replace({(kind.value,): one.jobs for kind, one in waits})
        self._of_store[WORKFLOWS_OLDEST_WAIT.name].replace(
            {
                (kind.value,): max(0.0, (now - one.oldest).total_seconds()) if one.oldest else 0.0
                for kind, one in waits
            }
        )
        try:
            await self._report_broker(queues)
        except BusUnreachable:
            for gauge in self._of_broker.values():
                gauge.replace({})  # the other gauges are true all the same

    async def _report_broker(self, queues: Sequence[str]) -> None:
        names = [*_ENTRY_QUEUES, *(topology.dispatch_queue(queue).name for queue in queues[:MAX_VALUES])]
        found = {name: await self._bus.backlog(name) for name in names}
        self._of_broker[QUEUE_MESSAGES.name].replace({(name,): one.waiting for name, one in found.items()})
        self._of_broker[QUEUE_CONSUMERS.name].replace({(name,): one.consumers for name, one in found.items()})
        self._of_broker[DELAYED_MESSAGES.name].replace(
            {(level.name,): (await self._bus.backlog(level.queue)).waiting for level in topology.DELAY_LEVELS}
        )

    def _clear(self) -> None:
        for gauge in (*self._of_store.values(), *self._of_broker.values()):
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
