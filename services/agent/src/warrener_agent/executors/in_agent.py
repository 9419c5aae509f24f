"""Attempts in the agent's own process: coroutines, with the tasks that they start, and threads.

Tasks that an attempt leaves running are cancelled when it ends in any way but success: the next attempt would
find them at work. A success leaves its tasks alone, which costs nothing; they may be meant to stay, as those
of a client that serves all jobs. A thread cannot be stopped from outside: it returns by itself, or is
abandoned.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextvars import copy_context
from typing import Any, TypeVar
from uuid import UUID

from warrener_agent.context import ChildJobSpec, HandlerPort, Parameters
from warrener_agent.decisions.errors import HandlerEnd, HandlerRaised, HandlerResult, describe_error
from warrener_agent.executors.base import Executor, HandlerCall, call, call_blocking
from warrener_agent.executors.flight_record import (
    LogCapture,
    find_tasks,
    record_in_agent,
    start_log_capture,
    task_stack,
    thread_stack,
)
from warrener_agent.executors.process_tree import thread_seconds
from warrener_agent.handler_api import LEASE_ENDED
from warrener_agent.ledger.port import LedgerError
from warrener_contracts.events import FlightRecord
from warrener_runtime import log_scopes
from warrener_runtime.logs import get_logger

_log = get_logger("agent.coroutine")
T = TypeVar("T")

PATIENCE = 5.0  # seconds that a cancelled handler, or a task that it left, may take to clean up
THREAD_PATIENCE = 1.0  # seconds in which a handler in a thread may notice `JobContext.stopping` and return


# -- coroutines --------------------------------------------------------------------------------------------


class CoroutineExecutor(Executor):
    """Runs each handler in a task of its own, which can be cancelled."""

    def __init__(self) -> None:
        log_scopes.install()

    def begin(self, handler_call: HandlerCall) -> "CoroutineExecution":
        context = copy_context()
        log_capture = context.run(start_log_capture, handler_call.facts.dispatch, handler_call.log)
        work = LeaseGuard(_call(handler_call, log_capture), handler_call.port.lease_ended)
        name = handler_call.definition.name
        return CoroutineExecution(
            asyncio.get_running_loop().create_task(work, name=name, context=context), log_capture
        )


class CoroutineExecution:
    """A running handler in a task."""

    __slots__ = ("_log_capture", "done", "flight_record")

    def __init__(self, done: asyncio.Task[HandlerEnd], log_capture: LogCapture) -> None:
        self.done, self._log_capture = done, log_capture
        self.flight_record: FlightRecord | None = None

    async def stop(self) -> bool:
        tasks = sorted(find_tasks(self._log_capture), key=lambda task: task is not self.done)
        self.flight_record = record_in_agent(map(task_stack, tasks), self._log_capture)
        self.done.cancel()
        await asyncio.wait({self.done}, timeout=PATIENCE)
        await end_tasks(self._log_capture, but=self.done)
        return self.done.done()


class LeaseEnded(BaseException):
    """Raised in a handler that must not go on. Not a CancelledError: `asyncio.timeout` would turn that into a
    TimeoutError, which handlers catch."""


def _never() -> bool:
    return False


class LeaseGuard(Coroutine[Any, Any, T]):
    """A coroutine of a handler that takes no further step once its lease has ended.

    After a freeze the loop runs what was ready before any timer of the agent, so each step begins with the
    check. Tasks that the handler has started are cancelled with it, and may take one step before.
    """

    __slots__ = ("_inner", "_lease_ended", "_stopped")

    def __init__(self, inner: Coroutine[Any, Any, T], lease_ended: Callable[[], bool]) -> None:
        self._inner, self._lease_ended = inner, lease_ended
        self._stopped = False  # once True, the handler may clean up

    def send(self, value: Any) -> Any:
        if not self._stopped and self._lease_ended():
            return self._stop()
        try:
            return self._inner.send(value)
        except BaseException:
            self._lease_ended = _never  # a task that lives on keeps nothing of the attempt alive
            raise

    def throw(self, *error: Any) -> Any:
        if self._stopped or not self._lease_ended():
            return self._inner.throw(*error)
        return self._stop()

    def _stop(self) -> Any:
        self._stopped = True
        return self._inner.throw(LeaseEnded("the attempt's lease has ended while the process stood still"))

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._inner.__await__()

    def __getattr__(self, name: str) -> Any:
        """Delegate `cr_frame` and `cr_await`, from which the stack of a task is read."""
        return getattr(self._inner, name)


async def _call(handler_call: HandlerCall, log_capture: LogCapture) -> HandlerResult:
    ended = await call(handler_call)
    if isinstance(ended, HandlerRaised):
        await end_tasks(log_capture, but=asyncio.current_task())
    return ended


async def end_tasks(log_capture: LogCapture, *, but: asyncio.Future[Any] | None) -> None:
    """Cancel the attempt's other tasks, and wait a limited time for them."""
    if not (left := [task for task in find_tasks(log_capture) if task is not but]):
        return
    for task in left:
        task.cancel()
    _, stubborn = await asyncio.wait(left, timeout=PATIENCE)
    if stubborn:
        _log.warning(
            "Tasks that an attempt left running go on, though they were cancelled.",
            action="agent.tasks_left",
            tasks=[task.get_name() for task in stubborn],
        )


# -- threads -----------------------------------------------------------------------------------------------


class ThreadExecutor(Executor):
    """Runs each handler in a daemon thread: an abandoned one does not keep the agent from ending."""

    def __init__(self) -> None:
        log_scopes.install()

    def begin(self, handler_call: HandlerCall) -> "ThreadExecution":
        loop, context, dispatch = asyncio.get_running_loop(), copy_context(), handler_call.facts.dispatch
        execution = ThreadExecution(loop, context.run(start_log_capture, dispatch, handler_call.log))
        in_thread = handler_call._replace(port=ThreadHandlerPort(loop, handler_call.port))

        def run() -> None:
            try:
                ended = context.run(call_blocking, in_thread)
            except BaseException as error:  # noqa: BLE001 - SystemExit of a validator: its slot must be free
                ended = describe_error(error)
            execution.finish(ended)

        name = f"{handler_call.definition.name} {dispatch.job_id}"
        execution.thread = threading.Thread(target=run, name=name, daemon=True)
        execution.thread.start()
        return execution


class ThreadExecution:
    """A running handler in a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, log_capture: LogCapture) -> None:
        self._loop, self._log_capture = loop, log_capture
        self.thread: threading.Thread | None = None
        self.flight_record: FlightRecord | None = None
        self.done: asyncio.Future[HandlerEnd] = loop.create_future()

    def finish(self, ended: HandlerResult) -> None:
        """Set the result. The thread calls it last."""
        try:
            self._loop.call_soon_threadsafe(self.done.set_result, ended)
        except RuntimeError:
            return  # the loop is closed: the handler was abandoned

    async def stop(self) -> bool:
        if (thread := self.thread) is not None and thread.ident is not None:
            used = thread_seconds(thread.native_id)
            self.flight_record = record_in_agent(
                [thread_stack(thread.ident)], self._log_capture, cpu_seconds=used
            )
        await asyncio.wait({self.done}, timeout=THREAD_PATIENCE)
        return self.done.done()


class ThreadHandlerPort:
    """A `HandlerPort` in a thread: it passes each call to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, handler_port: HandlerPort) -> None:
        self._loop, self._handler_port = loop, handler_port
        self._progress_value: tuple[float, str] = (0.0, "")
        self._is_update_scheduled = False

    def lease_ended(self) -> bool:
        return self._handler_port.lease_ended()

    def _check_lease(self) -> None:
        """Refuse a call after the lease: after a freeze a thread goes on before the loop stops it."""
        if self.lease_ended():
            raise LedgerError(LEASE_ENDED)

    async def execute(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]:
        work = asyncio.run_coroutine_threadsafe(self._handler_port.execute(statement, parameters), self._loop)
        return await asyncio.wrap_future(work)

    def execute_blocking(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]:
        work = asyncio.run_coroutine_threadsafe(self._handler_port.execute(statement, parameters), self._loop)
        return work.result()

    def request(self, spec: ChildJobSpec) -> UUID:
        async def request_in_loop() -> UUID:
            return self._handler_port.request(spec)

        return asyncio.run_coroutine_threadsafe(request_in_loop(), self._loop).result()

    def progress(self, fraction: float, note: str) -> None:
        """Pass on the latest value. The loop is woken once for all calls that came meanwhile."""
        self._check_lease()
        self._progress_value = (fraction, note)
        if not self._is_update_scheduled:
            self._is_update_scheduled = True
            self._loop.call_soon_threadsafe(self._pass_on)

    def _pass_on(self) -> None:
        self._is_update_scheduled = False
        self._handler_port.progress(*self._progress_value)

    def alive(self) -> None:
        self._handler_port.alive()  # one assignment: the loop is not woken for it

    def checkpoint(self, state_text: str) -> None:
        self._check_lease()
        self._loop.call_soon_threadsafe(self._handler_port.checkpoint, state_text)

    @property
    def stopping(self) -> bool:
        return self._handler_port.stopping
