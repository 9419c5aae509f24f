"""Attempts in threads. A thread cannot be stopped from outside: it is asked to, and else abandoned."""

import asyncio
import threading
from collections.abc import Mapping
from contextvars import copy_context
from typing import Any
from uuid import UUID

from warrener_agent.context import AttemptFacts, Desk, Parameters, Wish
from warrener_agent.desk import LEASE_ENDED
from warrener_agent.executors.call import call_blocking
from warrener_agent.executors.flight import in_the_agent
from warrener_agent.executors.last_words import Words, listen, words_here
from warrener_agent.executors.port import Ended
from warrener_agent.executors.stacks import thread_stack
from warrener_agent.executors.tree import thread_seconds
from warrener_agent.kinds import JobKind
from warrener_agent.ledger.port import LedgerError
from warrener_contracts.events import FlightRecord

_PATIENCE = 1.0
"""Seconds in which a handler may see that it is to stop (`JobContext.stopping`) and return."""


class ThreadExecutor:
    """A thread for each handler; daemons, so that an abandoned one does not keep the agent from ending."""

    def __init__(self) -> None:
        listen()

    def begin(
        self, kind: JobKind, facts: AttemptFacts, arguments: Mapping[str, Any], desk: Desk
    ) -> "ThreadExecution":
        loop = asyncio.get_running_loop()
        context = copy_context()
        execution = ThreadExecution(loop, context.run(words_here, facts.job_id, facts.attempt))

        def run() -> None:
            execution.finish(context.run(call_blocking, kind, facts, arguments, _ThreadDesk(loop, desk)))

        execution.thread = threading.Thread(target=run, name=f"{kind.name} {facts.job_id}", daemon=True)
        execution.thread.start()
        return execution

    async def close(self) -> None:
        """Nothing is kept."""


class ThreadExecution:
    """A thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, words: Words) -> None:
        self._loop, self._words = loop, words
        self.thread: threading.Thread | None = None
        self.flight_record: FlightRecord | None = None
        self.done: asyncio.Future[Ended] = loop.create_future()

    def finish(self, ended: Ended) -> None:
        """Called by the thread as its last deed."""
        try:
            self._loop.call_soon_threadsafe(self.done.set_result, ended)
        except RuntimeError:
            return  # the loop is closed: it was abandoned, and nobody wants to know any more

    async def stop(self) -> bool:
        if (thread := self.thread) is not None and thread.ident is not None:
            used = thread_seconds(thread.native_id)
            self.flight_record = in_the_agent([thread_stack(thread.ident)], self._words, cpu_seconds=used)
        await asyncio.wait({self.done}, timeout=_PATIENCE)
        return self.done.done()

    async def gone(self) -> None:
        await asyncio.wait({self.done})


class _ThreadDesk:
    """The desk, seen from a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, desk: Desk) -> None:
        self._loop, self._desk = loop, desk
        self._how_far: tuple[float, str] = (0.0, "")
        self._on_the_way = False

    def lease_ended(self) -> bool:
        return self._desk.lease_ended()

    def _check_lease(self) -> None:
        """A thread that wakes from a freeze goes on before the loop can stop it: refused here."""
        if self.lease_ended():
            raise LedgerError(LEASE_ENDED)

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
        """However often it is called, the loop is woken once for what came meanwhile."""
        self._check_lease()
        self._how_far = (fraction, note)
        if not self._on_the_way:
            self._on_the_way = True
            self._loop.call_soon_threadsafe(self._pass_on)

    def _pass_on(self) -> None:
        self._on_the_way = False
        self._desk.progress(*self._how_far)

    def alive(self) -> None:
        self._desk.alive()  # one assignment: the loop is not woken for it

    def checkpoint(self, state_text: str) -> None:
        self._check_lease()
        self._loop.call_soon_threadsafe(self._desk.checkpoint, state_text)

    @property
    def stopping(self) -> bool:
        return self._desk.stopping
