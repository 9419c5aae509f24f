"""The client: requests jobs, sends commands, and receives replies."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, Self, Unpack
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from warrener_client.errors import ClientClosed, NotConfirmed, NotConnected
from warrener_client.job import Job
from warrener_client.publisher import BATCH_SIZE, RequestPublisher, open_client_bus, pipeline
from warrener_client.replies import POLL_INTERVAL, REPLIES_TIMEOUT, ReplyRouter, RetryPoller, wait_for_replies
from warrener_client.requests import (
    Arguments,
    BulkEncoder,
    JobSpec,
    PrivateRequests,
    RequestOptions,
    read_arguments,
)
from warrener_client.tracing import RequestSpans
from warrener_contracts import canvas, events
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.codec import DecodedEvent
from warrener_contracts.events import (
    CommandHandled,
    Event,
    JobDeduplicated,
    JobFinished,
    JobRejected,
    JobWaiting,
)
from warrener_contracts.fields import DurationLike
from warrener_contracts.identity import job_id_of
from warrener_contracts.inbox import decode_message
from warrener_contracts.messages import Message, build_message
from warrener_contracts.policy import PolicyOverrides
from warrener_contracts.reader import Registry
from warrener_contracts.topology import REQUESTS, TOPOLOGY, dispatch_queue, reply_address, reply_queue
from warrener_runtime.bus.port import Bus, BusUnreachable, Subscription
from warrener_runtime.bus.types import DeclareMode, Delivery
from warrener_runtime.clock import Clock, Entropy, SystemClock, SystemEntropy
from warrener_runtime.keys import ENCRYPTION_KEYS, SIGNING_KEY, find_key_file, load_key_ring, load_signer
from warrener_runtime.lifecycle import Consumer, Group, Loop, Resource
from warrener_runtime.lifecycle.components import StoppedWhileStarting, has_succeeded, retrieve_exception
from warrener_runtime.telemetry import Telemetry, TraceContext, current_trace_context
from warrener_runtime.telemetry.baggage import current_baggage

_PREFETCH = 1000
REPLIES = Registry((CommandHandled, JobDeduplicated, JobFinished, JobRejected, JobWaiting))
"""The events that come to a client's queue. Others are imported when they are used: `events.SchedulePut`."""


class Client:
    """Requests jobs over the broker. Waiting costs no polling: replies come to a queue of the client, and
    requests whose reply may be lost with that queue are repeated under the same id.

    - `url`: the broker; None: WARRENER_BROKER_URL, else the `warrener up` that runs in this folder (one line
      on stderr says so), else a broker on this machine. Or `bus`, which the client closes.
    - `namespace`: the first word of all exchanges and queues; None: WARRENER_NAMESPACE, else `warrener`.
    - `source`: the sender of every event. A text id is unique for its source; a UUID is unique by itself.
    - `connect_timeout`: seconds to connect; NotConnected afterwards. None: no limit.
    - `lazy`: True for a program that starts without its broker: `start` returns at once, the client connects
      as soon as a broker answers, and a request waits for that for `connect_timeout`.
    - `confirm_timeout`: seconds that `request`, `request_batch` and `cancel` wait for the broker's confirm.
    - `resend_after`: seconds after which an awaited request is repeated.
    - `encryption_keys`: file of the keys that encrypt the arguments of job types that match one of
      `encrypts`, and signals, and that decrypt results (None: WARRENER_ENCRYPTION_KEYS_FILE, if it is set).
    - `signing_key`: file of the key that signs requests (None: WARRENER_SIGNING_KEY_FILE, if it is set). Not
      with `bus`, which has a signer of its own.
    - `declare`: `never` makes nothing but the client's own reply queue; `if-missing` declares exchanges and
      queues that no service has made yet, as far as its user may. None: WARRENER_DECLARE, else `if-missing`.
    - `broker_user`: the user of `url`, which messages name and the broker compares, so that others use up no
      share of its cancels of unknown jobs. None: they name none. Not with `bus`.
    - `telemetry`: makes a span for each request; None: the caller's OpenTelemetry does, if it is configured.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        bus: Bus | None = None,
        namespace: str | None = None,
        source: str = "warrener.client",
        connect_timeout: float | None = 10.0,
        lazy: bool = False,
        confirm_timeout: float | None = 30.0,
        resend_after: float = 60.0,
        encryption_keys: str | os.PathLike[str] | None = None,
        encrypts: Sequence[str] = ("*",),
        signing_key: str | os.PathLike[str] | None = None,
        declare: DeclareMode | None = None,
        broker_user: str | None = None,
        telemetry: Telemetry | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.source = source
        self._clock = clock or SystemClock()
        self._entropy = entropy or SystemEntropy()
        self._confirm_timeout = confirm_timeout
        self._spans = RequestSpans(telemetry)
        self._lazy, self._connect_timeout = lazy, connect_timeout
        self._connecting: asyncio.Task[None] | None = None
        codec = load_key_ring(find_key_file(encryption_keys, ENCRYPTION_KEYS))
        self._private = PrivateRequests(codec, encrypts)
        user = ""
        if bus is None:
            timeout = None if lazy else connect_timeout
            signer = load_signer(find_key_file(signing_key, SIGNING_KEY), REQUESTS)
            bus, user = open_client_bus(
                url, source, namespace, timeout, signer, declare=declare, user_id=broker_user
            )
        self._bus = bus
        self.address = reply_address(user, self._entropy.new_id().hex)
        self._publisher = RequestPublisher(self._bus, self._clock)
        self._reply_router = ReplyRouter(self.address, codec)
        replies = Consumer(
            "answers",
            self._bus,
            reply_queue(self.address).name,
            _PREFETCH,
            self._receive_replies,
            clock=self._clock,
            own_queue=True,
        )
        self._retry_poller = RetryPoller(
            self._bus,
            self.address,
            replies,
            self._reply_router,
            self._publisher,
            clock=self._clock,
            interval=resend_after,
        )
        self._components = Group(
            Resource("bus", self._bus.start, self._bus.close),
            Resource("replies", shut=self._retry_poller.stop),  # consumed when the first one is wanted
            Loop("retry-poller", self._retry_poller.tick, every=POLL_INTERVAL, clock=self._clock),
            name="client",
        )
        self._open = False

    async def start(self) -> None:
        """Connect. Queues are looked for, and declared if they are missing, when they are first needed: that
        of requests, which stores them until a service runs, and that of replies.

        Raises NotConnected after `connect_timeout`, and BusCredentialsRefused; a lazy client raises them at
        the first request.
        """
        if self._lazy:
            self._connecting = asyncio.create_task(self._components.start(), name="connect the client")
            self._connecting.add_done_callback(retrieve_exception)
        else:
            try:
                await self._components.start()
            except BusUnreachable as error:
                raise NotConnected(str(error)) from error
        self._open = True

    async def declare_topology(self, dispatch_queues: Iterable[str] = ()) -> None:
        """Declare every exchange, queue and binding of this version that is missing, as services do when they
        start, and the queues of agents that `dispatch_queues` names. Raises TopologyMismatch."""
        await self._wait_ready(None, want_replies=False)
        queues = map(dispatch_queue, dispatch_queues)
        await self._bus.declare(TOPOLOGY.with_queues(queues), verify=True)

    @property
    def is_connected(self) -> bool:
        """True once the client has connected; it reconnects by itself."""
        return self._open and (self._connecting is None or has_succeeded(self._connecting))

    async def close(self) -> None:
        """Disconnect. Waiting callers get ClientClosed; the jobs go on. Safe to repeat, or before `start`."""
        self._open = False
        await self._publisher.close()
        self._reply_router.close()
        await self._components.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
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

        Raises BadRequest (and RequestTooLarge) before anything is sent, NotConnected, NotConfirmed,
        ClientClosed. The handle raises RequestRejected if the scheduler refuses the request.
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

    async def request_group(
        self,
        members: Iterable[canvas.GroupMember | Mapping[str, Any]],
        *,
        in_flight: int = 50,
        then: canvas.ChainStep | Mapping[str, Any] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Job:
        """Request a group: a workflow that runs the jobs `members`, `in_flight` at once, and waits for all.

        Its result is a GroupResult. With `then`, a job that runs if all have succeeded, the result is that of
        this job, which gets the list of their results as its `result_argument`. An agent must serve
        `warrener_agent.canvas`. Options and errors: see `request`; BadRequest names the member.
        """
        arguments = read_arguments(
            canvas.GroupArguments, members=tuple(members), in_flight=in_flight, then=then
        )
        return await self.request(canvas.GROUP, arguments, **options)

    async def request_chain(
        self, steps: Iterable[canvas.ChainStep | Mapping[str, Any]], **options: Unpack[RequestOptions]
    ) -> Job:
        """Request a chain: a workflow that runs the jobs `steps` one after another.

        A step with a `result_argument` gets the result of the one before as this argument. The result is that
        of the last step; the first that does not succeed ends the chain. See `request_group`.
        """
        arguments = read_arguments(canvas.ChainArguments, steps=tuple(steps))
        return await self.request(canvas.CHAIN, arguments, **options)

    async def cancel(
        self,
        job_id: UUID,
        reason: str = "requested",
        *,
        tree: bool = False,
        reply_timeout: float | None = None,
    ) -> str:
        """Cancel a job; see `send` for the reply. A job that has ended otherwise is refused in the reply.

        A cancelled job never succeeds later, and an ended job stays as it is. A cancel that arrives before
        its request is stored for it.

        `tree`: cancels its children and theirs too, even if the job itself has ended; later children are
        cancelled on arrival. JobFinished and JobCancelled carry the reason.
        """
        data = events.JobCancelRequestedData(job_id=job_id, reason=reason, tree=tree)
        return await self._command(events.JobCancelRequested, str(job_id), data, reply_timeout)

    async def send_signal(
        self,
        job_id: UUID,
        name: str,
        data: Any = None,
        *,
        id: UUID | str | None = None,  # noqa: A002 - the word of the wire
        reply_timeout: float | None = None,
    ) -> str:
        """Send a signal to a workflow, which receives those of one name in their order; see `send` for the
        reply.

        One that comes before it is awaited is stored; a workflow that has ended refuses it in the reply. A
        repeat under the same `id` is the same signal. `data`: any JSON value, or a model. Raises ValueError
        for a name that no signal has.
        """
        data = self._private.signal(to_jsonable_python(data), job_id, name)
        signal = events.JobSignalRequestedData(job_id=job_id, name=name, data=data)
        envelope: dict[str, Any] = self._envelope(str(job_id)) | ({} if id is None else {"id": str(id)})
        return await self.send(
            events.JobSignalRequested(**envelope, data=signal), reply_timeout=reply_timeout
        )

    async def continue_held(
        self,
        job_id: UUID,
        action: Literal["resume", "undo"],
        *,
        retry: Sequence[str] = (),
        reply_timeout: float | None = None,
    ) -> str:
        """Resume a held workflow, whose last turn is tried again, or have its calls undone and end it; see
        `send` for the reply. One that has ended refuses it in the reply.

        `retry`: failed calls of a workflow that is resumed; their child jobs are requested again first. A
        call_id, a child job, or a job type for those that failed last.
        """
        data = events.JobContinueRequestedData(
            job_id=job_id, action=events.HeldAction(action), retry=tuple(retry)
        )
        return await self._command(events.JobContinueRequested, str(job_id), data, reply_timeout)

    async def open_breaker(
        self,
        name: str,
        *,
        for_: timedelta | None = None,
        reason: str = "requested",
        reply_timeout: float | None = None,
    ) -> None:
        """Open a circuit breaker, `job:<job type>` or `dependency:<name>`, or pause a queue, `queue:<name>`:
        its jobs wait.

        After `for_` a first job passes as a probe, and a queue goes on; without it, they wait until the
        breaker is closed. Returns when the broker has confirmed. Raises ValueError for a name that none has.
        """
        data = events.BreakerSetRequestedData(
            name=name, state=BreakerState.OPEN, open_for=for_, reason=reason
        )
        await self._command(events.BreakerSetRequested, name, data, reply_timeout)

    async def close_breaker(
        self, name: str, *, reason: str = "requested", reply_timeout: float | None = None
    ) -> None:
        """Close a circuit breaker; returns when the broker has confirmed."""
        data = events.BreakerSetRequestedData(name=name, state=BreakerState.CLOSED, reason=reason)
        await self._command(events.BreakerSetRequested, name, data, reply_timeout)

    async def set_gate(
        self,
        name: str,
        slots: int | None,
        *,
        by: str,
        reason: str = "requested",
        reply_timeout: float | None = None,
    ) -> None:
        """Set the slots of a gate, such as `pool/crm`, whatever agents announce; None: what they announce
        counts again. Returns when the broker has confirmed. Raises ValueError for a number that none has."""
        data = events.GateSetRequestedData(name=name, slots=slots, by=by, reason=reason)
        await self._command(events.GateSetRequested, name, data, reply_timeout)

    async def acknowledge_incident(
        self, fingerprint: str, *, by: str, reply_timeout: float | None = None
    ) -> None:
        """Acknowledge an incident: no further alerts; the other steps of its policy go on. Returns when the
        broker has confirmed."""
        data = events.IncidentAcknowledgeRequestedData(fingerprint=fingerprint, by=by)
        await self._command(events.IncidentAcknowledgeRequested, fingerprint, data, reply_timeout)

    async def snooze_incident(
        self, fingerprint: str, until: datetime, *, by: str, reply_timeout: float | None = None
    ) -> None:
        """Suspend the steps of an incident's policy until then; a past time resumes them."""
        data = events.IncidentSnoozeRequestedData(fingerprint=fingerprint, by=by, until=until)
        await self._command(events.IncidentSnoozeRequested, fingerprint, data, reply_timeout)

    async def close_incident(
        self, fingerprint: str, *, by: str, reason: str = "requested", reply_timeout: float | None = None
    ) -> None:
        """Close an incident; raised again, it starts from the first step."""
        data = events.IncidentCloseRequestedData(fingerprint=fingerprint, by=by, reason=reason)
        await self._command(events.IncidentCloseRequested, fingerprint, data, reply_timeout)

    async def requeue_parked(self, ids: Sequence[str], *, by: str) -> None:
        """Requeue parked messages, at most 200; returns when the broker has confirmed."""
        data = events.ParkedRequeueRequestedData(ids=tuple(ids), by=by)
        await self._command(events.ParkedRequeueRequested, None, data)

    async def drop_parked(self, ids: Sequence[str], *, by: str, reason: str = "requested") -> None:
        """Delete parked messages, at most 200; returns when the broker has confirmed."""
        data = events.ParkedDropRequestedData(ids=tuple(ids), by=by, reason=reason)
        await self._command(events.ParkedDropRequested, None, data)

    async def _command(
        self, kind: type[Event[Any]], subject: str | None, data: BaseModel, reply_timeout: float | None = None
    ) -> str:
        return await self.send(kind(**self._envelope(subject), data=data), reply_timeout=reply_timeout)

    def _envelope(self, subject: str | None) -> dict[str, Any]:
        event_id, time = str(self._entropy.new_id()), self._clock.now()
        return {"id": event_id, "source": self.source, "time": time, "subject": subject}

    async def send(self, event: Event[Any], *, reply_timeout: float | None = None) -> str:
        """Publish any event of the wire; returns when the broker has confirmed.

        `reply_timeout`: of a command, returns what a service says of its effect (empty: nothing special) once
        it has carried the command out. Raises CommandRefused, or CommandTimeout after these seconds. None:
        waits for no reply.
        """
        [detail] = await self._send_events([event], reply_timeout)
        return detail

    async def send_all(self, events: Sequence[Event[Any]]) -> None:
        """Publish events of the wire in their order; returns when the broker has confirmed all."""
        if events:
            await self._send_events(events, None)

    async def _send_events(self, events: Sequence[Event[Any]], reply_timeout: float | None) -> list[str]:
        first = job_id_of(events[0].source, events[0].id)
        if reply_timeout is None:
            await self._send([build_message(event) for event in events], self._confirm_timeout, first)
            return [""] * len(events)
        await self._wait_ready(self._confirm_timeout, want_replies=True)
        with self._reply_router.expect(events) as replies:
            messages = [build_message(_with_reply_to(event, self.address)) for event in events]
            await self._send(messages, self._confirm_timeout, first)
            return await wait_for_replies(reply_timeout, events, replies)

    async def put_schedules(
        self,
        schedules: "Sequence[events.SchedulePutData]",
        *,
        checked: bool = False,
        reply_timeout: float | None = None,
    ) -> None:
        """Create or replace schedules; see `send` for the replies. A repeat changes nothing. An invalid
        one is rejected by an event of `warrener.events`.

        `checked`: schedules of job types that no agent has announced, or whose schema refuses the arguments,
        are refused too.
        """
        puts = [
            events.SchedulePut(
                **self._envelope(schedule.name),
                data=schedule.model_copy(update={"checked": True}) if checked else schedule,
            )
            for schedule in map(self._private.schedule, schedules)
        ]
        if puts:
            await self._send_events(puts, reply_timeout)

    async def pause_schedule(
        self, name: str, reason: str = "requested", *, reply_timeout: float | None = None
    ) -> None:
        """Pause a schedule: its ticks are skipped until it is resumed. See `send` for the reply."""
        await self._send_schedule_command(events.SchedulePauseRequested, name, reason, reply_timeout)

    async def resume_schedule(
        self, name: str, reason: str = "requested", *, reply_timeout: float | None = None
    ) -> None:
        """Resume a schedule from its next tick on. See `send` for the reply."""
        await self._send_schedule_command(events.ScheduleResumeRequested, name, reason, reply_timeout)

    async def remove_schedule(
        self, name: str, reason: str = "requested", *, reply_timeout: float | None = None
    ) -> None:
        """Remove a schedule; its tick history stays. See `send` for the reply."""
        await self._send_schedule_command(events.ScheduleRemoveRequested, name, reason, reply_timeout)

    async def trigger_schedule(
        self, name: str, reason: str = "requested", *, reply_timeout: float | None = None
    ) -> UUID:
        """Request the job of a schedule now, beside its ticks; returns the job's id. See `send` for the
        reply."""
        return await self._send_schedule_command(events.ScheduleTriggerRequested, name, reason, reply_timeout)

    async def _send_schedule_command(
        self, command: Callable[..., Event[Any]], name: str, reason: str, reply_timeout: float | None
    ) -> UUID:
        event = command(**self._envelope(name), data=events.ScheduleCommandData(name=name, reason=reason))
        await self.send(event, reply_timeout=reply_timeout)
        return UUID(event.id)

    async def _request(
        self, specs: Sequence[JobSpec], confirm_timeout: float | None, *, want_results: bool = True
    ) -> list[Job]:
        around = current_trace_context()
        address = self.address if want_results else None
        encoder = BulkEncoder(self.source, self._clock.now(), address, current_baggage())
        with self._spans.open_spans() as span:
            messages: list[tuple[JobSpec, UUID, Message]] = []
            for spec in specs:
                given = spec.id or self._entropy.new_id()
                event_id = str(given)
                job_id = given if isinstance(given, UUID) else job_id_of(self.source, event_id)
                parent = TraceContext(spec.traceparent) if spec.traceparent else around
                context = span(spec.job_type, job_id, parent)
                message = encoder.encode(self._private.spec(spec, job_id), event_id, context)
                messages.append((spec, job_id, message))
            await self._wait_ready(confirm_timeout, want_replies=want_results and bool(messages))
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
        await self._wait_ready(confirm_timeout, want_replies=False)
        try:
            await self._publisher.send(messages, confirm_timeout)
        except TimeoutError:
            raise NotConfirmed(first, len(messages) - 1, confirm_timeout or 0) from None

    async def _wait_ready(self, timeout: float | None, *, want_replies: bool) -> None:
        """Wait for the connection, and for the reply queue, which is worth some seconds. Raises ClientClosed,
        NotConnected, TopologyMismatch."""
        if not self._open:
            raise ClientClosed(
                "expected an open client, got a closed one: use `async with Client(…) as client`"
            )
        if self._connecting is not None:
            await self._wait_connected(self._connecting)
        if want_replies:
            try:
                await self._retry_poller.receive(min(REPLIES_TIMEOUT, timeout or REPLIES_TIMEOUT))
            except StoppedWhileStarting:
                raise ClientClosed("expected an open client, got one that was closed meanwhile") from None

    async def _wait_connected(self, connecting: asyncio.Task[None]) -> None:
        """Wait for the connection of a lazy client. Raises NotConnected, ClientClosed."""
        await asyncio.wait({connecting}, timeout=self._connect_timeout)
        if not connecting.done():
            raise NotConnected(
                f"expected a broker within {self._connect_timeout or 0:g} s, got none so far: start it; the "
                "client goes on trying, and nothing was sent"
            )
        try:
            await connecting
        except (StoppedWhileStarting, asyncio.CancelledError):
            if self._open:
                raise
            raise ClientClosed(
                "expected an open client, got one that was closed while it connected"
            ) from None
        self._connecting = None

    async def _receive_replies(self, replies: Subscription, batch: list[Delivery]) -> None:
        for delivery in batch:
            for found in decode_message(delivery, registry=REPLIES):
                if isinstance(found, DecodedEvent):
                    self._reply_router.resolve(found.event)
        await replies.ack(batch)


def _with_reply_to(event: Event[Any], address: str) -> Event[Any]:
    return event.model_copy(update={"data": event.data.model_copy(update={"reply_to": address})})
