"""The live view: reads store and broker again and again, each by itself, over connections that stay open, and
draws what is known."""

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from time import monotonic

from rich.console import Console
from rich.live import Live

from warrener.context import ResolvedEndpoints
from warrener.errors import store_error
from warrener.gathering import BrokerFacts
from warrener.operations.agents import AgentsQuery, find_agents
from warrener.operations.breakers import list_breakers
from warrener.operations.dead_letters import DeadLettersQuery, list_dead_letters
from warrener.operations.incidents import IncidentsQuery, list_incidents
from warrener.operations.masking import Masker
from warrener.operations.noun import Backend
from warrener.operations.parked import ParkedQuery, list_parked
from warrener.operations.schedules import list_next
from warrener.operations.system import SharedInspector
from warrener.top.picture import Choices, frame
from warrener.top.view import MAX_ROWS, StoreReading, SystemView, make_view
from warrener_contracts.circuit_breaker import BreakerState
from warrener_store import StoreError

Read = Callable[[], Awaitable[None]]

_TIMEOUT = 5.0  # seconds; a healthy store or broker answers within a fraction
_MAX_QUEUES = 200  # whose depth the broker is queried for
_FIRST_STORE = 1.0  # seconds that the first reading of the broker waits for the names of queues
_STOPS = (signal.SIGINT, signal.SIGTERM)
_ESCAPES = {b"\x1b[C": "right", b"\x1b[D": "left", b"\x1bOC": "right", b"\x1bOD": "left"}
_MAX_READ = 1024


class System:
    """The latest readings, and the view that they make. It connects when it reads."""

    def __init__(self, endpoints: ResolvedEndpoints) -> None:
        self.endpoints, self.broker = endpoints, SharedInspector(endpoints, _TIMEOUT)
        self._backend: Backend | None = None
        self._store: StoreReading | str = ""
        self._broker, self._delayed = BrokerFacts(), dict[str, int]()
        self._before: StoreReading | None = None

    async def read_store(self) -> None:
        """Read the store, or say why that failed; the reading before it stays for rates."""
        last = self._store
        try:
            async with asyncio.timeout(_TIMEOUT):
                if self._backend is None:
                    self._backend = Backend(None, self.endpoints, Masker())
                    await self._backend.open_store()
                self._store = await _read(self._backend)
        except TimeoutError:
            self._store = f"no answer within {_TIMEOUT:g} s"
        except StoreError as error:
            self._store = store_error(error).sentence
        if isinstance(self._store, str):
            await self._close_store()
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
        delayed = sum(self._delayed.values()) if self._broker.product is not None else None
        return make_view(self._store, self._broker, delayed, self._before, datetime.now(UTC))

    async def close(self) -> None:
        """Close both connections; the next reading opens others."""
        await asyncio.gather(self._close_store(), self.broker.close())

    async def _close_store(self) -> None:
        backend, self._backend = self._backend, None
        if backend is not None:
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(_TIMEOUT):
                    await backend.close()


async def _read(backend: Backend) -> StoreReading:
    now, counts, at = await backend.now(), await backend.store.count_jobs(), monotonic()
    breakers = (await list_breakers(backend)).breakers
    return StoreReading(
        at=at,
        now=now,
        counts=counts,
        heads=await backend.store.queue_heads(),
        duties=await backend.store.duties(now),
        agents=await find_agents(backend, AgentsQuery()),
        breakers=[one for one in breakers if one.state is not BreakerState.CLOSED],
        incidents=(await list_incidents(backend, IncidentsQuery(limit=MAX_ROWS))).incidents,
        schedules=await list_next(backend, MAX_ROWS),
        dead_letters=(await list_dead_letters(backend, DeadLettersQuery(limit=MAX_ROWS))).dead_letters,
        parked=(await list_parked(backend, ParkedQuery(limit=MAX_ROWS))).messages,
    )


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
        terminal = sys.stdin.fileno()
        with self._signals(terminal), single_keys(terminal):
            live = Live(console=self._screen, screen=True, auto_refresh=False, redirect_stderr=False)
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._repeat(self._read_store)),
                    group.create_task(self._repeat(self._read_broker)),
                ]
                try:
                    with live:
                        while not self._stopped.is_set():
                            self._changed.clear()
                            self._draw(live)
                            await self._changed.wait()
                finally:
                    for task in tasks:
                        task.cancel()
        await self._system.close()

    def _draw(self, live: Live) -> None:
        if not self._choices.paused:
            self._view = self._system.view
        size = self._screen.size
        live.update(frame(self._view, self._choices, size.width, size.height), refresh=True)

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
    def _signals(self, terminal: int) -> Generator[None]:
        """Handle signals, and keys of the terminal."""
        loop = asyncio.get_running_loop()
        for number in _STOPS:
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGWINCH, self._changed.set)
        loop.add_reader(terminal, self._press, terminal)
        try:
            yield
        finally:
            loop.remove_reader(terminal)
            for number in (*_STOPS, signal.SIGWINCH):
                loop.remove_signal_handler(number)

    def _press(self, terminal: int) -> None:
        keys = list[str]()
        with suppress(OSError):  # the terminal is gone
            keys += parse_keys(os.read(terminal, _MAX_READ))
        if not keys or "q" in keys:
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
