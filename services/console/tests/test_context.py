"""Endpoints of the broker and the store, and the lock of a folder."""

import json
import multiprocessing
import os
import subprocess
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from typer.testing import Result

from warrener.context import ResolvedEndpoints, copyable_broker_url, pick_endpoints, resolve_endpoints
from warrener.errors import CommandError
from warrener.settings import CommandSettings
from warrener.up.folder import DataFolder, Endpoints
from warrener_runtime.running_up import find_holder

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


def test_a_command_that_finds_the_endpoints_of_up_writes_a_line_to_stderr(
    here: Path, run: Callable[..., Result], capfd: pytest.CaptureFixture[str]
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
    assert run("env").exit_code == 1


def test_env_prints_exports_that_a_shell_reads_with_passwords(here: Path, run: Callable[..., Result]) -> None:
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


def test_endpoints_of_an_up_that_was_killed_are_not_believed(here: Path) -> None:
    mine, its = multiprocessing.Pipe()
    other = multiprocessing.get_context("spawn").Process(
        target=_hold_until_killed, args=(str(here / ".warrener"), its)
    )
    other.start()
    assert mine.recv() == "held"
    assert resolve_endpoints().from_up
    assert find_holder(DataFolder().path) == other.pid
    other.kill()
    other.join()
    assert not resolve_endpoints().from_up
    with DataFolder().hold():
        pass


def _hold_until_killed(path: str, parent: Connection) -> None:
    folder = DataFolder(Path(path))
    with folder.hold():
        folder.announce(UP)
        parent.send("held")
        parent.recv()


def test_a_second_up_in_the_same_folder_names_the_holder(here: Path, run: Callable[..., Result]) -> None:
    with DataFolder(here / ".warrener").hold():
        result = run("up")
    assert result.exit_code == 1
    assert f"got one held by `warrener up` ({os.getpid()})" in result.stderr
    assert "--data" in result.stderr


def test_the_brokers_port_is_remembered(here: Path) -> None:
    folder = DataFolder(here / "data")
    assert folder.broker_port() is None
    with folder.hold(), pytest.raises(CommandError), folder.hold():
        pass
    folder.save_broker_port(10_010)
    assert DataFolder(here / "data").broker_port() == 10_010
