"""Ask all checks at once, each within its time, and remember the answer for a moment."""

import asyncio
import json
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from warrener_runtime.clock import Clock, SystemClock
from warrener_runtime.secrets import mask

Check = Callable[[], Awaitable[str | None]]
"""Raises what is wrong; may return a note for people, which changes nothing else."""

CHECK_SECONDS = 5.0
REMEMBER_SECONDS = 1.0


@dataclass(frozen=True)
class ReadinessReport:
    """What each check said: None if all is well, else what is wrong. `notes`: what is worth knowing of those
    that are well."""

    checks: Mapping[str, str | None]
    notes: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def ready(self) -> bool:
        """Whether all is well."""
        return not any(self.checks.values())


class Readiness:
    """The checks of a service. They are asked at most once a second, however often others ask."""

    def __init__(
        self,
        checks: Callable[[], Mapping[str, Check]],
        *,
        timeout: float = CHECK_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self._checks = checks
        self._timeout = timeout
        self._clock = clock or SystemClock()
        self._lock = asyncio.Lock()
        self._last: tuple[float, ReadinessReport] | None = None

    async def report(self) -> ReadinessReport:
        """What the checks say now, or said less than a second ago."""
        async with self._lock:
            now = self._clock.monotonic()
            if self._last is not None and now - self._last[0] < REMEMBER_SECONDS:
                return self._last[1]
            report = await self._run_checks()
            self._last = (self._clock.monotonic(), report)
            return report

    async def _run_checks(self) -> ReadinessReport:
        checks = self._checks()
        outcomes = await asyncio.gather(*(self._run_check(check) for check in checks.values()))
        results = dict(zip(checks, outcomes, strict=True))
        return ReadinessReport(
            {name: wrong for name, (wrong, _) in results.items()},
            {name: note for name, (_, note) in results.items() if note is not None},
        )

    async def _run_check(self, check: Check) -> tuple[str | None, str | None]:
        """What is wrong, and what is worth knowing."""
        try:
            async with asyncio.timeout(self._timeout):
                return None, await check()
        except TimeoutError:
            return f"no answer within {self._timeout:g} s", None
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it is what was asked for
            return mask(str(error)) or type(error).__name__, None


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


class NotReady(Exception):
    """This part cannot do its work now; the message says why."""


class ConsumerStalled(Exception):
    """A consumer has heard nothing from the broker for so long that only a fresh process will help."""


class HealthRegistry:
    """Checks by name, filled by the parts themselves while they live, so that no wiring can forget one.

    The parts find it by `current_health_registry`: whatever is started under `serve` belongs to that service.
    """

    def __init__(self, *, give_up_deaf_after: float = 120.0, give_back_timeout: float = 5.0) -> None:
        self.give_up_deaf_after = give_up_deaf_after
        self.give_back_timeout = give_back_timeout
        self._checks: dict[str, Check] = {}
        self._given_up = asyncio.Event()
        self._hurries: list[Callable[[], None]] = []
        self.reason: Exception | None = None

    @property
    def checks(self) -> dict[str, Check]:
        """Every check, as of now. One that raises says that its part is not ready."""
        return dict(self._checks)

    def register(self, name: str, check: Check) -> None:
        """Ask this check from now on."""
        self._checks[name] = check

    def unregister(self, name: str) -> None:
        """Ask it no more."""
        self._checks.pop(name, None)

    def give_up(self, reason: Exception) -> None:
        """End the process: it cannot recover by itself. The first reason counts."""
        self.reason = self.reason or reason
        self._given_up.set()

    def on_hurry(self, hurry: Callable[[], None]) -> None:
        """Call this when the process is asked to end for the second time: its drain shall not take long."""
        self._hurries.append(hurry)

    def hurry(self) -> bool:
        """Let all parts that can hurry do so; whether there are any."""
        for hurry in self._hurries:
            hurry()
        return bool(self._hurries)

    async def wait_given_up(self) -> Exception:
        """Wait until a part gives up, and return its reason."""
        await self._given_up.wait()
        assert self.reason is not None
        return self.reason


current_health_registry: ContextVar[HealthRegistry | None] = ContextVar("warrener_vitals", default=None)
"""The vitals of the service that this task belongs to; None where none is served, as in a test."""
