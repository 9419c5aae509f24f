"""Tests run on what the machine has, and say what it lacks."""

from pathlib import Path

import pytest
from tests.servers.choosing import CHOICE, WhatTheMachineHas, chosen_servers
from tests.servers.debian_root import DebianServers
from tests.servers.kinds import PostgresServer, RabbitMQServer

from warrener_devservers import PrivatePostgres, PrivateRabbitMQ, ServerMissing


class Lacking:
    """A machine without something."""

    def __init__(self, what: str) -> None:
        self._what = what

    def rabbitmq(self, folder: Path) -> RabbitMQServer:
        raise ServerMissing(f"expected {self._what}, got none")

    def postgres(self, folder: Path) -> PostgresServer:
        raise ServerMissing(f"expected {self._what}, got none")


class Having:
    """A machine with the programs of private servers; they are named and not started."""

    def rabbitmq(self, folder: Path) -> RabbitMQServer:
        return PrivateRabbitMQ(folder)

    def postgres(self, folder: Path) -> PostgresServer:
        return PrivatePostgres(folder)


def test_the_first_that_is_here_is_taken(tmp_path: Path) -> None:
    either = WhatTheMachineHas(Lacking("programs"), Having())
    try:
        assert isinstance(either.rabbitmq(tmp_path), PrivateRabbitMQ)
        assert isinstance(either.postgres(tmp_path), PrivatePostgres)
    except ServerMissing as missing:
        pytest.skip(str(missing))


def test_where_neither_is_here_both_are_named(tmp_path: Path) -> None:
    with pytest.raises(ServerMissing, match="expected programs, got none; or: expected an engine, got none"):
        WhatTheMachineHas(Lacking("programs"), Lacking("an engine")).rabbitmq(tmp_path)


def test_a_release_of_debian_may_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "sid")
    assert chosen_servers() == DebianServers("sid")


def test_a_choice_that_there_is_not_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "cloud")
    with pytest.raises(ValueError, match="private, containers, trixie, sid, auto, got 'cloud'"):
        chosen_servers()
