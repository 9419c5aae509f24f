"""The short way: a job of which nothing was heard but a success is ended by what was told.

Nearly all that is heard is this, and the judge would say the same of each, whatever else is known of the job.
So these jobs are neither read nor judged one by one: the store ends those to which it applies (`Successes`),
and the others go before the judge. A test holds the two to the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard
from uuid import UUID

from warrener_contracts.events import AttemptSucceeded, Event
from warrener_contracts.messages import Message, as_reply
from warrener_runtime.clock import Clock
from warrener_runtime.telemetry import Telemetry, TraceContext
from warrener_store.last_attempt import VERDICT
from warrener_store.port import StateStore, StoreRefused
from warrener_store.successes import SucceededJob, Success
from warrener_supervisor.breakers.monitor import BreakerMonitor
from warrener_supervisor.decisions.judge import JudgedEvent
from warrener_supervisor.effects import judge_span
from warrener_supervisor.notifications import success_message


class SuccessFastPath:
    """Ends jobs by their successes."""

    def __init__(
        self, store: StateStore, clock: Clock, telemetry: Telemetry, breakers: BreakerMonitor
    ) -> None:
        self._store = store
        self._clock = clock
        self._telemetry = telemetry
        self._breakers = breakers

    async def complete(self, left: dict[UUID, list[JudgedEvent]]) -> list[Message]:
        """End those of these jobs that it applies to; what there is to tell of them. They are in `left` no
        more."""
        successes = {
            job_id: event
            for job_id, entries in left.items()
            if len(entries) == 1 and _is_plain_success(event := entries[0].event)
        }
        ended = await self._end(successes)
        messages: list[Message] = []
        for job_id, job in ended.items():
            del left[job_id]
            self._breakers.record_success(job.job_type, job.policy)
            messages += self._messages_for(job, successes[job_id])
        return messages

    async def _end(self, successes: Mapping[UUID, AttemptSucceeded]) -> Mapping[UUID, SucceededJob]:
        if not successes:
            return {}
        try:
            return await self._store.succeed_jobs(list(map(_success, successes.values())), self._clock.now())
        except StoreRefused:
            return {}  # one of them is poisonous: the judge's saves find out which

    def _messages_for(self, job: SucceededJob, event: AttemptSucceeded) -> Sequence[Message]:
        own = TraceContext(job.traceparent, job.tracestate)
        to_all = success_message(job, judge_span(self._telemetry, job, event, VERDICT, otherwise=own))
        return [to_all, *(as_reply(to_all, address) for address in dict.fromkeys(job.watchers))]


def _is_plain_success(event: Event[Any]) -> TypeGuard[AttemptSucceeded]:
    """Whether it tells of a success that its attempt has recorded itself."""
    return type(event) is AttemptSucceeded and event.data.recorded_attempt == event.data.attempt


def _success(event: AttemptSucceeded) -> Success:
    data = event.data
    return Success(data.job_id, data.attempt, data.agent_id, data.result, data.started_at, data.finished_at)
