"""Attempts in threads. A thread cannot be stopped from outside: it returns by itself, or is abandoned."""

import asyncio
import threading
from collections.abc import Mapping
from contextvars import copy_context
from typing import Any
from uuid import UUID

from warrener_agent.context import ChildJobSpec, HandlerPort, Parameters
from warrener_agent.decisions.errors import HandlerResult
from warrener_agent.executors.base import Executor, HandlerCall, call_blocking
from warrener_agent.executors.flight_record import LogCapture, record_in_agent, start_log_capture
from warrener_agent.executors.process_tree import thread_seconds
from warrener_agent.executors.stacks import thread_stack
from warrener_agent.handler_api import LEASE_ENDED
from warrener_agent.ledger.port import LedgerError
from warrener_contracts.events import FlightRecord
from warrener_runtime import log_scopes

_PATIENCE = 1.0
"""Seconds in which a handler may notice `JobContext.stopping` and return."""


class ThreadExecutor(Executor):
    """Runs each handler in a thread; a daemon, so that an abandoned one does not keep the agent from
    ending."""

    def __init__(self) -> None:
        log_scopes.install()

    def begin(self, handler_call: HandlerCall) -> "ThreadExecution":
        loop, context, dispatch = asyncio.get_running_loop(), copy_context(), handler_call.facts.dispatch
        execution = ThreadExecution(loop, context.run(start_log_capture, dispatch, handler_call.log))
        in_thread = handler_call._replace(port=_ThreadHandlerPort(loop, handler_call.port))

        def run() -> None:
            execution.finish(context.run(call_blocking, in_thread))

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
        self.done: asyncio.Future[HandlerResult] = loop.create_future()

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
        await asyncio.wait({self.done}, timeout=_PATIENCE)
        return self.done.done()


class _ThreadHandlerPort:
    """A `HandlerPort` in a thread: it passes each call to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, handler_port: HandlerPort) -> None:
        self._loop, self._handler_port = loop, handler_port
        self._progress_value: tuple[float, str] = (0.0, "")
        self._is_update_scheduled = False

    def lease_ended(self) -> bool:
        return self._handler_port.lease_ended()

    def _check_lease(self) -> None:
        """Refuse a call after the lease: a thread that wakes from a freeze goes on before the loop stops
        it."""
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
