"""The stream of a page's changes, as server-sent events."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from warrener.web.live.hub import Hub, LiveKey
from warrener_runtime.lifecycle.components import cancel

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
        """Answer the request."""
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
