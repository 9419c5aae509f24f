"""Before every route: bounds of what one request may send, and headers that every answer carries."""

import asyncio
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 1024 * 1024  # bytes; the limit of a message of the wire
MAX_QUERY = 8192  # bytes of a path with its query
_BODY_TIMEOUT = 30.0  # seconds


class ProblemResponse(JSONResponse):
    """An error as a problem document (RFC 9457): `title` by its status, `detail` with what was expected and
    what came, `do` with what helps."""

    media_type = "application/problem+json"

    def __init__(self, status: int, detail: str, do: str = "", headers: dict[str, str] | None = None) -> None:
        content = {"title": HTTPStatus(status).phrase, "status": status, "detail": detail}
        super().__init__(content | ({"do": do} if do else {}), status, headers)


class RequestLimits:
    """Refuses a bad (400) or longer (414) address, and a longer (413) or slow (408) body, before a route.

    A body is read whole before the route runs, so that a route never has to count.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if len(scope["query_string"]) + len(scope["path"]) > MAX_QUERY:
            sentence = f"expected an address of at most {MAX_QUERY} bytes, got a longer one"
            await ProblemResponse(414, sentence)(scope, receive, send)
        elif any(sign < " " or sign == "\x7f" for sign in scope["path"]):
            sentence = "expected an address without control characters, got one with some"
            await ProblemResponse(400, sentence)(scope, receive, send)
        elif scope["method"] in {"GET", "HEAD", "OPTIONS"}:
            await self._app(scope, receive, send)
        else:
            await self._pass_body(scope, receive, send)

    async def _pass_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(_BODY_TIMEOUT):
                body = await _read_body(scope, receive)
        except ClientDisconnect:
            return  # half a body is none
        except TimeoutError:
            sentence = f"expected a whole body within {_BODY_TIMEOUT:g} s, got a part of it"
            await ProblemResponse(408, sentence)(scope, receive, send)
            return
        if body is None:
            sentence = f"expected a body of at most {MAX_BODY} bytes, got a longer one"
            await ProblemResponse(413, sentence)(scope, receive, send)
            return
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            """Give the body that was read already, then what the server says next."""
            return unread.pop() if unread else await receive()

        await self._app(scope, replay, send)


async def _read_body(scope: Scope, receive: Receive) -> bytes | None:
    """The body, or None if it is too long. Raises ClientDisconnect."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    if any(not value.isdigit() or int(value) > MAX_BODY for value in lengths):
        return None
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            return None
        more = message.get("more_body", False)
    return bytes(body)


# -- headers -----------------------------------------------------------------------------------------------

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cache-Control": "no-store",
}
_BY_HTTPS_ALONE = "max-age=31536000"


class SecureHeaders:
    """Adds the headers to each response, streams too, where a route has not set its own."""

    def __init__(self, app: ASGIApp, console_url: str | None = None) -> None:
        self._app = app
        self._is_https = (console_url or "").startswith("https:")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if self._is_https or scope["scheme"] == "https":
                    headers.setdefault("Strict-Transport-Security", _BY_HTTPS_ALONE)
            await send(message)

        await self._app(scope, receive, send_with_headers)
