"""One turn of a workflow: the body repeats its journal, then makes new calls until it waits."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from warrener_agent.context import ChildJobSpec, SignalSpec
from warrener_agent.workflows.calls import CallFuture, CallTable
from warrener_agent.workflows.failures import CodeChanged, Deadlock
from warrener_agent.workflows.loop import FlowLoop, FlowTask, raising_line
from warrener_agent.workflows.workflow import Workflow
from warrener_contracts.events import Answer, Call, CallKind, ErrorInfo, Journal, StepRetry, Suspension
from warrener_contracts.fields import MAX_DURATION
from warrener_contracts.identity import child_job_id, sent_signal_id
from warrener_contracts.policy import JobPolicy
from warrener_contracts.retryability import non_retryable_reason

_log = logging.getLogger("warrener.workflow")

_MAX_REASON = 200  # characters of a failure of a step that is tried again: the journal travels with each turn


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
    digest_key: bytes = b""
    pages: Mapping[str, Sequence[Any]] | None = None  # items, by the call of their page
    check: Callable[[dict[str, Any]], object] = lambda _: None  # of the arguments of another generation


class PendingStep(NamedTuple):
    """A step to be run. `function` returns a value or an awaitable; `write` makes JSON of its result. `tries`
    have failed in earlier turns."""

    call: Call
    function: partial[Any]
    write: Callable[[Any], Any]
    policy: JobPolicy | None = None
    tries: int = 0
    takes_transaction: bool = False  # as the first parameter of `function`

    def retry(
        self, error: ErrorInfo, after: float | None, tries: int, chance: float, now: datetime
    ) -> StepRetry | None:
        """Return when to try the step again after so many tries; None if its failure is final. `after`: the
        delay in seconds that it has chosen itself."""
        policy = self.policy
        if policy is None or tries >= policy.max_attempts or non_retryable_reason(error, policy):
            return None
        delay = policy.backoff.delay(tries, chance)
        if after is not None:
            delay = min(timedelta(seconds=after), MAX_DURATION)
        why = f"{error.type}: {error.message}"[:_MAX_REASON]
        return StepRetry(call_id=self.call.call_id, tries=tries, retry_at=now + delay, error=why)


def with_ends(
    suspension: Suspension,
    steps: Sequence[PendingStep],
    answers: Sequence[Answer],
    retries: Sequence[StepRetry],
) -> Suspension:
    """Add the ends of the steps of a turn to its suspension: the next turn begins with the first retry."""
    changes: dict[str, Any] = {"answers": tuple(answers), "retries": tuple(retries)}
    first = min(retries, key=lambda one: one.retry_at, default=None)
    if first is not None and (suspension.wake_at is None or first.retry_at < suspension.wake_at):
        lines = {step.call.call_id: step.call.line for step in steps}
        changes |= {"wake_at": first.retry_at, "timer_line": lines[first.call_id]}
    return suspension.model_copy(update=changes)


@dataclass(frozen=True)
class TurnSuspended:
    """The body waits, or goes on in another generation. `requests` are of new child jobs, in the order of
    their calls; `cancels` are calls of children that nothing awaits any longer; `published` is JSON."""

    suspension: Suspension
    steps: tuple[PendingStep, ...]
    requests: tuple[ChildJobSpec, ...]
    cancels: tuple[Call, ...]
    signals: tuple[SignalSpec, ...] = ()
    published: str | None = None
    last_calls: tuple[str, ...] = ()  # lines of calls that `finally` blocks tried to make


@dataclass(frozen=True)
class TurnReturned:
    """The body returned. `requests` are of new detached children; `cancels` are calls of open other ones."""

    value: Any
    requests: tuple[ChildJobSpec, ...]
    cancels: tuple[Call, ...]
    signals: tuple[SignalSpec, ...] = ()
    published: str | None = None
    unmade: tuple[str, ...] = ()  # lines of jobs and steps that nothing awaited: they never begin


@dataclass(frozen=True)
class TurnRaised:
    """The body raised, or does not fit its journal (CodeChanged)."""

    error: BaseException


TurnEnd = TurnSuspended | TurnReturned | TurnRaised


class _Continued(Exception):
    """The body goes on in another generation."""


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
        journal = given.journal or Journal()
        size = len(journal.model_dump_json().encode()) if journal.size is None else journal.size
        self._calls = CallTable(
            self._loop,
            recorded,
            size,
            partial(child_job_id, given.job_id),
            generation=journal.generation,
            digest_key=given.digest_key,
            pages=given.pages,
        )
        self._unfed: tuple[Answer, ...] = ()

    def run(self, handler: Callable[..., Any], context_name: str) -> TurnEnd:
        given = self._given
        flow = Workflow(self._loop, self._calls, given.job_id, given.deadline, given.check)
        with self._loop.running():
            try:
                body = self._loop.start(handler(**given.arguments, **{context_name: flow}))
                end = self._feed(body)
            except _Continued:
                end = self._continued()
            except Exception as error:  # noqa: BLE001 - CodeChanged, and what the body did at its call
                end = TurnRaised(error)
            self._calls.leaving = True
            self._loop.end_tasks()
        last_calls = tuple(self._calls.last_calls)
        return replace(end, last_calls=last_calls) if isinstance(end, TurnSuspended) else end

    def _feed(self, body: FlowTask[Any]) -> TurnEnd:
        self._run_until_idle()
        for turn in self._turns:
            for number, answer in enumerate(turn.answers):
                self._unfed = turn.answers[number:]
                self._loop.advance(answer.at)
                self._run_until_idle()
                self._unfed = turn.answers[number + 1 :]
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
        if self._calls.continued is not None:
            raise _Continued

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
        requests, cancels, signals, unmade = self._left()
        return TurnReturned(body.result(), requests, cancels, signals, self._calls.published, unmade)

    def _continued(self) -> TurnEnd:
        requests, cancels, signals, _ = self._left()
        closed, arguments = self._calls.unreceived(self._unfed), self._calls.continued
        suspension = Suspension(closed=closed, continued=arguments)
        return TurnSuspended(suspension, (), requests, cancels, signals, self._calls.published)

    def _left(
        self,
    ) -> tuple[tuple[ChildJobSpec, ...], tuple[Call, ...], tuple[SignalSpec, ...], tuple[str, ...]]:
        """Return the rest that the body leaves behind: requests of new detached children, cancels of the open
        other ones, new signals, and the lines of calls that never begin."""
        open_calls = self._calls.open_calls()
        left = [one for one in open_calls if self._is_requested(one) and not one.call.detached]
        unmade = tuple(
            future.call.line
            for future in self._calls.new
            if not (future.done() or future.call.detached or future.call.kind is CallKind.SIGNAL)
        )
        if unmade:
            _log.warning("The workflow returned before its calls at %s could begin", ", ".join(unmade))
        cancels = _calls([*self._closed_jobs(), *left])
        return self._requests(detached=True), cancels, self._signals(), unmade

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
        # Also a step of an earlier turn, if its agent has not come to it, or if it has failed.
        now, steps, waits = (
            max(self._loop.now, self._given.now),
            list[PendingStep](),
            [timer] if timer else [],
        )
        for future in open_calls:
            call, spec, retry = future.call, future.spec, self._calls.retries.get(future.call.call_id)
            if spec.function is not None and retry is not None and retry.retry_at > now:
                waits.append((retry.retry_at, call.line))
            elif spec.function is not None:
                tries = 0 if retry is None else retry.tries
                steps.append(
                    PendingStep(call, spec.function, spec.write, spec.policy, tries, spec.takes_transaction)
                )
        timer = min(waits, default=None)
        suspension = Suspension(
            calls=(*self._calls.markers, *(future.call for future in self._calls.new)),
            closed=tuple(future.call.call_id for future in self._calls.closed),
            began_at=self._began_at if len(self._turns) == 1 else None,
            wake_at=None if timer is None else timer[0],
            timer_line=timer[1] if timer else None,
            awaits_these=all(one.call.kind is CallKind.JOB and self._is_new(one) for one in open_calls),
        )
        cancels, signals = _calls(self._closed_jobs()), self._signals()
        return TurnSuspended(
            suspension, tuple(steps), self._requests(), cancels, signals, self._calls.published
        )

    def _requests(self, *, detached: bool | None = None) -> tuple[ChildJobSpec, ...]:
        return tuple(
            request
            for future in self._calls.new
            if future.spec.requests is not None
            and not future.cancelled()
            and detached in {None, future.call.detached}
            for request in future.spec.requests(future.call.call_id)
        )

    def _signals(self) -> tuple[SignalSpec, ...]:
        return tuple(
            SignalSpec(sent_signal_id(self._given.job_id, future.call.call_id), future.spec.signal)
            for future in self._calls.new
            if future.spec.signal is not None
        )

    def _closed_jobs(self) -> list[CallFuture[Any]]:
        return [future for future in self._calls.closed if self._is_requested(future)]

    def _is_requested(self, future: CallFuture[Any]) -> bool:
        """True for child jobs of an earlier turn: those of this one were never requested."""
        return future.call.kind in {CallKind.JOB, CallKind.MAP} and not self._is_new(future)

    def _is_new(self, future: CallFuture[Any]) -> bool:
        return future.turn == self._calls.last_turn

    def _report(self, context: dict[str, Any]) -> None:
        """Log what asyncio reports of tasks and callbacks, once."""
        if self._calls.is_live and not self._calls.leaving:
            error = context.get("exception")
            _log.error(
                "A task of workflow %s failed: %s", self._given.job_id, context.get("message"), exc_info=error
            )


def _calls(futures: list[CallFuture[Any]]) -> tuple[Call, ...]:
    return tuple(future.call for future in futures)
