"""Endpoints of a command, and its errors: "expected X, got Y" with advice, and a meaningful exit code."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from services.console.tests.conftest import Run

from warrener.context import ResolvedEndpoints, copyable_broker_url, pick_endpoints, resolve_endpoints
from warrener.settings import CommandSettings
from warrener.up.folder import DataFolder
from warrener_runtime.running_up import Endpoints, find_holder
from warrener_runtime.secrets import mask


@pytest.fixture
def nobody() -> Iterator[str]:
    """URL of a port without a listener, reserved so that none begins."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"amqp://guest:secret@127.0.0.1:{held.getsockname()[1]}/"


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("request a.b", "warrener up"),
        ("cancel 01936f2e-8a3b-7c4d-9e5f-0123456789ab", "warrener up"),
        ("topology apply", "warrener up"),
        ("topology --check", "warrener up"),
        ("up", "leave --broker out for a private one"),
    ],
)
def test_a_broker_that_is_not_there(run: Run, nobody: str, words: str, advice: str) -> None:
    result = run(*words.split(), "--broker", nobody)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "expected a broker at amqp://guest:***@127.0.0.1:" in result.stderr
    assert "refused" in result.stderr.lower()
    assert advice in result.stderr


@pytest.mark.parametrize("command", ["jobs", "migrate"])
def test_a_store_of_an_unknown_kind(run: Run, command: str) -> None:
    result = run(command, "--store", "mongodb://localhost/")
    assert result.exit_code == 2
    assert "mongodb" in result.stderr
    assert "--store" in result.stderr


@pytest.mark.parametrize("command", ["jobs", "migrate"])
def test_a_database_that_does_not_let_us_in(run: Run, postgres_url: str, command: str) -> None:
    where = urlsplit(postgres_url)
    password = postgres_url.replace(f":{where.password}@", ":wrong-one@")
    database = postgres_url.replace(where.path, "/no_such_database")
    port = f"postgresql://warrener:secret@127.0.0.1:1{where.path}"
    for url, advice in [(password, "check user and password"), (database, "createdb"), (port, "start the")]:
        result = run(command, "--store", url)
        assert (result.exit_code, result.stdout) == (3, "")
        assert advice in result.stderr
        assert "tried again" not in result.stderr
        assert "wrong-one" not in result.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("request", "a.b"), 2),
        (("topology", "--check"), 2),
        (("topology", "apply"), 2),
        (("up",), 2),
        (("doctor", "--store", "sqlite:///nothing.db"), 1),
    ],
)
@pytest.mark.parametrize(
    "url", ["localhost", "http://localhost/", "amqp://host:port/", "amqp://h/?heartbeat=x"]
)
def test_a_brokers_url_that_is_none(run: Run, words: tuple[str, ...], code: int, url: str) -> None:
    result = run(*words, "--broker", url)
    assert result.exit_code == code
    assert "expected a broker's URL like amqp://host:5672/vhost, got" in result.output


@pytest.mark.parametrize("words", [("request", "a.b"), ("topology", "--check"), ("up",)])
def test_a_broker_that_does_not_let_us_in(run: Run, vhost_url: str, words: tuple[str, ...]) -> None:
    user = urlsplit(vhost_url).username
    for url, came in [
        (vhost_url.replace(f"{user}:", f"{user}:no-", 1), "ACCESS_REFUSED"),
        (f"{vhost_url}-none", "not found"),
    ]:
        result = run(*words, "--broker", url)
        assert (result.exit_code, result.stdout) == (3, "")
        assert f"to let user '{user}' into virtual host" in result.stderr
        assert came in result.stderr
        assert "create the user" in result.stderr


@pytest.mark.parametrize(
    ("words", "came"),
    [
        (("request", "a.b", "path"), "got 'path'"),
        (("request", "a.b", "{broken"), "as a JSON object, got '{broken'"),
        (("request", "a.b", "--from", "no-such.jsonl"), "No such file"),
        (("job", "abc"), "got 'abc': no job has it, and its beginning or end needs 8 characters"),
    ],
)
def test_words_that_cannot_be_understood(
    run: Run, vhost_url: str, store_url: str, words: tuple[str, ...], came: str
) -> None:
    where = ("--store", store_url) if words[0] == "job" else ("--broker", vhost_url)
    result = run(*words, *where)
    assert (result.exit_code, result.stdout) == (2, "")
    assert came in " ".join(result.stderr.split()), "wherever the terminal ends a line"


def test_a_setting_that_cannot_be_used_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARRENER_BROKER_URL", "http://localhost")
    result = run("request", "a.b")
    assert result.exit_code == 2
    assert "WARRENER_BROKER_URL: expected a URL like amqp://" in result.stderr


UP = Endpoints("amqp://up/", "sqlite:///up.db", "sqlite:///up-ledger.db")
SETTINGS = CommandSettings(
    broker_url="amqp://set/", store_url="postgresql://set/", ledger_url="sqlite:///set.db"
)


def test_options_win_then_up_then_the_settings() -> None:
    assert pick_endpoints("amqp://said/", None, UP, SETTINGS) == ResolvedEndpoints(
        "amqp://said/", UP.store_url, UP.ledger_url, from_up=False
    )
    assert pick_endpoints(None, None, UP, SETTINGS) == ResolvedEndpoints(
        UP.broker_url, UP.store_url, UP.ledger_url, from_up=True
    )
    assert pick_endpoints(None, None, None, SETTINGS) == ResolvedEndpoints(
        "amqp://set/", "postgresql://set/", "sqlite:///set.db", from_up=False
    )


def test_endpoints_are_found_as_long_as_up_holds_the_folder(here: Path) -> None:
    folder = DataFolder()
    assert find_holder(folder.path) is None
    with folder.hold():
        folder.announce(UP)
        assert find_holder(folder.path) == os.getpid()
        assert resolve_endpoints().broker_url == "amqp://up/"
        assert (here / ".warrener" / "endpoints.json").stat().st_mode & 0o077 == 0
    assert resolve_endpoints().broker_url.startswith("amqp://guest:guest@127.0.0.1:5672/")
    assert resolve_endpoints().store_url == "sqlite:///.warrener/state.db"
    folder.announce(UP)
    assert not resolve_endpoints().from_up, "a killed `up` leaves them, and holds nothing"


def test_a_command_that_finds_the_endpoints_of_up_writes_a_line_to_stderr(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = DataFolder(here / ".warrener")
    with folder.hold():
        folder.announce(Endpoints("amqp://shop:secret@up/%2F", "sqlite:///up.db", "sqlite:///ledger.db"))
        for _ in range(2):
            resolve_endpoints()
        resolve_endpoints(broker="amqp://said/", store="sqlite:///said.db")
    assert capfd.readouterr().err == (
        "warrener: using the `warrener up` of this folder, amqp://shop:***@up/%2F\n"
    )


def test_env_prints_exports_that_a_shell_reads_with_passwords(here: Path, run: Run) -> None:
    folder = DataFolder(here / ".warrener")
    with folder.hold():
        folder.announce(Endpoints("amqp://shop:a'b@up/%2F", "sqlite:////tmp/s.db", "sqlite:////tmp/l.db"))
        exports, document = run("env"), run("env", "--json")
    shell = f'{exports.stdout}\nprintf "%s" "$WARRENER_BROKER_URL"'
    read = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
    assert read.stdout == "amqp://shop:a'b@up/%2F"
    assert json.loads(document.stdout) == {
        "WARRENER_BROKER_URL": "amqp://shop:a'b@up/%2F",
        "WARRENER_STORE_URL": "sqlite:////tmp/s.db",
        "WARRENER_LEDGER_URL": "sqlite:////tmp/l.db",
        "WARRENER_NAMESPACE": "warrener",
    }
    after = run("env")
    assert after.exit_code == 1
    assert "expected a `warrener up` that runs in this folder, got none" in after.stderr


def test_the_virtual_host_is_written_out_for_other_clients() -> None:
    assert copyable_broker_url("amqp://guest:guest@h:1/") == "amqp://guest:guest@h:1/%2F"
    assert copyable_broker_url("amqp://h?heartbeat=3") == "amqp://h/%2F?heartbeat=3"
    assert copyable_broker_url("amqp://h/shop") == "amqp://h/shop"


def test_the_brokers_port_is_remembered_and_a_second_up_names_the_holder(here: Path, run: Run) -> None:
    folder = DataFolder(here / ".warrener")
    assert folder.broker_port() is None
    with folder.hold():
        folder.save_broker_port(10_010)
        second = run("up")
    assert second.exit_code == 1
    assert f"got one held by `warrener up` ({os.getpid()})" in " ".join(second.stderr.split())
    assert "--data" in second.stderr
    assert DataFolder(here / ".warrener").broker_port() == 10_010


def test_migrate_may_be_repeated(run: Run, empty_store_url: str) -> None:
    where = ("--store", empty_store_url)
    before = run("jobs", *where)
    assert before.exit_code == 3
    assert before.stderr.count("run `warrener migrate`") == 1
    for _ in range(2):
        result = run("migrate", *where, "--json")
        assert json.loads(result.stdout) == {"migrated": mask(empty_store_url)}
    assert run("jobs", *where).exit_code == 0


def test_migrate_makes_the_folder_that_up_would_make_and_no_other(run: Run, here: Path) -> None:
    assert run("migrate").exit_code == 0
    assert run("jobs").exit_code == 0
    assert (here / ".warrener" / ".gitignore").exists()
    result = run("migrate", "--store", "sqlite:///elsewhere/state.db")
    assert result.exit_code == 1
    assert "expected a folder elsewhere" in result.stderr
    result = run("migrate", "--store", "sqlite:////proc/state.db")  # nobody may, root as little
    assert result.exit_code == 1
    assert "expected to write in folder /proc" in result.stderr
    assert "Traceback" not in result.stderr
