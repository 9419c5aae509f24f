"""Replies: match them with their requests, and repeat requests whose reply may be lost."""

import asyncio
import json
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID
from weakref import WeakSet, WeakValueDictionary

from warrener_client.errors import BadRequest, ClientClosed, ClientError
from warrener_client.publisher import RequestPublisher
from warrener_client.requests import with_reply_to
from warrener_contracts.events import (
    CommandHandledData,
    Event,
    JobDeduplicatedData,
    JobFinishedData,
    JobRejectedData,
    JobWaitingData,
    JsonObject,
)
from warrener_contracts.identity import job_id_of
from warrener_contracts.messages import Message
from warrener_runtime.clock import Clock
from warrener_runtime.lifecycle import Consumer
from warrener_runtime.logs import get_logger

Answer = JobFinishedData | JobRejectedData
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
        self.waiting: JobWaitingData | None = None
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

    def __init__(self, address: str) -> None:
        self._address = address
        self.generation = 0
        self._requested: WeakValueDictionary[UUID, PendingRequest] = WeakValueDictionary()
        self._deduplicated: dict[UUID, WeakSet[PendingRequest]] = {}
        self._awaited: set[PendingRequest] = set()
        self._uncertain: set[PendingRequest] = set()
        self._commands: dict[UUID, asyncio.Future[CommandHandledData]] = {}

    @contextmanager
    def expect(self, commands: Iterable[Event[Any]]) -> Generator[list[asyncio.Future[CommandHandledData]]]:
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

    def resolve(self, event: Event[Any]) -> bool:
        """Match one reply; False if no handle waits for it, or it is no reply."""
        data: object = event.data
        if isinstance(data, JobFinishedData):
            return self._settle(data.job_id, data)
        if isinstance(data, JobRejectedData):
            return self._reject(job_id_of(data.request_source, data.request_id), data)
        if isinstance(data, JobDeduplicatedData):
            return self._redirect(data)
        if isinstance(data, JobWaitingData):
            return self._note_waiting(data)
        return isinstance(data, CommandHandledData) and self._settle_command(
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

    def mark_uncertain(self) -> None:
        """Note a new reply queue: replies to earlier requests may be lost with the old one."""
        self.generation += 1
        self._uncertain |= self._awaited

    def due_for_resend(self, sent_before: float) -> list[PendingRequest]:
        """The awaited requests whose reply is uncertain, or that were last sent before that moment."""
        overdue = {pending for pending in self._awaited if pending.sent_at <= sent_before}
        return [pending for pending in self._uncertain | overdue if pending.answer is None]

    @property
    def has_uncertain(self) -> bool:
        """True if the reply to an awaited request may be lost."""
        return bool(self._uncertain)

    def mark_resent(self, again: Iterable[PendingRequest], now: float) -> None:
        """Note that the broker has confirmed these requests again."""
        for pending in again:
            pending.reply_generation, pending.sent_at = self.generation, now
            self._uncertain.discard(pending)

    def _reject(self, request_id: UUID, data: JobRejectedData) -> bool:
        if request_id in self._commands:
            return self._settle_command(request_id, _refused(data))
        return self._settle(request_id, data)

    def _settle_command(self, command_id: UUID, data: CommandHandledData) -> bool:
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

    def _settle(self, job_id: UUID, answer: Answer) -> bool:
        matched = [*self._deduplicated.pop(job_id, ())]
        if (pending := self._requested.get(job_id)) is not None:
            matched.append(pending)
        for pending in matched:
            pending.settle(answer)
        return bool(matched)

    def _note_waiting(self, data: JobWaitingData) -> bool:
        concerned = [*self._deduplicated.get(data.job_id, ())]
        if (pending := self._requested.get(data.job_id)) is not None:
            concerned.append(pending)
        for pending in concerned:
            pending.waiting = data
        return bool(concerned)

    def _redirect(self, data: JobDeduplicatedData) -> bool:
        pending = self._requested.get(data.requested_job_id)
        if pending is None or pending.answer is not None:
            return False
        pending.deduplicated, pending.job_id = True, data.job_id
        self._deduplicated.setdefault(data.job_id, WeakSet()).add(pending)
        return True


def _refused(data: JobRejectedData) -> CommandHandledData:
    return CommandHandledData(
        command_id=data.request_id,
        command_source=data.request_source,
        command="",
        accepted=False,
        detail=data.detail,
    )


def _content(message: Message) -> JsonObject:
    """The request without its time, trace and reply address."""
    content: JsonObject = json.loads(message.body)["data"]
    content.pop("reply_to", None)
    return content


POLL_INTERVAL = 0.25  # seconds between checks for a new reply queue
_CONFIRM_TIMEOUT = 10.0
_BATCH_SIZE = 500

_log = get_logger("client")


class RetryPoller:
    """Sends awaited requests again if their reply may be lost.

    A request is idempotent by its id, and the reply to a repeat is the outcome of the job, so a repeat is
    all that is needed after the reply queue was lost.
    """

    def __init__(
        self,
        consumer: Consumer,
        reply_router: ReplyRouter,
        publisher: RequestPublisher,
        clock: Clock,
        interval: float,
    ) -> None:
        self._consumer, self._reply_router, self._publisher, self._clock = (
            consumer,
            reply_router,
            publisher,
            clock,
        )
        self._interval = interval
        self._epoch: tuple[int, int] | None = None
        self._next_round = clock.monotonic() + interval

    async def tick(self) -> None:
        """Check for a new reply queue, and resend."""
        is_live = self._consumer.live
        if is_live and self._consumer.epoch != self._epoch:
            if self._epoch is not None:
                self._reply_router.mark_uncertain()
            self._epoch = self._consumer.epoch
        now = self._clock.monotonic()
        if is_live and (self._reply_router.has_uncertain or now >= self._next_round):
            self._next_round = now + self._interval / 4
            await self._resend(self._reply_router.due_for_resend(now - self._interval))

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
