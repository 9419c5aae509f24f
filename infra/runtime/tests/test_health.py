"""Health over HTTP is right and quick, also if the event loop is blocked."""

import asyncio
import contextlib
import json
import socket
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from http.client import HTTPConnection
from typing import Any

import pytest

from warrener_runtime.health import HealthServer, Readiness
from warrener_runtime.virtual_clock import VirtualClock

Checks = dict[str, Callable[[], Awaitable[None]]]


async def fine() -> None:
    """All is well."""


async def broken() -> None:
    raise ConnectionError("postgresql://me:secret@db/jobs does not answer")


async def endless() -> None:
    await asyncio.Event().wait()


def get(port: int, path: str) -> tuple[int, dict[str, Any]]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


@pytest.fixture
def checks() -> Checks:
    return {"broker": fine}


@pytest.fixture
async def server(checks: Checks) -> AsyncIterator[HealthServer]:
    readiness = Readiness(lambda: checks, timeout=0.05)
    found = HealthServer("test", readiness, host="127.0.0.1", port=0, loop_seconds=60)
    await found.open()
    yield found
    await found.close()


async def test_live_and_ready(server: HealthServer) -> None:
    assert await asyncio.to_thread(get, server.port, "/live") == (200, {"service": "test", "status": "live"})
    assert await asyncio.to_thread(get, server.port, "/ready") == (
        200,
        {"service": "test", "status": "ready", "checks": {"broker": "ok"}},
    )
    other = {"error": "expected /live, /ready or /metrics, got /status"}
    assert await asyncio.to_thread(get, server.port, "/status") == (404, other)


async def test_not_ready_shows_what_is_wrong_without_secrets(server: HealthServer, checks: Checks) -> None:
    checks |= {"store": broken, "ledger": endless}
    status, content = await asyncio.to_thread(get, server.port, "/ready?verbose")
    assert status == 503
    assert content["status"] == "not ready"
    assert content["checks"] == {
        "broker": "ok",
        "store": "postgresql://me:***@db/jobs does not answer",
        "ledger": "no answer within 0.05 s",
    }


async def test_a_blocked_event_loop_is_not_live() -> None:
    server = HealthServer("test", Readiness(dict), host="127.0.0.1", port=0, loop_seconds=0.2)
    await server.open()
    answers: list[tuple[int, dict[str, Any]]] = []
    probe = threading.Thread(target=lambda: answers.append(get(server.port, "/live")))
    probe.start()
    probe.join()  # the loop cannot run while we wait here, as if a handler had blocked it
    assert answers[0][0] == 503
    assert answers[0][1]["status"] == "blocked"
    await server.close()


async def test_a_port_in_use_is_reported_with_what_to_do(server: HealthServer) -> None:
    second = HealthServer("test", Readiness(dict), host="127.0.0.1", port=server.port)
    with pytest.raises(OSError, match=r"set WARRENER_HEALTH_HOST and WARRENER_HEALTH_PORT"):
        await second.open()
    await second.close()


async def test_checks_run_once_a_second_however_often_requested() -> None:
    clock, runs = VirtualClock(), list[float]()

    async def count() -> None:
        runs.append(clock.monotonic())

    readiness = Readiness(lambda: {"broker": count}, clock=clock)
    await asyncio.gather(*(readiness.report() for _ in range(20)))
    await clock.advance(0.9)
    await readiness.report()
    await clock.advance(0.2)
    await readiness.report()
    assert runs == [0, 1.1]


async def test_checks_run_concurrently() -> None:
    all_have_begun = asyncio.Barrier(50)

    async def wait_for_the_others() -> None:
        await all_have_begun.wait()

    readiness = Readiness(lambda: {str(number): wait_for_the_others for number in range(50)}, timeout=60)
    assert (await readiness.report()).ready


async def test_13_a_probe_that_hangs_up_before_its_answer_is_no_error(
    capfd: pytest.CaptureFixture[str],
) -> None:
    gone = asyncio.Event()

    async def slow() -> None:
        await gone.wait()

    server = HealthServer("scheduler", Readiness(lambda: {"slow": slow}), host="127.0.0.1", port=0)
    await server.open()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n")
    await writer.drain()
    one: socket.socket = writer.get_extra_info("socket")
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()
    with contextlib.suppress(ConnectionError):
        await reader.read()
    gone.set()
    await server.close()
    assert capfd.readouterr().err == ""
