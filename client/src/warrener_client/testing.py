"""Test double for code that requests jobs: replies on a real or in-memory bus without services.

broker = MemoryBroker()
async with StandIn(MemoryBus(broker), {"flights.load": lambda arguments: {"rows": 842}}) as warren:
    async with Client(bus=MemoryBus(broker)) as client:
        job = await client.request("flights.load", {"path": "2013-01-01.csv"})
        assert await job.result() == {"rows": 842}
    assert warren.requests[0].data.arguments == {"path": "2013-01-01.csv"}
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self, TypeVar
from uuid import UUID

from pydantic import BaseModel

from warrener_contracts import events
from warrener_contracts.codec import DecodedEvent
from warrener_contracts.identity import job_id_of
from warrener_contracts.inbox import decode_message
from warrener_contracts.messages import build_reply
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import REQUESTS_QUEUE, SCHEDULER_COMMANDS, SUPERVISOR_COMMANDS, TOPOLOGY
from warrener_runtime.bus.port import Bus, Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.clock import Clock, SystemClock, SystemEntropy
from warrener_runtime.lifecycle import Consumer, Group, Resource
from warrener_runtime.publishing import publish_all

E = TypeVar("E", bound=events.Event[Any])
Handler = Callable[[events.JsonObject], Any | Awaitable[Any]]


class RejectRequest(Exception):
    """Raised by a handler to reject the request."""

    def __init__(self, reason: events.Reason, detail: str) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(detail)


class StandIn:
    """Replies to requests as the services would, with the results of `handlers`.

    An exception makes the job dead; RejectRequest rejects the request. A repeat gets the same reply, a used
    idempotency key gets the earlier job, and a cancelled job never succeeds.

    `refuse`: returns why a command is refused; None, as without `refuse`: it is accepted.
    """

    def __init__(
        self,
        bus: Bus,
        handlers: Mapping[str, Handler],
        *,
        clock: Clock | None = None,
        refuse: Callable[[events.Event[Any]], str | None] = lambda _: None,
    ) -> None:
        self.requests: list[events.JobRequested] = []
        """Every received request, with repeats."""
        self.commands: list[events.Event[Any]] = []
        """Every received command, with repeats."""
        self._refuse = refuse
        self.more_requests = asyncio.Event()
        """Set by each request; clear it and wait for the next."""
        self._bus = bus
        self._handlers = handlers
        self._clock = clock or SystemClock()
        self._entropy = SystemEntropy()
        self._answers: dict[UUID, asyncio.Future[events.Event[Any]]] = {}
        self._keys: dict[tuple[str, str], UUID] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._components = Group(
            Resource("bus", self._connect, bus.close),
            *(
                Consumer(queue.name, bus, queue.name, 100, self._receive, clock=clock)
                for queue in (REQUESTS_QUEUE, SUPERVISOR_COMMANDS, SCHEDULER_COMMANDS)
            ),
        )

    async def __aenter__(self) -> Self:
        await self._components.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        await self._components.stop()

    async def _connect(self) -> None:
        await self._bus.start()
        await self._bus.declare(TOPOLOGY)

    async def _receive(self, subscription: Subscription, batch: list[Delivery]) -> None:
        for delivery in batch:
            for found in decode_message(delivery):
                if isinstance(found, DecodedEvent) and isinstance(found.event, events.JobRequested):
                    self._begin(self._reply(found.event))
                elif isinstance(found, DecodedEvent):
                    await self._carry_out(found.event)
        await subscription.ack(batch)

    async def _carry_out(self, command: events.Event[Any]) -> None:
        self.commands.append(command)
        refusal = self._refuse(command)
        if refusal is None and isinstance(command, events.JobCancelRequested):
            self._cancel(command.data.job_id, command.data.reason)
        if (address := getattr(command.data, "reply_to", None)) is None:
            return
        data = events.CommandHandledData(
            command_id=command.id,
            command_source=command.source,
            command=command.type,
            accepted=refusal is None,
            detail=refusal or "",
        )
        reply = build_reply(self._event(events.CommandHandled, data), address)
        await publish_all(self._bus, [reply], clock=self._clock)

    def _begin(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _reply(self, request: events.JobRequested) -> None:
        self.requests.append(request)
        self.more_requests.set()
        requested_id = job_id_of(request.source, request.id)
        key = request.data.job_type, request.data.idempotency_key or str(requested_id)
        job_id = self._keys.setdefault(key, requested_id)
        if job_id != requested_id:
            data = events.JobDeduplicatedData(
                requested_job_id=requested_id, job_id=job_id, idempotency_key=key[1]
            )
            await self._publish_reply(request, self._event(events.JobDeduplicated, data))
        answer = self._answers.get(job_id)
        if answer is None:
            answer = self._answers[job_id] = asyncio.get_running_loop().create_future()
            self._begin(self._perform(request, job_id, answer))
        await self._publish_reply(request, await asyncio.shield(answer))

    async def _perform(
        self, request: events.JobRequested, job_id: UUID, answer: "asyncio.Future[events.Event[Any]]"
    ) -> None:
        event = await self._outcome(request, job_id)
        if not answer.done():
            answer.set_result(event)

    async def _outcome(self, request: events.JobRequested, job_id: UUID) -> events.Event[Any]:
        job_type = request.data.job_type
        handler = self._handlers.get(job_type)
        if handler is None:
            unknown = RejectRequest(events.Reason.UNKNOWN_JOB_TYPE, f"no agent announced {job_type}")
            return self._rejected(request, job_id, unknown)
        try:
            result = handler(request.data.arguments)
            if inspect.isawaitable(result):
                result = await result
        except RejectRequest as refusal:
            return self._rejected(request, job_id, refusal)
        except Exception as error:  # noqa: BLE001 - any exception of the handler is the job's error
            info = events.ErrorInfo(
                kind=events.ErrorKind.ERROR, type=type(error).__name__, message=str(error)
            )
            return self._finished(job_id, job_type, JobState.DEAD, error=info)
        return self._finished(job_id, job_type, JobState.SUCCEEDED, result=result)

    def _cancel(self, job_id: UUID, reason: str) -> None:
        answer = self._answers.get(job_id)
        if answer is None:  # the cancel has overtaken the request, which then finds this answer
            answer = self._answers[job_id] = asyncio.get_running_loop().create_future()
        if not answer.done():
            answer.set_result(self._finished(job_id, "unknown", JobState.CANCELLED, reason=reason))

    async def _publish_reply(self, request: events.JobRequested, event: events.Event[Any]) -> None:
        if request.data.reply_to:
            await publish_all(self._bus, [build_reply(event, request.data.reply_to)], clock=self._clock)

    def _finished(
        self,
        job_id: UUID,
        job_type: str,
        state: JobState,
        *,
        result: Any = None,
        error: events.ErrorInfo | None = None,
        reason: str | None = None,
    ) -> events.JobFinished:
        now = self._clock.now()
        data = events.JobFinishedData(
            job_id=job_id,
            job_type=job_type,
            state=state,
            attempt=1,
            result=result,
            error=error,
            reason=reason,
            requested_at=now,
            finished_at=now,
        )
        return self._event(events.JobFinished, data)

    def _event(self, kind: type[E], data: BaseModel) -> E:
        envelope: dict[str, Any] = {"id": str(self._entropy.new_id()), "source": "stand-in"}
        return kind(**envelope, time=self._clock.now(), data=data)

    def _rejected(
        self, request: events.JobRequested, job_id: UUID, refusal: RejectRequest
    ) -> events.JobRejected:
        data = events.JobRejectedData(
            request_id=request.id,
            request_source=request.source,
            job_id=job_id,
            job_type=request.data.job_type,
            reason=refusal.reason,
            detail=refusal.detail,
        )
        return self._event(events.JobRejected, data)
