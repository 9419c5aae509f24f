"""The live view: reads store and broker again and again, each by itself, and draws what is known."""

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from rich.console import Console
from rich.live import Live

from warrener.context import ResolvedEndpoints
from warrener.gathering import BrokerFacts
from warrener.operations.broker import SharedInspector
from warrener.top.picture import Choices, frame
from warrener.top.readings import StoreReading, StoreSource
from warrener.top.view import SystemView, make_view

Read = Callable[[], Awaitable[None]]

_BROKER_TIMEOUT = 5.0  # seconds
_MAX_QUEUES = 200  # whose depth the broker is queried for
_FIRST_STORE = 1.0  # seconds that the first reading of the broker waits for the names of queues
_STOPS = (signal.SIGINT, signal.SIGTERM)
_ESCAPES = {b"\x1b[C": "right", b"\x1b[D": "left", b"\x1bOC": "right", b"\x1bOD": "left"}
_MAX_READ = 1024


class System:
    """The latest readings, and the view that they make. It connects when it reads."""

    def __init__(self, endpoints: ResolvedEndpoints) -> None:
        self.store, self.broker = StoreSource(endpoints), SharedInspector(endpoints, _BROKER_TIMEOUT)
        self._store: StoreReading | str = ""
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
        return isinstance(self._store, StoreReading) and self._broker.product is not None

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


# -- the keyboard ------------------------------------------------------------------------------------------


@contextmanager
def single_keys(terminal: int) -> Generator[None]:
    """Deliver each key at once and echo none, and restore the terminal. Ctrl-C stays a signal."""
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal, termios.TCSADRAIN)
    changed = termios.tcgetattr(terminal)
    changed[tty.CC][termios.VSUSP] = b"\0"  # Ctrl-Z would stop the command, and leave its picture behind
    termios.tcsetattr(terminal, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def read_keys(terminal: int) -> list[str]:
    """The keys that were pressed; none: the terminal is gone."""
    try:
        return list(parse_keys(os.read(terminal, _MAX_READ)))
    except OSError:
        return []


def parse_keys(data: bytes) -> Iterator[str]:
    """Name the keys: `left`, `right`, `tab`, or the character. Pure."""
    while data:
        escape = data[:3]
        if escape in _ESCAPES:
            yield _ESCAPES[escape]
            data = data[3:]
        else:
            yield "tab" if data[:1] == b"\t" else data[:1].decode("latin-1")
            data = data[1:]
