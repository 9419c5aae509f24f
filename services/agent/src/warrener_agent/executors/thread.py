"""Attempts in threads. A thread cannot be stopped from outside: one that does not end is abandoned."""

import asyncio
import threading
from collections.abc import Mapping
from contextvars import copy_context
from typing import Any
from uuid import UUID

from warrener_agent.context import AttemptFacts, Desk, Parameters, Wish
from warrener_agent.executors.call import call_blocking
from warrener_agent.executors.port import Ended
from warrener_agent.kinds import JobKind


class ThreadExecutor:
    """A thread for each handler; daemons, so that an abandoned one does not keep the agent from ending."""

    def begin(
        self, kind: JobKind, facts: AttemptFacts, arguments: Mapping[str, Any], desk: Desk
    ) -> "ThreadExecution":
        loop = asyncio.get_running_loop()
        execution = ThreadExecution(loop)

        def run() -> None:
            execution.finish(call_blocking(kind, facts, arguments, _ThreadDesk(loop, desk)))

        here = copy_context()  # with the attempt's span, for what the handler traces by itself
        name = f"{kind.name} {facts.job_id}"
        threading.Thread(target=here.run, args=(run,), name=name, daemon=True).start()
        return execution

    async def close(self) -> None:
        """Nothing is kept."""


class ThreadExecution:
    """A thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.done: asyncio.Future[Ended] = loop.create_future()

    def finish(self, ended: Ended) -> None:
        """Called by the thread as its last deed."""
        try:
            self._loop.call_soon_threadsafe(self.done.set_result, ended)
        except RuntimeError:
            return  # the loop is closed: it was abandoned, and nobody wants to know any more

    async def stop(self) -> bool:
        return self.done.done()

    async def gone(self) -> None:
        await asyncio.wait({self.done})


class _ThreadDesk:
    """The desk, seen from a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, desk: Desk) -> None:
        self._loop, self._desk = loop, desk

    async def execute(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]:
        work = asyncio.run_coroutine_threadsafe(self._desk.execute(statement, parameters), self._loop)
        return await asyncio.wrap_future(work)

    def execute_blocking(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]:
        work = asyncio.run_coroutine_threadsafe(self._desk.execute(statement, parameters), self._loop)
        return work.result()

    def request(self, wish: Wish) -> UUID:
        async def ask() -> UUID:
            return self._desk.request(wish)

        return asyncio.run_coroutine_threadsafe(ask(), self._loop).result()

    def progress(self, fraction: float, note: str) -> None:
        self._loop.call_soon_threadsafe(self._desk.progress, fraction, note)
