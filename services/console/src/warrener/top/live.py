"""The live view: reads store and broker again and again, each by itself, and draws what is known."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from rich.console import Console
from rich.live import Live

from warrener.context import ResolvedEndpoints
from warrener.gathering import BrokerFacts
from warrener.operations.broker import SharedInspector
from warrener.top.keyboard import read_keys, single_keys
from warrener.top.picture import Choices, frame
from warrener.top.readings import StoreReading, StoreSource, Unavailable
from warrener.top.view import SystemView, make_view

Read = Callable[[], Awaitable[None]]

_NOT_READ = Unavailable("")
_BROKER_TIMEOUT = 5.0  # seconds
_MAX_QUEUES = 200  # whose depth the broker is queried for
_FIRST_STORE = 1.0  # seconds that the first reading of the broker waits for the names of queues
_STOPS = (signal.SIGINT, signal.SIGTERM)


class System:
    """The latest readings, and the view that they make. It connects when it reads."""

    def __init__(self, endpoints: ResolvedEndpoints) -> None:
        self.store, self.broker = StoreSource(endpoints), SharedInspector(endpoints, _BROKER_TIMEOUT)
        self._store: StoreReading | Unavailable = _NOT_READ
        self._broker, self._delayed = BrokerFacts(), dict[str, int]()
        self._before: StoreReading | None = None

    async def read_store(self) -> None:
        """Read the store; the reading before it stays for rates."""
        last = self._store
        self._store = await self.store.read()
        self._before = last if isinstance(last, StoreReading) else None

    async def read_broker(self) -> None:
        """Read the broker, its queues as the store names them."""
        queues = self._store.queues if isinstance(self._store, StoreReading) else set[str]()
        self._broker = await self.broker.query(sorted(queues)[:_MAX_QUEUES])
        self._delayed = dict(await self.broker.count_delayed())

    @property
    def is_complete(self) -> bool:
        """True if store and broker have answered the last time."""
        return not isinstance(self._store, Unavailable) and self._broker.product is not None

    @property
    def view(self) -> SystemView:
        """The view of the latest readings."""
        delayed = sum(self._delayed.values()) if self._broker.product is not None else None
        return make_view(self._store, self._broker, delayed, self._before, datetime.now(UTC))

    async def close(self) -> None:
        """Close both connections."""
        await asyncio.gather(self.store.close(), self.broker.close())


async def read_once(system: System, interval: float) -> SystemView:
    """Read everything, the store twice with the interval between, so that there are rates; 0: once."""
    try:
        await system.read_store()
        if interval > 0:
            await asyncio.sleep(interval)
            await system.read_store()
        await system.read_broker()
        return system.view
    finally:
        await system.close()


class LiveView:
    """A live view in a terminal, until q is pressed or a signal comes; it leaves the terminal as it was."""

    def __init__(self, system: System, screen: Console, interval: float) -> None:
        self._system, self._screen, self._interval = system, screen, interval
        self._choices = Choices()
        self._changed, self._stopped, self._store_read = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._view = system.view

    async def run(self) -> None:
        """Draw the system again and again."""
        terminal = sys.stdin.fileno()
        with self._signals(), single_keys(terminal), self._keys(terminal):
            live = Live(console=self._screen, screen=True, auto_refresh=False, redirect_stderr=False)
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._repeat(self._read_store)),
                    group.create_task(self._repeat(self._read_broker)),
                ]
                try:
                    with live:
                        await self._draw(live)
                finally:
                    for task in tasks:
                        task.cancel()
        await self._system.close()

    async def _draw(self, live: Live) -> None:
        while not self._stopped.is_set():
            self._changed.clear()
            if not self._choices.paused:
                self._view = self._system.view
            size = self._screen.size
            live.update(frame(self._view, self._choices, size.width, size.height), refresh=True)
            await self._changed.wait()

    async def _read_store(self) -> None:
        await self._system.read_store()
        self._store_read.set()

    async def _read_broker(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_STORE):
                await self._store_read.wait()
        await self._system.read_broker()

    async def _repeat(self, read: Read) -> None:
        while True:
            if not self._choices.paused:
                await read()
                self._changed.set()
            await asyncio.sleep(self._interval)

    @contextmanager
    def _signals(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        for number in _STOPS:
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGWINCH, self._changed.set)
        try:
            yield
        finally:
            for number in (*_STOPS, signal.SIGWINCH):
                loop.remove_signal_handler(number)

    @contextmanager
    def _keys(self, terminal: int) -> Generator[None]:
        loop = asyncio.get_running_loop()
        loop.add_reader(terminal, self._press, terminal)
        try:
            yield
        finally:
            loop.remove_reader(terminal)

    def _press(self, terminal: int) -> None:
        keys = read_keys(terminal)
        if not keys or "q" in keys:  # or the terminal is gone
            self._stop()
            return
        for key in keys:
            self._choices = self._choices.press(key)
        self._changed.set()

    def _stop(self) -> None:
        self._stopped.set()
        self._changed.set()
