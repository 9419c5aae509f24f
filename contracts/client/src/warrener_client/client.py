"""The client: asks for jobs, and hears how they end."""

import os
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self
from uuid import UUID

from warrener_client.asking import Arguments, Ask, Span
from warrener_client.attendant import GLANCE, Attendant
from warrener_client.bulk import AT_ONCE, pipelined
from warrener_client.desk import Desk
from warrener_client.errors import ClientClosed, NotConfirmed
from warrener_client.job import Job
from warrener_client.post import Post
from warrener_client.tracing import RequestSpans
from warrener_client.writing import Writer
from warrener_contracts.breaking import BreakerState
from warrener_contracts.codec import Readable, decode
from warrener_contracts.events import (
    BreakerSetRequested,
    BreakerSetRequestedData,
    CaseAcknowledgeRequested,
    CaseAcknowledgeRequestedData,
    CaseCloseRequested,
    CaseCloseRequestedData,
    CaseSnoozeRequested,
    CaseSnoozeRequestedData,
    Event,
    JobCancelRequested,
    JobCancelRequestedData,
    ScheduleNamedData,
    SchedulePauseRequested,
    SchedulePut,
    SchedulePutData,
    ScheduleRemoveRequested,
    ScheduleResumeRequested,
    ScheduleTriggerRequested,
)
from warrener_contracts.identity import job_id_of
from warrener_contracts.letters import Letter, letter_for
from warrener_contracts.policy import PolicyOverrides
from warrener_contracts.topology import TOPOLOGY, reply_queue
from warrener_runtime.bus.namespace import DEFAULT_NAMESPACE, checked_namespace
from warrener_runtime.bus.port import Bus, Delivery, Subscription
from warrener_runtime.clock import Clock, Entropy, SystemClock, SystemEntropy
from warrener_runtime.lifecycle import Consumer, Group, Loop, Resource
from warrener_runtime.telemetry import Telemetry, TraceContext, ambient

DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672/"
_PREFETCH = 1000
ScheduleWish = type[
    SchedulePauseRequested | ScheduleResumeRequested | ScheduleRemoveRequested | ScheduleTriggerRequested
]
"""What may be asked of a schedule by its name."""


class Client:
    """Asks for jobs over the broker. Waiting costs no polling: answers come to a queue of our own, and what
    may have been lost with that queue is asked for again under the same id.

    - `url`: the broker; None: WARRENER_BROKER_URL, else a broker on this machine. Or `bus`, which is ours to
      close.
    - `namespace`: the first word of all exchanges and queues; None: WARRENER_NAMESPACE, else `warrener`.
    - `source`: who asks, in every event. A text id is unique for its source; a UUID is unique by itself.
    - `confirm_timeout`: seconds that `request`, `request_batch` and `cancel` wait for the broker's confirm.
    - `ask_again_after`: seconds after which what is still awaited is asked for again.
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
        ask_again_after: float = 60.0,
        telemetry: Telemetry | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.source = source
        self._clock = clock or SystemClock()
        self._entropy = entropy or SystemEntropy()
        self._confirm_timeout = confirm_timeout
        self._spans = RequestSpans(telemetry)
        self._bus = bus or _open(url, source, namespace)
        self.address = self._entropy.new_id().hex
        ear_queue = reply_queue(self.address)
        self._topology = TOPOLOGY.with_queues([ear_queue])
        self._post = Post(self._bus, TOPOLOGY, self._clock)
        self._desk = Desk(self.address)
        ear = Consumer(
            "answers", self._bus, ear_queue.name, _PREFETCH, self._hear, clock=self._clock, own_queue=True
        )
        self._attendant = Attendant(ear, self._desk, self._post, self._clock, ask_again_after)
        self._life = Group(
            Resource("bus", self._connect, self._bus.close),
            ear,
            Loop("attendant", self._attendant.glance, every=GLANCE, clock=self._clock),
            name="client",
        )
        self._open = False

    async def start(self) -> None:
        """Connect, patiently, and declare what requests need: they are kept even while no service runs
        yet."""
        await self._life.start()
        self._open = True

    async def close(self) -> None:
        """Disconnect. What waits gets ClientClosed; the jobs go on. May be called twice, or never started."""
        self._open = False
        await self._post.close()
        self._desk.close()
        await self._life.stop()

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
        delay: Span | None = None,
        not_before: datetime | None = None,
        deadline: datetime | None = None,
        expires_after: Span | None = None,
        policy: PolicyOverrides | dict[str, Any] | None = None,
        parent_id: UUID | None = None,
        traceparent: str | None = None,
    ) -> Job:
        """Ask for one job; returns when the broker has confirmed that it keeps the request.

        Raises BadRequest (RequestTooLarge among them) before anything is sent, NotConfirmed, ClientClosed.
        Whether the scheduler accepts it is told by the handle: JobRejected.
        """
        ask = Ask(
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
        return (await self.request_batch([ask]))[0]

    async def request_batch(self, asks: Sequence[Ask]) -> list[Job]:
        """Ask for several jobs with one wait for the confirms; handles in order. One bad ask sends none."""
        return await self._request(asks, self._confirm_timeout)

    def request_many(
        self, asks: Iterable[Ask] | AsyncIterable[Ask], *, batch: int = AT_ONCE, answers: bool = True
    ) -> AsyncGenerator[Job]:
        """Ask for any number of jobs: batches are pipelined, handles come in order as they are confirmed.

        A full queue or a lost connection slows this down and loses nothing: it waits for as long as it
        takes. Reads ahead of what is confirmed by a few batches at most.

        `answers=False`: we are not told how these jobs end, which saves the warren as many messages. A handle
        that is waited for all the same asks for its own answer then, which takes a quarter of a second.
        """
        return pipelined(asks, partial(self.request_patiently, answers=answers), batch)

    async def request_patiently(self, asks: Sequence[Ask], *, answers: bool = True) -> list[Job]:
        """As request_batch, waiting for the confirms for as long as it takes. `answers`: see
        request_many."""
        return await self._request(asks, None, answers=answers)

    async def cancel(self, job_id: UUID, reason: str = "asked for", *, tree: bool = False) -> None:
        """Ask to stop a job; returns when the broker has confirmed. What is cancelled never succeeds later;
        a job that is over stays what it is. A cancel that comes before its request is kept for it.

        `tree`: with its follow-ups and theirs, also where the job itself is over; those that are yet to come
        are cancelled as they come. JobFinished and JobCancelled tell the reason.
        """
        event = JobCancelRequested(
            id=str(self._entropy.new_id()),
            source=self.source,
            time=self._clock.now(),
            subject=str(job_id),
            data=JobCancelRequestedData(job_id=job_id, reason=reason, tree=tree),
        )
        await self._send([letter_for(event)], self._confirm_timeout, job_id)

    async def open_breaker(
        self, name: str, *, for_: timedelta | None = None, reason: str = "asked for"
    ) -> None:
        """Ask to hold back the jobs behind a circuit breaker: `job:<job type>` or `dependency:<name>`.

        After `for_` a first one is let through as a probe; without, they wait until the breaker is closed.
        Returns when the broker has confirmed. Raises ValueError for what no breaker is called.
        """
        await self._set_breaker(name, BreakerState.OPEN, for_, reason)

    async def close_breaker(self, name: str, *, reason: str = "asked for") -> None:
        """Ask to let the jobs behind a circuit breaker through again; returns when the broker has
        confirmed."""
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

    async def acknowledge_case(self, fingerprint: str, *, by: str) -> None:
        """Say that somebody is on it: no further alerts of this case; all else of its ladder goes on. Returns
        when the broker has confirmed."""
        data = CaseAcknowledgeRequestedData(fingerprint=fingerprint, by=by)
        await self.send(CaseAcknowledgeRequested(**self._envelope(fingerprint), data=data))

    async def snooze_case(self, fingerprint: str, until: datetime, *, by: str) -> None:
        """Say that nothing of this case's ladder is to happen until then; a time that has passed wakes it."""
        data = CaseSnoozeRequestedData(fingerprint=fingerprint, by=by, until=until)
        await self.send(CaseSnoozeRequested(**self._envelope(fingerprint), data=data))

    async def close_case(self, fingerprint: str, *, by: str, reason: str = "asked for") -> None:
        """Say that this case is over; raised again, it begins anew."""
        data = CaseCloseRequestedData(fingerprint=fingerprint, by=by, reason=reason)
        await self.send(CaseCloseRequested(**self._envelope(fingerprint), data=data))

    def _envelope(self, subject: str) -> dict[str, Any]:
        event_id, time = str(self._entropy.new_id()), self._clock.now()
        return {"id": event_id, "source": self.source, "time": time, "subject": subject}

    async def send(self, event: Event[Any]) -> None:
        """Publish a request of the wire for which there is no method here; returns when the broker has
        confirmed that it keeps it."""
        await self._send([letter_for(event)], self._confirm_timeout, job_id_of(event.source, event.id))

    async def put_schedules(self, schedules: Sequence[SchedulePutData]) -> None:
        """Make these schedules be as they are said; returns when the broker has confirmed. Saying the same
        again changes nothing. One that cannot be kept is rejected as an event of `warrener.events`."""
        now = self._clock.now()
        puts = [
            SchedulePut(
                id=str(self._entropy.new_id()), source=self.source, time=now, subject=asked.name, data=asked
            )
            for asked in schedules
        ]
        if puts:
            await self._send([letter_for(put) for put in puts], self._confirm_timeout, UUID(puts[0].id))

    async def ask_of_schedule(self, wish: ScheduleWish, name: str, reason: str = "asked for") -> UUID:
        """Pause, resume, remove or trigger a schedule; returns when the broker has confirmed. The id of what
        was asked: that of the job, of a trigger."""
        wish_id = self._entropy.new_id()
        event = wish(
            id=str(wish_id),
            source=self.source,
            time=self._clock.now(),
            subject=name,
            data=ScheduleNamedData(name=name, reason=reason),
        )
        await self.send(event)
        return wish_id

    async def _request(
        self, asks: Sequence[Ask], patience: float | None, *, answers: bool = True
    ) -> list[Job]:
        around = ambient()
        writer = Writer(self.source, self._clock.now(), self.address if answers else None)
        with self._spans.together() as span:
            letters: list[tuple[Ask, UUID, Letter]] = []
            for ask in asks:
                given = ask.id or self._entropy.new_id()
                event_id = str(given)
                job_id = given if isinstance(given, UUID) else job_id_of(self.source, event_id)
                parent = TraceContext(ask.traceparent) if ask.traceparent else around
                context = span(ask.job_type, job_id, parent)
                letters.append((ask, job_id, writer.letter(ask, event_id, context)))
            now = self._clock.monotonic()
            jobs = [
                Job(ask.job_type, self._desk.expect(job_id, letter, now, answered=answers), self._desk)
                for ask, job_id, letter in letters
            ]
            if letters:
                await self._send([letter for _, _, letter in letters], patience, letters[0][1])
        return jobs

    async def _send(self, letters: list[Letter], patience: float | None, first: UUID) -> None:
        if not self._open:
            raise ClientClosed(
                "expected an open client, got a closed one: use `async with Client(…) as client`"
            )
        try:
            await self._post.send(letters, patience)
        except TimeoutError:
            raise NotConfirmed(first, len(letters) - 1, patience or 0) from None

    async def _connect(self) -> None:
        await self._bus.start()
        await self._bus.declare(self._topology)

    async def _hear(self, ear: Subscription, batch: list[Delivery]) -> None:
        for delivery in batch:
            for found in decode(delivery.body, delivery.content_type):
                if isinstance(found, Readable):
                    self._desk.take(found.event)
        await ear.ack(batch)


def _open(url: str | None, name: str, namespace: str | None) -> Bus:
    from warrener_runtime.bus import open_bus  # noqa: PLC0415 - who brings a bus need not load RabbitMQ's client

    namespace = namespace or os.environ.get("WARRENER_NAMESPACE") or DEFAULT_NAMESPACE
    url = url or os.environ.get("WARRENER_BROKER_URL") or DEFAULT_URL
    try:
        checked_namespace(namespace)
    except ValueError as error:
        raise ValueError(f"namespace: expected {error}, got {namespace!r}") from None
    return open_bus(url, name=name, namespace=namespace)
