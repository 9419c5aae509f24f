"""Fixtures of the browser tests: a busy system with a long past, its console, and Debian's Chromium."""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from tests.acceptance.warren import Warren
from tests.console.big_store import fill
from tests.console.site import LiveSite, find_names, keep_requesting, prepare, run_console
from tests.servers.kinds import RabbitMQServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

IS_WANTED = bool(os.environ.get("WARRENER_TEST_CONSOLE"))
JOBS = int(os.environ.get("WARRENER_TEST_CONSOLE_JOBS", "1000000"))
"""Jobs of the past."""

# They need a browser, its driver and minutes: make test-console brings them.
collect_ignore_glob = [] if IS_WANTED else ["test_*.py"]


@pytest.fixture(scope="session")
def site(
    broker: RabbitMQServer, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveSite]:
    """The console of a system that works, with its past. All tests read it; those that act use jobs of their
    own."""
    folder, vhost = tmp_path_factory.mktemp("site"), f"console-{uuid4().hex[:8]}"
    store = f"sqlite:///{shutil.copy(sqlite_template, folder / 'state.db')}"
    asyncio.run(fill(store, JOBS))
    warren = Warren(folder, broker.add_vhost(vhost), store, f"sqlite:///{folder}/ledger.db")
    try:
        samples = prepare(warren)
        with keep_requesting(warren), run_console(warren) as console:
            named = find_names(LiveSite(warren, console.address, samples))
            yield LiveSite(warren, console.address, samples | named)
    finally:
        warren.end()
        broker.drop_vhost(vhost)


@pytest.fixture(scope="session")
def browser(site: LiveSite) -> "Iterator[Browser]":
    """Debian's Chromium, without a window. It starts after the site, whose set-up needs the event loop."""
    del site
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only where these tests are wanted

    program = shutil.which("chromium")
    assert program, "expected chromium on this machine, got none; run: infra/setup/packages chromium"
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield one
        one.close()


NewContext = Callable[..., "BrowserContext"]


@pytest.fixture
def new_context(browser: "Browser") -> Iterator[NewContext]:
    """Make windows of their own: `new_context(color_scheme="dark", viewport=...)`."""
    made: list[BrowserContext] = []

    def make(**options: object) -> "BrowserContext":
        made.append(browser.new_context(**{"locale": "en-GB", "timezone_id": "Europe/Berlin"} | options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for context in made:
        context.close()


class PageWatch:
    """Notes what a page must not do: errors in its console, failed requests, requests to other hosts."""

    def __init__(self, page: "Page", address: str) -> None:
        self.faults: list[str] = []
        page.on("console", lambda line: self._note(line.type in {"error", "warning"}, f"{line.text}"))
        page.on("pageerror", lambda error: self.faults.append(f"{error}"))
        page.on(
            "request",
            lambda request: self._note(not request.url.startswith((address, "data:")), f"asks {request.url}"),
        )
        page.on(
            "response", lambda answer: self._note(answer.status >= 400, f"{answer.status} of {answer.url}")
        )

    def _note(self, is_fault: bool, text: str) -> None:  # noqa: FBT001 - one caller's word
        if is_fault:
            self.faults.append(text)


@pytest.fixture
def page(new_context: NewContext, site: LiveSite) -> "Iterator[Page]":
    """A page on the site, which fails the test if it has an error or leaves the host."""
    one = new_context(base_url=site.address).new_page()
    watch = PageWatch(one, site.address)
    yield one
    assert watch.faults == []
