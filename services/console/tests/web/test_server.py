"""The console as a process: its address, its streams, its end, and errors that a person can mend."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from services.console.tests.conftest import Run
from services.console.tests.web.conftest import NO_BROKER

from warrener.operations.roles import Role
from warrener.web.access.tokens import make_token
from warrener.web.listener import bind_near


@contextmanager
def served(
    folder: Path, store_url: str, *words: str, tokens: Path | None = None, max_files: int | None = None
) -> "Generator[tuple[subprocess.Popen[str], int]]":
    """A console of its own, and its port."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("WARRENER_")}
    if tokens is not None:
        environment["WARRENER_CONSOLE_TOKENS_FILE"] = str(tokens)
    limit = () if max_files is None else ("prlimit", f"--nofile={max_files}:{max_files}")
    command = [
        *limit,
        sys.executable,
        "-m",
        "warrener",
        "console",
        "--store",
        store_url,
        "--broker",
        NO_BROKER,
    ]
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
        assert process.wait(60) == 0


def test_half_sent_requests_keep_no_reader_out(tmp_path: Path, sqlite_store_url: str) -> None:
    with served(tmp_path, sqlite_store_url, max_files=400) as (_, port), ExitStack() as closing:
        half_sent = [closing.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(600)]
        for one in half_sent:
            with suppress(ConnectionError):
                one.sendall(b"GET /about HTTP/1.1\r\nHost: ")
        for source in ("127.0.0.1", "127.0.0.2"):
            reader = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=(source, 0))
            closing.callback(reader.close)
            reader.request("GET", "/about")
            answer = reader.getresponse()
            assert (answer.status, b"About this console" in answer.read()) == (200, True)
        for one in half_sent:  # the newest too, once the time for headers is over
            one.settimeout(60)
            with suppress(ConnectionError):
                assert one.recv(1) == b""


def test_event_streams_keep_no_reader_out(tmp_path: Path, sqlite_store_url: str) -> None:
    with served(tmp_path, sqlite_store_url, max_files=400) as (_, port), ExitStack() as closing:
        for _number in range(600):
            one = closing.enter_context(socket.create_connection(("127.0.0.1", port)))
            with suppress(ConnectionError):
                one.sendall(b"GET /live?page=/about HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        reader = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        closing.callback(reader.close)
        reader.request("GET", "/about")
        assert reader.getresponse().status == 200


def test_a_port_in_use_is_named(run: Run, sqlite_store_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("console", "--port", str(port), "--store", sqlite_store_url, "--broker", NO_BROKER)
    assert result.exit_code == 2
    assert f"expected a free port {port} on 127.0.0.1, got one in use" in result.output
    assert "--port" in result.output


def test_up_takes_the_next_free_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with bind_near("127.0.0.1", port) as found:
            assert found.getsockname()[1] != port


def test_an_address_of_another_machine_is_refused(
    run: Run, sqlite_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, token = make_token("ada", Role.ADMIN)
    monkeypatch.setenv("WARRENER_CONSOLE_TOKENS", token.line)
    result = run("console", "--host", "192.0.2.1", "--store", sqlite_store_url, "--broker", NO_BROKER)
    assert result.exit_code == 2
    assert "expected an address of this machine" in result.output


def test_a_console_for_others_does_not_start_without_tokens(run: Run, sqlite_store_url: str) -> None:
    for host in ("0.0.0.0", "192.0.2.1", "::"):
        result = run("console", "--host", host, "--store", sqlite_store_url, "--broker", NO_BROKER)
        assert result.exit_code == 2
        output = " ".join(result.output.split())
        assert f"expected tokens or OpenID Connect for a console on {host}, got neither" in output
        assert "warrener console token NAME --role admin --file FILE" in output


def test_a_token_is_made_and_opens_the_console(run: Run, tmp_path: Path, sqlite_store_url: str) -> None:
    file = tmp_path / "tokens"
    made = run("console", "token", "ada", "--role", "admin", "--file", str(file))
    secret = made.stdout.strip()
    assert secret.startswith("wrc_")
    assert secret not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    again = run("console", "token", "ada", "--file", str(file))
    assert (again.exit_code, "expected a name that" in again.output) == (2, True)
    wrong = run("console", "token", "grace", "--role", "root")
    assert (wrong.exit_code, "expected a role of viewer, operator, admin" in wrong.output) == (2, True)
    with served(tmp_path, sqlite_store_url, tokens=file) as (_, port):
        for header, status in (({}, 303), ({"Authorization": f"Bearer {secret}"}, 200)):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/about", headers=header)
            assert connection.getresponse().status == status
            connection.close()
    secret_file = tmp_path / ".warrener" / "console.secret"
    assert secret_file.stat().st_mode & 0o777 == 0o600
