"""A console over an empty store, called without a server and without a broker."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from warrener.context import ResolvedEndpoints
from warrener.web.access.guard import Guard, OpenGuard
from warrener.web.app import create_app
from warrener.web.console import Console, open_console
from warrener.web.settings import ConsoleSettings
from warrener.web.site import Site, installed_site

NO_BROKER = "amqp://guest:guest@127.0.0.1:1/"
"""A port without a listener: an action that needs the broker is refused at once."""

OpenBrowser = Callable[..., httpx.AsyncClient]


@pytest.fixture
async def console(sqlite_store_url: str, tmp_path: Path) -> AsyncIterator[Console]:
    """A console whose store is empty and whose broker is away."""
    endpoints = ResolvedEndpoints(
        NO_BROKER, sqlite_store_url, f"sqlite:///{tmp_path}/ledger.db", from_up=False
    )
    async with open_console(endpoints, ConsoleSettings()) as opened:
        yield opened


@pytest.fixture
async def open_browser(console: Console) -> AsyncIterator[OpenBrowser]:
    """Opens a browser on a console with this site and this guard."""
    async with AsyncExitStack() as opened:

        def browser(site: Site | None = None, guard: Guard | None = None) -> httpx.AsyncClient:
            app = create_app(console, site or installed_site(), guard or OpenGuard("open"))
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765")
            opened.push_async_callback(client.aclose)
            return client

        yield browser


@pytest.fixture
def browser(open_browser: OpenBrowser) -> httpx.AsyncClient:
    """A browser on the console as it is installed."""
    return open_browser()
