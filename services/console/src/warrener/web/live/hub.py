"""The hub of open pages: viewers of one page share its renderings, which follow the changes of its topics.

A page is rendered again if one of its topics has changed or its refresh interval has passed, and sent if it
differs from before. The pace bounds what rendering costs: all distinct pages together take a small share of a
processor, so that with many of them each is rendered less often. The pace follows their processor time: on a
busy machine a rendering takes longer, but costs the same.
"""

import asyncio
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic, process_time
from typing import NamedTuple

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from warrener.operations.roles import Role
from warrener_runtime.lifecycle.components import ManagedComponent, cancel
from warrener_runtime.logs import get_logger

log = get_logger("console")

_GATHERING = 0.1  # seconds in which changes are gathered after the first one
_INTERVAL = 0.7  # seconds between two renderings of one page
_MAX_INTERVAL = 10.0  # seconds; however many pages are open
_SHARE = 0.08  # of a processor, for the renderings of all pages
_WEIGHT = 0.1  # of the newest rendering, in the mean cost of one
_TIMES = re.compile(r"(<time\b[^<>]*>)[^<]*")


class LiveKey(NamedTuple):
    """Readers with the same key see the same content."""

    url: str
    role: Role
    zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveContent:
    """A rendering of a page's content, the topics it depends on, and the interval of its refresh."""

    html: str
    topics: Collection[str]
    refresh: float | None


class PageGone(Exception):
    """The page does not exist any longer: its viewers load it again, and see why."""


class TooManyViewers(Exception):
    """A console or a principal has as many open pages as it may; the text is a sentence."""


class Viewer:
    """An open page. Holds the newest of each kind of event alone, so that a slow reader costs no memory."""

    def __init__(self, principal: str) -> None:
        self.principal = principal
        self._pending: dict[str, bytes] = {}
        self._arrived = asyncio.Event()
        self._is_closed = False

    def offer(self, kind: str, data: bytes) -> None:
        """Replace the pending event of this kind."""
        self._pending.pop(kind, None)
        self._pending[kind] = data
        self._arrived.set()

    def close(self) -> None:
        self._is_closed = True
        self._arrived.set()

    async def take(self) -> bytes | None:
        """Wait for events and return them as one text of the stream; None at the end."""
        await self._arrived.wait()
        self._arrived.clear()
        if self._is_closed:
            return None
        pending, self._pending = self._pending, {}
        return b"".join(pending.values())


@dataclass(eq=False, slots=True)
class _OpenPage:
    key: LiveKey
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    viewers: set[Viewer] = field(default_factory=set[Viewer])
    topics: frozenset[str] = frozenset()
    newest: bytes = b""
    fingerprint: bytes = b""
    task: "asyncio.Task[None] | None" = None


class _CostMeter:
    """The mean processor time of a rendering, in seconds.

    It is the process's time while at least one is under way, so it counts the threads of the store and what
    else runs meanwhile too.
    """

    def __init__(self) -> None:
        self.mean = 0.0
        self._running = 0
        self._counted_until = 0.0

    @contextmanager
    def rendering(self) -> Generator[None]:
        """A rendering is under way."""
        if not self._running:
            self._counted_until = process_time()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            now = process_time()
            cost, self._counted_until = now - self._counted_until, now
            self.mean += (cost - self.mean) * (_WEIGHT if self.mean else 1.0)


class Hub(ManagedComponent):
    """Renders open pages again and hands the contents to their viewers."""

    def __init__(
        self,
        render: Callable[[LiveKey], Awaitable[LiveContent]],
        *,
        viewer_limit: int,
        principal_limit: int,
        interval: float = _INTERVAL,
    ) -> None:
        super().__init__("hub of live pages")
        self._render, self._interval = render, interval
        self._viewer_limit, self._principal_limit = viewer_limit, principal_limit
        self._pages: dict[LiveKey, _OpenPage] = {}
        self._by_topic = defaultdict[str, set[_OpenPage]](set)
        self._viewers_of = Counter[str]()
        self._interrupted_since = ""
        self._is_open = True
        self._costs = _CostMeter()
        self.has_viewers = asyncio.Event()

    @property
    def watched(self) -> Collection[str]:
        """Topics of all open pages."""
        return self._by_topic.keys()

    @property
    def viewers(self) -> int:
        """The number of open pages, same ones counted each."""
        return self._viewers_of.total()

    def join(self, key: LiveKey, principal: str) -> Viewer:
        """Add a viewer, who gets the newest content as soon as it is rendered. Raises TooManyViewers."""
        if not self._is_open:
            raise TooManyViewers("expected a console that runs, got one that stops")
        if self.viewers >= self._viewer_limit:
            raise TooManyViewers(f"expected at most {self._viewer_limit} open pages, got one more")
        if self._viewers_of[principal] >= self._principal_limit:
            raise TooManyViewers(
                f"expected at most {self._principal_limit} open pages of {principal}, got one more"
            )
        viewer = Viewer(principal)
        self._viewers_of[principal] += 1
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = _OpenPage(key)
            page.task = asyncio.create_task(self._keep_fresh(page), name=f"live {key.url}")
        page.viewers.add(viewer)
        self._offer_status(viewer)
        if page.newest:
            viewer.offer("content", page.newest)
        self.has_viewers.set()
        return viewer

    def leave(self, key: LiveKey, viewer: Viewer) -> None:
        """Remove a viewer; the last one ends the renderings of its page."""
        page = self._pages.get(key)
        if page is None or viewer not in page.viewers:
            return
        page.viewers.discard(viewer)
        self._viewers_of[viewer.principal] -= 1
        self._viewers_of += Counter()  # without those at zero
        if not page.viewers:
            self._forget(page)
        if not self._pages:
            self.has_viewers.clear()

    def publish(self, topics: Iterable[str]) -> None:
        """Mark the pages of these topics as stale."""
        for topic in topics:
            for page in self._by_topic.get(topic, ()):
                page.changed.set()

    def publish_everything(self) -> None:
        """Mark all pages as stale: any of them may have changed."""
        for page in self._pages.values():
            page.changed.set()

    def interrupt(self) -> None:
        """Inform viewers that events do not arrive. Pages are rendered after their refresh interval alone."""
        if not self._interrupted_since:
            self._set_status(datetime.now(UTC).isoformat())

    def resume(self) -> None:
        """Inform viewers that events arrive, and render all pages: changes may have been missed."""
        self._set_status("")
        self.publish_everything()

    def _set_status(self, interrupted_since: str) -> None:
        self._interrupted_since = interrupted_since
        for page in self._pages.values():
            for viewer in page.viewers:
                self._offer_status(viewer)

    def _offer_status(self, viewer: Viewer) -> None:
        since = self._interrupted_since
        viewer.offer("status", _encode_event("interrupted" if since else "live", since))

    async def _on_start(self) -> None:
        self._is_open = True

    async def _on_drain(self) -> None:
        self._is_open = False
        for page in self._pages.values():
            for viewer in page.viewers:
                viewer.close()

    async def _on_stop(self) -> None:
        await self._on_drain()
        for page in list(self._pages.values()):
            self._forget(page)
            await cancel(page.task)

    def _forget(self, page: _OpenPage) -> None:
        if self._pages.get(page.key) is page:
            del self._pages[page.key]
        self._set_topics(page, frozenset())
        if page.task is not None and page.task is not asyncio.current_task():
            page.task.cancel()

    async def _keep_fresh(self, page: _OpenPage) -> None:
        refresh: float | None = None
        while page.viewers:
            page.changed.clear()
            began = monotonic()
            try:
                with self._costs.rendering():
                    content = await self._render(page.key)
            except PageGone:
                self._send(page, "reload", _encode_event("reload", ""))
                return
            except Exception as error:  # noqa: BLE001 - such as an outage of the store: the page stays as it is
                what = {"path": page.key.url, "error": f"{type(error).__name__}: {error}"}
                log.warning("An open page could not be rendered.", action="console.rendering_failed", **what)
                await self._pause(page, began, refresh or 5.0)
                continue
            refresh = content.refresh
            self._set_topics(page, frozenset(content.topics))
            fingerprint = hashlib.sha256(_TIMES.sub(r"\1", content.html).encode()).digest()
            if fingerprint != page.fingerprint:
                page.fingerprint = fingerprint
                page.newest = _encode_event("content", content.html)
                self._send(page, "content", page.newest)
            await self._pause(page, began, refresh)

    async def _pause(self, page: _OpenPage, began: float, refresh: float | None) -> None:
        """Wait for a change or the refresh, and as long as the pace of the page demands."""
        try:
            async with asyncio.timeout(refresh):
                await page.changed.wait()
        except TimeoutError:
            pass
        interval = max(self._interval, len(self._pages) * self._costs.mean / _SHARE)
        gathering = _GATHERING if self._interval else 0.0
        await asyncio.sleep(max(gathering, began + min(interval, _MAX_INTERVAL) - monotonic()))

    def _send(self, page: _OpenPage, kind: str, event: bytes) -> None:
        for viewer in page.viewers:
            viewer.offer(kind, event)

    def _set_topics(self, page: _OpenPage, topics: frozenset[str]) -> None:
        for topic in page.topics - topics:
            self._by_topic[topic].discard(page)
            if not self._by_topic[topic]:
                del self._by_topic[topic]
        for topic in topics - page.topics:
            self._by_topic[topic].add(page)
        page.topics = topics


def _encode_event(name: str, data: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"event: {name}\n{lines}\n".encode()


# -- streams -----------------------------------------------------------------------------------------------

_HEARTBEAT_INTERVAL = 15.0  # seconds; proxies close a silent connection
_SEND_TIMEOUT = 20.0  # seconds; a slower reader is dropped
_MAX_AGE = 900.0  # seconds; the browser connects again
_IDENTITY_INTERVAL = 15.0  # seconds; a reader who has signed out, or lost the role, gets nothing further
_RETRY = b"retry: 2000\n\n"
_HEARTBEAT = b": still here\n\n"
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class EventStream(Response):
    """Sends the events of one viewer until the reader leaves, is too slow, or the console stops."""

    def __init__(
        self, hub: Hub, key: LiveKey, principal: str, is_still_allowed: Callable[[], Awaitable[bool]]
    ) -> None:
        super().__init__(media_type="text/event-stream")
        self._is_still_allowed = is_still_allowed
        self._hub, self._key = hub, key
        self._viewer = hub.join(key, principal)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.create_task(self._wait_for_leave(receive), name="reader leaves")
        try:
            await self._send_events(send)
        except TimeoutError:
            pass  # the reader is too slow: its connection is closed
        finally:
            self._hub.leave(self._key, self._viewer)
            await cancel(leaving)

    async def _send_events(self, send: Send) -> None:
        ends_at = monotonic() + _MAX_AGE
        identified_at = monotonic()
        async with asyncio.timeout(_SEND_TIMEOUT):
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await send({"type": "http.response.body", "body": _RETRY, "more_body": True})
        while monotonic() < ends_at:
            try:
                async with asyncio.timeout(_HEARTBEAT_INTERVAL):
                    events = await self._viewer.take()
            except TimeoutError:
                events = _HEARTBEAT
            if events is None:
                break
            if monotonic() - identified_at >= _IDENTITY_INTERVAL:
                if not await self._is_still_allowed():
                    break
                identified_at = monotonic()
            async with asyncio.timeout(_SEND_TIMEOUT):
                await send({"type": "http.response.body", "body": events, "more_body": True})
        async with asyncio.timeout(_SEND_TIMEOUT):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _wait_for_leave(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._viewer.close()
