"""The console as a process: its address, its streams, its end, and errors that a person can mend."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from services.console.tests.conftest import Run
from services.console.tests.web.conftest import NO_BROKER


@contextmanager
def served(folder: Path, store_url: str, *words: str) -> "Generator[tuple[subprocess.Popen[str], int]]":
    """A console of its own, and its port."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("WARRENER_")}
    command = [sys.executable, "-m", "warrener", "console", "--store", store_url, "--broker", NO_BROKER]
    process = subprocess.Popen(
        [*command, "--port", "0", *words], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        found = re.fullmatch(r"console at http://127\.0\.0\.1:(\d+)/\n", process.stdout.readline())
        assert found
        yield process, int(found[1])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_console_ends_in_order_with_open_streams(tmp_path: Path, sqlite_store_url: str) -> None:
    with served(tmp_path, sqlite_store_url) as (process, port), ExitStack() as closing:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        closing.callback(connection.close)
        connection.request("GET", "/live?page=/about")
        stream = connection.getresponse()
        assert stream.getheader("content-type") == "text/event-stream; charset=utf-8"
        lines: list[bytes] = []
        while b"About this console" not in (lines or [b""])[-1]:
            lines.append(stream.readline())
        assert b"event: content\n" in lines
        process.send_signal(signal.SIGTERM)
        assert stream.read() is not None, "expected the end of the stream"
        assert process.wait(30) == 0


def test_a_port_in_use_is_named(run: Run, sqlite_store_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("console", "--port", str(port), "--store", sqlite_store_url, "--broker", NO_BROKER)
    assert result.exit_code == 2
    assert f"expected a free port {port} on 127.0.0.1, got one in use" in result.output
    assert "--port" in result.output


def test_an_address_of_another_machine_is_refused(run: Run, sqlite_store_url: str) -> None:
    result = run("console", "--host", "192.0.2.1", "--store", sqlite_store_url, "--broker", NO_BROKER)
    assert result.exit_code == 2
    assert "expected an address of this machine" in result.output
