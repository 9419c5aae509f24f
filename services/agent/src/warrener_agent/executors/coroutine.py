"""Attempts as coroutines of the agent's own event loop, with the tasks that they start.

What an attempt has started and left running is cancelled when it ends in any way but success: the next
attempt would find it at work. A success is looked at no further, which costs nothing, and what it leaves may
be meant to stay, as the tasks of a client that it has opened for all jobs.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextvars import copy_context
from typing import Any

from warrener_agent.context import AttemptFacts, Desk
from warrener_agent.executors.call import call
from warrener_agent.executors.flight import in_the_agent
from warrener_agent.executors.last_words import Words, listen, tasks_of, words_here
from warrener_agent.executors.port import Ended, Raised
from warrener_agent.executors.stacks import task_stack
from warrener_agent.kinds import JobKind
from warrener_contracts.events import FlightRecord
from warrener_runtime.logs import get_logger

_log = get_logger("agent.coroutine")

_PATIENCE = 5.0
"""Seconds that a cancelled handler, or a task that it has left, may take to tidy up."""


class CoroutineExecutor:
    """Each handler in a task of its own, which can be cancelled."""

    def __init__(self) -> None:
        listen()

    def begin(
        self, kind: JobKind, facts: AttemptFacts, arguments: Mapping[str, Any], desk: Desk
    ) -> "CoroutineExecution":
        context = copy_context()
        words = context.run(words_here, facts.job_id, facts.attempt)
        work = _Gated(_call(kind, facts, arguments, desk, words), desk.lease_ended)
        task = asyncio.get_running_loop().create_task(work, name=kind.name, context=context)
        return CoroutineExecution(task, words)

    async def close(self) -> None:
        """Nothing is kept."""


class CoroutineExecution:
    """A task."""

    __slots__ = ("_words", "done", "flight_record")

    def __init__(self, done: asyncio.Task[Ended], words: Words) -> None:
        self.done, self._words = done, words
        self.flight_record: FlightRecord | None = None

    async def stop(self) -> bool:
        tasks = sorted(tasks_of(self._words), key=lambda task: task is not self.done)
        self.flight_record = in_the_agent(map(task_stack, tasks), self._words)
        self.done.cancel()
        await asyncio.wait({self.done}, timeout=_PATIENCE)
        await _end_tasks(self._words, but=self.done)
        return self.done.done()

    async def gone(self) -> None:
        await asyncio.wait({self.done})


class LeaseEnded(BaseException):
    """Raised inside a handler that must not go on. No CancelledError: `asyncio.timeout` would make a
    TimeoutError of that, which handlers catch."""


def _over() -> bool:
    return False


class _Gated(Coroutine[Any, Any, Ended]):
    """A handler's coroutine that takes no further step once its lease has ended.

    After a freeze the loop runs what was ready before any timer of the agent, so each step begins with the
    check. Tasks that the handler has started are cancelled with it, and may take one step before.
    """

    __slots__ = ("_inner", "_lease_ended", "_stopped")

    def __init__(self, inner: Coroutine[Any, Any, Ended], lease_ended: Callable[[], bool]) -> None:
        self._inner, self._lease_ended = inner, lease_ended
        self._stopped = False  # and may tidy up

    def send(self, value: Any) -> Any:
        if not self._stopped and self._lease_ended():
            return self._stop()
        try:
            return self._inner.send(value)
        except BaseException:
            self._lease_ended = _over  # nothing of the attempt is kept for as long as its task is
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

    def __await__(self) -> Generator[Any, Any, Ended]:
        return self._inner.__await__()

    def __getattr__(self, name: str) -> Any:
        """What the stack of a task is read from: `cr_frame`, `cr_await`."""
        return getattr(self._inner, name)


async def _call(
    kind: JobKind, facts: AttemptFacts, arguments: Mapping[str, Any], desk: Desk, words: Words
) -> Ended:
    ended = await call(kind, facts, arguments, desk)
    if isinstance(ended, Raised):
        await _end_tasks(words, but=asyncio.current_task())
    return ended


async def _end_tasks(words: Words, *, but: asyncio.Future[Any] | None) -> None:
    """Cancel what belongs to the attempt, and wait for it, but not for ever."""
    if not (left := [task for task in tasks_of(words) if task is not but]):
        return
    for task in left:
        task.cancel()
    _, stubborn = await asyncio.wait(left, timeout=_PATIENCE)
    if stubborn:
        _log.warning(
            "Tasks that an attempt has left running go on, though they were cancelled.",
            action="agent.tasks_left",
            tasks=[task.get_name() for task in stubborn],
        )
