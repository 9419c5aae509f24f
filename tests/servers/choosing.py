"""Which servers the tests run on: WARRENER_TEST_SERVERS is private, containers, auto, or a release of Debian.

auto, the default, takes private processes, which start in seconds, where the programs are installed; and else
containers, where a Docker engine answers. A test that can have neither is skipped and says what both lack.
trixie and sid take the RabbitMQ of that release, 4.0 and 4.3.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.servers.debian_root import SUITES, DebianServers
from tests.servers.kinds import PostgresServer, RabbitMQServer, Servers

from warrener_devservers import PrivatePostgres, PrivateRabbitMQ, ServerMissing

CHOICE = "WARRENER_TEST_SERVERS"
POSTGRES_SETTINGS = {"autovacuum": "off"}
"""Each test has a database of its own, and the server would start a process for one after another of them."""
S = TypeVar("S")


class PrivateServers:
    """Child processes of the test run."""

    def rabbitmq(self, folder: Path) -> RabbitMQServer:
        return PrivateRabbitMQ(folder)

    def postgres(self, folder: Path) -> PostgresServer:
        return PrivatePostgres(folder, settings=POSTGRES_SETTINGS)


class ContainerServers:
    """Containers of the machine's Docker engine; they need no folder of ours."""

    def rabbitmq(self, folder: Path) -> RabbitMQServer:
        from tests.servers.containers import ContainerRabbitMQ, check_engine  # noqa: PLC0415 - see below

        check_engine()
        return ContainerRabbitMQ()

    def postgres(self, folder: Path) -> PostgresServer:
        # Half a second of imports, which most test runs need not spend.
        from tests.servers.containers import ContainerPostgres, check_engine  # noqa: PLC0415

        check_engine()
        return ContainerPostgres()


_PRIVATE, _CONTAINERS = PrivateServers(), ContainerServers()


class WhatTheMachineHas:
    """Private servers, or else containers."""

    def rabbitmq(self, folder: Path) -> RabbitMQServer:
        return first_of(lambda: _PRIVATE.rabbitmq(folder), lambda: _CONTAINERS.rabbitmq(folder))

    def postgres(self, folder: Path) -> PostgresServer:
        return first_of(lambda: _PRIVATE.postgres(folder), lambda: _CONTAINERS.postgres(folder))


def chosen_servers() -> Servers:
    """What the environment asks for."""
    kinds: dict[str, Servers] = {
        "private": _PRIVATE,
        "containers": _CONTAINERS,
        **{suite: DebianServers(suite) for suite in SUITES},
        "auto": WhatTheMachineHas(),
    }
    choice = os.environ.get(CHOICE, "auto")
    if choice not in kinds:
        raise ValueError(f"expected {CHOICE} to be one of {', '.join(kinds)}, got {choice!r}; correct it")
    return kinds[choice]


def first_of(first: Callable[[], S], second: Callable[[], S]) -> S:
    """The first of both that can be had; ServerMissing, with what both lack."""
    try:
        return first()
    except ServerMissing as one:
        try:
            return second()
        except ServerMissing as other:
            raise ServerMissing(f"{one}; or: {other}") from other
