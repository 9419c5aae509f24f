"""The agent's side of a running attempt: its transaction, its child jobs, its progress."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from pydantic import ValidationError

from warrener_agent.context import ChildJobSpec, Parameters, SignalSpec
from warrener_agent.ledger import port
from warrener_agent.private_payloads import AttemptPayloads
from warrener_agent.run_table import HandlerHeartbeat
from warrener_contracts.events import (
    Call,
    JobCancelRequested,
    JobCancelRequestedData,
    JobRequested,
    JobRequestedData,
    JobSignalRequested,
    MapBatch,
)
from warrener_contracts.identity import child_job_id, child_source
from warrener_contracts.messages import Message, build_message, encode
from warrener_contracts.topology import MAX_BODY
from warrener_runtime.telemetry import TraceContext

LEASE_ENDED = "expected a claim that holds, got one whose lease has ended; the attempt is stopped"


@dataclass(eq=False, slots=True)
class LocalHandlerPort:
    """A `HandlerPort` in the agent's event loop. It must always be closed: by `async with`, or at once by
    `close_unused`."""

    _ledger: port.Ledger
    _claim: port.Claim
    _agent_id: str
    _context: TraceContext
    _progress: Callable[[float, str], None]
    _save: Callable[[str], None]
    time_left: Callable[[], float]
    baggage: str | None = None
    lease_check: Callable[[], bool] | None = None  # True once the lease has ended
    heartbeat: HandlerHeartbeat | None = None  # if the job type has a heartbeat_timeout
    payloads: AttemptPayloads | None = None  # if the agent has keys
    is_gathered: bool = False  # its handler runs for other attempts too
    stopping: bool = False
    progress_value: tuple[float, str] | None = None
    _closed: bool = False
    # Most handlers use none of these.
    _child_jobs: "ChildJobs | None" = None
    _stack: AsyncExitStack | None = None
    _transaction: port.OpenTransaction | None = None
    _statements: set[asyncio.Task[list[Mapping[str, Any]]]] | None = None

    async def execute(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]:
        if self._closed:
            raise port.LedgerError(
                "expected an open transaction, got one that is over: its attempt has ended"
            )
        if self.is_gathered:
            raise port.LedgerError(
                "expected a handler of one job, got one of gathered jobs, which have no transaction to share"
            )
        self._check_lease()
        # In a task of its own, so that closing can end it, whichever thread waits for it.
        work = asyncio.create_task(self._execute(statement, parameters))
        statements = self._statements = self._statements if self._statements is not None else set()
        statements.add(work)
        work.add_done_callback(statements.discard)
        return await work

    async def _execute(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]:
        if self._transaction is None:
            opening = self._ledger.transaction(
                self._claim, agent_id=self._agent_id, time_left=self.time_left()
            )
            self._stack = self._stack or AsyncExitStack()
            self._transaction = await self._stack.enter_async_context(opening)
        return await self._transaction.execute(statement, parameters)

    def execute_blocking(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]:
        raise RuntimeError(
            "expected `await (await job.transaction()).execute(...)` in a coroutine, got transaction_sync(): "
            "it would stop the whole agent while it waits"
        )

    def request(self, spec: ChildJobSpec) -> UUID:
        self._check_lease()
        if self._child_jobs is None:
            self._child_jobs = ChildJobs(self._claim.job_id, self._context, self.baggage, self.payloads)
        return self._child_jobs.add(spec)

    def progress(self, fraction: float, note: str) -> None:
        if not self._closed and not self.lease_ended():
            self.progress_value = fraction, note
            self.alive()
            self._progress(fraction, note)

    def checkpoint(self, state_text: str) -> None:
        if not self._closed and not self.lease_ended():
            self.alive()
            self._save(state_text)

    def lease_ended(self) -> bool:
        """True if the lease has ended, as after a freeze: another agent may run the job. Thread-safe."""
        return self.lease_check is not None and self.lease_check()

    def _check_lease(self) -> None:
        if self.lease_ended():
            raise port.LedgerError(LEASE_ENDED)

    def alive(self) -> None:
        if self.heartbeat is not None and not self.stopping:  # a sign then must not change why it stops
            self.heartbeat.beat()

    @property
    def child_jobs(self) -> tuple[port.ChildJobRequest, ...]:
        """The child jobs that the handler requested."""
        return () if self._child_jobs is None else self._child_jobs.all()

    def cancels(self, calls: Sequence[Call]) -> tuple[port.ChildJobRequest, ...]:
        """Build the cancels of calls that a workflow no longer awaits, one for each; the same in every
        repeat. That of a batch of a map names no job of its own."""
        parent = self._claim.job_id
        return tuple(
            port.ChildJobRequest(
                f"cancel {child}",
                encode(
                    JobCancelRequested(
                        id=f"{child}/cancel",
                        source=child_source(parent),
                        subject=str(child),
                        traceparent=self._context.traceparent,
                        tracestate=self._context.tracestate,
                        baggage=self.baggage,
                        data=JobCancelRequestedData(
                            job_id=child,
                            reason="the workflow no longer awaits it",
                            tree=True,
                            members=None
                            if call.size is None
                            else MapBatch(parent_id=parent, call_id=call.call_id, size=call.size),
                        ),
                    )
                ),
            )
            for call in calls
            for child in [call.job_id or child_job_id(parent, call.call_id)]
        )

    def signals(self, signals: Sequence[SignalSpec]) -> tuple[port.ChildJobRequest, ...]:
        """Build the signals that a workflow sends; the same in every repeat."""
        return tuple(
            port.ChildJobRequest(
                f"signal {event_id}",
                encode(
                    JobSignalRequested(
                        id=str(event_id),
                        source=child_source(self._claim.job_id),
                        subject=str(data.job_id),
                        traceparent=self._context.traceparent,
                        tracestate=self._context.tracestate,
                        baggage=self.baggage,
                        data=data if self.payloads is None else self.payloads.signal(data),
                    )
                ),
            )
            for event_id, data in signals
        )

    def close_unused(self) -> bool:
        """Close it without waiting; False if a statement was sent: `async with` is needed then."""
        if self._statements is not None:
            return False
        self._closed = True
        return True

    async def complete(self, completion: port.Completion) -> bool | None:
        """Commit with the completion; True if the ledger accepted it, None if there is no transaction."""
        return None if self._transaction is None else await self._transaction.complete(completion)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Refuse all further calls of the handler, and roll back a transaction that was not completed."""
        self._closed = True
        if self._statements is not None:
            await asyncio.shield(self._end_transaction(self._statements))

    async def _end_transaction(self, open_statements: set[asyncio.Task[list[Mapping[str, Any]]]]) -> None:
        statements = set(open_statements)
        for statement in statements:
            statement.cancel()
        if statements:
            await asyncio.wait(statements)
        if self._stack is not None:
            await self._stack.aclose()


class ChildJobs:
    """The child jobs of one attempt, in the order of their requests, until the attempt has succeeded."""

    def __init__(
        self,
        parent: UUID,
        context: TraceContext,
        baggage: str | None = None,
        payloads: AttemptPayloads | None = None,
    ) -> None:
        self._parent, self._payloads = parent, payloads
        self._context, self._baggage = context, baggage
        self._requested: dict[str, port.ChildJobRequest] = {}

    def add(self, spec: ChildJobSpec) -> UUID:
        """Store a child job, and return the job id that it will have. Raises ValueError for a bad request."""
        key = spec.key if spec.key is not None else f"{spec.job_type} {len(self._requested)}"
        if key in self._requested:
            raise ValueError(f"expected a key for each child job of a job, got {key!r} twice")
        job_id = child_job_id(self._parent, key)
        message = self._request(spec, job_id)
        self._requested[key] = port.ChildJobRequest(key, message.body, message)
        return job_id

    def all(self) -> tuple[port.ChildJobRequest, ...]:
        return tuple(self._requested.values())

    def _request(self, spec: ChildJobSpec, job_id: UUID) -> Message:
        try:
            data = JobRequestedData(
                job_type=spec.job_type,
                arguments=spec.arguments
                if self._payloads is None
                else self._payloads.arguments(spec.arguments, spec.job_type, job_id),
                queue=spec.queue,
                delay=None if spec.delay_seconds is None else timedelta(seconds=spec.delay_seconds),
                parent_id=self._parent,
                policy=spec.policy,
                member_of=spec.member_of,
            )
        except ValidationError as error:
            raise ValueError(f"expected a request that can be made, got: {error}") from error
        message = build_message(
            JobRequested(
                id=str(job_id),
                source=child_source(self._parent, detached=spec.detached),
                subject=str(job_id),
                traceparent=self._context.traceparent,
                tracestate=self._context.tracestate,
                baggage=self._baggage,
                data=data,
            )
        )
        if (size := len(message.body)) > MAX_BODY:
            raise ValueError(
                f"expected a request of at most {MAX_BODY} bytes, got {size}: put the data elsewhere "
                "and send its URL"
            )
        return message
