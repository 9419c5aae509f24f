"""Attempts as coroutines of the agent's own event loop, with the tasks that they start.

Tasks that an attempt leaves running are cancelled when it ends in any way but success: the next attempt would
find them at work. A success leaves its tasks alone, which costs nothing; they may be meant to stay, as those
of a client that serves all jobs.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from typing import Any

from warrener_agent.decisions.errors import HandlerRaised, HandlerResult
from warrener_agent.executors.base import Executor, HandlerCall, call
from warrener_agent.executors.flight_record import LogCapture, find_tasks, record_in_agent, start_log_capture
from warrener_agent.executors.stacks import task_stack
from warrener_contracts.events import FlightRecord
from warrener_runtime import log_scopes
from warrener_runtime.logs import get_logger

_log = get_logger("agent.coroutine")

_PATIENCE = 5.0
"""Seconds that a cancelled handler, or a task that it left, may take to clean up."""


class CoroutineExecutor(Executor):
    """Runs each handler in a task of its own, which can be cancelled."""

    def __init__(self) -> None:
        log_scopes.install()

    def begin(self, handler_call: HandlerCall) -> "CoroutineExecution":
        context = copy_context()
        log_capture = context.run(start_log_capture, handler_call.facts.dispatch, handler_call.log)
        work = _LeaseGuard(_call(handler_call, log_capture), handler_call.port.lease_ended)
        name = handler_call.definition.name
        return CoroutineExecution(
            asyncio.get_running_loop().create_task(work, name=name, context=context), log_capture
        )


class CoroutineExecution:
    """A running handler in a task."""

    __slots__ = ("_log_capture", "done", "flight_record")

    def __init__(self, done: asyncio.Task[HandlerResult], log_capture: LogCapture) -> None:
        self.done, self._log_capture = done, log_capture
        self.flight_record: FlightRecord | None = None

    async def stop(self) -> bool:
        tasks = sorted(find_tasks(self._log_capture), key=lambda task: task is not self.done)
        self.flight_record = record_in_agent(map(task_stack, tasks), self._log_capture)
        self.done.cancel()
        await asyncio.wait({self.done}, timeout=_PATIENCE)
        await _end_tasks(self._log_capture, but=self.done)
        return self.done.done()


class LeaseEnded(BaseException):
    """Raised in a handler that must not go on. Not a CancelledError: `asyncio.timeout` would turn that into a
    TimeoutError, which handlers catch."""


def _never() -> bool:
    return False


class _LeaseGuard(Coroutine[Any, Any, HandlerResult]):
    """A handler's coroutine that takes no further step once its lease has ended.

    After a freeze the loop runs what was ready before any timer of the agent, so each step begins with the
    check. Tasks that the handler has started are cancelled with it, and may take one step before.
    """

    __slots__ = ("_inner", "_lease_ended", "_stopped")

    def __init__(self, inner: Coroutine[Any, Any, HandlerResult], lease_ended: Callable[[], bool]) -> None:
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

    def __await__(self) -> Generator[Any, Any, HandlerResult]:
        return self._inner.__await__()

    def __getattr__(self, name: str) -> Any:
        """Delegate `cr_frame` and `cr_await`, from which the stack of a task is read."""
        return getattr(self._inner, name)


async def _call(handler_call: HandlerCall, log_capture: LogCapture) -> HandlerResult:
    ended = await call(handler_call)
    if isinstance(ended, HandlerRaised):
        await _end_tasks(log_capture, but=asyncio.current_task())
    return ended


async def _end_tasks(log_capture: LogCapture, *, but: asyncio.Future[Any] | None) -> None:
    """Cancel the attempt's other tasks, and wait a limited time for them."""
    if not (left := [task for task in find_tasks(log_capture) if task is not but]):
        return
    for task in left:
        task.cancel()
    _, stubborn = await asyncio.wait(left, timeout=_PATIENCE)
    if stubborn:
        _log.warning(
            "Tasks that an attempt left running go on, though they were cancelled.",
            action="agent.tasks_left",
            tasks=[task.get_name() for task in stubborn],
        )
