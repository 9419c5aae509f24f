"""The client: requests jobs, sends commands, and receives replies."""

import os
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self
from uuid import UUID

from warrener_client.errors import ClientClosed, NotConfirmed
from warrener_client.job import Job
from warrener_client.publisher import BATCH_SIZE, RequestPublisher, pipeline
from warrener_client.replies import POLL_INTERVAL, ReplyRouter, RetryPoller
from warrener_client.requests import Arguments, BulkEncoder, JobSpec
from warrener_client.tracing import RequestSpans
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.codec import DecodedEvent
from warrener_contracts.events import (
    BreakerSetRequested,
    BreakerSetRequestedData,
    Event,
    IncidentAcknowledgeRequested,
    IncidentAcknowledgeRequestedData,
    IncidentCloseRequested,
    IncidentCloseRequestedData,
    IncidentSnoozeRequested,
    IncidentSnoozeRequestedData,
    JobCancelRequested,
    JobCancelRequestedData,
    ScheduleCommandData,
    SchedulePauseRequested,
    SchedulePut,
    SchedulePutData,
    ScheduleRemoveRequested,
    ScheduleResumeRequested,
    ScheduleTriggerRequested,
)
from warrener_contracts.fields import DurationLike
from warrener_contracts.identity import job_id_of
from warrener_contracts.inbox import decode_message
from warrener_contracts.messages import Message, build_message
from warrener_contracts.policy import PolicyOverrides
from warrener_contracts.topology import TOPOLOGY, reply_queue
from warrener_runtime.bus.namespace import DEFAULT_NAMESPACE, validate_namespace
from warrener_runtime.bus.port import Bus, Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.clock import Clock, Entropy, SystemClock, SystemEntropy
from warrener_runtime.lifecycle import Consumer, Group, Loop, Resource
from warrener_runtime.telemetry import Telemetry, TraceContext, current_trace_context

DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672/"
_PREFETCH = 1000
ScheduleCommandEvent = type[
    SchedulePauseRequested | ScheduleResumeRequested | ScheduleRemoveRequested | ScheduleTriggerRequested
]
"""A command to a schedule by its name."""


class Client:
    """Requests jobs over the broker. Waiting costs no polling: replies come to a queue of the client, and
    requests whose reply may be lost with that queue are repeated under the same id.

    - `url`: the broker; None: WARRENER_BROKER_URL, else a broker on this machine. Or `bus`, which the client
      closes.
    - `namespace`: the first word of all exchanges and queues; None: WARRENER_NAMESPACE, else `warrener`.
    - `source`: the sender of every event. A text id is unique for its source; a UUID is unique by itself.
    - `confirm_timeout`: seconds that `request`, `request_batch` and `cancel` wait for the broker's confirm.
    - `resend_after`: seconds after which an awaited request is repeated.
    - `telemetry`: makes a span for each request; None: the caller's OpenTelemetry does, if it is configured.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        bus: Bus | None = None,
        namespace: str | None = None,
        source: str = "warrener.client",
        confirm_timeout: float | None = 30.0,
        resend_after: float = 60.0,
        telemetry: Telemetry | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.source = source
        self._clock = clock or SystemClock()
        self._entropy = entropy or SystemEntropy()
        self._confirm_timeout = confirm_timeout
        self._spans = RequestSpans(telemetry)
        self._bus = bus or _open_bus(url, source, namespace)
        self.address = self._entropy.new_id().hex
        replies_queue = reply_queue(self.address)
        self._topology = TOPOLOGY.with_queues([replies_queue])
        self._publisher = RequestPublisher(self._bus, self._clock)
        self._reply_router = ReplyRouter(self.address)
        replies = Consumer(
            "answers",
            self._bus,
            replies_queue.name,
            _PREFETCH,
            self._receive_replies,
            clock=self._clock,
            own_queue=True,
        )
        self._retry_poller = RetryPoller(
            replies, self._reply_router, self._publisher, self._clock, resend_after
        )
        self._components = Group(
            Resource("bus", self._connect, self._bus.close),
            replies,
            Loop("retry-poller", self._retry_poller.tick, every=POLL_INTERVAL, clock=self._clock),
            name="client",
        )
        self._open = False

    async def start(self) -> None:
        """Connect, with retries, and declare the queue of requests, which keeps them until a service runs."""
        await self._components.start()
        self._open = True

    async def close(self) -> None:
        """Disconnect. Waiting callers get ClientClosed; the jobs go on. Safe to repeat, or before `start`."""
        self._open = False
        await self._publisher.close()
        self._reply_router.close()
        await self._components.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def request(
        self,
        job_type: str,
        arguments: Arguments | None = None,
        *,
        id: UUID | str | None = None,  # noqa: A002 - the word of the wire
        idempotency_key: str | None = None,
        queue: str | None = None,
        delay: DurationLike | None = None,
        not_before: datetime | None = None,
        deadline: datetime | None = None,
        expires_after: DurationLike | None = None,
        policy: PolicyOverrides | dict[str, Any] | None = None,
        parent_id: UUID | None = None,
        traceparent: str | None = None,
    ) -> Job:
        """Request one job; returns when the broker has confirmed the request.

        Raises BadRequest (and RequestTooLarge) before anything is sent, NotConfirmed, ClientClosed. The
        handle raises RequestRejected if the scheduler refuses the request.
        """
        spec = JobSpec(
            job_type=job_type,
            arguments={} if arguments is None else arguments,
            id=id,
            idempotency_key=idempotency_key,
            queue=queue,
            delay=delay,
            not_before=not_before,
            deadline=deadline,
            expires_after=expires_after,
            policy=policy,
            parent_id=parent_id,
            traceparent=traceparent,
        )
        return (await self.request_batch([spec]))[0]

    async def request_batch(
        self, specs: Sequence[JobSpec], *, want_results: bool = True, wait_for_confirm: bool = False
    ) -> list[Job]:
        """Request several jobs with one wait for the confirms; handles in order. One bad request sends none.

        `wait_for_confirm`: waits for the confirms for as long as it takes, and never raises NotConfirmed.
        `want_results`: see request_many.
        """
        timeout = None if wait_for_confirm else self._confirm_timeout
        return await self._request(specs, timeout, want_results=want_results)

    def request_many(
        self,
        specs: Iterable[JobSpec] | AsyncIterable[JobSpec],
        *,
        batch: int = BATCH_SIZE,
        want_results: bool = True,
    ) -> AsyncGenerator[Job]:
        """Request any number of jobs: batches are pipelined, handles come in order once confirmed.

        Waits without a timeout: a full queue or a lost connection slows it and loses nothing. Reads a few
        batches ahead of the confirms.

        `want_results=False`: skips reply messages. Awaiting a handle later requests its result again
        (about 250 ms).
        """
        return pipeline(
            specs, partial(self.request_batch, want_results=want_results, wait_for_confirm=True), batch
        )

    async def cancel(self, job_id: UUID, reason: str = "requested", *, tree: bool = False) -> None:
        """Cancel a job; returns when the broker has confirmed the command.

        A cancelled job never succeeds later, and an ended job stays as it is. A cancel that arrives before
        its request is stored for it.

        `tree`: cancels its children and theirs too, even if the job itself has ended; later children are
        cancelled on arrival. JobFinished and JobCancelled carry the reason.
        """
        event = JobCancelRequested(
            id=str(self._entropy.new_id()),
            source=self.source,
            time=self._clock.now(),
            subject=str(job_id),
            data=JobCancelRequestedData(job_id=job_id, reason=reason, tree=tree),
        )
        await self._send([build_message(event)], self._confirm_timeout, job_id)

    async def open_breaker(
        self, name: str, *, for_: timedelta | None = None, reason: str = "requested"
    ) -> None:
        """Open a circuit breaker, `job:<job type>` or `dependency:<name>`: its jobs wait.

        After `for_` a first job passes as a probe; without it, they wait until the breaker is closed. Returns
        when the broker has confirmed. Raises ValueError for a name that no breaker has.
        """
        await self._set_breaker(name, BreakerState.OPEN, for_, reason)

    async def close_breaker(self, name: str, *, reason: str = "requested") -> None:
        """Close a circuit breaker; returns when the broker has confirmed."""
        await self._set_breaker(name, BreakerState.CLOSED, None, reason)

    async def _set_breaker(
        self,
        name: str,
        state: Literal[BreakerState.OPEN, BreakerState.CLOSED],
        open_for: timedelta | None,
        reason: str,
    ) -> None:
        data = BreakerSetRequestedData(name=name, state=state, open_for=open_for, reason=reason)
        await self.send(BreakerSetRequested(**self._envelope(name), data=data))

    async def acknowledge_incident(self, fingerprint: str, *, by: str) -> None:
        """Acknowledge an incident: no further alerts; the other steps of its policy go on. Returns when the
        broker has confirmed."""
        data = IncidentAcknowledgeRequestedData(fingerprint=fingerprint, by=by)
        await self.send(IncidentAcknowledgeRequested(**self._envelope(fingerprint), data=data))

    async def snooze_incident(self, fingerprint: str, until: datetime, *, by: str) -> None:
        """Suspend the steps of an incident's policy until then; a past time resumes them."""
        data = IncidentSnoozeRequestedData(fingerprint=fingerprint, by=by, until=until)
        await self.send(IncidentSnoozeRequested(**self._envelope(fingerprint), data=data))

    async def close_incident(self, fingerprint: str, *, by: str, reason: str = "requested") -> None:
        """Close an incident; raised again, it starts from the first step."""
        data = IncidentCloseRequestedData(fingerprint=fingerprint, by=by, reason=reason)
        await self.send(IncidentCloseRequested(**self._envelope(fingerprint), data=data))

    def _envelope(self, subject: str) -> dict[str, Any]:
        event_id, time = str(self._entropy.new_id()), self._clock.now()
        return {"id": event_id, "source": self.source, "time": time, "subject": subject}

    async def send(self, event: Event[Any]) -> None:
        """Publish any event of the wire; returns when the broker has confirmed."""
        await self._send([build_message(event)], self._confirm_timeout, job_id_of(event.source, event.id))

    async def put_schedules(self, schedules: Sequence[SchedulePutData]) -> None:
        """Create or replace schedules; returns when the broker has confirmed. A repeat changes nothing. An
        invalid one is rejected by an event of `warrener.events`."""
        now = self._clock.now()
        puts = [
            SchedulePut(
                id=str(self._entropy.new_id()),
                source=self.source,
                time=now,
                subject=schedule.name,
                data=schedule,
            )
            for schedule in schedules
        ]
        if puts:
            await self._send([build_message(put) for put in puts], self._confirm_timeout, UUID(puts[0].id))

    async def pause_schedule(self, name: str, reason: str = "requested") -> None:
        """Pause a schedule: its ticks are skipped until it is resumed. Returns when the broker has
        confirmed."""
        await self._send_schedule_command(SchedulePauseRequested, name, reason)

    async def resume_schedule(self, name: str, reason: str = "requested") -> None:
        """Resume a schedule from its next tick on; returns when the broker has confirmed."""
        await self._send_schedule_command(ScheduleResumeRequested, name, reason)

    async def remove_schedule(self, name: str, reason: str = "requested") -> None:
        """Remove a schedule; its tick history stays. Returns when the broker has confirmed."""
        await self._send_schedule_command(ScheduleRemoveRequested, name, reason)

    async def trigger_schedule(self, name: str, reason: str = "requested") -> UUID:
        """Request the job of a schedule now, beside its ticks; returns the job's id once the broker has
        confirmed."""
        return await self._send_schedule_command(ScheduleTriggerRequested, name, reason)

    async def _send_schedule_command(self, command: ScheduleCommandEvent, name: str, reason: str) -> UUID:
        command_id = self._entropy.new_id()
        event = command(
            id=str(command_id),
            source=self.source,
            time=self._clock.now(),
            subject=name,
            data=ScheduleCommandData(name=name, reason=reason),
        )
        await self.send(event)
        return command_id

    async def _request(
        self, specs: Sequence[JobSpec], confirm_timeout: float | None, *, want_results: bool = True
    ) -> list[Job]:
        around = current_trace_context()
        encoder = BulkEncoder(self.source, self._clock.now(), self.address if want_results else None)
        with self._spans.open_spans() as span:
            messages: list[tuple[JobSpec, UUID, Message]] = []
            for spec in specs:
                given = spec.id or self._entropy.new_id()
                event_id = str(given)
                job_id = given if isinstance(given, UUID) else job_id_of(self.source, event_id)
                parent = TraceContext(spec.traceparent) if spec.traceparent else around
                context = span(spec.job_type, job_id, parent)
                messages.append((spec, job_id, encoder.encode(spec, event_id, context)))
            now = self._clock.monotonic()
            jobs = [
                Job(
                    spec.job_type,
                    self._reply_router.register(job_id, message, now, wants_reply=want_results),
                    self._reply_router,
                )
                for spec, job_id, message in messages
            ]
            if messages:
                await self._send([message for _, _, message in messages], confirm_timeout, messages[0][1])
        return jobs

    async def _send(self, messages: list[Message], confirm_timeout: float | None, first: UUID) -> None:
        if not self._open:
            raise ClientClosed(
                "expected an open client, got a closed one: use `async with Client(…) as client`"
            )
        try:
            await self._publisher.send(messages, confirm_timeout)
        except TimeoutError:
            raise NotConfirmed(first, len(messages) - 1, confirm_timeout or 0) from None

    async def _connect(self) -> None:
        await self._bus.start()
        await self._bus.declare(self._topology)

    async def _receive_replies(self, replies: Subscription, batch: list[Delivery]) -> None:
        for delivery in batch:
            for found in decode_message(delivery):
                if isinstance(found, DecodedEvent):
                    self._reply_router.resolve(found.event)
        await replies.ack(batch)


def _open_bus(url: str | None, name: str, namespace: str | None) -> Bus:
    from warrener_runtime.bus import open_bus  # noqa: PLC0415 - a given bus needs no RabbitMQ client

    namespace = namespace or os.environ.get("WARRENER_NAMESPACE") or DEFAULT_NAMESPACE
    url = url or os.environ.get("WARRENER_BROKER_URL") or DEFAULT_URL
    try:
        validate_namespace(namespace)
    except ValueError as error:
        raise ValueError(f"namespace: expected {error}, got {namespace!r}") from None
    return open_bus(url, name=name, namespace=namespace)
