"""Headers that every answer carries: the page may load and send nothing that is not of this console."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
