"""Replies: match them with their requests, and repeat requests whose reply may be lost."""

import asyncio
import json
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID
from weakref import WeakSet, WeakValueDictionary

from warrener_client.errors import (
    BadRequest,
    ClientClosed,
    ClientError,
    CommandRefused,
    CommandTimeout,
    ResultUnreadable,
)
from warrener_client.publisher import RequestPublisher
from warrener_client.requests import with_reply_to
from warrener_contracts import events
from warrener_contracts.identity import job_id_of
from warrener_contracts.messages import Message
from warrener_contracts.private_payloads import (
    PayloadCodec,
    PayloadUnreadable,
    ValueKind,
    decrypt,
    decrypt_error,
)
from warrener_contracts.topology import EVENTS, EXCHANGES, Topology, reply_queue
from warrener_runtime.bus.port import Bus, BusError
from warrener_runtime.clock import Clock
from warrener_runtime.lifecycle import Consumer, Group, Resource
from warrener_runtime.lifecycle.components import retrieve_exception
from warrener_runtime.logs import get_logger

Answer = events.JobFinishedData | events.JobRejectedData
NO_REPLY = -1
"""The reply generation of a request without a reply address."""


class PendingRequest:
    """One request until its answer. Only the callers' handles keep it alive.

    `reply_generation` is the generation of the reply queue when the request was last sent: a reply to an
    older one may have been lost with the queue. NO_REPLY: it has no reply address.
    """

    __slots__ = (
        "__weakref__",
        "_arrived",
        "_closed",
        "answer",
        "deduplicated",
        "job_id",
        "message",
        "reply_generation",
        "sent_at",
        "waiters",
        "waiting",
    )

    def __init__(self, job_id: UUID, message: Message, reply_generation: int, sent_at: float) -> None:
        self.job_id = job_id
        self.message = message
        self.reply_generation = reply_generation
        self.sent_at = sent_at
        self.deduplicated = False
        self.answer: Answer | None = None
        self.waiters = 0
        self.waiting: events.JobWaitingData | None = None
        self._arrived: asyncio.Event | None = None
        self._closed = False

    async def wait(self) -> Answer:
        """Wait for the answer. Raises ClientClosed if the client closes first."""
        if self.answer is None and not self._closed:
            self._arrived = self._arrived or asyncio.Event()
            self.waiters += 1
            try:
                await self._arrived.wait()
            finally:
                self.waiters -= 1
        if self.answer is None:
            raise ClientClosed(
                f"expected an open client to wait for job {self.job_id}, got a closed one: "
                "the job goes on; repeat the request with the same id"
            )
        return self.answer

    def settle(self, answer: Answer) -> None:
        """Store the answer; repeats are ignored."""
        if self.answer is None:
            self.answer = answer
            self._wake()

    def abandon(self) -> None:
        """End the wait, because the client closes."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._arrived is not None:
            self._arrived.set()


class ReplyRouter:
    """Matches replies with the requests whose handles are still held. Does no I/O."""

    def __init__(self, address: str, codec: PayloadCodec | None = None) -> None:
        self._address, self._codec = address, codec
        self.generation = 0
        self._requested: WeakValueDictionary[UUID, PendingRequest] = WeakValueDictionary()
        self._deduplicated: dict[UUID, WeakSet[PendingRequest]] = {}
        self._awaited: set[PendingRequest] = set()
        self._uncertain: set[PendingRequest] = set()
        self._commands: dict[UUID, asyncio.Future[events.CommandHandledData]] = {}

    @contextmanager
    def expect(
        self, commands: Iterable[events.Event[Any]]
    ) -> Generator[list[asyncio.Future[events.CommandHandledData]]]:
        """Receive the replies to these commands within the block."""
        loop = asyncio.get_running_loop()
        expected = {job_id_of(one.source, one.id): loop.create_future() for one in commands}
        self._commands |= expected
        try:
            yield list(expected.values())
        finally:
            for command_id in expected:
                del self._commands[command_id]

    def register(
        self, job_id: UUID, message: Message, now: float, *, wants_reply: bool = True
    ) -> PendingRequest:
        """The pending entry of this request; a repeat under the same id shares that of the first.

        `wants_reply`: True if the request has a reply address.
        """
        known = self._requested.get(job_id)
        if known is None:
            known = PendingRequest(job_id, message, self.generation if wants_reply else NO_REPLY, now)
            self._requested[job_id] = known
        elif _content(known.message) != _content(message):
            raise BadRequest(
                f"expected the same content under the same id, got another request under {job_id}: "
                "leave the id out, or send the same request"
            )
        return known

    def resolve(self, event: events.Event[Any]) -> bool:
        """Match one reply; False if no handle waits for it, or it is no reply."""
        data: object = event.data
        if isinstance(data, events.JobFinishedData):
            return self._settle(data.job_id, data)
        if isinstance(data, events.JobRejectedData):
            request_id = job_id_of(data.request_source, data.request_id)
            if request_id in self._commands:
                return self._settle_command(request_id, _refused(data))
            return self._settle(request_id, data)
        if isinstance(data, events.JobDeduplicatedData):
            return self._redirect(data)
        if isinstance(data, events.JobWaitingData):
            return self._note_waiting(data)
        return isinstance(data, events.CommandHandledData) and self._settle_command(
            job_id_of(data.command_source, data.command_id), data
        )

    async def wait(self, pending: PendingRequest) -> Answer:
        """Wait for the answer to one request, which may be sent again meanwhile."""
        if pending.answer is None:
            self._awaited.add(pending)
            if pending.reply_generation == NO_REPLY:
                pending.message = with_reply_to(pending.message, self._address)
            if pending.reply_generation < self.generation:
                self._uncertain.add(pending)
        try:
            return await pending.wait()
        finally:
            if pending.answer is not None or not pending.waiters:
                self._awaited.discard(pending)
                self._uncertain.discard(pending)

    def opened(self, ended: events.JobFinishedData) -> events.JobFinishedData:
        """The end of a job, decrypted if need be. Raises ResultUnreadable."""
        try:
            result = decrypt(self._codec, ValueKind.RESULT, ended.result, ended.job_id)
            error = decrypt_error(self._codec, ended.error, ended.job_id)
        except PayloadUnreadable as unreadable:
            raise ResultUnreadable(f"job {ended.job_id} is {ended.state.value}: {unreadable}") from unreadable
        if result is ended.result and error is ended.error:
            return ended
        return ended.model_copy(update={"result": result, "error": error})

    def mark_uncertain(self) -> None:
        """Note a new reply queue: replies to earlier requests may be lost with the old one."""
        self.generation += 1
        self._uncertain |= self._awaited

    def overdue(self, sent_before: float) -> set[PendingRequest]:
        """The awaited requests that were last sent before that moment."""
        return {
            pending for pending in self._awaited if pending.sent_at <= sent_before and pending.answer is None
        }

    def uncertain(self) -> set[PendingRequest]:
        """The awaited requests whose reply may be lost."""
        return {pending for pending in self._uncertain if pending.answer is None}

    @property
    def has_awaited(self) -> bool:
        return bool(self._awaited)

    def mark_resent(self, again: Iterable[PendingRequest], now: float) -> None:
        """Note that the broker has confirmed these requests again."""
        for pending in again:
            pending.reply_generation, pending.sent_at = self.generation, now
            self._uncertain.discard(pending)

    def _settle_command(self, command_id: UUID, data: events.CommandHandledData) -> bool:
        reply = self._commands.get(command_id)
        if reply is None or reply.done():
            return False
        reply.set_result(data)
        return True

    def close(self) -> None:
        """End all waits."""
        for reply in self._commands.values():
            reply.cancel()
        for pending in list(self._requested.values()):
            pending.abandon()

    def _of_job(self, job_id: UUID) -> list[PendingRequest]:
        requested = self._requested.get(job_id)
        return [*self._deduplicated.get(job_id, ()), *([requested] if requested is not None else [])]

    def _settle(self, job_id: UUID, answer: Answer) -> bool:
        matched = self._of_job(job_id)
        self._deduplicated.pop(job_id, None)
        for pending in matched:
            pending.settle(answer)
        return bool(matched)

    def _note_waiting(self, data: events.JobWaitingData) -> bool:
        concerned = self._of_job(data.job_id)
        for pending in concerned:
            pending.waiting = data
        return bool(concerned)

    def _redirect(self, data: events.JobDeduplicatedData) -> bool:
        pending = self._requested.get(data.requested_job_id)
        if pending is None or pending.answer is not None:
            return False
        pending.deduplicated, pending.job_id = True, data.job_id
        self._deduplicated.setdefault(data.job_id, WeakSet()).add(pending)
        return True


def _refused(data: events.JobRejectedData) -> events.CommandHandledData:
    return events.CommandHandledData(
        command_id=data.request_id,
        command_source=data.request_source,
        command="",
        accepted=False,
        detail=data.detail,
    )


def _content(message: Message) -> events.JsonObject:
    """The request without its time, trace and reply address."""
    content: events.JsonObject = json.loads(message.body)["data"]
    content.pop("reply_to", None)
    return content


async def wait_for_replies(
    seconds: float,
    commands: Sequence[events.Event[Any]],
    replies: Sequence[asyncio.Future[events.CommandHandledData]],
) -> list[str]:
    """Wait for all replies and return their details. Raises CommandRefused, CommandTimeout, ClientClosed."""
    _, missing = await asyncio.wait(replies, timeout=seconds)
    if any(reply.cancelled() for reply in replies):
        raise ClientClosed("expected an open client until the reply to a command, got a closed one")
    if missing:
        raise CommandTimeout(commands[0].type.rpartition(".")[0], seconds)
    handled = [reply.result() for reply in replies]
    if refused := [one.detail for one in handled if not one.accepted]:
        raise CommandRefused(refused)
    return [one.detail for one in handled]


POLL_INTERVAL = 0.25  # seconds between checks for a new reply queue
REPLIES_TIMEOUT = 5.0  # seconds that a request waits for the reply queue
_CONFIRM_TIMEOUT = 10.0
_BATCH_SIZE = 500
_EVENTS_EXCHANGE = next(exchange for exchange in EXCHANGES if exchange.name == EVENTS)

_log = get_logger("client")


class RetryPoller:
    """Consumes the reply queue, once a request wants a reply, and sends awaited requests again if their reply
    may be lost.

    A request is idempotent by its id, and the reply to a repeat is the outcome of the job, so a repeat is
    all that is needed after the reply queue was lost. A binding is lost without notice, as with its exchange,
    so the queue is bound again before an overdue request is repeated.
    """

    def __init__(
        self,
        bus: Bus,
        address: str,
        consumer: Consumer,
        reply_router: ReplyRouter,
        publisher: RequestPublisher,
        *,
        clock: Clock,
        interval: float,
    ) -> None:
        self._bus, self._consumer, self._reply_router = bus, consumer, reply_router
        self._publisher, self._clock = publisher, clock
        self._topology = Topology((_EVENTS_EXCHANGE,), (reply_queue(address),))
        self._replies = Group(
            Resource("reply queue", self._bind, self._stop_binding), consumer, name="replies"
        )
        self._interval = interval
        self._epoch: tuple[int, int] | None = None
        self._next_round = clock.monotonic() + interval
        self._binding: asyncio.Task[None] | None = None

    async def receive(self, timeout: float) -> None:
        """Consume the reply queue, if it is not consumed yet, and wait for that up to `timeout` seconds:
        requests that are sent earlier are repeated once replies can come. Raises TopologyMismatch."""
        if self._consumer.started:
            return
        starting = asyncio.ensure_future(self._replies.start())
        starting.add_done_callback(retrieve_exception)
        await asyncio.wait({starting}, timeout=timeout)
        if starting.done():
            starting.result()
            self._is_live()

    async def stop(self) -> None:
        await self._replies.stop()

    async def tick(self) -> None:
        """Check for a new reply queue, and resend."""
        if self._reply_router.has_awaited:
            await self.receive(REPLIES_TIMEOUT)
        is_live, now = self._is_live(), self._clock.monotonic()
        if is_live and (self._reply_router.uncertain() or now >= self._next_round):
            self._next_round = now + self._interval / 4
            overdue = self._reply_router.overdue(now - self._interval)
            if overdue:
                await self._bind_again()
            await self._resend([*(self._reply_router.uncertain() | overdue)])

    def _is_live(self) -> bool:
        if not self._consumer.live:
            return False
        if self._consumer.epoch != self._epoch:
            self._reply_router.mark_uncertain()
            self._epoch = self._consumer.epoch
        return True

    async def _bind_again(self) -> None:
        """Bind beside the work: a node of a cluster that does not answer delays it for a minute."""
        if self._binding is None or self._binding.done():
            self._binding = asyncio.create_task(self._bind(), name="bind the reply queue")
            self._binding.add_done_callback(retrieve_exception)
        await asyncio.wait({self._binding}, timeout=REPLIES_TIMEOUT)
        if self._binding.done() and isinstance(error := self._binding.exception(), BusError):
            _log.warning(
                "The reply queue could not be bound again.", action="client.bind_failed", error=str(error)
            )

    async def _bind(self) -> None:
        await self._bus.declare(self._topology)

    async def _stop_binding(self) -> None:
        if self._binding is not None:
            self._binding.cancel()

    async def _resend(self, pending: Sequence[PendingRequest]) -> None:
        for start in range(0, len(pending), _BATCH_SIZE):
            some = pending[start : start + _BATCH_SIZE]
            try:
                await self._publisher.send([each.message for each in some], _CONFIRM_TIMEOUT)
            except (ClientError, TimeoutError) as error:
                _log.warning(
                    "Requests of awaited jobs not confirmed; retrying soon.",
                    action="client.retry_failed",
                    jobs=len(some),
                    error=str(error),
                )
                return
            self._reply_router.mark_resent(some, self._clock.monotonic())
