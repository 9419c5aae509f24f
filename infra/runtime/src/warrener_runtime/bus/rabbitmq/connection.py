"""A connection that reconnects; nothing else in the bus does."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

from warrener_runtime.backoff import ExponentialBackoff
from warrener_runtime.bus.rabbitmq.channels import BrokerConnectionLost
from warrener_runtime.bus.rabbitmq.client import RabbitClient
from warrener_runtime.logs import get_logger

_log = get_logger(__name__)

_FIRST_PAUSE = 0.2  # seconds; doubled at every failure, and random below that
_LONGEST_PAUSE = 5.0

Connect = Callable[[], Awaitable[RabbitClient]]


class ReconnectingConnection:
    """Holds one connection open, which is used at once. `on_connected` notes each new one; `broker_address`
    is for messages."""

    def __init__(
        self, connect: Connect, purpose: str, on_connected: Callable[[], None], broker_address: str
    ) -> None:
        self._connect = connect
        self._purpose = purpose
        self._on_connected = on_connected
        self._broker_address = broker_address
        self._connection: RabbitClient | None = None
        self._changed = asyncio.Event()
        self._reconnect_task: asyncio.Task[None] | None = None
        self._closed = False
        self.last_error = ""
        """Why the last try to connect failed; empty before one has, and while there is a connection."""

    @property
    def is_open(self) -> bool:
        """True if there is a connection that is not known to be broken."""
        return self._connection is not None and self._connection.session.is_open

    @property
    def closed(self) -> bool:
        """True if there will never be a connection again."""
        return self._closed

    async def start(self) -> None:
        """Connect, with retries. Raises BusCredentialsRefused at once."""
        connection = await self._establish(BrokerConnectionLost)
        self._reconnect_task = asyncio.get_running_loop().create_task(
            self._keep_connected(connection), name=f"keep the {self._purpose} connection"
        )

    async def close(self) -> None:
        """Disconnect for good; tasks that wait for the connection get BrokerConnectionLost."""
        self._closed = True
        if self._reconnect_task is not None:
            self._reconnect_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reconnect_task
        self._changed.set()

    async def wait_connected(self) -> RabbitClient:
        """Wait for the connection. Raises BrokerConnectionLost after `close`."""
        while not self.is_open:
            if self._closed:
                raise BrokerConnectionLost(f"the {self._purpose} connection is closed for good")
            self._changed.clear()
            await self._changed.wait()
        assert self._connection is not None
        return self._connection

    async def _keep_connected(self, connection: RabbitClient) -> None:
        try:
            while True:
                await connection.session.wait_closed()
                self._connection = None
                _log.warning(
                    f"The {self._purpose} connection to the broker was lost; reconnecting.",
                    action="bus.lost",
                    broker=self._broker_address,
                )
                # Wrong credentials are a mistake at the start alone: later the broker may be half up. No
                # error may end this task: the service would receive nothing and not notice.
                connection = await self._establish(Exception)
        finally:
            self._connection = None
            await connection.close()

    async def _establish(self, faults: type[Exception]) -> RabbitClient:
        """Connect; try again after these faults."""
        backoff, logged = ExponentialBackoff(_FIRST_PAUSE, _LONGEST_PAUSE), set[str]()
        while True:
            try:
                connection = self._connection = await self._connect()
                break
            except faults as error:
                self.last_error = str(error)
            if self.last_error not in logged:  # behind an outage there may be another: a new certificate
                logged.add(self.last_error)
                _log.warning(
                    f"The broker cannot be reached for the {self._purpose} connection; trying until it can."
                    " Start it, or correct the broker URL.",
                    action="bus.unreachable",
                    broker=self._broker_address,
                    error=self.last_error,
                )
            await asyncio.sleep(random.uniform(0, backoff.failed()))  # noqa: S311 - it spreads retries
        self.last_error = ""
        self._on_connected()
        if backoff.failures or self._reconnect_task is not None:
            _log.info(
                f"The {self._purpose} connection to the broker is up.",
                action="bus.connected",
                broker=self._broker_address,
            )
        self._changed.set()
        return connection
