"""Components: start, drain and stop, written once; loops, resources and groups of them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from warrener_runtime.backoff import ExponentialBackoff, FailureStreak
from warrener_runtime.clock import Clock, SystemClock
from warrener_runtime.health import Check, HealthRegistry, current_health_registry
from warrener_runtime.logs import get_logger

log = get_logger("lifecycle")

_UNTIL_TRUSTED = 0.5  # seconds between checks of a clock that is not trusted


class Component(Protocol):
    """A part that starts and stops. All calls are allowed at any time, in any order, concurrently."""

    async def start(self) -> None:
        """Return once it works. After an error nothing of it is left."""

    async def drain(self) -> None:
        """Take no new work, and return once running work is finished."""

    async def stop(self) -> None:
        """Release everything now. Safe before start, during start and twice."""


class StoppedWhileStarting(Exception):
    """`stop` was called before `start` had finished."""


class ManagedComponent:
    """Orders the calls, so that a component implements three hooks only.

    - The hooks never overlap, except that `_on_stop` follows a cancelled `_on_start` or `_on_drain`.
    - A second `start` joins the first. A `start` during a `stop` waits for it, and then starts again.
    - `stop` cancels a start or a drain that is under way. A start that fails or is cancelled is stopped.
    - `_on_stop` must cope with a start that got half way, and with being called twice.

    `check` is a part of the service's readiness, under the component's name, from the start to the stop.
    """

    def __init__(self, name: str, check: Check | None = None) -> None:
        self.name = name
        self._readiness_check = check
        self._health_registry: HealthRegistry | None = None
        """The registry of the service that has started this; None outside of one, as in tests."""
        self._starting: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def _on_start(self) -> None: ...

    async def _on_drain(self) -> None: ...

    async def _on_stop(self) -> None: ...

    @property
    def started(self) -> bool:
        """True if a start has finished and no stop has begun."""
        return self._stopping is None and self._starting is not None and has_succeeded(self._starting)

    async def start(self) -> None:
        while self._stopping is not None:
            await asyncio.wait({self._stopping})
        if self._starting is None:
            self._starting = _spawn(self._begin(), f"start {self.name}")
        try:
            await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            if is_being_cancelled():
                await self.stop()
                raise
            raise StoppedWhileStarting(f"{self.name} was stopped before it had started") from None

    async def drain(self) -> None:
        if self._stopping is not None or self._starting is None or not self._starting.done():
            await self.stop()  # nothing runs yet
            return
        if self._draining is None:
            self._draining = _spawn(self._on_drain(), f"drain {self.name}")
        try:
            await asyncio.shield(self._draining)
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            # a stop has cancelled the drain

    async def stop(self) -> None:
        if self._stopping is None:
            if self._starting is None:
                return
            self._stopping = _spawn(self._end(), f"stop {self.name}")
        await asyncio.shield(self._stopping)

    async def _begin(self) -> None:
        self._health_registry = current_health_registry.get()
        try:
            await self._on_start()
        except BaseException:
            if self._stopping is None:  # otherwise the stop that cancelled us releases it
                await self._stop_quietly()
                self._starting = None
            raise
        if self._health_registry and self._readiness_check:
            self._health_registry.register(self.name, self._readiness_check)

    async def _stop_quietly(self) -> None:
        try:
            await self._on_stop()
        except Exception:
            log.exception(
                "A component whose start failed could not be stopped cleanly either.",
                action="lifecycle.stop_failed",
                component=self.name,
            )

    async def _end(self) -> None:
        try:
            for task in (self._starting, self._draining):
                await cancel(task)
            if self._health_registry and self._readiness_check:
                self._health_registry.unregister(self.name)
            await self._on_stop()
        finally:
            self._starting = self._draining = self._stopping = None


def is_being_cancelled() -> bool:
    """True if the current task is cancelled, rather than the future that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def cancel(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task and wait for its end, however it ends."""
    if task is not None:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        retrieve_exception(task)


def has_succeeded(task: asyncio.Task[None]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def _spawn(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work, name=name)
    task.add_done_callback(retrieve_exception)
    return task


def retrieve_exception(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception, so that asyncio does not log it if no task awaits this one."""
    if not task.cancelled():
        task.exception()


class Group(ManagedComponent):
    """Starts its components in order, drains and stops them in reverse order.

    If one cannot start, those before it are stopped. If one fails to drain or to stop, the others still do,
    and all errors are raised together at the end.
    """

    def __init__(self, *components: Component, name: str = "group") -> None:
        super().__init__(name)
        self._components = components
        self._begun: list[Component] = []

    async def _on_start(self) -> None:
        for component in self._components:
            self._begun.append(component)
            await component.start()

    async def _on_drain(self) -> None:
        await self._all("drain", [component.drain for component in reversed(self._begun)])

    async def _on_stop(self) -> None:
        begun, self._begun = self._begun, []
        await self._all("stop", [component.stop for component in reversed(begun)])

    async def _all(self, what: str, calls: list[Callable[[], Awaitable[None]]]) -> None:
        errors: list[Exception] = []
        for call in calls:
            try:
                await call()
            except Exception as error:  # noqa: BLE001 - raised together below
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup(f"{len(errors)} components of {self.name} did not {what}", errors)


class Loop(ManagedComponent):
    """Runs `body` every `every` seconds, from start to start, never catching up; or back to back (None).

    After an error the loop continues with a back-off; repeated errors of one kind are logged once, and
    counted when they end. Draining lets the current turn end. With `judges_time` it skips its turns while its
    clock is not trusted.
    """

    def __init__(
        self,
        name: str,
        body: Callable[[], Awaitable[None]],
        *,
        every: float | None,
        clock: Clock | None = None,
        judges_time: bool = False,
        check: Check | None = None,
    ) -> None:
        super().__init__(name, check)
        self._body = body
        self._judges_time = judges_time
        self._every = every
        self._clock = clock or SystemClock()
        self._backoff = ExponentialBackoff(ceiling=max(10.0, every or 0.0))
        self._streak = FailureStreak(log, loop=name)
        self._task: asyncio.Task[None] | None = None
        self._leaving = False
        self._resting = False

    async def _on_start(self) -> None:
        self._leaving = False
        self._task = asyncio.create_task(self._run(), name=self.name)

    async def _on_drain(self) -> None:
        self._leaving = True
        if self._task is None:
            return
        if self._resting:
            self._task.cancel()
        await asyncio.wait({self._task})

    async def _on_stop(self) -> None:
        self._leaving = True
        await cancel(self._task)
        self._task = None

    async def _run(self) -> None:
        while not self._leaving:
            if self._judges_time and not self._clock.trusted:
                await self._rest(_UNTIL_TRUSTED)
                continue
            began = self._clock.monotonic()
            delay = await self._turn()
            if delay is None:
                delay = max(0.0, began + self._every - self._clock.monotonic()) if self._every else 0.0
            await self._rest(delay)

    async def _turn(self) -> float | None:
        """Run one turn; return the seconds to back off, or None after a success."""
        try:
            await self._body()
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                raise
            delay = self._backoff.failed()
            self._streak.failed(
                error,
                "A turn of a loop failed; the loop continues after a pause.",
                self._clock.monotonic(),
                action="loop.iteration_failed",
                pause=delay,
            )
            return delay
        self._backoff.succeeded()
        self._streak.recovered(
            "The turns of a loop succeed again.", self._clock.monotonic(), action="loop.recovered"
        )
        return None

    async def _rest(self, seconds: float) -> None:
        """Wait; other tasks always get a turn."""
        if self._leaving:
            return
        self._resting = True
        try:
            await self._clock.sleep(seconds)
        finally:
            self._resting = False


class Resource(ManagedComponent):
    """Something with an opening or a closing call, such as a bus or a store. Open at start, closed at stop.

    `shut` is called once for each start that was begun, also if `open_` failed or was cancelled.
    """

    def __init__(
        self,
        name: str,
        open_: Callable[[], Awaitable[object]] | None = None,
        shut: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        super().__init__(name)
        self._open = open_
        self._shut = shut
        self._opened = False

    async def _on_start(self) -> None:
        self._opened = True
        if self._open is not None:
            await self._open()

    async def _on_stop(self) -> None:
        if self._opened:
            self._opened = False
            if self._shut is not None:
                await self._shut()
