"""Turns of workflows: the body in a thread, then the steps that it waits for, all at once.

A body that computes cannot be stopped from outside, nor can a step that is a plain function: each is
abandoned, as a handler in a thread.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, TypeVar

from warrener_agent.decisions.errors import (
    HandlerEnd,
    HandlerRaised,
    HandlerReturned,
    HandlerSuspended,
    describe_error,
    describe_turn_error,
    start_failure,
)
from warrener_agent.executors.base import Executor, HandlerCall, read_arguments, to_result
from warrener_agent.executors.flight_record import (
    LogCapture,
    find_tasks,
    record_in_agent,
    start_log_capture,
    task_stack,
    thread_stack,
)
from warrener_agent.executors.in_agent import THREAD_PATIENCE, LeaseEnded, LeaseGuard, end_tasks
from warrener_agent.failures import Fail
from warrener_agent.ledger.port import LedgerError
from warrener_agent.workflows.failures import JournalFull, WorkflowError
from warrener_agent.workflows.targets import check_read
from warrener_agent.workflows.turn import (
    PendingStep,
    TurnInput,
    TurnRaised,
    TurnReturned,
    TurnSuspended,
    run_turn,
    with_ends,
)
from warrener_contracts.events import Answer, ErrorInfo, ErrorKind, FlightRecord, Journal, StepRetry
from warrener_contracts.topology import MAX_BODY
from warrener_runtime import log_scopes
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger

T = TypeVar("T")

_log = get_logger("agent.workflow")

_MAX_STACK = 2_000  # characters
_MAX_BODIES, _BODY_PATIENCE = 4, 5.0  # that run at once, and the seconds after which one no longer counts
_MAX_THREADS = 32  # plain steps of one turn that run at a time
_RETRY_PATIENCE = timedelta(seconds=5)  # that all delays of one step may take within a turn
_MAX_SUSPENSION = MAX_BODY - 16 * 1024  # bytes; the rest is for the event around it


class _NoThread(Exception):
    """The process can start no thread now: no failure of a step, another attempt may have one."""


class WorkflowExecutor(Executor):
    """Runs each turn in a daemon thread, few at once, and its steps as tasks of the event loop or in threads.

    `joins_threads`: the loop waits for each thread at once, where time is virtual and must not go on.
    """

    def __init__(self, clock: Clock, *, joins_threads: bool = False) -> None:
        log_scopes.install()
        self._clock, self._joins_threads = clock, joins_threads
        self._bodies = asyncio.Semaphore(_MAX_BODIES)

    def begin(self, handler_call: HandlerCall) -> "TurnExecution":
        return TurnExecution(handler_call, self._clock, self._bodies, joins_threads=self._joins_threads)


class TurnExecution:
    """A running turn, until its steps have ended. `done` ends by itself, and after all threads."""

    def __init__(
        self, handler_call: HandlerCall, clock: Clock, bodies: asyncio.Semaphore, *, joins_threads: bool
    ) -> None:
        self._call, self._clock, self._joins_threads = handler_call, clock, joins_threads
        self._bodies = bodies
        context = copy_context()
        self._log_capture: LogCapture = context.run(
            start_log_capture, handler_call.facts.dispatch, handler_call.log
        )
        self._threads: dict[threading.Thread, asyncio.Future[Any]] = {}
        self._thread_slots = asyncio.Semaphore(_MAX_THREADS)
        self._stopping = False
        self.flight_record: FlightRecord | None = None
        self.done: asyncio.Task[HandlerEnd] = asyncio.get_running_loop().create_task(
            self._run(), name=handler_call.definition.name, context=context
        )

    async def stop(self) -> bool:
        self._stopping = True
        tasks = [one for one in find_tasks(self._log_capture) if one is not self.done]
        threads = [one.ident for one in self._threads if one.ident is not None]
        stacks = [*map(thread_stack, threads), *map(task_stack, tasks)]
        self.flight_record = record_in_agent(stacks, self._log_capture)
        if not tasks and not threads:  # it waits until its body may run
            self.done.cancel()
        await end_tasks(self._log_capture, but=self.done)
        await asyncio.wait({self.done}, timeout=THREAD_PATIENCE)
        return self.done.done()

    async def _run(self) -> HandlerEnd:
        try:
            return await self._take_turn()
        except _NoThread as error:
            return start_failure(self._call.definition.name, str(error))
        except BaseException as error:
            if not self._stopping:
                raise
            return describe_error(error)  # read by nobody

    async def _take_turn(self) -> HandlerEnd:
        now = self._clock.now()
        ended = await self._end_of_body(partial(_run_body, self._call, now))
        if isinstance(ended, HandlerRaised):
            return ended
        if self._stopping:
            raise asyncio.CancelledError
        if isinstance(ended, TurnReturned):
            result = to_result(self._call.definition, ended.value)
            if isinstance(result, HandlerReturned):
                self._publish(ended)
                return result._replace(cancels=ended.cancels, signals=ended.signals)
            is_bad = result.error.kind is ErrorKind.BAD_RESULT  # as it would be in each attempt
            return describe_turn_error(WorkflowError(result.error.message)) if is_bad else result
        suspension = ended.suspension
        if ended.steps:
            answers, retries = await self._answer(ended.steps, now)
            suspension = with_ends(suspension, ended.steps, answers, retries)
        if (size := len(suspension.model_dump_json().encode())) > _MAX_SUSPENSION:
            return describe_error(
                JournalFull(
                    f"expected a turn that adds at most {_MAX_SUSPENSION} bytes to the journal, got {size}: "
                    "return less from steps, or put the data elsewhere and return its URL"
                )
            )
        self._publish(ended)
        return HandlerSuspended(suspension, ended.cancels, ended.signals)

    def _publish(self, ended: TurnSuspended | TurnReturned) -> None:
        """Have the state saved before the end is reported."""
        if ended.published is not None:
            self._call.port.checkpoint(ended.published)

    async def _end_of_body(self, body: Callable[[], T]) -> T:
        """Run a body when it is its turn: many that compute at once would take the processor from the loop.
        One that computes for long gives its place to the next."""
        async with self._bodies:
            end = self._begin_thread(body)
            await asyncio.wait({end}, timeout=_BODY_PATIENCE)
        return await asyncio.shield(end)

    async def _answer(
        self, steps: Sequence[PendingStep], now: datetime
    ) -> tuple[list[Answer], list[StepRetry]]:
        """Run the steps at once, and return their answers in the order in which they ended, and the retries
        of those that failed. Short delays pass here; longer ones hold no slot.

        If some are stopped, those that have ended count, and the next turn runs the others.
        """
        answers: list[Answer] = []
        retries: list[StepRetry] = []
        facts = self._call.facts
        last_at = max([now, *(one.at for one in _answers(facts.dispatch.journal))])

        async def answer(step: PendingStep) -> None:
            nonlocal last_at
            call_id, tries, until = step.call.call_id, step.tries, self._clock.now() + _RETRY_PATIENCE
            while True:
                result, raised = await self._perform(step)
                tries, now = tries + 1, self._clock.now()
                last_at = max(last_at, now)
                chance = Random(f"{facts.dispatch.job_id}/{call_id}/{tries}").random()  # noqa: S311
                if raised is None:
                    break
                retry = step.retry(raised.error, raised.retry_after_seconds, tries, chance, last_at)
                if retry is None:
                    break
                _log_failed(step, raised.error, is_private=bool(facts.digest_key))
                retries.append(retry)
                if now + (delay := retry.retry_at - last_at) > min(until, facts.deadline):
                    return
                await self._clock.sleep(delay.total_seconds())
                retries.remove(retry)
            error = None if raised is None else _brief(step, raised.error, is_private=bool(facts.digest_key))
            answers.append(Answer(call_id=call_id, at=last_at, result=result, error=error, tries=tries))

        guards = [LeaseGuard(answer(step), self._call.port.lease_ended) for step in steps]
        tasks = [
            asyncio.create_task(guard, name=step.call.name) for guard, step in zip(guards, steps, strict=True)
        ]
        self._call.set_off_loop(not any(inspect.iscoroutinefunction(step.function) for step in steps))
        try:
            await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
        stopped = [task for task in tasks if task.cancelled() or task.exception() is not None]
        if stopped:
            await end_tasks(self._log_capture, but=asyncio.current_task())  # that the steps have left
        if self._threads:  # of steps that were stopped
            await asyncio.wait(self._threads.values())
        for task in stopped:
            if not (answers or retries) or not (task.cancelled() or isinstance(task.exception(), _NoThread)):
                task.result()
        return answers, retries

    async def _perform(self, step: PendingStep) -> tuple[Any, HandlerRaised | None]:
        """Run a step. Raises nothing of its own, and CancelledError if the attempt is stopped."""
        try:
            if step.takes_transaction:
                assert self._call.run_recorded is not None, "a workflow runs in an agent"
                return await self._call.run_recorded(step), None
            if inspect.iscoroutinefunction(step.function):
                value = await step.function()
            else:
                async with self._thread_slots:
                    value = await asyncio.shield(self._begin_thread(partial(_call_plain, step.function)))
                if isinstance(value, HandlerRaised):
                    return None, value
                if inspect.isawaitable(value):
                    value = await value
            return step.write(value), None
        except BaseException as error:
            is_stopped = isinstance(error, asyncio.CancelledError) and self._stopping
            if is_stopped or isinstance(error, LeaseEnded | _NoThread):
                raise
            return None, describe_error(error)

    def _begin_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run `work` in a thread of its own."""
        loop, context = asyncio.get_running_loop(), copy_context()
        done: asyncio.Future[T] = loop.create_future()

        def finish(settle: Callable[[Any], None], result: Any) -> None:
            del self._threads[thread]
            settle(result)

        def run() -> None:
            try:
                end: tuple[Any, Any] = done.set_result, context.run(work)
            except BaseException as error:  # noqa: BLE001 - raised by the task that waits
                end = done.set_exception, error
            with suppress(RuntimeError):  # the loop is closed: the thread was abandoned
                loop.call_soon_threadsafe(finish, *end)

        name = f"{self._call.definition.name} {self._call.facts.dispatch.job_id}"
        thread = threading.Thread(target=run, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise _NoThread(str(error)) from error
        self._threads[thread] = done
        if self._joins_threads:
            thread.join()
        return done


def _run_body(handler_call: HandlerCall, now: datetime) -> TurnSuspended | TurnReturned | HandlerRaised:
    """Run the body with all answers of its journal, and encode the requests of its child jobs."""
    definition, dispatch = handler_call.definition, handler_call.facts.dispatch
    given = read_arguments(handler_call)
    if isinstance(given, HandlerRaised):
        return given
    assert definition.signature.context is not None, "a workflow is not declared without it"
    try:
        ended = run_turn(
            definition.handler,
            definition.signature.context,
            TurnInput(
                job_id=dispatch.job_id,
                job_type=dispatch.job_type,
                attempt=dispatch.attempt,
                requested_at=dispatch.requested_at,
                deadline=dispatch.deadline,
                arguments=given,
                journal=dispatch.journal,
                now=now,
                digest_key=handler_call.facts.digest_key,
                pages={page.call_id: page.items for page in dispatch.pages},
                check=partial(check_read, definition),
            ),
        )
    except BaseException as error:  # noqa: BLE001 - SystemExit of a body is its failure, not the agent's end
        ended = TurnRaised(error)
    if isinstance(ended, TurnRaised):
        return describe_turn_error(ended.error, definition.declaration.policy)
    try:
        for spec in ended.requests:
            handler_call.port.request(spec)
    except LedgerError as error:  # the lease has ended while the process stood still
        return describe_error(error)
    except ValueError as error:  # no retry can mend it
        return describe_error(Fail(str(error)))
    return ended


def _answers(journal: Journal | None) -> Iterator[Answer]:
    for turn in () if journal is None else journal.turns:
        yield from turn.answers
        yield from () if turn.suspension is None else turn.suspension.answers


def _brief(step: PendingStep, error: ErrorInfo, *, is_private: bool) -> ErrorInfo:
    """The error as the journal has it, which travels with each turn; the log has its whole stack."""
    if len(error.stack or "") <= _MAX_STACK:
        return error
    _log_failed(step, error, is_private=is_private)
    return error.model_copy(update={"stack": (error.stack or "")[-_MAX_STACK:]})


def _log_failed(step: PendingStep, error: ErrorInfo, *, is_private: bool) -> None:
    stack = None if is_private else error.stack
    _log.warning("A step failed.", action="agent.step_failed", step=step.call.name, stack=stack)


def _call_plain(function: Callable[[], Any]) -> Any:
    """Call a step that is no coroutine; what it raises is described here, where its stack begins."""
    try:
        return function()
    except BaseException as error:  # noqa: BLE001 - SystemExit of a step is its failure, not the agent's end
        return describe_error(error)
