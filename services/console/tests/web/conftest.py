"""A console over an empty store, and over a filled one, called without a server and without a broker."""

import shutil
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.store_access import on_store, opened_store

from warrener.context import ResolvedEndpoints
from warrener.web.access.guard import Guard, OpenGuard
from warrener.web.app import create_app
from warrener.web.console import Console
from warrener.web.settings import ConsoleSettings
from warrener.web.site import Site, installed_site
from warrener_store import Store

from .filled_rooms import Filler

NO_BROKER = "amqp://guest:guest@127.0.0.1:1/"
"""A port without a listener: an action that needs the broker is refused at once."""

Browser = httpx.AsyncClient
OpenBrowser = Callable[..., Browser]


def browser_on(console: Console, site: Site | None = None, guard: Guard | None = None) -> Browser:
    app = create_app(console, site or installed_site(), guard or OpenGuard("open"))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765")


async def page_of(browser: Browser, path: str) -> str:
    """The text of a page, in which nothing hostile is markup."""
    answer = await browser.get(path)
    assert answer.status_code == 200, answer.text
    assert "<script>alert" not in answer.text
    assert " style=" not in answer.text
    return answer.text


async def read(browser: Browser, path: str, **query: Any) -> Any:
    answer = await browser.get(f"/api/v1{path}", params=query or None)
    assert answer.status_code == 200, answer.text
    return answer.json()


@asynccontextmanager
async def open_console(
    store_url: str, broker_url: str = NO_BROKER, management_url: str | None = None
) -> AsyncGenerator[Console]:
    """Opens a console on this store; its broker is away, unless it is named."""
    urls = (broker_url, store_url, "sqlite://")
    endpoints = ResolvedEndpoints(*urls, from_up=False, management_url=management_url)
    async with opened_store(store_url) as store:
        console = Console(store, endpoints, ConsoleSettings())
        try:
            yield console
        finally:
            await console.close()


async def read_pages(browser: Browser, path: str, what: str, **query: Any) -> list[Any]:
    found: list[Any] = []
    after: str | None = ""
    while after is not None:
        document = await read(browser, path, **query, after=after)
        found += document[what]
        after = document["next"]
    return found


@pytest.fixture
async def console(sqlite_store_url: str) -> AsyncIterator[Console]:
    """A console whose store is empty and whose broker is away."""
    async with open_console(sqlite_store_url) as opened:
        yield opened


@pytest.fixture
async def open_browser(console: Console) -> AsyncIterator[OpenBrowser]:
    async with AsyncExitStack() as opened:

        def browser(site: Site | None = None, guard: Guard | None = None) -> Browser:
            client = browser_on(console, site, guard)
            opened.push_async_callback(client.aclose)
            return client

        yield browser


@pytest.fixture
def browser(open_browser: OpenBrowser) -> Browser:
    return open_browser()


Fill = Callable[[Store, datetime], Awaitable[None]]


def fill_copy(empty: Path, folder: Path, fill: Fill) -> Path:
    path = folder / "state.db"
    shutil.copy(empty, path)

    async def fill_store(store: Store) -> None:
        await fill(store, await store.time())

    on_store(f"sqlite:///{path}", fill_store)
    with sqlite3.connect(path) as connection:  # what is only in its log would not be copied
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path


@asynccontextmanager
async def open_copy(template: Path, folder: Path) -> AsyncGenerator[Console]:
    """Opens a console on a copy of a filled store, whose agents have just announced themselves again."""
    async with open_console(f"sqlite:///{shutil.copy(template, folder / 'state.db')}") as opened:
        await Filler(opened.store, await opened.now()).put_agents()
        yield opened


@pytest.fixture(scope="session")
def filled_template(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    return fill_copy(sqlite_template, folder, lambda store, now: Filler(store, now).fill())


@pytest.fixture
async def filled_console(filled_template: Path, tmp_path: Path) -> AsyncIterator[Console]:
    async with open_copy(filled_template, tmp_path) as opened:
        yield opened


@pytest.fixture
async def rooms(filled_console: Console) -> AsyncIterator[Browser]:
    async with browser_on(filled_console) as client:
        yield client
