"""The connections of pages and actions: the open store and one client of the broker, beside the settings."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic

from warrener.context import ResolvedEndpoints, connect_client, connect_store
from warrener.web.access.masking import Masker
from warrener.web.broker import SharedInspector
from warrener.web.settings import ConsoleSettings
from warrener.web.tick_calendar import TickCalendar
from warrener_client import Client
from warrener_store import Store

_CLOCK_CHECK_INTERVAL = 30.0  # seconds


class Console:
    """The connections of one console process. Pages read the store; every change goes through the broker."""

    def __init__(self, store: Store, endpoints: ResolvedEndpoints, settings: ConsoleSettings) -> None:
        self.store, self.endpoints, self.settings = store, endpoints, settings
        self.inspector = SharedInspector(endpoints)
        self.calendar = TickCalendar()
        self.masker = Masker(settings.console_masked_fields)
        self._connections = AsyncExitStack()
        self._connecting = asyncio.Lock()
        self._client: Client | None = None
        self._clock_offset = timedelta(0)
        self._clock_checked_at = float("-inf")

    async def client(self) -> Client:
        """Return the connected client of all actions. Raises CommandError if the broker is away."""
        async with self._connecting:
            if self._client is None:
                self._client = await self._connections.enter_async_context(connect_client(self.endpoints))
            return self._client

    async def now(self) -> datetime:
        """The time by the store's clock, in UTC; compared with our own every half minute."""
        if monotonic() - self._clock_checked_at > _CLOCK_CHECK_INTERVAL:
            self._clock_offset = await self.store.time() - datetime.now(UTC)
            self._clock_checked_at = monotonic()
        return datetime.now(UTC) + self._clock_offset

    async def close(self) -> None:
        """Close the connections to the broker, and end the calendar. The store belongs to the opener."""
        await self.inspector.close()
        await self.calendar.close()
        await self._connections.aclose()


@asynccontextmanager
async def open_console(endpoints: ResolvedEndpoints, settings: ConsoleSettings) -> AsyncGenerator[Console]:
    """Open the store for the life of a console."""
    async with connect_store(endpoints) as store:
        console = Console(store, endpoints, settings)
        try:
            yield console
        finally:
            await console.close()
