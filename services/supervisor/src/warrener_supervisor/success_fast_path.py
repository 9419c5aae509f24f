"""End jobs by their successes in one statement, without reading or judging them one by one.

Nearly all events are plain successes, for which the judge would decide the same whatever else is known of
the job. The store ends the jobs to which that applies (`Successes`); the others go to the judge. A test
compares the two.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeGuard
from uuid import UUID

from warrener_contracts.events import AttemptSucceeded, Event
from warrener_contracts.messages import Message, as_reply
from warrener_runtime.clock import Clock
from warrener_store.errors import StoreRefused
from warrener_store.jobs.views import SucceededJob, Success
from warrener_store.store import StateStore
from warrener_supervisor.breakers.monitor import BreakerMonitor
from warrener_supervisor.decisions.judge import JudgedEvent
from warrener_supervisor.metrics import SupervisorMetrics
from warrener_supervisor.notifications import success_message
from warrener_supervisor.trace_spans import JobSpans


class SuccessFastPath:
    def __init__(
        self,
        store: StateStore,
        clock: Clock,
        spans: JobSpans,
        breakers: BreakerMonitor,
        metrics: SupervisorMetrics,
    ) -> None:
        self._metrics = metrics
        self._store = store
        self._clock = clock
        self._spans = spans
        self._breakers = breakers

    async def complete(self, left: dict[UUID, list[JudgedEvent]]) -> list[Message]:
        """End those of these jobs that it can, remove them from `left`, and return the messages about
        them."""
        successes = {
            job_id: event
            for job_id, entries in left.items()
            if len(entries) == 1 and _is_plain_success(event := entries[0].event)
        }
        begun_at = self._clock.now()
        ended = await self._end(successes, begun_at)
        self._metrics.record_successes(ended.values())
        messages: list[Message] = []
        for job_id, job in ended.items():
            del left[job_id]
            self._breakers.record_success(job.job_type, job.policy)
            messages += self._messages_for(job, successes[job_id], begun_at)
        return messages

    async def _end(
        self, successes: Mapping[UUID, AttemptSucceeded], now: datetime
    ) -> Mapping[UUID, SucceededJob]:
        if not successes:
            return {}
        try:
            return await self._store.succeed_jobs(list(map(_success, successes.values())), now)
        except StoreRefused:
            return {}  # one is poisonous: the judge's saves find out which

    def _messages_for(
        self, job: SucceededJob, event: AttemptSucceeded, begun_at: datetime
    ) -> Sequence[Message]:
        to_all = success_message(job, self._spans.record_success(job, event, begun_at))
        return [to_all, *(as_reply(to_all, address) for address in dict.fromkeys(job.watchers))]


def _is_plain_success(event: Event[Any]) -> TypeGuard[AttemptSucceeded]:
    """True if the event reports a success that its attempt has recorded itself."""
    return type(event) is AttemptSucceeded and event.data.recorded_attempt == event.data.attempt


def _success(event: AttemptSucceeded) -> Success:
    data = event.data
    return Success(data.job_id, data.attempt, data.agent_id, data.result, data.started_at, data.finished_at)
