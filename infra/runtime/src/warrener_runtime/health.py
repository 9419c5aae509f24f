"""Health of a service: its checks, their report, and `/live`, `/ready` and `/metrics` over HTTP."""

import asyncio
import json
import re
import shlex
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic
from typing import Any

from warrener_runtime.bus.namespace import NameMapper
from warrener_runtime.clock import Clock, SystemClock
from warrener_runtime.secrets import shown
from warrener_runtime.telemetry.metrics import PROMETHEUS_TEXT

Check = Callable[[], Awaitable[str | None]]
"""Raises if something is wrong; may return a note for people."""

CHECK_SECONDS = 5.0
REMEMBER_SECONDS = 1.0

LOOP_SECONDS = 5.0
_READY_SECONDS = 15.0
_SOCKET_SECONDS = 5.0
_POLL_SECONDS = 0.05
_CURRENT = 20.0  # seconds; what needs a permission tries again earlier
_REFUSED = re.compile(
    r"ACCESS_REFUSED - (?:(?P<right>\w+) )?access to (?P<topic>topic '[^']*' in )?(?P<kind>queue|exchange) "
    r"'(?P<name>[^']*)' in vhost '(?P<vhost>[^']*)' refused for user '(?P<user>[^']*)'"
)


@dataclass(frozen=True)
class ReadinessReport:
    """The result of each check: its error if it failed, and its note if it passed."""

    results: Mapping[str, tuple[str | None, str | None]]

    @property
    def ready(self) -> bool:
        return all(wrong is None for wrong, _ in self.results.values())


class Readiness:
    """The checks of a service. They run at most once a second, all at once, each within a time limit."""

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
        """Run the checks, or return the report of less than a second ago."""
        async with self._lock:
            now = self._clock.monotonic()
            if self._last is not None and now - self._last[0] < REMEMBER_SECONDS:
                return self._last[1]
            checks = self._checks()
            outcomes = await asyncio.gather(*(self._run_check(check) for check in checks.values()))
            report = ReadinessReport(dict(zip(checks, outcomes, strict=True)))
            self._last = (self._clock.monotonic(), report)
            return report

    async def _run_check(self, check: Check) -> tuple[str | None, str | None]:
        """Run a check; return its error and its note."""
        try:
            async with asyncio.timeout(self._timeout):
                return None, await check()
        except TimeoutError:
            return f"no answer within {self._timeout:g} s", None
        except Exception as error:  # noqa: BLE001 - any error is the check's result
            return shown(str(error)) or type(error).__name__, None


class HealthServer:
    """Serves `/live`, `/ready` and `/metrics` over HTTP from a thread; port 0 chooses a free one, see `port`.

    The standard library's server is enough for a probe every few seconds. It answers from outside the event
    loop, so that a blocked loop is reported as not live, rather than by no answer at all.
    """

    def __init__(
        self,
        service: str,
        readiness: Readiness,
        *,
        host: str,
        port: int,
        loop_seconds: float = LOOP_SECONDS,
        metrics: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`metrics` writes the metrics for Prometheus, in any thread; None if they are off."""
        self.host = host
        self.port = port
        self._requested_port = port
        self._service = service
        self._readiness = readiness
        self._loop_seconds = loop_seconds
        self._metrics = metrics
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    async def open(self) -> None:
        """Serve. Raises OSError, with advice, if the address cannot be used."""
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
        """Stop serving. May be called twice, or never opened."""
        server, self._server = self._server, None
        thread, self._thread = self._thread, None
        if server is None:
            return
        if thread is not None:
            await asyncio.to_thread(server.shutdown)
        server.server_close()

    def respond(self, path: str) -> tuple[HTTPStatus, str, bytes]:
        """Answer a request in a thread of the server: status, content type and body. Metrics are served even
        if the loop is blocked."""
        if path == "/metrics" and (text := self._metrics()) is not None:
            return HTTPStatus.OK, PROMETHEUS_TEXT, text.encode()
        status, content = self._answer(path)
        return status, "application/json", json.dumps(content).encode()

    def _answer(self, path: str) -> tuple[HTTPStatus, dict[str, object]]:
        if path == "/metrics":
            wrong = "metrics are off, as OTEL_METRICS_EXPORTER or OTEL_SDK_DISABLED says"
            return HTTPStatus.NOT_FOUND, {"error": wrong}
        if path == "/live":
            report = self._run_in_loop(_nothing(), self._loop_seconds)
        elif path == "/ready":
            report = self._run_in_loop(self._readiness.report(), _READY_SECONDS)
        else:
            return HTTPStatus.NOT_FOUND, {"error": f"expected /live, /ready or /metrics, got {path}"}
        of_service: dict[str, object] = {"service": self._service}
        if report is None:
            wrong = "the event loop does not answer: something blocks it"
            return HTTPStatus.SERVICE_UNAVAILABLE, {**of_service, "status": "blocked", "error": wrong}
        if path == "/live":
            return HTTPStatus.OK, {**of_service, "status": "live"}
        checks = {name: wrong or note or "ok" for name, (wrong, note) in report.results.items()}
        if report.ready:
            return HTTPStatus.OK, {**of_service, "status": "ready", "checks": checks}
        return HTTPStatus.SERVICE_UNAVAILABLE, {**of_service, "status": "not ready", "checks": checks}

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
        respond = self.respond

        class Handler(BaseHTTPRequestHandler):
            timeout = _SOCKET_SECONDS
            server_version = "warrener"
            sys_version = ""

            def do_GET(self) -> None:
                status, content_type, body = respond(self.path.partition("?")[0])
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
                """Log nothing: probes are frequent."""

        return Handler


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore probes that disconnect before the answer; print all other errors."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


async def _nothing() -> ReadinessReport:
    return ReadinessReport({})


class NotReady(Exception):
    """A part of the service cannot work now; the message has the reason."""


class ConsumerStalled(Exception):
    """A consumer has received nothing from the broker for so long that only a fresh process will help."""


class Refusals:
    """The pieces of the topology that the broker has refused within the last seconds.

    Nobody takes a refusal back: consumers and publishers try again, and what is granted is no longer noted.
    """

    def __init__(self) -> None:
        self._noted: dict[str, tuple[float, str]] = {}

    def note(self, right: str, reason: str, names: NameMapper) -> None:
        """Note the broker's reason if it is a missing permission to `right`; any other changes nothing."""
        if (found := describe_refusal(right, reason, names)) is not None:
            piece, text = found
            self._noted = self._newer() | {piece: (monotonic(), text)}

    def current(self) -> dict[str, str]:
        """Sentences by piece (`queue warrener.requests`), each with the command that grants access."""
        return {piece: text for piece, (_, text) in self._newer().items()}

    def forget(self, piece: str) -> bool:
        """Forget the refusal of this piece; False if there is none."""
        return self._noted.pop(piece, None) is not None

    def _newer(self) -> dict[str, tuple[float, str]]:
        since = monotonic() - _CURRENT
        return {piece: noted for piece, noted in self._noted.items() if noted[0] > since}


def describe_refusal(rights: str, reason: str, names: NameMapper) -> tuple[str, str] | None:
    """Return the piece and a sentence with the command that grants `rights`, such as "configure and read".

    None if the broker's reason is another one. A reason of RabbitMQ 4 names the right itself.
    """
    if (found := _REFUSED.search(reason)) is None:
        return None
    kind, name, rights = found["kind"], found["name"], found["right"] or rights
    what = f"the permission to {rights} {kind} {name} for user {found['user']}"
    piece = f"{kind} {names.from_broker(name)}"
    return piece, f"expected {what}, got ACCESS_REFUSED; run `{_command(rights, found)}`{_PATTERNS}"


_PATTERNS = (
    " with the present patterns of the user (`rabbitmqctl list_user_permissions`) for the words in"
    " capitals, or the lines that `warrener topology permissions` prints for its role"
)
_DIGITS, _MIN_DIGITS = "0123456789abcdef", 8
"""The name of a queue of one process ends with at least so many random digits."""


def _command(rights: str, found: re.Match[str]) -> str:
    """The command that adds the refused piece to the patterns of its user, and nothing else."""
    name, where = found["name"], ["-p", found["vhost"], found["user"]]
    if found["topic"] is not None:
        return shlex.join(["rabbitmqctl", "set_topic_permissions", *where, name, "WRITE", "READ"])
    known = name.rstrip(_DIGITS)
    is_own = known[-1:] in {".", "-"} and len(name) - len(known) >= _MIN_DIGITS
    piece = f"^{re.escape(known)}" if is_own else f"^{re.escape(name)}$"
    granted = [
        f"{right.upper()}|{piece}" if right in rights else right.upper()
        for right in ("configure", "write", "read")
    ]
    return shlex.join(["rabbitmqctl", "set_permissions", *where, *granted])


class HealthRegistry:
    """Checks by name, registered by the parts themselves while they run, so that no wiring can forget one.

    Parts find the registry by `current_health_registry`: all that is started under `serve` belongs to that
    service.
    """

    def __init__(self, *, consumer_stall_timeout: float = 120.0, release_timeout: float = 5.0) -> None:
        self.consumer_stall_timeout = consumer_stall_timeout
        self.release_timeout = release_timeout
        self._checks: dict[str, Check] = {}
        self._given_up = asyncio.Event()
        self._hurries: list[Callable[[], None]] = []
        self.refusals = Refusals()
        self.reason: Exception | None = None

    @property
    def checks(self) -> dict[str, Check]:
        """A copy of all checks. A part whose check raises is not ready."""
        return dict(self._checks)

    def register(self, name: str, check: Check) -> None:
        self._checks[name] = check

    def unregister(self, name: str) -> None:
        self._checks.pop(name, None)

    def give_up(self, reason: Exception) -> None:
        """End the process, which cannot recover by itself. The first reason counts."""
        self.reason = self.reason or reason
        self._given_up.set()

    def on_hurry(self, hurry: Callable[[], None]) -> None:
        """Add a function that shortens the drain, to call at the second signal."""
        self._hurries.append(hurry)

    def hurry(self) -> bool:
        """Call all functions of `on_hurry`; True if there are any."""
        for hurry in self._hurries:
            hurry()
        return bool(self._hurries)

    async def wait_given_up(self) -> Exception:
        """Wait until a part gives up, and return its reason."""
        await self._given_up.wait()
        assert self.reason is not None
        return self.reason


current_health_registry: ContextVar[HealthRegistry | None] = ContextVar("warrener_vitals", default=None)
"""The registry of the service that this task belongs to; None outside of `serve`, as in tests."""


def current_refusals() -> dict[str, str]:
    """Return the refusals of the broker to this service now: sentences by piece of the topology."""
    registry = current_health_registry.get()
    return {} if registry is None else registry.refusals.current()


def forget_refusal(piece: str) -> bool:
    """Forget the broker's refusal of this piece, which the service does without; False if there is none."""
    registry = current_health_registry.get()
    return registry is not None and registry.refusals.forget(piece)


def find_refusal(besides: str) -> str | None:
    """Return the sentence of a piece that the broker refuses to this service now, `besides` left out."""
    return next((text for piece, text in current_refusals().items() if piece != besides), None)
