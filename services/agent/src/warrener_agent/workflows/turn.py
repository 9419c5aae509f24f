"""One turn of a workflow: the body repeats its journal, then makes new calls until it waits."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from warrener_agent.context import ChildJobSpec
from warrener_agent.workflows.calls import CallFuture, CallTable
from warrener_agent.workflows.failures import CodeChanged, Deadlock
from warrener_agent.workflows.loop import FlowLoop, FlowTask, raising_line
from warrener_agent.workflows.workflow import Workflow
from warrener_contracts.events import Answer, Call, CallKind, Journal, Suspension
from warrener_contracts.identity import child_job_id

_log = logging.getLogger("warrener.workflow")


@dataclass(frozen=True, kw_only=True)
class TurnInput:
    """The facts with which a turn begins; `arguments` are keyword arguments, already read."""

    job_id: UUID
    job_type: str
    attempt: int
    requested_at: datetime
    deadline: datetime | None
    arguments: dict[str, Any]
    journal: Journal | None
    now: datetime


class PendingStep(NamedTuple):
    """A step to be run. `function` returns a value or an awaitable; `write` makes JSON of its result."""

    call: Call
    function: partial[Any]
    write: Callable[[Any], Any]


@dataclass(frozen=True)
class TurnSuspended:
    """The body waits. `requests` are of new child jobs, in the order of their calls; `cancels` are children
    that nothing awaits any longer."""

    suspension: Suspension
    steps: tuple[PendingStep, ...]
    requests: tuple[ChildJobSpec, ...]
    cancels: tuple[UUID, ...]
    last_calls: tuple[str, ...] = ()  # lines of calls that `finally` blocks tried to make


@dataclass(frozen=True)
class TurnReturned:
    """The body returned. `requests` are of new detached children; `cancels` are the open other ones."""

    value: Any
    requests: tuple[ChildJobSpec, ...]
    cancels: tuple[UUID, ...]
    unmade: tuple[str, ...] = ()  # lines of jobs and steps that nothing awaited: they never begin


@dataclass(frozen=True)
class TurnRaised:
    """The body raised, or does not fit its journal (CodeChanged)."""

    error: BaseException


TurnEnd = TurnSuspended | TurnReturned | TurnRaised


class PastTurn(NamedTuple):
    """The answers that a turn was fed, and its suspension; None for the turn that is not recorded yet."""

    answers: tuple[Answer, ...]
    suspension: Suspension | None


def past_turns(journal: Journal | None) -> list[PastTurn]:
    """The turns of a journal; the last one is that which runs now.

    A turn that failed has no suspension: its answers belong to the one that repeats it. The answers of steps
    come first in the turn behind that which called them.
    """
    turns, answers = list[PastTurn](), list[Answer]()
    for turn in () if journal is None else journal.turns:
        answers += turn.answers
        if turn.suspension is not None:
            turns.append(PastTurn(tuple(answers), turn.suspension))
            answers = list(turn.suspension.answers)
    return [*turns, PastTurn(tuple(answers), None)]


def run_turn(handler: Callable[..., Any], context_name: str, turn_input: TurnInput) -> TurnEnd:
    """Run one turn, in a thread that has no running event loop.

    `context_name` is the parameter that receives the Workflow. Never raises what the body raises.
    """
    return _TurnRun(turn_input).run(handler, context_name)


class _TurnRun:
    def __init__(self, given: TurnInput) -> None:
        self._given, self._turns = given, past_turns(given.journal)
        first = self._turns[0].suspension
        began_at = max(given.now, given.requested_at) if first is None else first.began_at or given.now
        self._began_at = began_at.astimezone(UTC)
        # What it lacks it refuses: those methods are set when the class is made.
        self._loop = FlowLoop(self._began_at, self._report)  # type: ignore[abstract]
        recorded = [one.suspension for one in self._turns if one.suspension is not None]
        size = 0 if given.journal is None else len(given.journal.model_dump_json().encode())
        self._calls = CallTable(self._loop, recorded, size, partial(child_job_id, given.job_id))

    def run(self, handler: Callable[..., Any], context_name: str) -> TurnEnd:
        given = self._given
        flow = Workflow(self._loop, self._calls, given.job_id, given.deadline)
        with self._loop.running():
            try:
                body = self._loop.start(handler(**given.arguments, **{context_name: flow}))
                end = self._feed(body)
            except Exception as error:  # noqa: BLE001 - CodeChanged, and what the body did at its call
                end = TurnRaised(error)
            self._calls.leaving = True
            self._loop.end_tasks()
        last_calls = tuple(self._calls.last_calls)
        return replace(end, last_calls=last_calls) if isinstance(end, TurnSuspended) else end

    def _feed(self, body: FlowTask[Any]) -> TurnEnd:
        self._run_until_idle()
        for turn in self._turns:
            for answer in turn.answers:
                self._loop.advance(answer.at)
                self._run_until_idle()
                self._calls.answer(answer)
                self._run_until_idle()
            if turn.suspension is not None:
                if body.done():
                    raise self._ended_early(body)
                self._calls.end_turn()
        return self._ended(body) if body.done() else self._suspended()

    def _run_until_idle(self) -> None:
        self._loop.run_until_idle()
        if self._calls.failure is not None:
            raise self._calls.failure

    def _ended_early(self, body: FlowTask[Any]) -> CodeChanged:
        changed = self._calls.refuse_code("expected the workflow to wait as its journal says, got its end")
        changed.__cause__ = None if body.cancelled() else body.exception()
        return changed

    def _ended(self, body: FlowTask[Any]) -> TurnEnd:
        if body.cancelled():
            return TurnRaised(asyncio.CancelledError("the workflow has cancelled itself"))
        if (error := body.exception()) is not None:
            if isinstance(error, TimeoutError) and not error.args:
                error.args = (self._late_wait(error),)
            return TurnRaised(error)
        open_calls = self._calls.open_calls()
        left = [one for one in open_calls if self._is_requested(one) and not one.call.detached]
        unmade = tuple(
            future.call.line
            for future in self._calls.new
            if not (future.done() or future.call.detached or future.call.kind is CallKind.SIGNAL)
        )
        if unmade:
            _log.warning("The workflow returned before its calls at %s could begin", ", ".join(unmade))
        return TurnReturned(
            body.result(), self._requests(detached=True), _job_ids([*self._closed_jobs(), *left]), unmade
        )

    def _late_wait(self, error: TimeoutError) -> str:
        """The wait that a timeout has given up: asyncio raises it without a message."""
        waited = [f"{one.call.kind} {one.call.name}" for one in self._calls.closed[-1:]]
        line = raising_line(error.__cause__) or raising_line(error)
        return f"expected {', '.join(waited) or 'the wait'} at {line} to end in time, it had not"

    def _suspended(self) -> TurnEnd:
        open_calls, timer = self._calls.open_calls(), self._loop.next_timer()
        if not open_calls and timer is None:
            lines = ", ".join(self._loop.waiting_lines())
            return TurnRaised(
                Deadlock(
                    "expected the workflow to wait for a call, a signal or a time, it waits for nothing that "
                    f"can come, at {lines}"
                )
            )
        suspension = Suspension(
            calls=(*self._calls.markers, *(future.call for future in self._calls.new)),
            closed=tuple(future.call.call_id for future in self._calls.closed),
            began_at=self._began_at if len(self._turns) == 1 else None,
            wake_at=None if timer is None else timer[0],
            timer_line=timer[1] if timer else None,
        )
        # Also one of an earlier turn, if its agent has not come to it.
        steps = tuple(
            PendingStep(future.call, future.spec.function, future.spec.write)
            for future in open_calls
            if future.spec.function is not None
        )
        return TurnSuspended(suspension, steps, self._requests(), _job_ids(self._closed_jobs()))

    def _requests(self, *, detached: bool | None = None) -> tuple[ChildJobSpec, ...]:
        return tuple(
            future.spec.request(future.call.call_id)
            for future in self._calls.new
            if future.spec.request is not None
            and not future.cancelled()
            and detached in {None, future.call.detached}
        )

    def _closed_jobs(self) -> list[CallFuture[Any]]:
        return [future for future in self._calls.closed if self._is_requested(future)]

    def _is_requested(self, future: CallFuture[Any]) -> bool:
        """True for a child job of an earlier turn: those of this one were never requested."""
        return future.call.kind is CallKind.JOB and future.turn < self._calls.last_turn

    def _report(self, context: dict[str, Any]) -> None:
        """Log what asyncio reports of tasks and callbacks, once."""
        if self._calls.is_live and not self._calls.leaving:
            error = context.get("exception")
            _log.error(
                "A task of workflow %s failed: %s", self._given.job_id, context.get("message"), exc_info=error
            )


def _job_ids(futures: list[CallFuture[Any]]) -> tuple[UUID, ...]:
    return tuple(future.call.job_id for future in futures if future.call.job_id is not None)
