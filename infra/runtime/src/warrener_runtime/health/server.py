"""`/live` and `/ready` over HTTP, from a thread of their own.

The standard library's server is enough for a probe every few seconds, and costs no dependency. It answers
from outside the event loop, so that a blocked loop is told as not live, instead of not answering at all.
"""

import asyncio
import json
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from warrener_runtime.health.report import Readiness, ReadinessReport

LOOP_SECONDS = 5.0
_READY_SECONDS = 15.0
_SOCKET_SECONDS = 5.0
_POLL_SECONDS = 0.05

Answer = tuple[HTTPStatus, dict[str, object]]


class HealthServer:
    """Serves the health of one service; port 0 takes a free one, see `port`."""

    def __init__(
        self, service: str, readiness: Readiness, *, host: str, port: int, loop_seconds: float = LOOP_SECONDS
    ) -> None:
        self.host = host
        self.port = port
        self._requested_port = port
        self._service = service
        self._readiness = readiness
        self._loop_seconds = loop_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    async def open(self) -> None:
        """Serve. Raises OSError, with what to do, if the address cannot be had."""
        self._loop = asyncio.get_running_loop()
        try:
            self._server = _Server((self.host, self._requested_port), self._handler())
        except OSError as error:
            raise OSError(
                f"expected to serve health at {self.host}:{self._requested_port}, got: {error.strerror}; "
                "set WARRENER_HEALTH_HOST and WARRENER_HEALTH_PORT to an address that is free (0: off)"
            ) from error
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="health", daemon=True
        )
        self._thread.start()

    async def close(self) -> None:
        """Serve no more. May be called twice, or never opened."""
        server, self._server = self._server, None
        thread, self._thread = self._thread, None
        if server is None:
            return
        if thread is not None:
            await asyncio.to_thread(server.shutdown)
        server.server_close()

    def answer(self, path: str) -> Answer:
        """What to say to a request; called in a thread of the server."""
        if path == "/live":
            return self._live()
        if path == "/ready":
            return self._ready()
        return HTTPStatus.NOT_FOUND, {"error": f"expected /live or /ready, got {path}"}

    def _live(self) -> Answer:
        if self._run_in_loop(_nothing(), self._loop_seconds) is None:
            return self._blocked()
        return HTTPStatus.OK, {"service": self._service, "status": "live"}

    def _ready(self) -> Answer:
        report = self._run_in_loop(self._readiness.report(), _READY_SECONDS)
        if report is None:
            return self._blocked()
        status = HTTPStatus.OK if report.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return status, {
            "service": self._service,
            "status": "ready" if report.ready else "not ready",
            "checks": {name: wrong or report.notes.get(name, "ok") for name, wrong in report.checks.items()},
        }

    def _blocked(self) -> Answer:
        wrong = "the event loop does not answer: something blocks it"
        return HTTPStatus.SERVICE_UNAVAILABLE, {"service": self._service, "status": "blocked", "error": wrong}

    def _run_in_loop(
        self, coroutine: Coroutine[Any, Any, ReadinessReport], seconds: float
    ) -> ReadinessReport | None:
        assert self._loop is not None
        try:
            future: Future[ReadinessReport] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # the loop is closed
            coroutine.close()
            return None
        try:
            return future.result(seconds)
        except FutureTimeoutError:
            future.cancel()
            return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self.answer

        class Handler(BaseHTTPRequestHandler):
            timeout = _SOCKET_SECONDS
            server_version = "warrener"
            sys_version = ""

            def do_GET(self) -> None:
                status, content = answer(self.path.partition("?")[0])
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
                """Probes are not worth a line each."""

        return Handler


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A probe that has gone before its answer is no trouble of ours; all else is printed."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


async def _nothing() -> ReadinessReport:
    return ReadinessReport({})
