"""Where the broker and the store are found, and who holds a folder."""

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from typer.testing import Result

from warrener.exits import CommandError
from warrener.places import CommandSettings, Places, decide, find_places
from warrener.up.folder import DataFolder, Endpoints

UP = Endpoints("amqp://up/", "sqlite:///up.db", "sqlite:///up-ledger.db")
SETTINGS = CommandSettings(
    broker_url="amqp://set/", store_url="postgresql://set/", ledger_url="sqlite:///set.db"
)


def test_what_was_said_wins_then_up_then_the_settings() -> None:
    assert decide("amqp://said/", None, UP, SETTINGS) == Places(
        "amqp://said/", UP.store_url, UP.ledger_url, of_up=False
    )
    assert decide(None, None, UP, SETTINGS) == Places(UP.broker_url, UP.store_url, UP.ledger_url, of_up=True)
    assert decide(None, None, None, SETTINGS) == Places(
        "amqp://set/", "postgresql://set/", "sqlite:///set.db", of_up=False
    )


def test_endpoints_are_found_as_long_as_up_holds_the_folder(here: Path) -> None:
    folder = DataFolder()
    assert folder.holder() is None
    with folder.hold():
        folder.announce(UP)
        assert folder.holder() == os.getpid()
        assert find_places().broker_url == "amqp://up/"
        assert (here / ".warrener" / "endpoints.json").stat().st_mode & 0o077 == 0
    assert find_places().broker_url.startswith("amqp://guest:guest@127.0.0.1:5672/")
    assert find_places().store_url == "sqlite:///.warrener/state.db"


def test_endpoints_of_an_up_that_was_killed_are_not_believed(here: Path) -> None:
    mine, its = multiprocessing.Pipe()
    other = multiprocessing.get_context("spawn").Process(
        target=_hold_for_ever, args=(str(here / ".warrener"), its)
    )
    other.start()
    assert mine.recv() == "held"
    assert find_places().of_up
    assert DataFolder().holder() == other.pid
    other.kill()
    other.join()
    assert not find_places().of_up
    with DataFolder().hold():
        pass


def _hold_for_ever(path: str, told: Connection) -> None:
    folder = DataFolder(Path(path))
    with folder.hold():
        folder.announce(UP)
        told.send("held")
        told.recv()


def test_a_second_up_in_the_same_folder_says_who_holds_it(here: Path, run: Callable[..., Result]) -> None:
    with DataFolder(here / ".warrener").hold():
        told = run("up")
    assert told.exit_code == 1
    assert f"got one held by `warrener up` ({os.getpid()})" in told.stderr
    assert "--data" in told.stderr


def test_the_brokers_port_is_remembered(here: Path) -> None:
    folder = DataFolder(here / "data")
    assert folder.broker_port() is None
    with folder.hold(), pytest.raises(CommandError), folder.hold():
        pass
    folder.keep_broker_port(10_010)
    assert DataFolder(here / "data").broker_port() == 10_010
