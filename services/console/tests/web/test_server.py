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
from tests.security.attacks import attack

from warrener.operations.roles import Role
from warrener.web.access.tokens import make_token
from warrener.web.listener import bind_near
from warrener.web.server import ConnectionLimits


@contextmanager
def served(
    folder: Path, store_url: str, *, tokens: Path | None = None, max_files: int | None = None
) -> "Generator[tuple[subprocess.Popen[str], int]]":
    environment = {name: text for name, text in os.environ.items() if not name.startswith("WARRENER_")}
    if tokens is not None:
        environment["WARRENER_CONSOLE_TOKENS_FILE"] = str(tokens)
    limit = () if max_files is None else ("prlimit", f"--nofile={max_files}:{max_files}")
    words = ("console", "--store", store_url, "--broker", NO_BROKER, "--port", "0")
    command = [*limit, sys.executable, "-m", "warrener", *words]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = re.fullmatch(r"console at http://127\.0\.0\.1:(\d+)/\n", process.stdout.readline())
        assert found
        yield process, int(found[1])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def get(
    closing: ExitStack, port: int, path: str = "/about", source: str = "127.0.0.1", **headers: str
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=(source, 0))
    closing.callback(connection.close)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def send_many(closing: ExitStack, port: int, request: bytes) -> list[socket.socket]:
    """More connections than a console of 400 files can have open, each with this much of a request."""
    made: list[socket.socket] = []
    for _ in range(600):
        made.append(closing.enter_context(socket.create_connection(("127.0.0.1", port))))
        with suppress(ConnectionError):
            made[-1].sendall(request)
    return made


def test_a_console_ends_in_order_with_open_streams(tmp_path: Path, sqlite_store_url: str) -> None:
    with served(tmp_path, sqlite_store_url) as (process, port), ExitStack() as closing:
        stream = get(closing, port, "/live?page=/about")
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
        half_sent = send_many(closing, port, b"GET /about HTTP/1.1\r\nHost: ")
        for source in ("127.0.0.1", "127.0.0.2"):
            answer = get(closing, port, source=source)
            assert (answer.status, b"About this console" in answer.read()) == (200, True)
        for one in half_sent:  # the newest too, once the time for headers is over
            one.settimeout(60)
            with suppress(ConnectionError):
                assert one.recv(1) == b""


def test_event_streams_keep_no_reader_out(tmp_path: Path, sqlite_store_url: str) -> None:
    with served(tmp_path, sqlite_store_url, max_files=400) as (_, port), ExitStack() as closing:
        send_many(closing, port, b"GET /live?page=/about HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert get(closing, port).status == 200


def test_an_address_that_cannot_be_served_is_named(
    run: Run, sqlite_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusal(*words: str) -> str:
        result = run("console", *words, "--store", sqlite_store_url, "--broker", NO_BROKER)
        assert result.exit_code == 2
        return " ".join(result.output.split())

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        in_use = refusal("--port", port)
    assert f"expected a free port {port} on 127.0.0.1, got one in use" in in_use
    assert "--port" in in_use
    for host in ("0.0.0.0", "192.0.2.1", "::"):
        without_tokens = refusal("--host", host)
        assert f"expected tokens or OpenID Connect for a console on {host}, got neither" in without_tokens
        assert "warrener console token NAME --role admin --file FILE" in without_tokens
    _, token = make_token("ada", Role.ADMIN)
    monkeypatch.setenv("WARRENER_CONSOLE_TOKENS", token.line)
    assert "expected an address of this machine" in refusal("--host", "192.0.2.1")


def test_up_takes_the_next_free_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with bind_near("127.0.0.1", port) as found:
            assert found.getsockname()[1] != port


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
    with served(tmp_path, sqlite_store_url, tokens=file) as (_, port), ExitStack() as closing:
        assert get(closing, port).status == 303
        assert get(closing, port, Authorization=f"Bearer {secret}").status == 200
    secret_file = tmp_path / ".warrener" / "console.secret"
    assert secret_file.stat().st_mode & 0o777 == 0o600


@attack(
    "another user of this machine",
    "fills the log of a console without sign-in by connections",
    refused="one line a minute, with their number",
)
def test_connections_of_other_users_are_one_log_line_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    limits = ConnectionLimits(10, 10)
    for number in range(900):
        limits.report_foreign(1000.0 + number / 100)
    assert capsys.readouterr().err.count("console.foreign_user") == 1
    limits.report_foreign(1060.0)
    assert "connections=900" in capsys.readouterr().err
