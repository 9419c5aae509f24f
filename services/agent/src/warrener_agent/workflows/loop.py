"""The event loop of a workflow: virtual time, one fixed order, nothing outside.

The same answers in the same order give the same steps in any process and on any version of Python.
"""

import asyncio
import contextvars
import heapq
import inspect
import math
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import count
from pathlib import Path
from threading import get_ident
from traceback import walk_tb
from types import FrameType
from typing import Any, Never, TypeVar, TypeVarTuple, Unpack
from weakref import WeakSet
from zlib import crc32

from warrener_agent.workflows.failures import WorkflowError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_MAX_STEPS = 200_000
"""Steps without a wait: a body that spins would hold its thread for good."""
_MAX_ROUNDS, _MAX_LAST_STEPS = 100, 1_000
"""Cancels of a task that goes on, and steps of all tasks after each: what a body does then is ignored."""
_MAX_SECONDS = 200 * 365.25 * 86_400  # a later timer is never due
_INNER_FOLDERS = (Path(asyncio.__file__).parent, Path(__file__).parent)


class Place:
    """The path of a task: "0" is the body, "0.2" the second task that it has created."""

    __slots__ = ("_tasks", "path")

    def __init__(self, path: str) -> None:
        self.path, self._tasks = path, 0

    def next_task(self) -> "Place":
        self._tasks += 1
        return Place(f"{self.path}.{self._tasks}")


_place: contextvars.ContextVar[Place] = contextvars.ContextVar("place")


class FlowFuture(asyncio.Future[T]):
    """A future whose hash is its number, so that sets of futures have the same order in every turn. That of
    a call derives from its name: another version of asyncio makes more or fewer futures beside it."""

    def __init__(self, loop: "FlowLoop", name: str | None = None) -> None:
        self.order = loop.next_order() if name is None else crc32(name.encode())
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.order


class FlowTask(asyncio.Task[T]):
    """A task that knows its place; its hash derives from that."""

    def __init__(self, coro: Coroutine[Any, Any, T], loop: "FlowLoop", place: Place, **options: Any) -> None:
        self.order, self.place = crc32(place.path.encode()), place
        super().__init__(coro, loop=loop, **options)

    def __hash__(self) -> int:
        return self.order


class FlowLoop(asyncio.AbstractEventLoop):
    """Runs what is ready in the order in which it became ready, and timers by their times.

    Its time is set from outside, and only grows.
    """

    def __init__(self, began_at: datetime, report: Callable[[dict[str, Any]], None] | None = None) -> None:
        self._began_at, self._now = began_at, 0  # microseconds since then
        self._report = report
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[int, int, asyncio.TimerHandle, str]] = []
        self._orders = count(1)
        self._outermost = Place("0")
        self._closers = Place("close")
        self._tasks: list[FlowTask[Any]] = []  # strong: a collected one would leave the turn by chance
        self._generators: WeakSet[Any] = WeakSet()
        self._is_running = self._is_closed = False
        self._thread = 0

    # -- for the turn --------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        return self._began_at + timedelta(microseconds=self._now)

    def advance(self, moment: datetime) -> None:
        """Set the time, unless that would turn it back."""
        self._now = max(self._now, (moment - self._began_at) // timedelta(microseconds=1))

    def start(self, body: Coroutine[Any, Any, T]) -> FlowTask[T]:
        """Make the task of the body."""
        return self._create_task(body, self._outermost, None)

    @contextmanager
    def running(self) -> Generator[None]:
        """Be the running loop of this thread."""
        hooks = sys.get_asyncgen_hooks()
        asyncio._set_running_loop(self)  # noqa: SLF001 - what each event loop does
        sys.set_asyncgen_hooks(firstiter=self._generators.add, finalizer=self._close_generator)
        self._is_running, self._thread = True, get_ident()
        try:
            yield
        finally:
            self._is_running = False
            sys.set_asyncgen_hooks(*hooks)
            asyncio._set_running_loop(None)  # noqa: SLF001 - the same

    def run_until_idle(self) -> None:
        """Run what is ready and what is due, one by one, until nothing is.

        Raises WorkflowError if that has no end.
        """
        for _ in range(_MAX_STEPS):
            if not self._ready and not self._take_due_timer():
                return
            self._run_one()
        raise WorkflowError(
            f"expected the workflow to wait at some time, it made {_MAX_STEPS} steps at once: "
            f"{', '.join(self.waiting_lines())}; wait for a call, a signal or a time"
        )

    def end_tasks(self) -> None:
        """Cancel all tasks until they end, and give those up that never do."""
        for _ in range(_MAX_ROUNDS):
            if not (left := self._unfinished()):
                break
            for task in left:
                task.cancel()
            for _ in range(_MAX_LAST_STEPS):
                if not self._ready:
                    break
                self._run_one()
            if not self._unfinished():
                for generator in list(self._generators):
                    self._close_generator(generator)
        for task in self._unfinished():
            for _ in range(_MAX_ROUNDS):  # it may go on after GeneratorExit too, and wait again
                with suppress(BaseException):  # whatever it raises is of no turn
                    task.get_coro().close()  # here: the collector would run its code in another thread
                    break
            setattr(task, "_log_destroy_pending", False)  # noqa: B010 - no type knows it
        self.close()

    def next_timer(self) -> tuple[datetime, str] | None:
        """The time of the first timer and the line that waits for it; None if there is none."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            return None
        when, _, _, line = self._timers[0]
        return self._began_at + timedelta(microseconds=when), line

    def current_place(self) -> Place:
        """The place of the running task; in a callback, of the task that has set it."""
        task = asyncio.current_task(self)
        return task.place if isinstance(task, FlowTask) else _place.get(self._outermost)

    def waiting_lines(self) -> list[str]:
        """The lines at which tasks wait, in the order of the tasks."""
        lines = [line_of(_innermost(task.get_coro())) for task in self._unfinished()]
        return list(dict.fromkeys(line for line in lines if line))[:10]

    def next_order(self) -> int:
        return next(self._orders)

    def _unfinished(self) -> list[FlowTask[Any]]:
        return [task for task in self._tasks if not task.done()]

    def _run_one(self) -> None:
        handle = self._ready.popleft()
        if not handle.cancelled():
            try:
                handle._run()  # noqa: SLF001 - the same
            except (SystemExit, KeyboardInterrupt):
                return  # of the body: its task has the error

    def _take_due_timer(self) -> bool:
        if self.next_timer() is None or self._timers[0][0] > self._now:
            return False
        self._ready.append(heapq.heappop(self._timers)[2])
        return True

    def _close_generator(self, generator: Any) -> None:
        """Close a generator that was left. It counts in no task: nobody knows when it is collected, and in
        which thread."""
        self._generators.discard(generator)
        if not self._is_closed and get_ident() == self._thread:
            self._create_task(generator.aclose(), self._closers.next_task(), None)

    # -- for asyncio ---------------------------------------------------------------------------------------

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if math.isnan(when):
            raise WorkflowError(f"expected a time, got NaN at {caller_line()}")
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if when < _MAX_SECONDS:
            entry = (round(when * 1_000_000), self.next_order(), timer, caller_line())
            heapq.heappush(self._timers, entry)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing: `next_timer` leaves out cancelled ones."""

    def time(self) -> float:
        return self._now / 1_000_000

    def create_future(self) -> FlowFuture[Any]:
        return FlowFuture(self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **options: Any,  # eager_start, from Python 3.14 on
    ) -> FlowTask[Any]:
        callers, place = _asyncio_callers(), self.current_place()
        if callers & {"as_completed", "_AsCompletedIterator"}:
            coro.close()
            raise WorkflowError(
                f"expected calls or tasks in asyncio.as_completed at {caller_line()}, got coroutines, which "
                "it starts in any order: make tasks of them"
            )
        if "wait_for" not in callers:  # which makes a task on Python 3.11 alone
            place = place.next_task()
        return self._create_task(coro, place, context, name=name, **options)

    def _create_task(
        self, coro: Any, place: Place, context: contextvars.Context | None, **options: Any
    ) -> FlowTask[Any]:
        if context is None:
            context = contextvars.copy_context()
            context.run(_place.set, place)
        options["name"] = options.get("name") or f"task {place.path}"
        task = FlowTask(coro, self, place, context=context, **options)
        self._tasks.append(task)
        return task

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """Forget all that is left."""
        self._is_closed = True
        self._ready.clear()
        self._timers.clear()
        self._tasks.clear()

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:  # noqa: FBT001 - asyncio's
        """Nothing: the order of its steps is the same always."""

    def get_task_factory(self) -> None:
        return None

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._report is not None:
            self._report(context)


def _refuse(name: str) -> Callable[..., Never]:
    def refuse(*_: object, **__: object) -> Never:
        raise WorkflowError(
            f"expected a workflow to reach nothing outside by itself, got {name}() of its event loop "
            f"at {caller_line()}: another turn would repeat it; do it in a function, and call that by "
            "flow.step(function, ...)"
        )

    return refuse


# Sockets, threads, processes, signals, and what a later Python may add.
for _name, _method in vars(asyncio.AbstractEventLoop).items():
    if not _name.startswith("_") and callable(_method) and _name not in vars(FlowLoop):
        setattr(FlowLoop, _name, _refuse(_name))


def _hash_of_gather(gather: Any) -> int:
    """That of its first future: its address, which asyncio.wait would go by, is another one in each turn."""
    is_ours = isinstance(gather.get_loop(), FlowLoop)
    return hash(gather._children[0]) if is_ours else object.__hash__(gather)  # noqa: SLF001 - asyncio's


# asyncio makes it by itself: no loop can give another one.
vars(asyncio.tasks)["_GatheringFuture"].__hash__ = _hash_of_gather


_RUN_ONE = vars(FlowLoop)["_run_one"].__code__  # above it is no code of the user


# -- lines of the code -------------------------------------------------------------------------------------


def caller_line() -> str:
    """The line of the user's code that has called, such as orders.py:41; empty if there is none."""
    frame = inspect.currentframe()
    while frame is not None and _is_inner(frame.f_code.co_filename):
        frame = None if frame.f_code is _RUN_ONE else frame.f_back
    return line_of(frame)


def _asyncio_callers() -> set[str]:
    """The names of the functions and classes of asyncio that the user's code has called."""
    names, frame = set[str](), inspect.currentframe()
    while frame is not None and frame.f_code is not _RUN_ONE and _is_inner(frame.f_code.co_filename):
        names.add(frame.f_code.co_qualname.partition(".")[0])
        frame = frame.f_back
    return names


def raising_line(error: BaseException | None) -> str:
    """The last line of the user's code that an error has come through; empty if there is none."""
    found = ""
    for frame, line in walk_tb(None if error is None else error.__traceback__):
        if not _is_inner(file := frame.f_code.co_filename):
            found = f"{_file_name(file)}:{line}"
    return found


def line_of(frame: FrameType | None) -> str:
    return "" if frame is None else f"{_file_name(frame.f_code.co_filename)}:{frame.f_lineno}"


@lru_cache(maxsize=1024)
def _file_name(file: str) -> str:
    return Path(file).name


@lru_cache(maxsize=1024)
def _is_inner(file: str) -> bool:
    return Path(file).parent in _INNER_FOLDERS


def _innermost(coroutine: Any) -> FrameType | None:
    """The frame of the user's code in which a suspended coroutine waits."""
    found: FrameType | None = None
    for frame in _frames(coroutine):
        if not _is_inner(frame.f_code.co_filename):
            found = frame
    return found


def _frames(awaited: Any) -> Iterator[FrameType]:
    while awaited is not None:
        for kind in ("cr", "gi", "ag"):
            if (frame := getattr(awaited, f"{kind}_frame", None)) is not None:
                yield frame
                awaited = getattr(awaited, "gi_yieldfrom" if kind == "gi" else f"{kind}_await", None)
                break
        else:
            return
