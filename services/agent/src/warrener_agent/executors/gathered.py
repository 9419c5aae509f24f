"""Gather attempts of a job type, and run the handler once for all of them; each has an end of its own.

To its attempt, a member is an execution like any other: claim, result, error and report are its own. A member
that is stopped before the run begins is left out. Later the run goes on without its result, until no member
is left that waits for it.
"""

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from math import inf
from types import NoneType
from typing import Any, cast

from pydantic import TypeAdapter, create_model

from warrener_agent.context import JobContext
from warrener_agent.decisions.errors import (
    HandlerEnd,
    HandlerRaised,
    HandlerResult,
    describe_error,
    permanent_failure,
)
from warrener_agent.decisions.outcomes import StopCause
from warrener_agent.definitions.job import ExecutorName, Gather, JobDefinition
from warrener_agent.definitions.signature import Signature
from warrener_agent.executors.base import Execution, Executor, HandlerCall, encode_result, read_arguments
from warrener_agent.executors.in_agent import ThreadHandlerPort
from warrener_agent.handler_api import LocalHandlerPort
from warrener_agent.run_table import DeliveryRef
from warrener_agent.secret_values import hide_texts, marked_texts
from warrener_contracts.events import ErrorKind, FlightRecord
from warrener_runtime.clock import Clock

_LEASE_INTERVAL = 0.05  # seconds between two looks at the leases of a run
_NO_ARGUMENTS = Signature(None, {}, create_model("Members"), TypeAdapter(NoneType))
"""Of the call that stands for all members: their arguments were read one by one."""


class GatheringExecutor(Executor):
    """Gathers the calls of each job type until there are `up_to`, or `within` has passed since the first."""

    def __init__(self, executors: Mapping[ExecutorName, Executor], clock: Clock) -> None:
        """`executors`: those that run the handlers."""
        self._executors, self._clock = executors, clock
        self._open: dict[str, GatheredRun] = {}

    def room(self, job_type: str) -> int:
        """How many more calls may join the run that is being gathered; 0 if none is."""
        run = self._open.get(job_type)
        return 0 if run is None else run.gather.up_to - len(run.members)

    def begin(self, handler_call: HandlerCall) -> "GatheredMember":
        """Add the call to a run, which begins later, or at once if this call completes it."""
        arguments, name = read_arguments(handler_call), handler_call.definition.name
        member = GatheredMember(handler_call, asyncio.get_running_loop().create_future())
        if isinstance(arguments, HandlerRaised):
            member.done.set_result(arguments)
            return member
        [member.item] = arguments.values()
        history, run = handler_call.facts.dispatch.history, self._open.get(name)
        if alone := history is not None and history.losses > 0:  # it may have ended its agent
            run = self._new_run(handler_call.definition)
        elif run is None:
            run = self._open[name] = self._new_run(handler_call.definition)
            run.timer = asyncio.create_task(self._begin_later(run), name=f"gather {name}", context=Context())
        run.members.append(member)
        member.run = run
        if alone or not self.room(name):
            self._close(run)
            run.begin()
        return member

    def _new_run(self, definition: JobDefinition) -> "GatheredRun":
        return GatheredRun(
            definition, self._executors[definition.executor], self._close, self._clock.monotonic
        )

    def give_back(self, reason: str) -> None:
        """Give the members back whose runs have not begun."""
        for run in [*self._open.values()]:
            run.give_back(reason)

    async def _begin_later(self, run: "GatheredRun") -> None:
        await self._clock.sleep(run.gather.seconds)
        run.timer = None
        self._close(run)
        run.begin()

    def _close(self, run: "GatheredRun") -> None:
        if self._open.get(run.definition.name) is run:
            del self._open[run.definition.name]
        if run.timer is not None:
            run.timer.cancel()
            run.timer = None  # no reference cycle


@dataclass(eq=False, slots=True)
class GatheredMember:
    """The execution of one of the attempts that share a run."""

    call: HandlerCall
    done: asyncio.Future[HandlerEnd]
    item: Any = None
    run: "GatheredRun | None" = None
    has_left: bool = False
    flight_record: FlightRecord | None = None

    @property
    def slot(self) -> DeliveryRef | None:
        """The delivery by which the run has its slot; None if the member joined none."""
        return None if self.run is None else self.run.slot

    async def stop(self) -> bool:
        """Leave the run; the last one stops it."""
        return self.run is None or await self.run.leave(self)


@dataclass(eq=False, slots=True)
class GatheredRun:
    """One run of a handler for several attempts."""

    definition: JobDefinition
    _executor: Executor
    _close: Callable[["GatheredRun"], None]
    _monotonic: Callable[[], float]
    members: list[GatheredMember] = field(default_factory=list[GatheredMember])
    timer: asyncio.Task[None] | None = None
    _context: Context = field(default_factory=copy_context)  # of the first member, as are span and log
    _execution: Execution | None = None
    _stopping: asyncio.Future[bool] | None = None
    _ends: list[HandlerResult] | None = None
    _checked_at: float = -inf

    @property
    def gather(self) -> Gather:
        assert self.definition.gather is not None, "only calls of gathered types are gathered"
        return self.definition.gather

    @property
    def slot(self) -> DeliveryRef | None:
        first = self.members[0].call.run
        return None if first is None else first.slot or first.delivery_refs[0]

    def begin(self) -> None:
        """Run the handler for the members that there are."""
        calls, signature = [member.call for member in self.members], self.definition.signature
        [name] = signature.names
        given: dict[str, Any] = {name: [member.item for member in self.members]}
        try:
            facts = [one.facts if one.restart_timeout is None else one.restart_timeout() for one in calls]
            if signature.context is not None:
                loop, is_thread = asyncio.get_running_loop(), self.definition.executor == "thread"
                given[signature.context] = [
                    JobContext(of, ThreadHandlerPort(loop, one.port) if is_thread else one.port)
                    for of, one in zip(facts, calls, strict=True)
                ]
            first = calls[0].port
            assert isinstance(first, LocalHandlerPort)
            call = calls[0]._replace(
                definition=replace(self.definition, handler=self._handler(given), signature=_NO_ARGUMENTS),
                port=replace(first, lease_check=self._lease_ended),
            )
            self._execution = self._context.run(self._executor.begin, call)
        except Exception as error:  # noqa: BLE001 - each attempt reports it as its agent's own failure
            for member in self.members:
                member.done.set_exception(error)
        else:
            self._execution.done.add_done_callback(self._ended)

    def give_back(self, reason: str) -> None:
        """Give back all attempts that are still members, uncharged."""
        for member in [*self.members]:
            if not member.has_left and member.call.run is not None:
                member.call.run.request_stop(StopCause.DRAINED, reason)

    async def leave(self, member: GatheredMember) -> bool:
        """Let a member leave; the last one stops the handler, and has to wait for that."""
        member.has_left = True
        if self._execution is None:
            self.members.remove(member)
            if not self.members:
                self._close(self)
            return True
        is_fenced = member.call.run is not None and member.call.run.stop is StopCause.FENCED
        if is_fenced and self.definition.executor == "coroutine":
            # Its job may begin elsewhere, so the run must not go on. A thread cannot be stopped: given back,
            # the others would run twice at once.
            self.give_back("another job of its run is no longer this agent's")
        await asyncio.sleep(0)  # those that are stopped at the same moment leave too
        if not all(one.has_left for one in self.members):
            return not is_fenced or self.definition.executor == "coroutine"
        self._stopping = self._stopping or asyncio.ensure_future(self._execution.stop())
        has_stopped = await asyncio.shield(self._stopping)
        member.flight_record = self._execution.flight_record
        return has_stopped

    def _handler(self, given: dict[str, Any]) -> Callable[[], Any]:
        handler = self.definition.handler

        async def run_members() -> None:
            self._ends = self._read_ends(await handler(**given))

        def run_members_blocking() -> None:
            self._ends = self._read_ends(handler(**given))

        return run_members if inspect.iscoroutinefunction(handler) else run_members_blocking

    def _read_ends(self, returned: object) -> list[HandlerResult]:
        definition, size = self.definition, len(self.members)
        if returned is None and definition.signature.result_schema.get("type") == "null":
            returned = [None] * size
        values = cast("Sequence[object]", returned) if isinstance(returned, list | tuple) else None
        if values is None or len(values) != size:
            got = "none" if values is None else f"{len(values)}"
            why = f"expected a list of {size} results of {definition.name}, one for each job, got {got}"
            return [permanent_failure(ErrorKind.BAD_RESULT, why)] * size
        return [
            describe_error(value, definition.declaration.policy)
            if isinstance(value, BaseException)
            else encode_result(definition, value)
            for value in values
        ]

    def _ended(self, done: asyncio.Future[HandlerEnd]) -> None:
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        shared = done.result() if error is None else describe_error(error)
        ends = self._ends if self._ends is not None and error is None else [shared] * len(self.members)
        if names := self.definition.signature.secret_names:  # an error may quote the arguments of others
            given = [member.call.facts.dispatch.arguments for member in self.members]
            secrets = marked_texts(names, given)
            ends = [_hide(end, secrets) for end in ends]
        if self._ends is None and any(one.call.port.lease_ended() for one in self.members):
            for member in self.members:  # it has stopped for the sake of others
                if not member.has_left and not member.call.port.lease_ended() and member.call.run is not None:
                    member.call.run.request_stop(StopCause.DRAINED, "the lease of another job has ended")
        for member, end in zip(self.members, ends, strict=True):
            if not member.done.done():
                member.done.set_result(end)
        self.members.clear()  # no reference cycle: what is over is freed at once

    def _lease_ended(self) -> bool:
        """True if a lease of a member has ended. Each step of a handler calls it, so it looks now and then:
        far more often than the margin of a lease allows."""
        if (now := self._monotonic()) - self._checked_at < _LEASE_INTERVAL:
            return False
        self._checked_at = now
        return any(not one.has_left and one.call.port.lease_ended() for one in self.members)


def _hide(end: HandlerEnd, secrets: tuple[str, ...]) -> HandlerEnd:
    if not isinstance(end, HandlerRaised):
        return end
    return replace(end, error=end.error.with_texts(lambda text: hide_texts(text, secrets)))
